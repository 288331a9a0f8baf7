/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a directory tree is: of the source that an image is made from, and as it is found where
 * the image is mounted.
 *
 * A tree that is read below a mount shows errors as what they are, object by object, so that
 * it can be said which of them were due.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace uhsfs::damage {

struct Node {
    unsigned mode = 0;
    std::uint64_t nlink = 0;
    unsigned uid = 0;
    unsigned gid = 0;
    std::uint64_t size = 0;  // 0 of a directory
    std::int64_t mtime_ns = 0;
    std::uint64_t device = 0;
    std::string data;             // checksum of a file, target of a symlink
    std::string xattrs;           // names and checksums
    std::set<std::string> names;  // of a directory, by readdir

    std::uint64_t ino = 0;
    // Errors: of looking it up (nothing else is known then), reading it, its attributes, its
    // names.
    int stat_error = 0;
    int data_error = 0;
    int xattr_error = 0;
    int list_error = 0;
    std::string odd;  // readdir and lookup contradict each other

    [[nodiscard]] bool is_dir() const;
    [[nodiscard]] std::string text() const;
};

// By path from the top, which is "".
using Tree = std::map<std::string, Node>;

std::string parent_of(const std::string &path);
std::string name_of(const std::string &path);
std::string join(const std::string &dir, const std::string &name);
// path is `dir` or below it.
bool within(const std::string &path, const std::string &dir);

// The tree with one of everything that has a structure of its own. It needs trusted attributes,
// device files, and a filesystem that counts subdirectories as links.
void make_tree(const std::string &top);

// Reads everything. also: paths to be looked up besides those that readdir tells.
Tree walk(const std::string &top, const std::set<std::string> &also);

// What is expected of a mounted image.
struct Expected {
    Tree tree;
    // What cannot be read, with EUCLEAN (data: or EIO). stat: neither it nor what is below it.
    std::set<std::string> no_stat;
    std::set<std::string> no_data;
    std::set<std::string> no_xattrs;
    std::set<std::string> no_list;
    std::map<std::string, int> stat_error;  // another error than EUCLEAN
    // Names that readdir gives though nothing has them.
    std::set<std::string> listed;
    std::set<std::string> any_links;  // directories whose count of links says nothing

    void remove(const std::string &path);
    // Everything below too.
    void move(const std::string &from, const std::string &to);
    void exchange(const std::string &a, const std::string &b);
    void add(const std::string &path, const Node &node) { tree[path] = node; }
    // One more or less name of an inode: of the nodes that share its number.
    void count_links(std::uint64_t ino, int difference);
};

// Each difference in words; none: as expected.
std::vector<std::string> differences(const Expected &expected, const Tree &found);

}  // namespace uhsfs::damage
