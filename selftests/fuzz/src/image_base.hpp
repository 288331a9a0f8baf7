/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Small images with one of everything, in memory: what the image target changes.
 */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs::fuzz {

class ImageBase {
public:
    struct Shape {
        unsigned slot_size;
        bool shadow;
        bool recovery;  // chunks are marked, suspect, and a slot has an intent
    };

    explicit ImageBase(const Shape &shape);
    ImageBase(const ImageBase &) = delete;
    ImageBase &operator=(const ImageBase &) = delete;

    [[nodiscard]] const Shape &shape() const { return shape_; }
    [[nodiscard]] const uhsfs_geometry &geo() const { return geo_; }
    [[nodiscard]] const std::string &path() const { return path_; }
    // Blocks that hold metadata that counts: a checker must see when one of them is damaged.
    [[nodiscard]] const std::vector<std::uint64_t> &metadata() const { return metadata_; }
    [[nodiscard]] bool is_metadata(std::uint64_t block) const;
    [[nodiscard]] std::uint64_t blocks() const { return image_.size() / block_size; }

    [[nodiscard]] const std::uint8_t *block(std::uint64_t number) const {
        return image_.data() + number * block_size;
    }
    // Puts a changed block into the file, or the original one back.
    void write(std::uint64_t number, const std::uint8_t *bytes) const;
    void restore(std::uint64_t number) const { write(number, block(number)); }

private:
    void fill();
    void prepare_recovery();
    void find_metadata();
    [[nodiscard]] Volume volume() const;

    const Shape shape_;
    unique_fd fd_;
    std::string path_;
    uhsfs_geometry geo_ = {};
    std::vector<std::uint8_t> image_;
    std::vector<std::uint64_t> metadata_;  // ascending
};

}  // namespace uhsfs::fuzz
