// SPDX-License-Identifier: GPL-2.0
/*
 * Doing operations, and remembering.
 */
#include "world.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "stage.hpp"

namespace uhsfs::replay {

namespace {

constexpr std::size_t cell = 8;

void fill(Content &content, std::uint64_t at, std::uint64_t size, std::uint32_t version) {
    for (std::uint64_t i = at; i < at + size; i++) {
        const std::uint64_t place = i / cell;
        const std::uint64_t word =
            (static_cast<std::uint64_t>(version) << 32U | place) * 0x9e3779b97f4a7c15ULL |
            0x0101010101010101ULL;  // never zeros
        content[i] = static_cast<std::uint8_t>(word >> (i % cell * 8));
    }
}

int sync_path(const std::string &path, int flags, bool data) {
    const unique_fd fd(::open(path.c_str(), flags | O_CLOEXEC));

    if (!fd)
        return -1;
    return data ? ::fdatasync(fd.get()) : ::fsync(fd.get());
}

}  // namespace

namespace {

constexpr std::array op_names = {"create", "mkdir",  "mknod",     "symlink",  "link",  "unlink",
                                 "rmdir",  "rename", "exchange",  "whiteout", "write", "truncate",
                                 "chmod",  "fsync",  "fdatasync", "fsyncdir", "sync",  "close"};

bool has_target(Op::Kind kind) {
    return kind == Op::Kind::link || kind == Op::Kind::symlink || kind == Op::Kind::rename ||
           kind == Op::Kind::exchange || kind == Op::Kind::whiteout;
}

Op parse_op(const std::string &text) {
    std::istringstream words(text);
    std::string name;
    std::string word;
    Op op;

    words >> name;
    const auto *const found = std::ranges::find(op_names, name);
    if (found == op_names.end())
        throw std::runtime_error("no operation: " + text);
    op.kind = static_cast<Op::Kind>(found - op_names.begin());
    if (words >> word && word != "/")
        op.path = word;
    if (has_target(op.kind))
        words >> op.to;
    if (op.kind == Op::Kind::write)
        words >> op.at;
    if (op.kind == Op::Kind::write || op.kind == Op::Kind::truncate || op.kind == Op::Kind::chmod)
        words >> op.size;
    op.keep = static_cast<bool>(words >> word) && word == "keep";
    return op;
}

}  // namespace

std::vector<Op> parse_ops(const std::string &text) {
    std::istringstream parts(text);
    std::string part;
    std::vector<Op> ops;

    while (std::getline(parts, part, ';'))
        if (part.find_first_not_of(' ') != std::string::npos)
            ops.push_back(parse_op(part));
    return ops;
}

std::string Op::text() const {
    std::string text = op_names[static_cast<std::size_t>(kind)];

    text += " " + (path.empty() && kind == Kind::fsyncdir ? "/" : path);
    if (!to.empty())
        text += " " + to;
    if (kind == Kind::write)
        text += fmt::format(" {}", at);
    if (kind == Kind::write || kind == Kind::truncate || kind == Kind::chmod)
        text += fmt::format(" {}", size);
    return text + (keep ? " keep" : "");
}

void World::start(const std::string &top, Mark mark) {
    struct stat st = {};

    top_ = top;
    mark_ = std::move(mark);
    if (::stat(top.c_str(), &st) != 0)
        failed(top);
    Node root;
    root.identity = identity_of(top);
    root.type = S_IFDIR;
    root.names.set(0, {});
    root.state.set(0, {.content = std::make_shared<Content>(), .mode = st.st_mode});
    nodes_.push_back(std::move(root));
}

void World::settle() {
    for (Node &node : nodes_) {
        node.names.values = {{0U, node.names.values.back().second}};
        node.state.values = {{0U, node.state.values.back().second}};
        node.names.pins.clear();
        node.state.pins.clear();
        node.pins.clear();
        node.born = 0;
    }
    std::map<Key, History<int>> names;
    for (auto &[key, history] : names_)
        if (history.values.back().second != nobody)
            names[key].set(0, history.values.back().second);
    names_ = std::move(names);
    moves_.clear();
    now_ = 0;
    texts_ = {""};
}

// ---- names
// ----------------------------------------------------------------------------------------

int World::bound(const Key &key) const {
    const auto found = names_.find(key);
    return found == names_.end() ? nobody : found->second.values.back().second;
}

// The directory that it is in exists.
std::optional<World::Key> World::key(const std::string &path) const {
    int dir = 0;
    std::size_t from = 0;

    for (;;) {
        const std::size_t end = path.find('/', from);
        if (end == std::string::npos)
            return Key(dir, path.substr(from));
        dir = bound({dir, path.substr(from, end - from)});
        if (dir == nobody || node(dir).type != S_IFDIR)
            return std::nullopt;
        from = end + 1;
    }
}

int World::find(const std::string &path) const {
    if (path.empty())
        return 0;
    const std::optional<Key> where = key(path);
    return where ? bound(*where) : nobody;
}

bool World::empty(int dir) const {
    for (auto at = names_.lower_bound({dir, ""}); at != names_.end() && at->first.first == dir;
         ++at)
        if (at->second.values.back().second != nobody)
            return false;
    return true;
}

void World::bind(const Key &key, int number) {
    History<int> &history = names_[key];
    if (history.values.empty())
        history.set(0, nobody);
    history.set(now_, number);
    std::set<Key> names = node(number).names.values.back().second;
    names.insert(key);
    node(number).names.set(now_, std::move(names));
}

void World::unbind(const Key &key) {
    const int number = bound(key);
    std::set<Key> names = node(number).names.values.back().second;
    names.erase(key);
    node(number).names.set(now_, std::move(names));
    names_[key].set(now_, nobody);
}

std::vector<std::string> World::paths(bool dirs) const {
    std::vector<std::string> found;
    std::vector<std::pair<int, std::string>> todo = {{0, ""}};

    for (std::size_t i = 0; i < todo.size(); i++) {
        const auto [dir, path] = todo[i];
        for (auto at = names_.lower_bound({dir, ""}); at != names_.end() && at->first.first == dir;
             ++at) {
            const int number = at->second.values.back().second;
            if (number == nobody)
                continue;
            const std::string below =
                path.empty() ? at->first.second : path + "/" + at->first.second;
            const bool is_dir = node(number).type == S_IFDIR;
            if (is_dir)
                todo.emplace_back(number, below);
            if (is_dir == dirs)
                found.push_back(below);
        }
    }
    return found;
}

std::uint64_t World::size(const std::string &path) const {
    return state(find(path)).content->size();
}

std::string World::story() const {
    std::string all;

    for (const std::string &text : texts_)
        all += (all.empty() ? "" : "; ") + text;
    return all;
}

// ---- operations
// -----------------------------------------------------------------------------------

bool World::can(const Op &op) const {
    const std::optional<Key> where = key(op.path);
    const int number = op.path.empty() ? 0 : where ? bound(*where) : nobody;
    const mode_t type = number == nobody ? 0 : node(number).type;

    switch (op.kind) {
        case Op::Kind::create:
        case Op::Kind::mkdir:
        case Op::Kind::mknod:
        case Op::Kind::symlink:
            return where && number == nobody;
        case Op::Kind::link: {
            const std::optional<Key> to = key(op.to);
            return number != nobody && type != S_IFDIR && to && bound(*to) == nobody;
        }
        case Op::Kind::unlink:
            return number != nobody && type != S_IFDIR;
        case Op::Kind::rmdir:
            return number > 0 && type == S_IFDIR && empty(number);
        case Op::Kind::rename:
        case Op::Kind::exchange:
        case Op::Kind::whiteout:
            return can_rename(op);
        case Op::Kind::write:
        case Op::Kind::truncate:
        case Op::Kind::fdatasync:
            return number != nobody && type == S_IFREG;
        case Op::Kind::fsync:
            return number != nobody && (type == S_IFREG || type == S_IFDIR);
        case Op::Kind::chmod:
            return number != nobody && type != S_IFLNK;
        case Op::Kind::fsyncdir:
            return number != nobody && type == S_IFDIR;
        case Op::Kind::close:
            return std::ranges::any_of(
                held_, [&](const auto &held) { return held.first.starts_with(op.path); });
        case Op::Kind::sync:
            return true;
    }
    return false;
}

bool World::below(int dir, int top) const {
    while (dir != top && dir != 0)
        dir = node(dir).names.values.back().second.begin()->first;
    return dir == top;
}

bool World::can_rename(const Op &op) const {
    const std::optional<Key> from = key(op.path);
    const std::optional<Key> to = key(op.to);
    if (!from || !to || op.path.empty() || op.to.empty())
        return false;
    const int moved = bound(*from);
    const int there = bound(*to);
    if (moved == nobody || moved == there)
        return false;
    const bool dir = node(moved).type == S_IFDIR;
    if (dir && below(to->first, moved))
        return false;
    if (there == nobody)
        return op.kind != Op::Kind::exchange;
    const bool dir_there = node(there).type == S_IFDIR;
    if (op.kind == Op::Kind::exchange)
        return !dir_there || !below(from->first, there);
    return dir == dir_there && (!dir || empty(there));
}

void World::make(const Op &op) {
    Node made;
    struct stat st = {};

    if (::lstat(host(op.path).c_str(), &st) != 0)
        failed(op.text());
    made.identity = identity_of(host(op.path));
    made.type = st.st_mode & S_IFMT;
    made.born = now_;
    made.names.set(now_, {});
    Content content;
    if (op.kind == Op::Kind::symlink)
        content.assign(op.to.begin(), op.to.end());
    made.state.set(now_,
                   {.content = std::make_shared<Content>(std::move(content)), .mode = st.st_mode});
    nodes_.push_back(std::move(made));
    bind(*key(op.path), static_cast<int>(nodes_.size()) - 1);
}

void World::move(const Op &op) {
    const Key from = *key(op.path);
    const Key to = *key(op.to);
    const int moved = bound(from);
    const int there = bound(to);
    Move move{.op = now_, .keys = {from, to}};

    remember(op.to);
    if (there != nobody) {
        unbind(to);
        move.took.emplace_back(moved, to);
    }
    unbind(from);
    bind(to, moved);
    if (op.kind == Op::Kind::exchange) {
        bind(from, there);
        move.took.emplace_back(there, from);
    } else if (op.kind == Op::Kind::whiteout) {
        make(op);
    }
    moves_.push_back(std::move(move));
}

void World::change(int number, Content content) {
    State next = state(number);
    next.content = std::make_shared<Content>(std::move(content));
    node(number).state.set(now_, std::move(next));
}

int World::write(const Op &op) {
    const int number = find(op.path);
    const std::string path = host(op.path);
    const unique_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    Content content = *state(number).content;
    struct stat st = {};

    if (!fd)
        return -1;
    if (content.size() < op.at + op.size)
        content.resize(op.at + op.size);
    fill(content, op.at, op.size, ++version_);
    // A cut may come while it is going on.
    change(number, content);
    const ssize_t done =
        ::pwrite(fd.get(), content.data() + op.at, op.size, static_cast<off_t>(op.at));
    if (done == static_cast<ssize_t>(op.size))
        return 0;
    // No space: as far as it went.
    if (::fstat(fd.get(), &st) != 0 || (done < 0 && errno != ENOSPC))
        return -1;
    content = *node(number).state.between(now_ - 1, now_ - 1).front()->content;
    const std::uint64_t end = op.at + static_cast<std::uint64_t>(std::max<ssize_t>(done, 0));
    content.resize(static_cast<std::size_t>(st.st_size));
    if (done > 0)
        fill(content, op.at, end - op.at, version_);
    change(number, std::move(content));
    errno = ENOSPC;
    return -1;
}

int World::do_call(const Op &op) {
    constexpr mode_t mode = 0644;
    const std::string path = host(op.path);

    switch (op.kind) {
        case Op::Kind::create: {
            const unique_fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
            return fd ? 0 : -1;
        }
        case Op::Kind::mkdir:
            return ::mkdir(path.c_str(), 0755);
        case Op::Kind::mknod:
            return ::mknod(path.c_str(), S_IFIFO | mode, 0);
        case Op::Kind::symlink:
            return ::symlink(op.to.c_str(), path.c_str());
        case Op::Kind::link:
            return ::link(path.c_str(), host(op.to).c_str());
        case Op::Kind::unlink:
        case Op::Kind::rmdir:
            if (op.keep) {
                const int flags = op.kind == Op::Kind::rmdir ? O_DIRECTORY : 0;
                held_.emplace_back(
                    op.path, std::make_shared<unique_fd>(
                                 ::open(path.c_str(), flags | O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
            }
            return op.kind == Op::Kind::rmdir ? ::rmdir(path.c_str()) : ::unlink(path.c_str());
        case Op::Kind::rename:
            return ::rename(path.c_str(), host(op.to).c_str());
        case Op::Kind::exchange:
            return ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, host(op.to).c_str(),
                               RENAME_EXCHANGE);
        case Op::Kind::whiteout:
            return ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, host(op.to).c_str(),
                               RENAME_WHITEOUT);
        case Op::Kind::write:
            return write(op);
        case Op::Kind::truncate:
            return ::truncate(path.c_str(), static_cast<off_t>(op.size));
        case Op::Kind::chmod:
            return ::chmod(path.c_str(), static_cast<mode_t>(op.size));
        case Op::Kind::fsync:
            return sync_path(path, O_RDONLY, false);
        case Op::Kind::fdatasync:
            return sync_path(path, O_RDONLY, true);
        case Op::Kind::fsyncdir:
            return sync_path(path, O_RDONLY | O_DIRECTORY, false);
        case Op::Kind::sync: {
            const unique_fd fd(::open(top_.c_str(), O_RDONLY | O_CLOEXEC));
            return ::syncfs(fd.get());
        }
        case Op::Kind::close:
            std::erase_if(held_, [&](const auto &held) { return held.first.starts_with(op.path); });
            return 0;
    }
    return -1;
}

void World::remember(const std::string &path) { ever_.insert(path); }

// What the operation changed, and promised.
void World::note(const Op &op) {
    const int number = find(op.path);

    switch (op.kind) {
        case Op::Kind::create:
        case Op::Kind::mkdir:
        case Op::Kind::mknod:
        case Op::Kind::symlink:
            remember(op.path);
            make(op);
            break;
        case Op::Kind::link:
            remember(op.to);
            bind(*key(op.to), number);
            break;
        case Op::Kind::unlink:
        case Op::Kind::rmdir:
            unbind(*key(op.path));
            break;
        case Op::Kind::rename:
        case Op::Kind::exchange:
        case Op::Kind::whiteout:
            move(op);
            break;
        case Op::Kind::truncate: {
            Content content = *state(number).content;
            content.resize(op.size);
            change(number, std::move(content));
            break;
        }
        case Op::Kind::chmod: {
            State next = state(number);
            next.mode = (next.mode & S_IFMT) | static_cast<mode_t>(op.size);
            node(number).state.set(now_, std::move(next));
            break;
        }
        case Op::Kind::fsync:
            if (node(number).type == S_IFDIR)
                promise_dir(number);
            else
                promise_inode(number, true);
            break;
        case Op::Kind::fdatasync:
            node(number).state.pins.push_back(now_);
            break;
        case Op::Kind::fsyncdir:
            promise_dir(number);
            break;
        case Op::Kind::sync:
            promise_all();
            break;
        case Op::Kind::write:
        case Op::Kind::close:
            break;
    }
}

bool World::run(const Op &op) {
    now_++;
    texts_.push_back(op.text());
    mark_(fmt::format("b{}", now_));
    const int error = do_call(op) == 0 ? 0 : errno;
    mark_(fmt::format("e{}", now_));
    if (error == ENOSPC)
        return false;
    if (error != 0)
        throw std::runtime_error(fmt::format("{}: {}", op.text(), std::strerror(error)));
    note(op);
    return true;
}

void World::run_raw(const std::string &path, const Content &content) {
    const unique_fd fd(::open(host(path).c_str(), O_RDWR | O_CLOEXEC));

    now_++;
    texts_.push_back("fill " + path);
    change(find(path), content);
    mark_(fmt::format("b{}", now_));
    if (!fd || ::pwrite(fd.get(), content.data(), content.size(), 0) !=
                   static_cast<ssize_t>(content.size()))
        failed(path);
    mark_(fmt::format("e{}", now_));
}

// ---- promises
// -------------------------------------------------------------------------------------

// R7: the inode, its names, and what is needed to reach them.
void World::promise_inode(int number, bool data) {
    Node &what = node(number);

    what.pins.push_back(now_);
    what.names.pins.push_back(now_);
    // Attributes of a directory follow its slot too.
    if (data)
        what.state.pins.push_back(now_);
    for (const Key &name : what.names.values.back().second)
        names_[name].pins.push_back(now_);
}

void World::promise_dir(int number) {
    promise_inode(number, true);
    for (auto at = names_.lower_bound({number, ""});
         at != names_.end() && at->first.first == number; ++at)
        at->second.pins.push_back(now_);
}

void World::promise_all() {
    for (auto &[key, history] : names_)
        history.pins.push_back(now_);
    for (std::size_t i = 0; i < nodes_.size(); i++)
        promise_inode(static_cast<int>(i), true);
}

void World::take_back(unsigned operation) {
    const auto forget = [&](std::vector<unsigned> &pins) { std::erase(pins, operation); };

    for (auto &[key, history] : names_)
        forget(history.pins);
    for (Node &node : nodes_) {
        forget(node.pins);
        forget(node.names.pins);
        forget(node.state.pins);
    }
}

void World::before_unmount() {
    now_++;
    texts_.emplace_back("unmount");
    mark_(fmt::format("b{}", now_));
    held_.clear();
}

// Promises of the unmount hold after its end, when nothing is left to be cut.
void World::after_unmount() { promise_all(); }

}  // namespace uhsfs::replay
