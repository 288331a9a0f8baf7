/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Makes a filesystem on a device: mkfs, and tests that need an image with something in it.
 *
 *     Builder builder(&device, layout, keys);
 *     UHSFS_TRY(builder.begin());             // old superblocks are gone, durably
 *     NewInode root = ...;                    // assign(), data, put() for every inode
 *     UHSFS_TRY(builder.finish());            // everything else, flush, superblocks
 *
 * Until finish() has returned there is no superblock: an interrupted mkfs is never taken
 * for a filesystem. Everything is written once, in the epoch that the superblock then says
 * is checkpointed; of shadow homes the first copy, flagged FIRST.
 *
 * One thread. After an error the builder is good for nothing but being destroyed.
 */
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libuhsfs/allocator.hpp"
#include "libuhsfs/block_sink.hpp"
#include "libuhsfs/layout.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs {

// Number and generation of an inode.
struct InodeId {
    std::uint64_t ino = 0;
    std::uint32_t generation = 0;
};

// What an inode is to be. Content is one of data, extents, device, directory or nothing.
struct NewInode {
    InodeId id;
    std::uint16_t mode = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::int64_t atime = 0;
    std::int64_t mtime = 0;
    std::int64_t ctime = 0;
    std::vector<Name> names;    // name_seq is drawn by put()
    std::vector<Xattr> xattrs;  // any order
    std::uint64_t size = 0;     // of a file; a symlink's follows from data
    std::vector<std::uint8_t> data;
    std::vector<uhsfs_ext> extents;
    std::uint64_t blocks = 0;                                       // device blocks of the extents
    std::optional<std::pair<std::uint32_t, std::uint32_t>> device;  // major, minor
    std::optional<uhsfs_dir_info> directory;
};

class Builder {
public:
    // device == nullptr: a dry run.
    Builder(const Device *device, const uhsfs_super_info &layout, const KeySource &keys);
    Builder(const Builder &) = delete;
    Builder(Builder &&) = delete;
    Builder &operator=(const Builder &) = delete;
    Builder &operator=(Builder &&) = delete;
    ~Builder();

    Result<void> begin();

    // Slots are written chunk by chunk, once all inodes of a chunk were put. An inode that is
    // put long after its number was needed (directories, hard links) is `late`: these have
    // chunks of their own, so that the others need not wait in memory. The first late one is
    // the root.
    Result<InodeId> assign(bool late);

    // Bytes of content that fit the slot beside everything else that `inode` has so far; the
    // names tree of a hard link too if `links`.
    [[nodiscard]] std::size_t inline_room(const NewInode &inode, bool links) const;

    // Give an inode blocks for [logical, logical + count), which is behind what it has: as
    // many as there are contiguous; call again for the rest. Where they are is in the last
    // extent. `large`: in the large zone.
    Result<Run> extend(NewInode &inode, std::uint64_t logical, std::uint64_t count, bool large);
    Result<void> write(std::uint64_t block, Bytes from) { return sink_.write(block, from); }
    // The first image of a home, a sealed record of one block, to all its copies. Moves it.
    Result<void> write_home(std::uint64_t home, void *record);
    // The whole content of a small file or a symlink: to data if it fits, else to blocks.
    Result<void> set_content(NewInode &inode, Bytes content, bool links);

    // The content goes again, blocks and all; those that were written do not matter.
    void drop_content(NewInode &inode);

    // Builds and writes the index of a directory. Cookies of the entries are set here.
    Result<void> make_directory(NewInode &inode, std::vector<DirEntry> &entries);

    // The inode is complete.
    Result<void> put(NewInode inode);

    // The superblock that was written.
    Result<uhsfs_super_info> finish();

    [[nodiscard]] const uhsfs_geometry &geo() const noexcept { return info_.geo; }
    [[nodiscard]] std::uint64_t inodes() const noexcept { return info_.used_slots; }
    [[nodiscard]] std::uint64_t blocks_written() const noexcept { return sink_.blocks_written(); }

private:
    friend class TreeWriter;
    struct Chunk;

    std::uint64_t draw() { return ++seq_; }
    [[nodiscard]] tl::unexpected<Error> no_space(std::uint64_t want) const;
    [[nodiscard]] tl::unexpected<Error> core_error(const char *what, std::uint64_t ino, int err,
                                                   const uhsfs_fault &fault) const;

    // builder.cpp
    Result<std::shared_ptr<Chunk>> new_chunk();
    Result<void> grow_table();
    Result<void> write_chunk(Chunk &chunk);
    Result<void> write_table();
    Result<void> write_maps();
    Result<void> write_bitmaps();

    // build_inode.cpp
    Result<void> put_xattr_blocks(NewInode &inode, const std::vector<std::uint8_t> &stream,
                                  uhsfs_xattr_root &root);
    Result<void> put_names(NewInode &inode, struct uhsfs_names_root &root);
    Result<void> put_extent_tree(NewInode &inode, uhsfs_extent_root &root);
    Result<void> build_slot(NewInode &inode, const Chunk &chunk, std::uint8_t *slot);

    // build_dir.cpp
    Result<void> map_buckets(NewInode &inode, std::uint64_t logical, std::uint64_t count);
    Result<void> write_bucket(const NewInode &inode, std::uint64_t logical, uhsfs_bucket &bucket);

    BlockSink sink_;
    const Device *device_;
    uhsfs_super_info info_;
    const KeySource keys_;
    BlockAllocator space_;
    std::uint64_t seq_;
    std::vector<uhsfs_chunk_info> table_;
    std::map<std::uint64_t, std::shared_ptr<Chunk>> chunks_;  // not written yet, by number
    std::shared_ptr<Chunk> open_[2];                          // where assign() takes from
};

}  // namespace uhsfs
