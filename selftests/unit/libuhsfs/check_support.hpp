/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An image to damage: made from a small tree, with functions that change one structure of it
 * and give it a right checksum again.
 */
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "libuhsfs/check.hpp"
#include "libuhsfs/import.hpp"
#include "libuhsfs/volume.hpp"
#include "support/scratch.hpp"

namespace uhsfs::test {

template <typename T>
T must(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().to_string());
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

struct Shape {
    std::uint64_t blocks = 2048;
    unsigned slot_size = 1024;
    bool shadow = false;
};

inline std::string shape_name(const Shape &shape) {
    return fmt::format("slots{}{}", shape.slot_size, shape.shadow ? "Shadow" : "Device");
}

// A tree with everything that has a structure of its own: a directory of several buckets, an
// extent tree, a names tree, attributes in blocks, inline data, symlinks.
inline void make_tree(const Scratch &scratch, bool small, unsigned more_files) {
    const std::filesystem::path top = scratch.path() / "tree";
    const unsigned files = (small ? 8 : 300) + more_files;
    const unsigned links = small ? 30 : 60;
    const unsigned pieces = small ? 60 : 200;

    std::filesystem::create_directories(top / "a" / "b" / "c");
    std::filesystem::create_directories(top / "many");
    for (unsigned i = 0; i < files; i++)
        scratch.write(fmt::format("tree/many/file-{:04}", i), std::string(i * 5, 'x'));
    scratch.write("tree/a/linked", "linked");
    for (unsigned i = 0; i < links; i++)
        std::filesystem::create_hard_link(
            top / "a" / "linked",
            top / "a" / fmt::format("link-{:03}-{}", i, std::string(40, 'n')));
    {
        std::ofstream pieced(top / "pieces", std::ios::binary);
        for (unsigned i = 0; i < pieces; i++) {
            pieced.seekp(static_cast<std::streamoff>(i) * 2 * 4096);
            pieced << std::string(4096, 'p');
        }
    }
    scratch.write("tree/data", std::string(20000, 'd'));
    scratch.write("tree/more", std::string(20000, 'm'));
    std::filesystem::create_symlink(std::string(30, 't'), top / "short");
    std::filesystem::create_symlink(std::string(2000, 't'), top / "long");
    const std::string value(1500, 'v');
    for (const char *name : {"user.one", "user.two", "user.three", "user.four"})
        if (::setxattr((top / "data").c_str(), name, value.data(), value.size(), 0) != 0)
            throw std::runtime_error("the filesystem of the test folder has no user attributes");
}

class Image {
public:
    explicit Image(const Shape &shape = {}, bool small = true, unsigned more_files = 0)
        : shape_(shape) {
        if (!small)
            shape_.blocks *= 4;
        make_tree(scratch_, small, more_files);
        path_ = scratch_ / "image";
        make();
    }

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] Volume volume() const { return must(Volume::open(path_)); }
    [[nodiscard]] Inode inode(std::string_view where) const {
        return must(volume().resolve(where));
    }
    [[nodiscard]] std::uint64_t ino(std::string_view where) const { return inode(where).ino(); }

    [[nodiscard]] CheckReport check(const CheckOptions &options = {
                                        .threads = 2, .progress = {}, .cancelled = {}}) const {
        return must(check_volume(volume(), options));
    }

    // ---- editing

    void edit_block(std::uint64_t block, const std::function<void(std::uint8_t *)> &edit) const {
        AlignedBuffer buffer(block_size);
        const Device device = must(Device::open(path_, OpenMode::write));

        must(device.read(block, buffer.span()));
        edit(buffer.data());
        must(device.write(block, buffer.span()));
    }

    // Any record but slots.
    template <typename Record>
    void edit(std::uint64_t block, const std::function<void(Record &)> &edit) const {
        edit_block(block, [&](std::uint8_t *bytes) {
            edit(*reinterpret_cast<Record *>(bytes));
            uhsfs_record_seal(bytes, block_size);
        });
    }

    void edit_map(std::uint64_t block, const std::function<void(uhsfs_map_block &)> &edit) const {
        edit_block(block, [&](std::uint8_t *bytes) {
            auto *map = reinterpret_cast<uhsfs_map_block *>(bytes);
            edit(*map);
            uhsfs_map_seal(map);
        });
    }

    // copy: 0, 1 or both (-1).
    void edit_super(const std::function<void(uhsfs_super_info &)> &edit, int copy = -1) const {
        const Volume at = volume();
        for (int i = 0; i < 2; i++) {
            if (copy >= 0 && i != copy)
                continue;
            uhsfs_super_info info = at.super_copy(i).info;
            const std::uint64_t block = uhsfs_super_block(&at.geo(), i);
            edit(info);
            edit_block(block, [&](std::uint8_t *bytes) {
                uhsfs_super_encode(&info, block, reinterpret_cast<uhsfs_super *>(bytes));
            });
        }
    }

