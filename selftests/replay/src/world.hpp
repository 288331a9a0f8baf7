/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Operations on a mounted filesystem, and what may be found after a power cut.
 *
 * World does each operation and remembers for every name, inode and file what it was after
 * each of them. fsync and sync are promises, which pin: from then on a name, an inode or the
 * data may be what they were at the promise or at any time after, and nothing else. judge()
 * compares a tree that was found with that. The rules are those of the model's oracle
 * (selftests/model/protocol/check.py), and some that only a real filesystem can break.
 *
 * Every eight bytes of a file say which write they are of, and where they belong.
 */
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libuhsfs/fd.hpp"

namespace uhsfs::replay {

using Content = std::vector<std::uint8_t>;

struct Op {
    enum class Kind : std::uint8_t {
        create,
        mkdir,
        mknod,
        symlink,
        link,
        unlink,
        rmdir,
        rename,
        exchange,
        whiteout,
        write,
        truncate,
        chmod,
        fsync,
        fdatasync,
        fsyncdir,
        sync,
        close
    };
    Kind kind = Kind::create;
    std::string path = {};
    std::string to = {};  // link, symlink, rename
    std::uint64_t at = 0, size = 0;
    bool keep = false;  // unlink, rmdir: it stays open until a close of what begins with path

    [[nodiscard]] std::string text() const;
};

// "create t; write t 0 20000; link t p/x; rename t u; truncate u 100; unlink u keep; sync": what
// Op::text() prints. The root is "/".
std::vector<Op> parse_ops(const std::string &text);

// One name of a tree that was found.
struct Found {
    std::string path = {};
    std::string parent = {};  // identity: inode number and generation
    std::string name = {};
    std::string identity = {};
    mode_t mode = 0;
    std::uint64_t links = 0, size = 0;
    unsigned subdirs = 0;
    Content content = {};  // of a file, or the target of a symbolic link
};

struct FoundTree {
    std::string root;
    std::vector<Found> names;
    std::vector<std::string> problems;  // what cannot be read
};

FoundTree look(const std::string &top, const std::set<std::string> &also);

class World {
public:
    using Mark = std::function<void(const std::string &)>;

    // What is mounted there has nothing but a root.
    void start(const std::string &top, Mark mark);
    // It is mounted anew, with all that there is; nothing but the newest state can be found.
    void settle();

    // Is the operation possible as things are?
    [[nodiscard]] bool can(const Op &op) const;
    // Does it; true unless there was no space.
    bool run(const Op &op);
    // Gives a file this content, with one write.
    void run_raw(const std::string &path, const Content &content);
    // The promises of an operation that never ended.
    void take_back(unsigned operation);
    // Closes what is open, as part of the last operation; the unmount is a promise too.
    void before_unmount();
    void after_unmount();

    [[nodiscard]] unsigned operations() const { return now_; }
    [[nodiscard]] const std::string &text(unsigned operation) const { return texts_[operation]; }
    // All operations.
    [[nodiscard]] std::string story() const;
    [[nodiscard]] std::vector<std::string> paths(bool dirs) const;
    [[nodiscard]] std::uint64_t size(const std::string &path) const;

    // Paths that were ever there.
    [[nodiscard]] const std::set<std::string> &ever() const { return ever_; }
    // begun: operations that may have happened; ended: whose promises hold.
    [[nodiscard]] std::vector<std::string> judge(const FoundTree &tree, unsigned begun,
                                                 unsigned ended) const;

private:
    using Key = std::pair<int, std::string>;  // directory, name
    static constexpr int nobody = -1;

    // A value and the operation since which it is; promises: operations that pinned it.
    template <typename T>
    struct History {
        std::vector<std::pair<unsigned, T>> values;
        std::vector<unsigned> pins;

        void set(unsigned now, T value) {
            if (!values.empty() && values.back().first == now)
                values.pop_back();
            values.emplace_back(now, std::move(value));
        }
        // The promise that holds when `ended` has.
        [[nodiscard]] unsigned pin(unsigned ended) const {
            unsigned newest = 0;
            for (const unsigned pin : pins)
                if (pin <= ended)
                    newest = pin;
            return newest;
        }
        // Values from the one as of `from` up to that as of `to`.
        [[nodiscard]] std::vector<const T *> between(unsigned from, unsigned to) const {
            std::vector<const T *> found;
            for (const auto &[since, value] : values) {
                if (since > to)
                    break;
                if (since <= from)
                    found.clear();
                found.push_back(&value);
            }
            return found;
        }
    };

    struct State {
        std::shared_ptr<const Content> content;
        mode_t mode = 0;
    };

    struct Node {
        std::string identity;
        mode_t type = 0;
        unsigned born = 0;
        History<std::set<Key>> names;
        History<State> state;
        std::vector<unsigned> pins;  // of the inode
    };

    [[nodiscard]] std::optional<Key> key(const std::string &path) const;
    [[nodiscard]] int find(const std::string &path) const;
    [[nodiscard]] int bound(const Key &key) const;
    [[nodiscard]] bool empty(int dir) const;
    [[nodiscard]] std::string host(const std::string &path) const { return top_ + "/" + path; }
    [[nodiscard]] const State &state(int node) const {
        return nodes_[static_cast<std::size_t>(node)].state.values.back().second;
    }
    Node &node(int number) { return nodes_[static_cast<std::size_t>(number)]; }
    [[nodiscard]] const Node &node(int number) const {
        return nodes_[static_cast<std::size_t>(number)];
    }

    // An operation that changed several names, and who took a name over from someone else.
    struct Move {
        unsigned op = 0;
        std::vector<Key> keys = {};
        std::vector<std::pair<int, Key>> took = {};
    };

    [[nodiscard]] bool can_rename(const Op &op) const;
    [[nodiscard]] bool below(int dir, int top) const;
    void move(const Op &op);
    int do_call(const Op &op);
    void make(const Op &op);
    void bind(const Key &key, int number);
    void unbind(const Key &key);
    int write(const Op &op);
    void change(int number, Content content);
    void note(const Op &op);
    void remember(const std::string &path);
    void promise_inode(int number, bool data);
    void promise_dir(int number);
    void promise_all();

    struct Judge;

    std::string top_;
    Mark mark_;
    unsigned now_ = 0;
    std::vector<std::string> texts_{""};
    std::vector<Node> nodes_;
    std::map<Key, History<int>> names_;
    std::vector<Move> moves_;
    std::set<std::string> ever_;
    std::uint32_t version_ = 0;
    std::vector<std::pair<std::string, std::shared_ptr<unique_fd>>> held_;  // by path
};

// Identity of what stands at a path: inode number and generation; "" if nothing does.
std::string identity_of(const std::string &path);

}  // namespace uhsfs::replay
