/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Fills a new filesystem from a directory tree.
 *
 * Everything is copied: files with their holes, directories, symlinks, devices, FIFOs and
 * sockets, hard links, owners, modes, access and modification times, extended attributes
 * (user, trusted, security) and ACLs. Change and birth times are the time of mkfs. What is
 * mounted within the tree belongs to it. Inode flags (chattr) and project IDs are not copied.
 * Entries are taken in order of their names, so that one tree gives one image.
 *
 * Whatever cannot be read ends the import with an error that names it: an image with files
 * missing is worse than none. So does a file that changes each of several times that it is
 * read.
 */
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "libuhsfs/builder.hpp"

namespace uhsfs {

struct ImportStats {
    std::uint64_t files = 0;
    std::uint64_t directories = 0;
    std::uint64_t symlinks = 0;
    std::uint64_t special = 0;          // devices, FIFOs, sockets
    std::uint64_t links = 0;            // names beyond the first
    std::uint64_t bytes = 0;            // of file data copied
    std::uint64_t skipped = 0;          // the image itself, within the tree
    std::uint64_t xattrs_left_out = 0;  // of other namespaces, such as system.nfs4_acl
};

struct ImportOptions {
    std::string source;  // a directory; empty: an empty filesystem
    std::int64_t now_ns = 0;
    // For images that can be built again bit by bit: times later than now_ns become now_ns,
    // access times are modification times, because reading the tree changes them.
    bool repeatable = false;
    // The image itself, if it may stand in the tree.
    std::optional<std::pair<dev_t, ino_t>> image;
    // Called now and then.
    std::function<void(const ImportStats &)> progress;
};

// Puts all inodes, the root first; Builder::begin() came before, finish() comes after.
Result<ImportStats> import_tree(Builder &builder, const ImportOptions &options);

}  // namespace uhsfs
