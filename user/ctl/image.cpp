// SPDX-License-Identifier: GPL-2.0
/*
 * image: the metadata of a filesystem in a sparse file, for bug reports.
 *
 * Superblocks, bitmaps, the chunk table and the maps have nothing private and are copied as
 * they are, both copies of each home. Slot blocks, buckets, names trees and attributes are
 * cleaned (cleaner.hpp); nodes of extent trees are copied. All of these are found through
 * slots, so that blocks of files are never read. What cannot be read or makes no sense is
 * named and left out.
 *
 * With new names there are two passes. A name in a names tree must stay in its leaf, which
 * restricts what it may become: these are chosen first.
 */
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>

#include "cleaner.hpp"
#include "commands.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

namespace {

class Imager {
public:
    Imager(const Volume &volume, Device &out, NewNames *names, Report &report)
        : volume_(volume),
          out_(out),
          names_(names),
          report_(report),
          cleaner_(volume.geo(), names) {}

    Result<void> run() {
        UHSFS_TRY(out_.resize(volume_.geo().blocks * block_size));
        UHSFS_TRY(copy_fixed());
        if (names_ != nullptr) {
            choosing_ = true;
            UHSFS_TRY(scan());
            choosing_ = false;
        }
        UHSFS_TRY(scan());
        return out_.flush();
    }

    [[nodiscard]] std::uint64_t written() const noexcept { return written_; }

private:
    using Node =
        std::function<Result<void>(std::uint64_t block, MutableBytes image, const KeyRange &range)>;

    // Zeros stay holes.
    Result<void> write(std::uint64_t block, Bytes image) {
        if (choosing_ || all_zero(image.data(), image.size()))
            return {};
        written_++;
        return out_.write(block, image);
    }

    // False: it cannot be read, which is said.
    bool read(std::uint64_t block, MutableBytes image) {
        const auto result = volume_.device().read(block, image);

        if (!result && !choosing_)
            report_.error(result.error());
        return result.has_value();
    }

    Result<void> copy(std::uint64_t first, std::uint64_t count) {
        AlignedBuffer buffer(block_size);

        for (std::uint64_t i = 0; i < count; i++)
            if (read(first + i, buffer.span()))
                UHSFS_TRY(write(first + i, buffer.span()));
        return {};
    }

    // ---- what stands where the superblock says
    Result<void> copy_fixed() {
        const uhsfs_super_info &super = volume_.super();
        const uhsfs_geometry &geo = super.geo;
        const std::uint64_t groups =
            std::min<std::uint64_t>(super.groups_used, uhsfs_group_count(&geo));

        for (const int i : {0, 1})
            UHSFS_TRY(copy(uhsfs_super_block(&geo, i), 1));
        for (std::uint64_t group = 0; group < groups; group++)
            UHSFS_TRY(copy(uhsfs_bitmap_home(&geo, group, 0),
                           std::uint64_t{UHSFS_GROUP_MAPS} * geo.homes));
        for (std::uint32_t i = 0; i < super.segments; i++) {
            const uhsfs_segment_info &segment = super.segment[i];
            const std::uint64_t maps = DIV_ROUND_UP(segment.chunks, UHSFS_MAP_BITS) * geo.homes;
            if (segment.first_chunk < super.chunks_used) {
                const std::uint64_t used = std::min<std::uint64_t>(
                    segment.chunks, super.chunks_used - segment.first_chunk);
                UHSFS_TRY(copy(segment.table, DIV_ROUND_UP(used, UHSFS_TABLE_CHUNKS) * geo.homes));
            }
            for (const std::uint64_t map : {segment.intent[0], segment.intent[1], segment.suspect})
                UHSFS_TRY(copy(map, maps));
        }
        return {};
    }

