// SPDX-License-Identifier: GPL-2.0
/*
 * Reading trees and comparing them.
 */
#include "tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "crc32c.h"
#include "libuhsfs/fd.hpp"

namespace uhsfs::damage {

namespace {

// A file that claims to be larger than this is a sparse one that nobody made.
constexpr std::uint64_t largest = 64U << 20;
constexpr std::size_t longest = 3000;

[[noreturn]] void failed(const std::string &what) {
    throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string error_name(int error) { return error == 0 ? "none" : std::strerror(error); }

}  // namespace

bool Node::is_dir() const { return S_ISDIR(mode); }

std::string Node::text() const {
    if (stat_error != 0)
        return error_name(stat_error);
    return fmt::format(
        "mode {:o} links {} owner {}:{} size {} mtime {} device {:x} data '{}' "
        "attributes '{}'",
        mode, nlink, uid, gid, size, mtime_ns, device, data, xattrs);
}

std::string parent_of(const std::string &path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string name_of(const std::string &path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string join(const std::string &dir, const std::string &name) {
    return dir.empty() ? name : dir + "/" + name;
}

bool within(const std::string &path, const std::string &dir) {
    return dir.empty() || path == dir || path.starts_with(dir + "/");
}

// ---- making one ----------------------------------------------------------------------------

namespace {

class Maker {
public:
    explicit Maker(const std::string &top) : top_(top) {}

    void dir(const std::string &path) const {
        if (::mkdir(at(path).c_str(), 0755) != 0)
            failed(path);
    }
    void file(const std::string &path, const std::string &content) const {
        write(path, content, 0);
    }
    void write(const std::string &path, const std::string &content, off_t offset) const {
        const unique_fd fd(::open(at(path).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        if (!fd || ::pwrite(fd.get(), content.data(), content.size(), offset) !=
                       static_cast<ssize_t>(content.size()))
            failed(path);
    }
    void hard_link(const std::string &from, const std::string &to) const {
        if (::link(at(from).c_str(), at(to).c_str()) != 0)
            failed(to);
    }
    void symbolic_link(const std::string &target, const std::string &path) const {
        if (::symlink(target.c_str(), at(path).c_str()) != 0)
            failed(path);
    }
    void node(const std::string &path, mode_t mode, dev_t device) const {
        if (::mknod(at(path).c_str(), mode, device) != 0)
            failed(path);
    }
    void xattr(const std::string &path, const std::string &name, const std::string &value) const {
        if (::setxattr(at(path).c_str(), name.c_str(), value.data(), value.size(), 0) != 0)
            failed(path + ": " + name);
    }

private:
    [[nodiscard]] std::string at(const std::string &path) const { return top_ + "/" + path; }
    std::string top_;
};

std::string content(std::size_t size, char first) {
    std::string bytes(size, first);
    for (std::size_t i = 0; i < size; i += 7)
        bytes[i] = static_cast<char>(i * 31 / 7);
    return bytes;
}

}  // namespace

void make_tree(const std::string &top) {
    const Maker make(top);

    make.file("inline", content(100, 'i'));
    make.file("data", content(20000, 'd'));
    make.file("more", content(20000, 'm'));
    for (int i = 0; i < 8; i++)
        make.write("extents", content(4096, 'e'), static_cast<off_t>(i) * 2 * 4096);
    for (int i = 0; i < 180; i++)
        make.write("pieces", content(4096, 'p'), static_cast<off_t>(i) * 2 * 4096);
    make.symbolic_link(std::string(30, 't'), "short");
    make.symbolic_link(std::string(4000, 'l'), "long");

    make.dir("dir");
    make.dir("dir/sub");
    make.dir("dir/sub/deep");
    make.dir("dir/empty");
    make.file("dir/sub/deep/file", content(50, 'f'));
    make.file("dir/sub/other", content(5000, 'o'));
    make.node("dir/null", S_IFCHR | 0666, ::makedev(1, 3));
    make.node("dir/fifo", S_IFIFO | 0600, 0);

    make.file("small-attributes", "s");
    make.xattr("small-attributes", "trusted.one", "value");
    make.file("attributes", content(10000, 'a'));
    for (const char *name : {"one", "two", "three", "four"})
        make.xattr("attributes", fmt::format("trusted.{}", name), content(1500, name[0]));
    make.file("one-attribute-block", "o");
    make.xattr("one-attribute-block", "trusted.block", content(3900, 'b'));

    make.dir("links");
    make.file("links/linked", "linked");
    for (int i = 0; i < 60; i++)
        make.hard_link("links/linked", fmt::format("links/link-{:03}-{}", i, std::string(40, 'n')));

    make.dir("many");
    for (int i = 0; i < 50; i++)
        make.file(fmt::format("many/file-{:03}-{}", i, std::string(60, 'm')),
                  content(static_cast<std::size_t>(i), 'y'));
}

// ---- reading one ---------------------------------------------------------------------------

namespace {

class Walker {
public:
    Walker(const std::string &top, const std::set<std::string> &also) : top_(top), also_(also) {}

    Tree run() {
        visit("");
        for (const std::string &path : also_)
            if (!tree_.contains(path))
                visit(path);
        return std::move(tree_);
    }

private:
    [[nodiscard]] std::string at(const std::string &path) const { return top_ + "/" + path; }

    void visit(const std::string &path);
    void read_file(const std::string &path, Node &node) const;
    void read_xattrs(const std::string &path, Node &node) const;
    void list(const std::string &path);

    const std::string &top_;
    const std::set<std::string> &also_;
    Tree tree_;
};

void Walker::read_file(const std::string &path, Node &node) const {
    const unique_fd fd(::open(at(path).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    static std::vector<std::uint8_t> buffer(1U << 16);
    std::uint64_t done = 0;
    u32 sum = 0;

    if (!fd) {
        node.data_error = errno;
        return;
    }
    if (node.size > largest) {
        node.data = "too large";
        return;
    }
    for (;;) {
        const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
        if (got < 0) {
            node.data_error = errno;
            return;
        }
        if (got == 0)
            break;
        sum = uhsfs_crc32c(sum, buffer.data(), static_cast<std::size_t>(got));
        done += static_cast<std::uint64_t>(got);
    }
    node.data = fmt::format("{} bytes {:08x}", done, sum);
}

void Walker::read_xattrs(const std::string &path, Node &node) const {
    const std::string where = at(path);
    static std::vector<char> names(65536);
    static std::vector<std::uint8_t> value(65536);
    std::set<std::string> all;

    const ssize_t size = ::llistxattr(where.c_str(), names.data(), names.size());
    if (size < 0) {
        node.xattr_error = errno;
        return;
    }
    for (const char *name = names.data(); name < names.data() + size;
         name += std::strlen(name) + 1) {
        const ssize_t got = ::lgetxattr(where.c_str(), name, value.data(), value.size());
        if (got < 0) {
            node.xattr_error = errno;
            return;
        }
        all.insert(fmt::format("{}={:08x}", name,
                               uhsfs_crc32c(0, value.data(), static_cast<std::size_t>(got))));
    }
    for (const std::string &one : all)
        node.xattrs += one + " ";
}

// Reads the names of a directory, then visits each.
void Walker::list(const std::string &path) {
    struct Entry {
        std::string name;
        std::uint64_t ino;
        unsigned char type;
    };
    std::vector<Entry> entries;
    DIR *dir = ::opendir(at(path).c_str());

    if (dir == nullptr) {
        tree_[path].list_error = errno;
        return;
    }
    errno = 0;
    while (const dirent *entry = ::readdir(dir)) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..")
            entries.push_back({name, entry->d_ino, entry->d_type});
        errno = 0;
    }
    tree_[path].list_error = errno;
    ::closedir(dir);
    for (const Entry &entry : entries) {
        const std::string full = join(path, entry.name);
        if (!tree_[path].names.insert(entry.name).second) {
            tree_[path].odd += fmt::format("'{}' is listed twice ", entry.name);
            continue;
        }
        visit(full);
        const Node &node = tree_[full];
        if (node.stat_error == 0 && (node.ino != entry.ino || IFTODT(node.mode) != entry.type))
            tree_[path].odd +=
                fmt::format("'{}' is listed as inode {} type {}, but is inode {} mode {:o} ",
                            entry.name, entry.ino, entry.type, node.ino, node.mode);
    }
}

void Walker::visit(const std::string &path) {
    struct stat st = {};
    Node node;

    if (path.size() > longest)
        throw std::runtime_error("directories without end");
    if (::lstat(at(path).c_str(), &st) != 0) {
        node.stat_error = errno;
        tree_[path] = node;
        return;
    }
    constexpr std::int64_t ns_per_s = 1'000'000'000;
    node.mode = st.st_mode;
    node.nlink = st.st_nlink;
    node.uid = st.st_uid;
    node.gid = st.st_gid;
    node.size = S_ISDIR(st.st_mode) ? 0 : static_cast<std::uint64_t>(st.st_size);
    node.mtime_ns = st.st_mtim.tv_sec * ns_per_s + st.st_mtim.tv_nsec;
    node.device = st.st_rdev;
    node.ino = st.st_ino;
    if (S_ISREG(st.st_mode))
        read_file(path, node);
    if (S_ISLNK(st.st_mode)) {
        std::string target(8192, '\0');
        const ssize_t got = ::readlink(at(path).c_str(), target.data(), target.size());
        if (got < 0)
            node.data_error = errno;
        else
            node.data = target.substr(0, static_cast<std::size_t>(got));
    }
    read_xattrs(path, node);
    tree_[path] = node;
    if (S_ISDIR(st.st_mode))
        list(path);
}

}  // namespace

Tree walk(const std::string &top, const std::set<std::string> &also) {
    return Walker(top, also).run();
}

// ---- what is expected ----------------------------------------------------------------------

void Expected::remove(const std::string &path) {
    std::erase_if(tree, [&](const auto &item) { return within(item.first, path); });
}

void Expected::move(const std::string &from, const std::string &to) {
    Tree moved;

    for (const auto &[path, node] : tree)
        if (within(path, from))
            moved[to + path.substr(from.size())] = node;
    remove(from);
    remove(to);
    tree.merge(moved);
}

void Expected::exchange(const std::string &a, const std::string &b) {
    const std::string aside = "aside";

    move(a, aside);
    move(b, a);
    move(aside, b);
}

void Expected::count_links(std::uint64_t ino, int difference) {
    for (auto &[path, node] : tree)
        if (node.ino == ino)
            node.nlink += static_cast<std::uint64_t>(difference);
}

namespace {

class Comparison {
public:
    Comparison(const Expected &expected, const Tree &found) : expected_(expected), found_(found) {
        for (const auto &[path, node] : expected.tree) {
            if (path.empty())
                continue;
            names_[parent_of(path)].insert(name_of(path));
            subdirs_[parent_of(path)] += node.is_dir() ? 1 : 0;
        }
        for (const std::string &path : expected.listed)
            names_[parent_of(path)].insert(name_of(path));
    }

    std::vector<std::string> run() {
        for (const auto &[path, node] : expected_.tree)
            if (!found_.contains(path))
                differ(path, "was not looked up");
        for (const auto &[path, node] : found_)
            compare(path, node);
        return std::move(result_);
    }

private:
    void differ(const std::string &path, const std::string &text) {
        result_.push_back(fmt::format("'{}': {}", path, text));
    }
    void compare(const std::string &path, const Node &node);
    void compare_parts(const std::string &path, const Node &node, Node want);
    void check_error(const std::string &path, const char *what, bool due, int error, bool io);
    [[nodiscard]] int stat_error(const std::string &path) const;

    const Expected &expected_;
    const Tree &found_;
    std::map<std::string, std::set<std::string>> names_;
    std::map<std::string, unsigned> subdirs_;
    std::vector<std::string> result_;
};

int Comparison::stat_error(const std::string &path) const {
    for (std::string at = path;; at = parent_of(at)) {
        if (expected_.no_stat.contains(at))
            return EUCLEAN;
        const auto other = expected_.stat_error.find(at);
        if (other != expected_.stat_error.end())
            return other->second;
        if (at.empty())
            break;
    }
    return expected_.tree.contains(path) ? 0 : ENOENT;
}

void Comparison::check_error(const std::string &path, const char *what, bool due, int error,
                             bool io) {
    if (!due && error != 0)
        differ(path, fmt::format("{} fails: {}", what, error_name(error)));
    else if (due && error != EUCLEAN && !(io && error == EIO))
        differ(path, fmt::format("{} must fail, error: {}", what, error_name(error)));
}

void Comparison::compare(const std::string &path, const Node &node) {
    const int error = stat_error(path);

    if (node.stat_error != error)
        return differ(path, fmt::format("error of lookup: {}, expected: {}",
                                        error_name(node.stat_error), error_name(error)));
    if (error == 0)
        compare_parts(path, node, expected_.tree.at(path));
}

void Comparison::compare_parts(const std::string &path, const Node &node, Node want) {
    Node got = node;
    const bool no_data = expected_.no_data.contains(path);
    const bool no_xattrs = expected_.no_xattrs.contains(path);
    const bool no_list = expected_.no_list.contains(path);

    check_error(path, "reading", no_data, node.data_error, true);
    check_error(path, "reading attributes", no_xattrs, node.xattr_error, false);
    check_error(path, "readdir", no_list, node.list_error, false);
    if (no_data)
        got.data = want.data;
    if (no_xattrs)
        got.xattrs = want.xattrs;
    if (want.is_dir()) {
        // Times of directories follow lazily.
        got.mtime_ns = want.mtime_ns;
        if (no_list || expected_.any_links.contains(path))
            got.nlink = want.nlink = 0;
        else
            want.nlink = 2 + subdirs_[path];
        if (!no_list && got.names != names_[path]) {
            std::string more;
            std::string less;
            for (const std::string &name : got.names)
                if (!names_[path].contains(name))
                    more += " " + name;
            for (const std::string &name : names_[path])
                if (!got.names.contains(name))
                    less += " " + name;
            differ(path, fmt::format("readdir gives too much:{}; lacks:{}", more, less));
        }
    }
    if (!got.odd.empty())
        differ(path, got.odd);
    if (got.text() != want.text())
        differ(path, fmt::format("is {}\n    expected {}", got.text(), want.text()));
}

}  // namespace

std::vector<std::string> differences(const Expected &expected, const Tree &found) {
    return Comparison(expected, found).run();
}

}  // namespace uhsfs::damage
