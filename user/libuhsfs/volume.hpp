/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A uhsfs filesystem opened for reading: everything that stands on disk, as the core
 * decodes it. fsck, dump and the mount helpers are written on top of this.
 *
 * Reading never stops the caller from going on: whatever can be damaged is returned as a
 * Home, which says of each copy whether it is sound and if not, what is wrong with it, or as
 * an Error that names object, field, value, limit and rule (EUCLEAN).
 *
 * Nothing is cached: every call reads the device. All const functions may be called from
 * several threads at once.
 */
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libuhsfs/core.hpp"
#include "libuhsfs/device.hpp"
#include "libuhsfs/result.hpp"

namespace uhsfs {

// "slot 12: nlink is 3: must be equal (1)": one line, no full stop.
std::string fault_text(const uhsfs_fault &fault);
// The same as an EUCLEAN error about `object`, usually the device's path.
Error fault_error(std::string_view object, const uhsfs_fault &fault);

// ---- homes ---------------------------------------------------------------------------------

// One copy of a home.
struct Copy {
    int code = 0;  // 0: valid; EUCLEAN: damaged, see fault; else the errno of reading it
    std::uint64_t seq = 0;
    uhsfs_fault fault = {};
};

// A home as read: which copy counts, and what is wrong with the other.
struct Home {
    std::uint64_t block = 0;  // its first block
    unsigned copies = 0;      // 1 or 2
    std::array<Copy, 2> copy;
    int chosen = -1;          // -1: no valid copy
    bool suspicious = false;  // one copy is valid, its sibling is not
    bool differ = false;      // both are valid and of one seq, but not the same
    [[nodiscard]] bool valid() const noexcept { return chosen >= 0; }
    // Where the chosen copy stands; only if valid().
    [[nodiscard]] std::uint64_t chosen_block() const noexcept {
        return block + static_cast<std::uint64_t>(chosen);
    }
    // Why no copy is valid: all faults. Only if !valid().
    [[nodiscard]] Error error(std::string_view device) const;
    // Sets chosen and suspicious from the copies.
    void choose();
    // Sets differ. images: of two copies, made of records of so many bytes.
    void compare(const std::array<const std::uint8_t *, 2> &images, std::size_t record);
};

// Checks the image of one copy, read from `block`: 0 with seq filled in, or
// -EUCLEAN with the fault.
using CopyCheck = std::function<int(const std::uint8_t *image, std::uint64_t block, Copy &copy)>;

template <typename Record>
struct HomeOf {
    Home home;
    std::unique_ptr<Record> record;  // of the chosen copy; null if none is valid
    [[nodiscard]] explicit operator bool() const noexcept { return record != nullptr; }
};

// A whole slot block.
using SlotImage = std::array<std::uint8_t, block_size>;

// The CopyCheck of slot blocks. first_ino: of the block's first slot; nonce: of its chunk.
int check_slot_block(const uhsfs_geometry &geo, const std::uint8_t *image, std::uint64_t block,
                     std::uint64_t first_ino, std::uint64_t nonce, Copy &copy);

// ---- superblock ----------------------------------------------------------------------------

struct SuperCopy {
    std::uint64_t block = 0;
    int code = 0;             // 0: sound; EUCLEAN: damaged, see fault; else the errno of reading it
    bool recognised = false;  // it begins as a uhsfs superblock does
    uhsfs_fault fault = {};
    uhsfs_super_info info = {};                     // only if sound
    std::array<std::uint8_t, block_size> raw = {};  // unless it could not be read
};

struct VolumeOptions {
    // Open what this version may not use (uhsfs_super_access() says NONE). Then only
    // super_copy() may be used.
    bool foreign = false;
};

// ---- inodes --------------------------------------------------------------------------------

// A slot that is in use or FREE, with its image.
class Inode {
public:
    [[nodiscard]] std::uint64_t ino() const noexcept { return view_.attr.ino; }
    [[nodiscard]] const uhsfs_attr &attr() const noexcept { return view_.attr; }
    [[nodiscard]] const uhsfs_slot_view &view() const noexcept { return view_; }
    [[nodiscard]] bool free() const noexcept { return view_.attr.state == UHSFS_SLOT_FREE; }
    [[nodiscard]] bool is_dir() const noexcept { return uhsfs_is_dir(view_.attr.mode); }