    // ---- slots and what they point to
    Result<void> scan() {
        Result<void> result;
        const auto errors =
            volume_.scan_slots({.threads = 1, .filter = {}}, [&](unsigned, const SlotBlock &block) {
                if (result)
                    result = slot_block(block);
            });

        if (!choosing_)
            for (const Error &error : errors)
                report_.error(error);
        return result;
    }

    Result<void> slot_block(const SlotBlock &block) {
        const uhsfs_geometry &geo = volume_.geo();

        if (!block.written)
            return {};  // garbage
        for (std::uint32_t i = 0; block.chosen() != nullptr && i < geo.slots_per_block; i++) {
            const uhsfs_slot_id id = {.ino = block.first_ino + i,
                                      .block = block.home.chosen_block(),
                                      .nonce = block.info->nonce};
            const auto inode = Inode::parse(geo, block.chosen() + std::size_t{i} * geo.slot_size,
                                            id, volume_.path());
            if (inode && !inode->free())
                UHSFS_TRY(choosing_ ? names_tree(*inode) : whole_inode(*inode));
        }
        if (choosing_)
            return {};
        if (block.chosen() == nullptr)
            report_.error(block.home.error(volume_.path()));
        AlignedBuffer buffer(block_size);
        for (std::uint32_t i = 0; i < geo.homes; i++) {
            if (block.image.at(i) == nullptr)
                continue;
            std::memcpy(buffer.data(), block.image.at(i), block_size);
            cleaner_.slot_block(buffer.span());
            UHSFS_TRY(write(block.home.block + i, buffer.span()));
        }
        return {};
    }

    Result<void> whole_inode(const Inode &inode) {
        UHSFS_TRY(names_tree(inode));
        UHSFS_TRY(xattr_blocks(inode));
        return extents(inode);
    }

    void bad(const Inode &inode, std::string_view what) {
        if (!choosing_)
            report_.error({.code = EUCLEAN,
                           .object = volume_.path(),
                           .message = fmt::format("inode {}: {}", inode.ino(), what),
                           .hint = {}});
    }

    // Every node once, whatever its neighbours are; the image stays valid until each() returns.
    Result<void> tree(const Inode &inode, std::uint64_t block, const KeyRange &range,
                      unsigned depth, std::unordered_set<std::uint64_t> &seen, std::uint32_t magic,
                      const Node &each) {
        uhsfs_tree_node node = {};
        AlignedBuffer buffer(block_size);

        if (depth == 0 || !uhsfs_range_ok(&volume_.geo(), block, 1) || !seen.insert(block).second) {
            bad(inode, fmt::format("a tree points to block {}, which cannot be a node", block));
            return {};
        }
        if (!read(block, buffer.span()))
            return {};
        std::memcpy(&node, buffer.data(), sizeof(node));
        if (le32_to_cpu(node.h.magic) != magic) {
            bad(inode, fmt::format("block {} is no node of its tree", block));
            return {};
        }
        UHSFS_TRY(each(block, buffer.span(), range));
        if (node.level == 0)
            return {};
        const std::size_t count =
            std::min<std::size_t>(le16_to_cpu(node.count), UHSFS_TREE_NODE_MAX);
        for (std::size_t i = 0; i < count; i++) {
            const KeyRange child = {
                .low = le64_to_cpu(node.ref[i].key),
                .high = i + 1 < count ? le64_to_cpu(node.ref[i + 1].key) - 1 : range.high};
            UHSFS_TRY(
                tree(inode, le64_to_cpu(node.ref[i].block), child, depth - 1, seen, magic, each));
        }
        return {};
    }

    Result<void> names_tree(const Inode &inode) {
        const auto *root =
            static_cast<const uhsfs_names_root *>(inode.view().value[UHSFS_TLV_NAMES]);
        std::unordered_set<std::uint64_t> seen;

        if (root == nullptr)
            return {};
        return tree(inode, le64_to_cpu(root->block), {}, UHSFS_TREE_MAX_DEPTH, seen,
                    UHSFS_TAG_NAMES,
                    [&](std::uint64_t block, MutableBytes image, const KeyRange &range) {
                        cleaner_.names_node(image, range);
                        return write(block, image);
                    });
    }