    // The block that holds a slot: of the copy that counts.
    [[nodiscard]] std::uint64_t slot_block(std::uint64_t ino) const {
        return must(volume().slot_block(ino)).home.chosen_block();
    }

    // Changes a slot: its bytes and what is in it before.
    void edit_slot(std::uint64_t ino,
                   const std::function<void(std::uint8_t *, const uhsfs_slot_view &)> &edit) const {
        const Volume at = volume();
        const std::uint64_t block = slot_block(ino);
        const uhsfs_chunk_info chunk = must(at.chunk(uhsfs_ino_chunk(&at.geo(), ino)));

        edit_block(block, [&](std::uint8_t *bytes) {
            std::uint8_t *slot = bytes + uhsfs_slot_offset(&at.geo(), ino);
            auto *raw = reinterpret_cast<uhsfs_slot *>(slot);
            const uhsfs_slot_id id = {.ino = ino, .block = block, .nonce = chunk.nonce};
            uhsfs_slot_view view = {};
            if (uhsfs_slot_parse(&at.geo(), slot, &id, &view, nullptr) != 0)
                throw std::runtime_error("the slot is damaged before it is edited");
            edit(slot, view);
            uhsfs_slot_block_seal(&at.geo(), bytes, block, le64_to_cpu(raw->block_seq));
        });
    }

    void edit_header(std::uint64_t ino, const std::function<void(uhsfs_slot &)> &edit) const {
        edit_slot(ino, [&](std::uint8_t *slot, const uhsfs_slot_view &) {
            edit(*reinterpret_cast<uhsfs_slot *>(slot));
        });
    }

    // Builds a slot anew with some of its TLV records changed or left out: edit returns false
    // for those that go, and may change the bytes.
    using Body = std::vector<std::uint8_t>;
    void rebuild_slot(std::uint64_t ino, const std::function<void(uhsfs_attr &)> &attributes,
                      const std::function<bool(std::uint16_t, Body &)> &body) const {
        const uhsfs_geometry geo = volume().geo();
        edit_slot(ino, [&](std::uint8_t *slot, const uhsfs_slot_view &view) {
            std::vector<std::uint8_t> fresh(geo.slot_size);
            uhsfs_slot_builder builder = {};
            uhsfs_attr attr = view.attr;
            attributes(attr);
            uhsfs_slot_begin(&builder, &geo, fresh.data(), &attr);
            for (std::uint16_t type = 1; type < UHSFS_TLV_TYPES; type++) {
                Body value;
                if (const auto *old = static_cast<const std::uint8_t *>(view.value[type]))
                    value.assign(old, old + view.len[type]);
                if (body(type, value) && !value.empty() &&
                    uhsfs_slot_put(&builder, type, value.data(),
                                   static_cast<std::uint32_t>(value.size())) != 0)
                    throw std::runtime_error("the slot is full");
            }
            uhsfs_slot_finish(&builder);
            const auto *old = reinterpret_cast<const uhsfs_slot *>(slot);
            auto *raw = reinterpret_cast<uhsfs_slot *>(fresh.data());
            raw->h.flags = old->h.flags;
            raw->block_seq = old->block_seq;
            std::memcpy(slot, fresh.data(), fresh.size());
        });
    }

    void edit_name(std::uint64_t ino, const std::function<void(uhsfs_name &)> &edit) const {
        rebuild_slot(
            ino, [](uhsfs_attr &) {},
            [&](std::uint16_t type, Body &value) {
                if (type == UHSFS_TLV_NAME)
                    edit(*reinterpret_cast<uhsfs_name *>(value.data()));
                return true;
            });
    }

    // Blocks of a directory's bucket chain.
    [[nodiscard]] std::vector<std::uint64_t> chain(std::string_view where,
                                                   std::uint32_t bucket) const {
        const Volume at = volume();
        const Inode dir = must(at.resolve(where));
        std::vector<std::uint64_t> blocks;
        for (const BucketBlock &block :
             must(at.bucket_chain(dir, must(at.dir_info(dir)), must(at.extents(dir)), bucket)))
            blocks.push_back(block.bucket.home.chosen_block());
        return blocks;
    }

    // Calls edit on the bucket block of a directory that has the name, with its offset.
    void edit_entry(std::string_view where, std::string_view name,
                    const std::function<void(uhsfs_bucket &, std::uint32_t)> &edit_at) const {
        const Volume at = volume();
        const Inode dir = must(at.resolve(where));
        const auto *bytes = reinterpret_cast<const u8 *>(name.data());
        const auto len = static_cast<std::uint8_t>(name.size());
        const std::uint64_t hash = uhsfs_dir_hash(&at.geo(), bytes, len);
        const std::uint32_t buckets = must(at.dir_info(dir)).buckets;
        bool found = false;
        for (const std::uint64_t block : chain(where, uhsfs_dir_bucket(hash, buckets)))
            edit<uhsfs_bucket>(block, [&](uhsfs_bucket &bucket) {
                const int offset = uhsfs_bucket_find(&bucket, 0, hash, bytes, len);
                if (offset < 0 || found)
                    return;
                found = true;
                edit_at(bucket, static_cast<std::uint32_t>(offset));
            });
        if (!found)
            throw std::runtime_error("no such entry");
    }