    // A copy of a slot's image of geo.slot_size bytes, checked; EUCLEAN.
    static Result<Inode> parse(const uhsfs_geometry &geo, const std::uint8_t *slot,
                               const uhsfs_slot_id &id, std::string_view device);

private:
    std::unique_ptr<std::uint8_t[]> image_;
    uhsfs_slot_view view_ = {};
};

struct Name {
    std::uint64_t parent_ino = 0;
    std::uint32_t parent_gen = 0;
    std::uint64_t name_seq = 0;
    std::string name;
};

struct DirEntry {
    std::uint64_t cookie = 0;
    std::uint64_t ino = 0;
    std::uint32_t gen = 0;
    std::uint8_t type = 0;  // DT_...
    std::string name;
};

struct Xattr {
    std::uint8_t space = 0;  // UHSFS_XATTR_...
    std::string name;        // without the space's prefix; empty for ACLs
    std::vector<std::uint8_t> value;
    // "user.comment", "system.posix_acl_access"
    [[nodiscard]] std::string full_name() const;
};

// A block of a directory with its home.
struct BucketBlock {
    std::uint64_t logical = 0;  // in the directory
    uhsfs_bucket_at at = {};    // block: of the chosen copy
    HomeOf<uhsfs_bucket> bucket;
};

// A block of a tree or of xattrs that an inode owns, told before its contents.
using BlockVisitor = std::function<void(std::uint64_t block)>;

// ---- scanning ------------------------------------------------------------------------------

// One slot block of one chunk, valid during the callback.
struct SlotBlock {
    std::uint64_t chunk = 0;
    const uhsfs_chunk_info *info = nullptr;
    std::uint64_t first_ino = 0;
    std::uint64_t in_use = 0;  // bit i: slot first_ino + i is in use, says the chunk
    bool written = false;      // its home was ever written, says the chunk
    Home home;
    // Images of the copies as read, 4096 bytes each; null if unreadable. Of a home that
    // was never written both copies may be garbage.
    std::array<const std::uint8_t *, 2> image = {};
    [[nodiscard]] const std::uint8_t *chosen() const noexcept {
        return home.valid() ? image[static_cast<std::size_t>(home.chosen)] : nullptr;
    }
};

struct ScanOptions {
    unsigned threads = 0;  // 0: as many as the machine has processors
    // Which chunks; all that are made if empty.
    std::function<bool(std::uint64_t chunk, const uhsfs_chunk_info &info)> filter;
};

// ---- the volume ----------------------------------------------------------------------------

class Volume {
public:
    static Result<Volume> open(const std::string &path, OpenMode mode = OpenMode::read,
                               const VolumeOptions &options = {});
    // Takes the device. EINVAL: no uhsfs filesystem (neither copy is recognised); EUCLEAN:
    // both copies are damaged, both faults are named; EOPNOTSUPP: unknown features.
    static Result<Volume> open(Device device, const VolumeOptions &options = {});

    [[nodiscard]] const Device &device() const noexcept { return device_; }
    [[nodiscard]] const std::string &path() const noexcept { return device_.path(); }
    // The superblock that counts.
    [[nodiscard]] const uhsfs_super_info &super() const noexcept { return *super_; }
    [[nodiscard]] const uhsfs_geometry &geo() const noexcept { return super_->geo; }
    [[nodiscard]] const SuperCopy &super_copy(int copy) const { return *copies_.at(copy); }
    // Which copy counts, 0 or 1.
    [[nodiscard]] int super_chosen() const noexcept { return chosen_; }
    [[nodiscard]] uhsfs_access access() const noexcept { return access_; }

    // Reads the copies of a home and chooses. image: 4096 bytes for the chosen copy. record:
    // bytes of a record, less than the block for slots.
    [[nodiscard]] Home read_home(std::uint64_t block, const CopyCheck &check, MutableBytes image,
                                 std::size_t record = block_size) const;