    Result<void> extents(const Inode &inode) {
        const uhsfs_slot_view &view = inode.view();
        const auto *list = static_cast<const uhsfs_extent *>(view.value[UHSFS_TLV_EXTENTS]);
        const auto *root =
            static_cast<const uhsfs_extent_root *>(view.value[UHSFS_TLV_EXTENT_ROOT]);
        std::unordered_set<std::uint64_t> seen;

        if (list != nullptr)
            UHSFS_TRY(extent_list(inode, list, view.len[UHSFS_TLV_EXTENTS] / sizeof(*list)));
        if (root == nullptr)
            return {};
        return tree(inode, le64_to_cpu(root->block), {}, UHSFS_TREE_MAX_DEPTH, seen,
                    UHSFS_TAG_EXTENT,
                    [&](std::uint64_t block, MutableBytes image, const KeyRange &) -> Result<void> {
                        const auto *node = reinterpret_cast<const uhsfs_tree_node *>(image.data());
                        UHSFS_TRY(write(block, image));
                        if (node->level != 0)
                            return {};
                        return extent_list(
                            inode, node->extent,
                            std::min<std::size_t>(le16_to_cpu(node->count), UHSFS_EXTENT_LEAF_MAX));
                    });
    }

    // Blocks of a directory and of a long symbolic link; those of files are left out.
    Result<void> extent_list(const Inode &inode, const uhsfs_extent *list, std::size_t count) {
        const bool symlink = uhsfs_is_lnk(inode.attr().mode);

        if (!inode.is_dir() && !symlink)
            return {};
        const std::uint64_t scale = inode.is_dir() ? volume_.geo().homes : 1;
        for (std::size_t i = 0; i < count; i++) {
            uhsfs_ext ext = {};
            uhsfs_extent_decode(&list[i], &ext);
            if (!uhsfs_range_ok(&volume_.geo(), ext.physical, ext.len * scale)) {
                bad(inode,
                    fmt::format("an extent covers blocks from {}, past the end", ext.physical));
                continue;
            }
            if (symlink)
                UHSFS_TRY(hidden_target(inode, ext.physical));
            else if ((ext.flags & UHSFS_EXT_UNWRITTEN) == 0)
                UHSFS_TRY(buckets(ext.physical, ext.len * scale));
        }
        return {};
    }

    Result<void> hidden_target(const Inode &inode, std::uint64_t block) {
        AlignedBuffer buffer(block_size);

        std::memset(buffer.data(), hidden, std::min<std::uint64_t>(inode.attr().size, block_size));
        return write(block, buffer.span());
    }

    Result<void> buckets(std::uint64_t first, std::uint64_t count) {
        AlignedBuffer buffer(block_size);

        for (std::uint64_t i = 0; i < count; i++) {
            if (!read(first + i, buffer.span()))
                continue;
            cleaner_.bucket(buffer.span());
            UHSFS_TRY(write(first + i, buffer.span()));
        }
        return {};
    }

