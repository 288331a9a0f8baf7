// SPDX-License-Identifier: GPL-2.0
/*
 * What was found after a power cut, and whether it may be.
 */
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "recording.hpp"
#include "world.hpp"

namespace uhsfs::replay {

std::string identity_of(const std::string &path) {
    constexpr unsigned room = 64;
    alignas(struct file_handle) std::array<char, sizeof(struct file_handle) + room> bytes = {};
    auto *handle = reinterpret_cast<struct file_handle *>(bytes.data());
    int mount = 0;

    handle->handle_bytes = room;
    if (::name_to_handle_at(AT_FDCWD, path.c_str(), handle, &mount, 0) != 0)
        return {};
    return {reinterpret_cast<const char *>(handle->f_handle), handle->handle_bytes};
}

// ---- looking
// --------------------------------------------------------------------------------------

namespace {

class Look {
public:
    explicit Look(const std::string &top) : top_(top) {}

    void folder(const std::string &path, const std::string &identity, Found *self) {
        const std::string where = path.empty() ? top_ : top_ + "/" + path;
        const std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(where.c_str()), ::closedir);
        std::vector<std::string> names;

        if (!dir)
            return problem(path, "opendir");
        errno = 0;
        while (const dirent *entry = ::readdir(dir.get())) {
            const std::string name = static_cast<const char *>(entry->d_name);
            if (name != "." && name != "..")
                names.push_back(name);
        }
        if (errno != 0)
            problem(path, "readdir");
        std::ranges::sort(names);
        if (std::ranges::adjacent_find(names) != names.end())
            tree_.problems.push_back(fmt::format("{}: a name is listed twice", path));
        for (const std::string &name : names) {
            const std::size_t index = tree_.names.size();
            one(path.empty() ? name : path + "/" + name, identity, name);
            if (self != nullptr && tree_.names.size() > index && S_ISDIR(tree_.names[index].mode))
                subdirs_++;
        }
    }

    FoundTree take(const std::set<std::string> &also) {
        std::set<std::string> seen;

        for (const Found &found : tree_.names)
            seen.insert(found.path);
        for (const std::string &path : also) {
            struct stat st = {};
            if (seen.contains(path))
                continue;
            if (::lstat((top_ + "/" + path).c_str(), &st) == 0)
                tree_.problems.push_back(fmt::format("{}: is there, but is not listed", path));
            else if (errno != ENOENT && errno != ENOTDIR)
                problem(path, "lstat");
        }
        return std::move(tree_);
    }

    void start() {
        tree_.root = identity_of(top_);
        folder("", tree_.root, nullptr);
    }

private:
    void one(const std::string &path, const std::string &parent, const std::string &name) {
        const std::string where = top_ + "/" + path;
        struct stat st = {};
        Found found{.path = path, .parent = parent, .name = name};

        if (::lstat(where.c_str(), &st) != 0)
            return problem(path, "lstat");
        found.identity = identity_of(where);
        found.mode = st.st_mode;
        found.links = st.st_nlink;
        found.size = static_cast<std::uint64_t>(st.st_size);
        if (S_ISREG(st.st_mode))
            read(path, found);
        else if (S_ISLNK(st.st_mode))
            read_link(path, found);
        tree_.names.push_back(found);
        if (S_ISDIR(st.st_mode)) {
            const std::size_t self = tree_.names.size() - 1;
            const unsigned outside = subdirs_;
            subdirs_ = 0;
            folder(path, found.identity, &found);
            tree_.names[self].subdirs = subdirs_;
            subdirs_ = outside;
        }
    }

    void read(const std::string &path, Found &found) {
        const unique_fd fd(::open((top_ + "/" + path).c_str(), O_RDONLY | O_CLOEXEC));

        if (!fd)
            return problem(path, "open");
        // Files that only fill the disk are not read to their end.
        constexpr std::uint64_t most = 128 << 10;
        found.content.resize(std::min(found.size, most));
        const ssize_t got = ::pread(fd.get(), found.content.data(), found.content.size(), 0);
        if (got < 0)
            return problem(path, "read");
        if (static_cast<std::uint64_t>(got) != found.content.size())
            tree_.problems.push_back(fmt::format("{}: read {} of {} bytes", path, got, found.size));
    }

    void read_link(const std::string &path, Found &found) {
        std::array<char, 4096> target = {};
        const ssize_t got = ::readlink((top_ + "/" + path).c_str(), target.data(), target.size());

        if (got < 0)
            return problem(path, "readlink");
        found.content.assign(target.begin(), target.begin() + got);
    }

