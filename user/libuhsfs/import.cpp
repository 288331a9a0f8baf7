// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Import of a directory tree, depth first: a directory's entries get their numbers and its
 * files are copied, its index is written, then come its subdirectories. So files of one
 * directory stand next to each other, and memory is needed for one directory's entries, the
 * directories still to come, and hard-linked files of which names are still to come.
 */
#include "libuhsfs/import.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <utility>
#include <vector>

#include "libuhsfs/fd.hpp"

namespace uhsfs {

namespace {

constexpr std::size_t copy_step = std::size_t{1} << 20;

std::int64_t nanoseconds(const timespec &time) {
    constexpr std::int64_t per_second = 1'000'000'000;
    constexpr std::int64_t most = INT64_MAX / per_second - 1;

    return std::clamp<std::int64_t>(time.tv_sec, -most, most) * per_second + time.tv_nsec;
}

struct DirCloser {
    void operator()(DIR *dir) const { ::closedir(dir); }
};

class Importer {
public:
    Importer(Builder &builder, const ImportOptions &options)
        : builder_(builder), options_(options), buffer_(copy_step) {}

    Result<ImportStats> run();

private:
    // A directory that has its number and name, but not its entries yet.
    struct Directory {
        NewInode inode;
        std::vector<std::string> path;  // from the source, without it
    };
    // An inode with several names, as long as some may be still to come.
    struct Linked {
        NewInode inode;
        std::uint64_t expected = 0;
    };
    // A file to be read: its folder, its name there, and what to call it in messages.
    struct Source {
        int folder;
        const char *name;
        std::string shown;
    };

    Result<void> empty();
    Result<unique_fd> open_directory(const std::vector<std::string> &path) const;
    [[nodiscard]] std::string shown(const std::vector<std::string> &path) const;
    Result<std::vector<std::string>> list(int fd, const std::string &name) const;
    Result<void> import_directory(Directory directory);
    Result<DirEntry> import_entry(const Directory &parent, const Source &source,
                                  const struct stat &st);
    Result<void> import_content(NewInode &inode, const Source &source, const struct stat &st,
                                bool links);
    Result<void> copy_file(NewInode &inode, const Source &source, const struct stat &st,
                           bool links);
    Result<struct stat> settled(int fd, const Source &source) const;
    Result<void> copy_data(NewInode &inode, int fd, const Source &source, const struct stat &st,
                           bool links);
    Result<void> copy_inline(NewInode &inode, int fd, const Source &source, std::size_t size,
                             bool links);
    Result<void> copy_range(NewInode &inode, int fd, const Source &source, std::uint64_t from,
                            std::uint64_t until, bool large);
    Result<void> read_all(int fd, const Source &source, std::uint64_t offset,
                          MutableBytes to) const;
    Result<void> copy_xattrs(NewInode &inode, int fd, const std::string &shown);
    void set_attributes(NewInode &inode, const struct stat &st) const;
    void tell_progress();