    // ---- chunks and maps
    // The table block that has the descriptor of `chunk`; only blocks whose first chunk is
    // below super().chunks_used were ever written. EINVAL past the last segment.
    [[nodiscard]] Result<HomeOf<uhsfs_table_block>> table_block(std::uint64_t chunk) const;
    // ENOENT: never made.
    [[nodiscard]] Result<uhsfs_chunk_info> chunk(std::uint64_t number) const;
    // half: 0 or 1. Only groups below super().groups_used have sound bitmaps.
    [[nodiscard]] HomeOf<uhsfs_map_block> bitmap(std::uint64_t group, unsigned half) const;
    // which: 0, 1 the intent maps, UHSFS_MAP_WHICH_SUSPECT. The block with the chunk's bit.
    [[nodiscard]] Result<HomeOf<uhsfs_map_block>> chunk_map(std::uint64_t chunk,
                                                            unsigned which) const;
    // True if some intent map says that slots may have changed after the last checkpoint:
    // the filesystem was not unmounted cleanly, or is mounted.
    [[nodiscard]] Result<bool> needs_recovery() const;

    // ---- slots
    // The whole slot block that holds the slot; ENOENT: its chunk was never made.
    [[nodiscard]] Result<HomeOf<SlotImage>> slot_block(std::uint64_t ino) const;
    // ENOENT: FREE, or its chunk was never made, or its block never written.
    [[nodiscard]] Result<Inode> inode(std::uint64_t ino) const;
    // Every slot block of every chunk, in parallel. The callback is called from `threads`
    // threads at once, in no order; `worker` < threads numbers the caller's per-thread state.
    // Errors of reading chunk descriptors, ordered by chunk; slot blocks tell their own. An
    // exception of the callback ends the scan and comes out here.
    std::vector<Error> scan_slots(
        const ScanOptions &options,
        const std::function<void(unsigned worker, const SlotBlock &block)> &each) const;
    [[nodiscard]] static unsigned scan_threads(const ScanOptions &options);

    // ---- what inodes have
    // Sorted by logical block. Nodes of the tree are told to `nodes`.
    [[nodiscard]] Result<std::vector<uhsfs_ext>> extents(const Inode &inode,
                                                         const BlockVisitor &nodes = {}) const;
    // Bytes read, fewer only at the end of the file; holes and unwritten blocks are zeros.
    [[nodiscard]] Result<std::size_t> read(const Inode &inode, std::uint64_t offset,
                                           MutableBytes to) const;
    [[nodiscard]] Result<std::string> readlink(const Inode &inode) const;
    // First the name in the slot, then those of the names tree in its order.
    [[nodiscard]] Result<std::vector<Name>> names(const Inode &inode,
                                                  const BlockVisitor &nodes = {}) const;
    [[nodiscard]] Result<std::vector<Xattr>> xattrs(const Inode &inode,
                                                    const BlockVisitor &nodes = {}) const;

    // ---- directories
    // ENOTDIR, EUCLEAN
    [[nodiscard]] Result<uhsfs_dir_info> dir_info(const Inode &dir) const;
    // The chain of one bucket, from position 0; a damaged block ends it (its record is null).
    // extents: the directory's. EUCLEAN: they do not map a block of the chain.
    [[nodiscard]] Result<std::vector<BucketBlock>> bucket_chain(
        const Inode &dir, const uhsfs_dir_info &info, const std::vector<uhsfs_ext> &extents,
        std::uint32_t bucket) const;
    // All entries in cookie order, unconfirmed ones too.
    [[nodiscard]] Result<std::vector<DirEntry>> entries(const Inode &dir) const;
    // True if the inode claims to have that name in that directory.
    [[nodiscard]] Result<bool> confirms(const Inode &inode, const Inode &dir,
                                        std::string_view name) const;
    // The inode of that name, confirmed by its slot; ENOENT.
    [[nodiscard]] Result<Inode> lookup(const Inode &dir, std::string_view name) const;
    // "a/b/c" from the root, a leading slash or not; symlinks are not followed.
    [[nodiscard]] Result<Inode> resolve(std::string_view path) const;

private:
    explicit Volume(Device device) : device_(std::move(device)) {}
    Result<void> load_super(const VolumeOptions &options);

    Device device_;
    std::array<std::unique_ptr<SuperCopy>, 2> copies_;
    const uhsfs_super_info *super_ = nullptr;
    int chosen_ = 0;
    uhsfs_access access_ = UHSFS_ACCESS_NONE;
};

}  // namespace uhsfs