    void problem(const std::string &path, const char *what) {
        tree_.problems.push_back(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
    }

    std::string top_;
    FoundTree tree_;
    unsigned subdirs_ = 0;
};

}  // namespace

FoundTree look(const std::string &top, const std::set<std::string> &also) {
    Look look(top);

    look.start();
    return look.take(also);
}

// ---- judging
// --------------------------------------------------------------------------------------

struct World::Judge {
    const World &world;
    const FoundTree &tree;
    unsigned begun, ended;
    std::vector<std::string> problems = {};
    std::map<std::string, int> numbers = {};  // by identity
    std::map<Key, int> names = {};
    std::map<int, std::set<Key>> names_of = {};
    std::map<int, const Found *> found = {};

    template <typename... Arguments>
    void bad(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
        problems.push_back(fmt::format(format, std::forward<Arguments>(arguments)...));
    }

    [[nodiscard]] std::string describe(const Key &key) const {
        std::string path = key.second;
        int dir = key.first;
        while (dir != 0) {
            const auto &names_of_dir = world.node(dir).names.values;
            const std::set<Key> *last = nullptr;
            for (const auto &[since, value] : names_of_dir)
                if (!value.empty())
                    last = &value;
            if (last == nullptr)
                break;
            path = last->begin()->second + "/" + path;
            dir = last->begin()->first;
        }
        return path;
    }

    [[nodiscard]] unsigned pin_of(const Node &node) const {
        unsigned newest = node.born;
        for (const unsigned pin : node.pins)
            if (pin <= ended)
                newest = pin;
        return newest;
    }

    void index() {
        for (std::size_t i = 0; i < world.nodes_.size(); i++)
            if (world.nodes_[i].born <= begun)
                numbers[world.nodes_[i].identity] = static_cast<int>(i);
        for (const Found &one : tree.names) {
            const auto parent = numbers.find(one.parent);
            const auto self = numbers.find(one.identity);
            if (parent == numbers.end())
                continue;  // said of the parent
            if (self == numbers.end()) {
                bad("{}: an inode that was never made", one.path);
                continue;
            }
            const Key key(parent->second, one.name);
            names[key] = self->second;
            names_of[self->second].insert(key);
            found[self->second] = &one;
            if (!world.names_.contains(key))
                bad("{}: a name that was never made", one.path);
        }
    }

    void check_names() {
        for (const auto &[key, history] : world.names_) {
            const auto at = names.find(key);
            const int now = at == names.end() ? nobody : at->second;
            const unsigned pin = history.pin(ended);
            const auto allowed = history.between(pin, begun);
            if (std::ranges::any_of(allowed, [&](const int *one) { return *one == now; }))
                continue;
            bad("{}: {}, since operation {} it is one of {} others", describe(key),
                now == nobody ? "is gone" : fmt::format("is inode {} of the story", now), pin,
                allowed.size());
        }
    }

    // Names of one inode are those of one of its images, except for some that it lost later:
    // to another inode's newer claim, or with their directory.
    void check_together(int number, const Node &node) {
        const std::set<Key> &got = names_of[number];
        const auto history = node.names.between(pin_of(node), begun);
        const auto lost_later = [&](const Key &name, std::size_t i) {
            return std::any_of(history.begin() + static_cast<off_t>(i), history.end(),
                               [&](const auto *later) { return !later->contains(name); });
        };
        const auto fits = [&](std::size_t i) {
            return std::ranges::includes(*history[i], got) &&
                   std::ranges::all_of(*history[i], [&](const Key &name) {
                       return got.contains(name) || lost_later(name, i + 1);
                   });
        };

        // Whether it may be gone: check_lost().
        if (got.empty())
            return;
        for (std::size_t i = 0; i < history.size(); i++)
            if (fits(i))
                return;
        std::string all;
        for (const Key &name : got)
            all += " " + describe(name);
        bad("inode {} of the story has the names{}, which it never had together", number, all);
    }

    void check_lost(int number, const Node &node) {
        const bool pinned = node.born == 0 || std::ranges::any_of(node.pins, [&](unsigned pin) {
                                return pin <= ended;
                            });
        const auto history = node.names.between(pin_of(node), begun);

        if (number == 0 || !pinned || found.contains(number))
            return;
        if (std::ranges::none_of(history, [](const auto *one) { return one->empty(); }))
            bad("{} is lost, which was durable", describe(*history.back()->begin()));
    }