    Builder &builder_;
    const ImportOptions &options_;
    ImportStats stats_;
    AlignedBuffer buffer_;
    std::vector<Directory> pending_;
    std::map<std::pair<dev_t, ino_t>, Linked> linked_;
    std::uint64_t told_ = 0;
};

// ---- the tree ------------------------------------------------------------------------------

Result<ImportStats> Importer::run() {
    if (options_.source.empty()) {
        UHSFS_TRY(empty());
        return stats_;
    }
    const unique_fd fd = UHSFS_TRY(open_directory({}));
    struct stat st = {};
    if (::fstat(fd.get(), &st) != 0)
        return fail_errno(options_.source, "cannot stat");
    Directory root;
    root.inode.id = UHSFS_TRY(builder_.assign(true));
    set_attributes(root.inode, st);
    pending_.push_back(std::move(root));
    while (!pending_.empty()) {
        Directory next = std::move(pending_.back());
        pending_.pop_back();
        UHSFS_TRY(import_directory(std::move(next)));
    }
    // Names outside of the tree.
    for (auto &[key, linked] : linked_)
        UHSFS_TRY(builder_.put(std::move(linked.inode)));
    return stats_;
}

Result<void> Importer::empty() {
    constexpr std::uint16_t mode = UHSFS_S_IFDIR | 0755;
    std::vector<DirEntry> none;
    NewInode root;

    root.id = UHSFS_TRY(builder_.assign(true));
    root.mode = mode;
    root.atime = root.mtime = root.ctime = options_.now_ns;
    UHSFS_TRY(builder_.make_directory(root, none));
    stats_.directories = 1;
    return builder_.put(std::move(root));
}

std::string Importer::shown(const std::vector<std::string> &path) const {
    std::string text = options_.source;

    for (const std::string &name : path)
        text += (text.ends_with('/') ? "" : "/") + name;
    return text;
}

// Step by step: paths may be longer than PATH_MAX, and no symlink is followed.
Result<unique_fd> Importer::open_directory(const std::vector<std::string> &path) const {
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    unique_fd fd = UHSFS_TRY(open_file(options_.source, flags));

    for (const std::string &name : path) {
        unique_fd next(::openat(fd.get(), name.c_str(), flags | O_NOFOLLOW));
        if (!next)
            return fail_errno(shown(path), "cannot open the directory");
        fd = std::move(next);
    }
    return fd;
}

Result<std::vector<std::string>> Importer::list(int fd, const std::string &name) const {
    std::vector<std::string> names;
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    const std::unique_ptr<DIR, DirCloser> dir(copy >= 0 ? ::fdopendir(copy) : nullptr);

    if (!dir) {
        auto error = fail_errno(name, "cannot list the directory");
        if (copy >= 0)
            ::close(copy);
        return error;
    }
    for (;;) {
        errno = 0;
        const dirent *entry = ::readdir(dir.get());
        if (entry == nullptr)
            break;
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
            names.emplace_back(entry->d_name);
    }
    if (errno != 0)
        return fail_errno(name, "cannot list the directory");
    std::ranges::sort(names);
    return names;
}

Result<void> Importer::import_directory(Directory directory) {
    const std::string name = shown(directory.path);
    const unique_fd fd = UHSFS_TRY(open_directory(directory.path));
    const std::size_t first = pending_.size();
    std::vector<DirEntry> entries;

    stats_.directories++;
    UHSFS_TRY(copy_xattrs(directory.inode, fd.get(), name));
    for (const std::string &child : UHSFS_TRY(list(fd.get(), name))) {
        const Source source = {.folder = fd.get(),
                               .name = child.c_str(),
                               .shown = name + (name.ends_with('/') ? "" : "/") + child};
        struct stat st = {};
        if (::fstatat(fd.get(), child.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
            return fail_errno(source.shown, "cannot stat");
        if (options_.image && *options_.image == std::pair(st.st_dev, st.st_ino)) {
            stats_.skipped++;
            continue;
        }
        entries.push_back(UHSFS_TRY(import_entry(directory, source, st)));
        tell_progress();
    }
    // The first subdirectory comes next.
    std::reverse(pending_.begin() + static_cast<std::ptrdiff_t>(first), pending_.end());
    UHSFS_TRY(builder_.make_directory(directory.inode, entries));
    return builder_.put(std::move(directory.inode));
}

Result<DirEntry> Importer::import_entry(const Directory &parent, const Source &source,
                                        const struct stat &st) {
    const std::pair key(st.st_dev, st.st_ino);
    const bool links = !S_ISDIR(st.st_mode) && st.st_nlink > 1;
    DirEntry entry = {.cookie = 0,
                      .ino = 0,
                      .gen = 0,
                      .type = uhsfs_mode_dtype(static_cast<u16>(st.st_mode)),
                      .name = source.name};
    const Name name = {.parent_ino = parent.inode.id.ino,
                       .parent_gen = parent.inode.id.generation,
                       .name_seq = 0,
                       .name = source.name};
    auto known = links ? linked_.find(key) : linked_.end();

    if (known == linked_.end()) {
        NewInode inode;
        inode.id = UHSFS_TRY(builder_.assign(S_ISDIR(st.st_mode) || links));
        entry.ino = inode.id.ino;
        entry.gen = inode.id.generation;
        inode.names.push_back(name);
        set_attributes(inode, st);
        if (S_ISDIR(st.st_mode)) {
            Directory child{.inode = std::move(inode), .path = parent.path};
            child.path.emplace_back(source.name);
            pending_.push_back(std::move(child));
            return entry;
        }
        UHSFS_TRY(import_content(inode, source, st, links));
        if (!links) {
            UHSFS_TRY(builder_.put(std::move(inode)));
            return entry;
        }
        linked_.emplace(key, Linked{.inode = std::move(inode), .expected = st.st_nlink});
        return entry;
    }
    Linked &linked = known->second;
    stats_.links++;
    entry.ino = linked.inode.id.ino;
    entry.gen = linked.inode.id.generation;
    linked.inode.names.push_back(name);
    if (linked.inode.names.size() == linked.expected) {
        UHSFS_TRY(builder_.put(std::move(linked.inode)));
        linked_.erase(known);
    }
    return entry;
}

void Importer::set_attributes(NewInode &inode, const struct stat &st) const {
    inode.mode = static_cast<std::uint16_t>(st.st_mode);
    inode.uid = st.st_uid;
    inode.gid = st.st_gid;
    inode.mtime = nanoseconds(st.st_mtim);
    inode.atime = nanoseconds(st.st_atim);
    inode.ctime = options_.now_ns;
    if (options_.repeatable) {
        inode.mtime = std::min(inode.mtime, options_.now_ns);
        inode.atime = inode.mtime;
    }
}

void Importer::tell_progress() {
    constexpr std::uint64_t every = 64;

    if (options_.progress && told_++ % every == 0)
        options_.progress(stats_);
}

// ---- contents ------------------------------------------------------------------------------

Result<void> Importer::import_content(NewInode &inode, const Source &source, const struct stat &st,
                                      bool links) {
    if (S_ISREG(st.st_mode)) {
        stats_.files++;
        return copy_file(inode, source, st, links);
    }
    // Of these, attributes can be read through a path only; /proc gives one of any length.
    const unique_fd fd(::openat(source.folder, source.name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd)
        return fail_errno(source.shown, "cannot open");
    UHSFS_TRY(copy_xattrs(inode, fd.get(), source.shown));
    if (S_ISLNK(st.st_mode)) {
        std::array<char, UHSFS_SYMLINK_MAX + 1> target = {};
        const ssize_t n = ::readlinkat(source.folder, source.name, target.data(), target.size());
        if (n < 0)
            return fail_errno(source.shown, "cannot read the symlink");
        if (n == 0 || static_cast<std::size_t>(n) > UHSFS_SYMLINK_MAX)
            return fail(
                ENAMETOOLONG, source.shown,
                fmt::format("the symlink's target must have 1 to {} bytes", UHSFS_SYMLINK_MAX));
        stats_.symlinks++;
        return builder_.set_content(
            inode,
            {reinterpret_cast<const std::uint8_t *>(target.data()), static_cast<std::size_t>(n)},
            links);
    }
    stats_.special++;
    if (S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode))
        inode.device = {major(st.st_rdev), minor(st.st_rdev)};
    return {};
}

// Attributes from which every later change can be told. The times of a file that was changed
// within the present tick of the clock would not move if it were changed once more.
Result<struct stat> Importer::settled(int fd, const Source &source) const {
    constexpr std::int64_t tick = 20'000'000;
    struct stat st = {};
    timespec now = {};

    for (int i = 0; i < 2; i++) {
        if (::fstat(fd, &st) != 0)
            return fail_errno(source.shown, "cannot stat");
        ::clock_gettime(CLOCK_REALTIME, &now);
        const std::int64_t age = nanoseconds(now) - nanoseconds(st.st_ctim);
        if (age < -tick || age > tick)
            break;
        const timespec pause = {.tv_sec = 0, .tv_nsec = tick};
        ::nanosleep(&pause, nullptr);
    }
    return st;
}

// A file that changes meanwhile is copied again, not for ever: half of one state and half of
// another is no copy.
Result<void> Importer::copy_file(NewInode &inode, const Source &source, const struct stat &st,
                                 bool links) {
    constexpr int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    constexpr int most_tries = 3;
    const std::uint64_t bytes = stats_.bytes;
    unique_fd fd(::openat(source.folder, source.name, flags | O_NOATIME));

    // Only owners may ask for O_NOATIME.
    if (!fd && errno == EPERM)
        fd.reset(::openat(source.folder, source.name, flags));
    if (!fd)
        return fail_errno(source.shown, "cannot open");
    for (int i = 0; i < most_tries; i++) {
        const struct stat before = UHSFS_TRY(settled(fd.get(), source));
        struct stat after = {};
        if (before.st_dev != st.st_dev || before.st_ino != st.st_ino || !S_ISREG(before.st_mode))
            return fail(EBUSY, source.shown, "was replaced while it was copied");
        builder_.drop_content(inode);
        stats_.bytes = bytes;
        inode.xattrs.clear();
        set_attributes(inode, before);
        UHSFS_TRY(copy_xattrs(inode, fd.get(), source.shown));
        const auto copied = copy_data(inode, fd.get(), source, before, links);
        // That it became shorter is a change as well.
        if (!copied && copied.error().code != EBUSY)
            return copied;
        if (::fstat(fd.get(), &after) != 0)
            return fail_errno(source.shown, "cannot stat");
        if (copied && after.st_size == before.st_size &&
            nanoseconds(after.st_mtim) == nanoseconds(before.st_mtim) &&
            nanoseconds(after.st_ctim) == nanoseconds(before.st_ctim))
            return {};
    }
    return fail(EBUSY, source.shown,
                fmt::format("changed while it was copied, {} times", most_tries),
                "stop the program that writes it, or copy a snapshot");
}

Result<void> Importer::copy_data(NewInode &inode, int fd, const Source &source,
                                 const struct stat &st, bool links) {
    const auto size = static_cast<std::uint64_t>(st.st_size);

    if (size <= builder_.inline_room(inode, links))
        return copy_inline(inode, fd, source, size, links);
    const bool large = size / block_size > builder_.geo().erase_unit / 2;
    inode.size = size;
    for (std::uint64_t at = 0; at < size;) {
        const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        const bool holes = data >= 0;  // else a filesystem that knows none
        const off_t hole = holes ? ::lseek(fd, data, SEEK_HOLE) : -1;
        const std::uint64_t from =
            holes ? std::max(at, static_cast<std::uint64_t>(data) / block_size * block_size) : at;
        const std::uint64_t until =
            hole >= 0 ? std::min(size, round_up(static_cast<std::uint64_t>(hole), block_size))
                      : size;
        if (from >= size)
            break;
        UHSFS_TRY(copy_range(inode, fd, source, from, until, large));
        at = round_up(until, block_size);
    }
    return {};
}

Result<void> Importer::read_all(int fd, const Source &source, std::uint64_t offset,
                                MutableBytes to) const {
    for (std::size_t done = 0; done < to.size();) {
        const ssize_t n =
            ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(source.shown, fmt::format("cannot read at byte {}", offset + done));
        if (n == 0)
            return fail(EBUSY, source.shown, "became shorter while it was copied");
        done += static_cast<std::size_t>(n);
    }
    return {};
}

Result<void> Importer::copy_inline(NewInode &inode, int fd, const Source &source, std::size_t size,
                                   bool links) {
    const MutableBytes data = buffer_.span().first(size);

    UHSFS_TRY(read_all(fd, source, 0, data));
    stats_.bytes += size;
    return builder_.set_content(inode, data, links);
}

// [from, until) has data; from is at a block, until too or at the end of the file.
Result<void> Importer::copy_range(NewInode &inode, int fd, const Source &source, std::uint64_t from,
                                  std::uint64_t until, bool large) {
    std::uint64_t logical = from / block_size;
    const std::uint64_t end = (until + block_size - 1) / block_size;

    while (logical < end) {
        const Run run = UHSFS_TRY(builder_.extend(inode, logical, end - logical, large));
        for (std::uint64_t i = 0; i < run.count;) {
            const std::uint64_t n = std::min<std::uint64_t>(run.count - i, copy_step / block_size);
            const std::uint64_t at = (logical + i) * block_size;
            const std::uint64_t bytes = std::min(n * block_size, until - at);
            const MutableBytes blocks = buffer_.span().first(n * block_size);
            UHSFS_TRY(read_all(fd, source, at, blocks.first(bytes)));
            std::memset(blocks.data() + bytes, 0, blocks.size() - bytes);
            UHSFS_TRY(builder_.write(run.block + i, blocks));
            stats_.bytes += bytes;
            i += n;
            if (options_.progress)
                options_.progress(stats_);
        }
        logical += run.count;
    }
    return {};
}

// ---- extended attributes -------------------------------------------------------------------

struct Space {
    std::string_view prefix;
    std::uint8_t space;
    bool whole;  // the prefix is the whole name
};

constexpr std::array<Space, 5> spaces = {{
    {"user.", UHSFS_XATTR_USER, false},
    {"trusted.", UHSFS_XATTR_TRUSTED, false},
    {"security.", UHSFS_XATTR_SECURITY, false},
    {"system.posix_acl_access", UHSFS_XATTR_ACL_ACCESS, true},
    {"system.posix_acl_default", UHSFS_XATTR_ACL_DEFAULT, true},
}};

const Space *space_of(std::string_view name) {
    const auto *found = std::ranges::find_if(spaces, [&](const Space &space) {
        return space.whole ? name == space.prefix
                           : name.starts_with(space.prefix) && name.size() > space.prefix.size();
    });

    return found != spaces.end() ? found : nullptr;
}

// A call that says how many bytes it needs when it gets no room, until they agree.
template <typename Call>
ssize_t read_sized(Call call, std::vector<std::uint8_t> &to) {
    for (;;) {
        const ssize_t size = call(nullptr, 0);
        if (size <= 0) {
            to.clear();
            return size;
        }
        to.resize(static_cast<std::size_t>(size));
        const ssize_t got = call(to.data(), to.size());
        if (got < 0 && errno == ERANGE)
            continue;
        if (got >= 0)
            to.resize(static_cast<std::size_t>(got));
        return got;
    }
}

Result<void> Importer::copy_xattrs(NewInode &inode, int fd, const std::string &shown) {
    // Symlinks and special files are open as a path only, which needs the way through /proc.
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    const bool direct = ::flistxattr(fd, nullptr, 0) >= 0 || errno != EBADF;
    std::vector<std::uint8_t> list;
    const ssize_t size = read_sized(
        [&](void *to, std::size_t room) {
            auto *names = static_cast<char *>(to);
            return direct ? ::flistxattr(fd, names, room) : ::listxattr(path.c_str(), names, room);
        },
        list);

    if (size < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        return {};
    if (size < 0)
        return fail_errno(shown, "cannot list its extended attributes");
    for (std::size_t at = 0; at < list.size();) {
        const std::string name(reinterpret_cast<const char *>(list.data()) + at);
        at += name.size() + 1;
        const Space *space = space_of(name);
        if (space == nullptr) {
            stats_.xattrs_left_out++;
            continue;
        }
        Xattr xattr = {.space = space->space,
                       .name = space->whole ? "" : name.substr(space->prefix.size()),
                       .value = {}};
        const ssize_t got = read_sized(
            [&](void *to, std::size_t room) {
                return direct ? ::fgetxattr(fd, name.c_str(), to, room)
                              : ::getxattr(path.c_str(), name.c_str(), to, room);
            },
            xattr.value);
        if (got < 0 && errno == ENODATA)
            continue;  // removed in between
        if (got < 0)
            return fail_errno(shown, fmt::format("cannot read its attribute {}", name));
        inode.xattrs.push_back(std::move(xattr));
    }
    // One set of attributes gives one image.
    std::ranges::sort(inode.xattrs, {}, [](const Xattr &x) { return std::tie(x.space, x.name); });
    return {};
}

}  // namespace

Result<ImportStats> import_tree(Builder &builder, const ImportOptions &options) {
    return Importer(builder, options).run();
}

}  // namespace uhsfs
