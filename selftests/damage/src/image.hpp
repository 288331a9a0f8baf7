/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An image in a file, to be changed below the level at which anything is checked.
 *
 * There are two ways to change it. edit_home() overwrites what stands there, in all copies,
 * and makes the checksums right: damage. begin_epoch() and what follows it write as the kernel
 * would after a checkpoint, one new image of a home after the other to the copy whose turn it
 * is: an image that was not unmounted.
 */
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "libuhsfs/volume.hpp"

namespace uhsfs::damage {

template <typename T>
T must(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().to_string());
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

// A slot taken apart: attributes, and values of its records by type, empty ones absent.
struct Slot {
    uhsfs_attr attr = {};
    std::array<std::vector<std::uint8_t>, UHSFS_TLV_TYPES> value;
};

// The first name of a slot.
void set_name(Slot &slot, const Inode &dir, std::string_view name, std::uint64_t name_seq);

using Edit = std::function<void(std::uint8_t *bytes)>;

class Image {
public:
    explicit Image(const std::string &path);
    Image(const Image &) = delete;
    Image(Image &&) = delete;
    Image &operator=(const Image &) = delete;
    Image &operator=(Image &&) = delete;
    ~Image();

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] Volume volume() const { return must(Volume::open(path_)); }
    // Of the image as it was made.
    [[nodiscard]] const uhsfs_geometry &geo() const { return super_.geo; }
    [[nodiscard]] const uhsfs_super_info &super() const { return super_; }
    [[nodiscard]] std::uint64_t blocks() const { return size_ / block_size; }
    [[nodiscard]] std::uint8_t *at(std::uint64_t block) const {
        return bytes_ + block * block_size;
    }

    // As it was made; begin_epoch() is forgotten.
    void restore();

    // Puts the image on a device. content: what it has; empty if that is not known.
    void put_on(int device, std::vector<std::uint8_t> &content) const;
    // The device has this image, bit for bit.
    [[nodiscard]] bool same_as(int device) const;

    [[nodiscard]] Inode inode(std::string_view where) const {
        return must(volume().resolve(where));
    }

    // A block that nothing owns; another one each time. count: so many behind one another.
    std::uint64_t free_blocks(std::uint64_t count = 1);

    // ---- damage
    // The blocks of a home.
    [[nodiscard]] std::vector<std::uint64_t> copies(std::uint64_t home) const;
    [[nodiscard]] std::uint64_t slot_home(std::uint64_t ino) const;
    // All copies of a home; checksums by magic.
    void edit_home(std::uint64_t home, const Edit &edit) const;
    // A block that has no second copy.
    void edit_block(std::uint64_t block, const Edit &edit) const;
    // The bytes of a slot.
    void edit_slot(std::uint64_t ino, const std::function<void(uhsfs_slot &)> &edit) const;
    // A slot is built anew in place.
    void rebuild_slot(std::uint64_t ino, const std::function<void(Slot &)> &edit) const;
    // Both superblocks.
    void edit_super(const std::function<void(uhsfs_super &)> &edit) const;

    // ---- what a crash leaves
    // Opens the epoch after the checkpointed one: everything below belongs to it.
    void begin_epoch();
    [[nodiscard]] std::uint32_t epoch() const { return epoch_; }
    std::uint64_t draw_seq() { return uhsfs_seq_make(epoch_, ++counter_); }
    // Marks the chunk of an inode.
    void mark(std::uint64_t ino);
    void suspect(std::uint64_t ino);
    [[nodiscard]] Slot slot(std::uint64_t ino) const;
    // Writes the slot's block with this slot in it.
    void commit(Slot slot);
    // For a new inode, in a new chunk if the others are full.
    Slot new_slot(std::uint16_t mode);
    // The same in a new chunk, whose descriptor is written.
    Slot new_slot_in_new_chunk(std::uint16_t mode, std::uint64_t *chunk);
    void free_slot(std::uint64_t ino);
    // The directory's index.
    void insert_entry(const Inode &dir, std::string_view name, std::uint64_t ino, std::uint32_t gen,
                      std::uint8_t type);
    void remove_entry(const Inode &dir, std::string_view name);
    // An empty index for a new directory: its bucket is written, its records are set.
    void make_index(Slot &dir);
    // A tree of further names with this one.
    void add_link(Slot &slot, const Inode &dir, std::string_view name, std::uint64_t name_seq);
    // The block that the last write of this home went to, and the other.
    [[nodiscard]] std::uint64_t newest_copy(std::uint64_t home) const;

private:
    void write_home(std::uint64_t home, const void *image, bool first);
    void commit_block(const Slot &slot, std::uint8_t *image, std::uint64_t home);
    void set_map_bit(std::uint64_t chunk, unsigned which);
    std::vector<std::uint8_t> build(const Slot &slot) const;
    void edit_bucket(const Inode &dir, std::string_view name,
                     const std::function<bool(uhsfs_bucket &, std::uint64_t hash)> &edit);

    std::string path_;
    std::size_t size_ = 0;
    std::uint8_t *bytes_ = nullptr;
    std::vector<std::uint8_t> original_;
    uhsfs_super_info super_ = {};
    std::vector<std::uint8_t> used_;  // bits of blocks
    std::uint32_t epoch_ = 0;
    std::uint32_t counter_ = 0;
    std::set<std::uint64_t> marked_;  // chunks
};

}  // namespace uhsfs::damage