    // The entry at an offset, to write to.
    static uhsfs_entry &entry_at(uhsfs_bucket &bucket, std::uint32_t offset) {
        return *reinterpret_cast<uhsfs_entry *>(bucket.entries + offset);
    }

    // Sets bits of chunk maps: the chunk becomes suspect, or marked in epoch E + ahead.
    void set_suspect(std::uint64_t chunk) const {
        set_chunk_bit(chunk, UHSFS_MAP_WHICH_SUSPECT, 0);
    }
    void set_marked(std::uint64_t chunk, std::uint32_t ahead = 1) const {
        const std::uint32_t epoch = volume().super().epoch + ahead;
        raise_seq(epoch);
        set_chunk_bit(chunk, epoch & 1, epoch);
    }
    // What a mount does before it writes anything of an epoch.
    void raise_seq(std::uint32_t epoch) const {
        edit_super(
            [=](uhsfs_super_info &info) {
                info.seq = std::max<u64>(info.seq, uhsfs_seq_make(epoch, 1));
            },
            volume().super_chosen());
    }
    [[nodiscard]] std::uint64_t chunk_of(std::uint64_t ino) const {
        return uhsfs_ino_chunk(&volume().geo(), ino);
    }

    // Flips one bit of a file's bytes.
    void flip(std::uint64_t byte, unsigned bit) const {
        std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(static_cast<std::streamoff>(byte));
        const int value = file.get();
        file.seekp(static_cast<std::streamoff>(byte));
        file.put(static_cast<char>(value ^ (1 << bit)));
    }

private:
    void set_chunk_bit(std::uint64_t chunk, unsigned which, std::uint32_t epoch) const {
        uhsfs_place place = {};
        const Volume at = volume();
        uhsfs_chunk_map_place(&at.super(), chunk, which, &place);
        const std::uint64_t block = must(at.chunk_map(chunk, which)).home.chosen_block();
        edit_map(block, [&](uhsfs_map_block &map) {
            if (epoch != 0)
                map.epoch = cpu_to_le32(epoch);
            uhsfs_map_set(map.bits, place.index);
            map.h.seq = cpu_to_le64(le64_to_cpu(map.h.seq) + 1);
        });
    }

    void make() const {
        constexpr std::int64_t now_ns = 1'600'000'000'000'000'000;
        const Uuid uuid = {1, 2, 3};
        const KeySource keys = KeySource::repeatable(uuid, now_ns);

        std::ofstream(path_, std::ios::app).close();
        std::filesystem::resize_file(path_, shape_.blocks * block_size);
        const Device device = must(Device::open(path_, OpenMode::write));
        const uhsfs_super_info layout = must(make_layout({.blocks = shape_.blocks,
                                                          .slot_size = shape_.slot_size,
                                                          .erase_unit = UHSFS_ERASE_UNIT_MIN,
                                                          .shadow = shape_.shadow,
                                                          .uuid = uuid,
                                                          .label = "test",
                                                          .writer = "test",
                                                          .now_ns = now_ns},
                                                         keys));
        Builder builder(&device, layout, keys);
        must(builder.begin());
        must(import_tree(builder, {.source = scratch_ / "tree",
                                   .now_ns = now_ns,
                                   .repeatable = true,
                                   .image = {},
                                   .progress = {}}));
        must(builder.finish());
    }

    Shape shape_;
    Scratch scratch_;
    std::string path_;
};

inline std::string all_text(const CheckReport &report) {
    std::string text;
    for (const Finding &finding : report.findings)
        text += finding.text() + "\n";
    for (const Finding &note : report.notes)
        text += "note: " + note.text() + "\n";
    return text.empty() ? "nothing" : text;
}

inline bool has(const std::vector<Finding> &list, std::string_view object, std::uint64_t id,
                std::string_view field) {
    for (const Finding &finding : list)
        if (finding.fault.object == object && finding.fault.id == id &&
            finding.fault.field == field)
            return true;
    return false;
}

}  // namespace uhsfs::test

// A finding about that field of that object is there.
#define EXPECT_FINDING(report, object, id, field)                                    \
    EXPECT_TRUE(::uhsfs::test::has((report).findings, object, id, field))            \
        << "no finding on " << (object) << " " << (id) << " " << (field) << " in:\n" \
        << ::uhsfs::test::all_text(report)
#define EXPECT_NOTE(report, object, id, field)                                    \
    EXPECT_TRUE(::uhsfs::test::has((report).notes, object, id, field))            \
        << "no note on " << (object) << " " << (id) << " " << (field) << " in:\n" \
        << ::uhsfs::test::all_text(report)
#define EXPECT_CLEAN(report) EXPECT_TRUE((report).clean()) << ::uhsfs::test::all_text(report)