    // The stream is put together, cleaned, and cut into the same blocks again.
    Result<void> xattr_blocks(const Inode &inode) {
        const uhsfs_slot_view &view = inode.view();
        const void *root = view.value[UHSFS_TLV_XATTR_ROOT];
        uhsfs_xattr_place place = {};
        uhsfs_fault fault = {};

        if (root == nullptr)
            return {};
        if (uhsfs_xattr_root_decode(root, view.len[UHSFS_TLV_XATTR_ROOT], &volume_.geo(),
                                    inode.ino(), &place, &fault) != 0) {
            report_.error(fault_error(volume_.path(), fault));
            return {};
        }
        std::vector<std::uint64_t> blocks(1, place.block);
        if (place.depth > 1)
            blocks = UHSFS_TRY(xattr_index(place));
        std::vector<AlignedBuffer> images;
        std::vector<std::uint8_t> stream;
        for (const std::uint64_t block : blocks) {
            images.emplace_back(block_size);
            read(block, images.back().span());
            const auto *record = reinterpret_cast<const uhsfs_xattr_block *>(images.back().data());
            stream.insert(stream.end(), std::begin(record->bytes), std::end(record->bytes));
        }
        stream.resize(std::min<std::size_t>(stream.size(), place.bytes));
        Cleaner::xattr_stream(stream);
        for (std::size_t i = 0; i < blocks.size(); i++) {
            cleaner_.xattr_block(images[i].span(), stream, i * UHSFS_XATTR_PAYLOAD);
            UHSFS_TRY(write(blocks[i], images[i].span()));
        }
        return {};
    }

    // The data blocks of a long stream; copies the index itself.
    Result<std::vector<std::uint64_t>> xattr_index(const uhsfs_xattr_place &place) {
        std::vector<std::uint64_t> blocks;
        AlignedBuffer buffer(block_size);

        if (!read(place.block, buffer.span()))
            return blocks;
        const auto *index = reinterpret_cast<const uhsfs_xattr_block *>(buffer.data());
        if (le32_to_cpu(index->h.magic) != UHSFS_TAG_XATTR || index->level == 0)
            return blocks;
        UHSFS_TRY(write(place.block, buffer.span()));
        for (std::uint32_t i = 0; i < uhsfs_xattr_data_blocks(place.bytes); i++) {
            const std::uint64_t block = le64_to_cpu(index->index[i]);
            if (!uhsfs_range_ok(&volume_.geo(), block, 1))
                break;
            blocks.push_back(block);
        }
        return blocks;
    }

    const Volume &volume_;
    Device &out_;
    NewNames *names_;
    Report &report_;
    Cleaner cleaner_;
    bool choosing_ = false;  // the first pass: names are chosen, nothing is written or said
    std::uint64_t written_ = 0;
};

// True if the file is made here; false if it is there and may be overwritten, which waits
// until it is known that nobody uses it. EEXIST unless `force`; never the filesystem itself,
// never a device.
Result<bool> make_file(const std::string &path, const Device &source, bool force) {
    struct stat st = {};

    if (::stat(path.c_str(), &st) == 0) {
        if (!S_ISREG(st.st_mode))
            return fail(0, path, "is no file", "the image is a file of its own");
        if (source.kind() == DeviceKind::file && st.st_dev == source.file_dev() &&
            st.st_ino == source.file_ino())
            return fail(0, path, "is the filesystem itself");
        if (!force)
            return fail(EEXIST, path, "cannot make the image", "--force overwrites it");
        return false;
    }
    unique_fd fd = UHSFS_TRY(open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600));
    UHSFS_TRY(fd.close(path));
    return true;
}

}  // namespace

Result<void> run_image(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0)));
    const std::string &path = arguments.words().at(1);
    std::unique_ptr<NewNames> names;

    const bool made = UHSFS_TRY(make_file(path, volume.device(), arguments.has("force")));
    if (arguments.has("hash-names"))
        names = std::make_unique<NewNames>(volume);
    const auto write = [&]() -> Result<std::uint64_t> {
        Device out = UHSFS_TRY(Device::open(path, OpenMode::write));
        UHSFS_TRY(out.resize(0));
        Imager imager(volume, out, names.get(), report);
        UHSFS_TRY(imager.run());
        return imager.written();
    };
    const auto written = write();
    if (!written) {
        if (made)
            ::unlink(path.c_str());
        return tl::make_unexpected(written.error());
    }
    report.add("image", path);
    report.add("blocks-written", blocks_value(*written));
    if (names) {
        report.add("names-replaced", names->replaced());
        report.add("names-kept", names->kept());
    }
    return {};
}

}  // namespace uhsfs::ctl