    // What a name shows after an operation that changed several is all old or all new.
    void check_move(const Move &move) {
        bool old_alone = false;
        bool new_alone = false;
        std::string all;
        const auto has = [](const std::vector<const int *> &values, int value) {
            return std::ranges::any_of(values, [&](const int *one) { return *one == value; });
        };

        for (const Key &key : move.keys) {
            const History<int> &history = world.names_.at(key);
            const auto at = names.find(key);
            const int now = at == names.end() ? nobody : at->second;
            const unsigned pin = history.pin(ended);
            const int before = *history.between(move.op - 1, move.op - 1).front();
            const int after = *history.between(move.op, move.op).front();
            const bool was = pin < move.op && has(history.between(pin, move.op - 1), now);
            const bool is = has(history.between(std::max(pin, move.op), begun), now);
            old_alone |= now == before && !is;
            new_alone |= now == after && !was;
            all += fmt::format(" {} -> {}", describe(key), now);
        }
        if (old_alone && new_alone)
            bad("operation {} ({}) is there in part:{}", move.op, world.texts_[move.op], all);
    }

    // R4(b): who took a name over shows no less data than it had then.
    [[nodiscard]] unsigned taken(int number, const Node &node, unsigned pin) const {
        const auto &now = names_of.find(number)->second;
        for (const Move &move : world.moves_)
            for (const auto &[who, key] : move.took) {
                if (who != number || move.op > begun || move.op <= pin || !now.contains(key))
                    continue;
                const auto before = node.names.between(0, move.op - 1);
                if (std::ranges::none_of(before,
                                         [&](const auto *one) { return one->contains(key); }))
                    pin = move.op;
            }
        return pin;
    }

    void check_content(const Found &one, int number, const Node &node) {
        const unsigned pin = taken(number, node, std::max(node.born, node.state.pin(ended)));
        const auto states = node.state.between(pin, begun);
        std::uint64_t least = never;
        std::uint64_t most = 0;

        for (const State *state : states) {
            least = std::min<std::uint64_t>(least, state->content->size());
            most = std::max<std::uint64_t>(most, state->content->size());
        }
        if (one.size < least || one.size > most) {
            bad("{}: {} bytes, since operation {} it has {} to {}", one.path, one.size, pin, least,
                most);
            return;
        }
        for (std::size_t at = 0; at < one.content.size(); at += sector_size) {
            const std::size_t size = std::min<std::size_t>(sector_size, one.content.size() - at);
            const auto same = [&](const State *state) {
                const Content &content = *state->content;
                const std::size_t have =
                    at < content.size() ? std::min(size, content.size() - at) : 0;
                return std::memcmp(one.content.data() + at, content.data() + at, have) == 0 &&
                       std::all_of(one.content.data() + at + have, one.content.data() + at + size,
                                   [](std::uint8_t byte) { return byte == 0; });
            };
            if (std::ranges::none_of(states, same)) {
                bad("{}: from byte {} on there is nothing that it had since operation {}", one.path,
                    at, pin);
                return;
            }
        }
    }

    void check_node(int number, const Found &one) {
        const Node &node = world.node(number);
        const auto modes = node.state.between(pin_of(node), begun);

        if ((one.mode & S_IFMT) != node.type)
            return bad("{}: is of type {:o}, not {:o}", one.path, one.mode & S_IFMT, node.type);
        if (std::ranges::none_of(modes, [&](const State *s) { return s->mode == one.mode; }))
            bad("{}: has mode {:o}", one.path, one.mode);
        if (S_ISDIR(one.mode)) {
            if (one.links != 2 + one.subdirs)
                bad("{}: {} links, with {} folders in it", one.path, one.links, one.subdirs);
            if (names_of[number].size() != 1)
                bad("{}: a folder with {} names", one.path, names_of[number].size());
        } else if (one.links != names_of[number].size()) {
            bad("{}: {} links, and {} names", one.path, one.links, names_of[number].size());
        }
        if (S_ISREG(one.mode) || S_ISLNK(one.mode))
            check_content(one, number, node);
    }
};

std::vector<std::string> World::judge(const FoundTree &tree, unsigned begun, unsigned ended) const {
    Judge judge{.world = *this, .tree = tree, .begun = begun, .ended = ended};

    judge.problems = tree.problems;
    judge.index();
    judge.check_names();
    for (std::size_t i = 0; i < nodes_.size(); i++) {
        const int number = static_cast<int>(i);
        if (nodes_[i].born > begun || number == 0)
            continue;
        judge.check_together(number, nodes_[i]);
        judge.check_lost(number, nodes_[i]);
    }
    for (const Move &move : moves_)
        if (move.op <= begun)
            judge.check_move(move);
    for (const auto &[number, one] : judge.found)
        judge.check_node(number, *one);
    return std::move(judge.problems);
}

}  // namespace uhsfs::replay
