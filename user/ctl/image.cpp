// SPDX-License-Identifier: GPL-2.0
/*
 * image: the metadata of a filesystem in a sparse file, for bug reports.
 *
 * Superblocks, bitmaps, the chunk table and the maps stand where the superblock says, both
 * copies of each home; slot blocks, buckets, nodes of trees and attributes are found through
 * slots. On a damaged filesystem any of these places may hold data of files, so that only
 * what says that it is the record in question is copied, cleaned (cleaner.hpp). What cannot be
 * read or is something else is named and left out.
 *
 * With new names there are two passes. A name in a names tree must stay in its leaf, which
 * restricts what it may become: these are chosen first. Keys in inner nodes are hashes of old
 * names, from which these could be guessed; they become the lowest that the new names to the
 * left of them allow, which is never above the old key.
 */
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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
    struct Walk {
        const Inode &inode;
        std::uint32_t magic;
        std::unordered_set<std::uint64_t> seen;
        std::uint64_t next_key = 0;  // above all new keys so far
    };
    // Where a node may stand in its tree; new_low: the key that its parent has for it now.
    struct Position {
        KeyRange range;
        std::uint64_t new_low = 0;
        unsigned depth = UHSFS_TREE_MAX_DEPTH;
    };

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

    void left_out(std::uint64_t block, std::string_view what) {
        report_.error(
            {.code = EUCLEAN,
             .object = volume_.path(),
             .message = fmt::format("block {} is no {} of this filesystem: left out", block, what),
             .hint = {}});
    }

    Result<void> copy_super(std::uint64_t block) {
        AlignedBuffer buffer(block_size);

        if (!read(block, buffer.span()))
            return {};
        if (!cleaner_.is_super(buffer.span(), block)) {
            left_out(block, "superblock");
            return {};
        }
        cleaner_.super(buffer.span());
        return write(block, buffer.span());
    }

    Result<void> copy(std::uint64_t first, std::uint64_t count, std::uint32_t magic,
                      std::string_view what) {
        AlignedBuffer buffer(block_size);

        for (std::uint64_t block = first; block < first + count; block++) {
            if (!read(block, buffer.span()) || all_zero(buffer.data(), block_size))
                continue;
            if (cleaner_.is_record(buffer.span(), magic, block, 0)) {
                Cleaner::plain(buffer.span());
                UHSFS_TRY(write(block, buffer.span()));
            } else {
                left_out(block, what);
            }
        }
        return {};
    }

    // ---- what stands where the superblock says
    Result<void> copy_fixed() {
        const uhsfs_super_info &super = volume_.super();
        const uhsfs_geometry &geo = super.geo;
        const std::uint64_t groups =
            std::min<std::uint64_t>(super.groups_used, uhsfs_group_count(&geo));

        for (const int i : {0, 1})
            UHSFS_TRY(copy_super(uhsfs_super_block(&geo, i)));
        for (std::uint64_t group = 0; group < groups; group++)
            UHSFS_TRY(copy(uhsfs_bitmap_home(&geo, group, 0),
                           std::uint64_t{UHSFS_GROUP_MAPS} * geo.homes, UHSFS_TAG_BITMAP,
                           "bitmap"));
        for (std::uint32_t i = 0; i < super.segments; i++) {
            const uhsfs_segment_info &segment = super.segment[i];
            const std::uint64_t maps = DIV_ROUND_UP(segment.chunks, UHSFS_MAP_BITS) * geo.homes;
            if (segment.first_chunk < super.chunks_used) {
                const std::uint64_t used = std::min<std::uint64_t>(
                    segment.chunks, super.chunks_used - segment.first_chunk);
                UHSFS_TRY(copy(segment.table, DIV_ROUND_UP(used, UHSFS_TABLE_CHUNKS) * geo.homes,
                               UHSFS_TAG_CHUNKS, "chunk table"));
            }
            for (const std::uint64_t map : segment.intent)
                UHSFS_TRY(copy(map, maps, UHSFS_TAG_INTENT, "intent map"));
            UHSFS_TRY(copy(segment.suspect, maps, UHSFS_TAG_SUSPECT, "suspect map"));
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

    // Every node once, whatever its neighbours are.
    Result<void> tree(Walk &walk, std::uint64_t block, const Position &at) {
        uhsfs_tree_node node = {};
        AlignedBuffer buffer(block_size);

        if (at.depth == 0 || !uhsfs_range_ok(&volume_.geo(), block, 1) ||
            !walk.seen.insert(block).second) {
            bad(walk.inode,
                fmt::format("a tree points to block {}, which cannot be a node", block));
            return {};
        }
        if (!read(block, buffer.span()))
            return {};
        if (!cleaner_.is_record(buffer.span(), walk.magic, block, walk.inode.ino())) {
            bad(walk.inode, fmt::format("block {} is no node of its tree", block));
            return {};
        }
        std::memcpy(&node, buffer.data(), sizeof(node));
        if (node.level == 0)
            return leaf(walk, block, buffer.span(), at.range);
        const bool sound = Cleaner::is_sound(buffer.span());
        const std::size_t count =
            std::min<std::size_t>(le16_to_cpu(node.count), UHSFS_TREE_NODE_MAX);
        Position child = {.range = {}, .new_low = at.new_low, .depth = at.depth - 1};
        for (std::size_t i = 0; i < count; i++) {
            // What a damaged node says of its children restricts nothing.
            if (sound)
                child.range = {
                    .low = le64_to_cpu(node.ref[i].key),
                    .high = i + 1 < count ? le64_to_cpu(node.ref[i + 1].key) - 1 : at.range.high};
            if (i > 0)
                child.new_low = std::max(walk.next_key, child.new_low + 1);
            if (names_ != nullptr && walk.magic == UHSFS_TAG_NAMES) {
                const __le64 key = cpu_to_le64(child.new_low);
                std::memcpy(
                    buffer.data() + offsetof(uhsfs_tree_node, ref) + i * sizeof(node.ref[0]), &key,
                    sizeof(key));
            }
            UHSFS_TRY(tree(walk, le64_to_cpu(node.ref[i].block), child));
        }
        return inner(block, buffer.span(), sound);
    }

    // A node whose keys have been changed.
    Result<void> inner(std::uint64_t block, MutableBytes image, bool sound) {
        if (sound)
            uhsfs_record_seal(image.data(), image.size());
        Cleaner::plain(image);
        return write(block, image);
    }

    Result<void> leaf(Walk &walk, std::uint64_t block, MutableBytes image, const KeyRange &range) {
        uhsfs_tree_node node = {};

        if (walk.magic == UHSFS_TAG_NAMES) {
            if (const auto last = cleaner_.names_leaf(image, range))
                walk.next_key = std::max(walk.next_key, *last + 1);
            return write(block, image);
        }
        std::memcpy(&node, image.data(), sizeof(node));
        Cleaner::plain(image);
        UHSFS_TRY(write(block, image));
        return extent_list(walk.inode, node.extent,
                           std::min<std::size_t>(le16_to_cpu(node.count), UHSFS_EXTENT_LEAF_MAX));
    }

    Result<void> names_tree(const Inode &inode) {
        const auto *root =
            static_cast<const uhsfs_names_root *>(inode.view().value[UHSFS_TLV_NAMES]);
        Walk walk = {.inode = inode, .magic = UHSFS_TAG_NAMES, .seen = {}};

        return root != nullptr ? tree(walk, le64_to_cpu(root->block), {}) : Result<void>();
    }

    Result<void> extents(const Inode &inode) {
        const uhsfs_slot_view &view = inode.view();
        const auto *list = static_cast<const uhsfs_extent *>(view.value[UHSFS_TLV_EXTENTS]);
        const auto *root =
            static_cast<const uhsfs_extent_root *>(view.value[UHSFS_TLV_EXTENT_ROOT]);
        Walk walk = {.inode = inode, .magic = UHSFS_TAG_EXTENT, .seen = {}};

        if (list != nullptr)
            UHSFS_TRY(extent_list(inode, list, view.len[UHSFS_TLV_EXTENTS] / sizeof(*list)));
        return root != nullptr ? tree(walk, le64_to_cpu(root->block), {}) : Result<void>();
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
            blocks = UHSFS_TRY(xattr_index(inode, place));
        std::vector<AlignedBuffer> images;
        std::vector<std::uint8_t> stream;
        bool whole = blocks.size() == uhsfs_xattr_data_blocks(place.bytes);
        for (std::uint64_t &block : blocks) {
            images.emplace_back(block_size);
            if (!is_xattr_block(inode, block, images.back().span(), 0))
                block = 0;
            whole = whole && block != 0 && Cleaner::is_sound(images.back().span());
            const auto *record = reinterpret_cast<const uhsfs_xattr_block *>(images.back().data());
            stream.insert(stream.end(), std::begin(record->bytes), std::end(record->bytes));
        }
        stream.resize(std::min<std::size_t>(stream.size(), place.bytes));
        // Without a part of it, nobody knows where names are and where values.
        if (!whole)
            stream.clear();
        Cleaner::xattr_stream(stream);
        for (std::size_t i = 0; i < blocks.size(); i++) {
            if (blocks[i] == 0)
                continue;
            Cleaner::xattr_block(images[i].span(), stream, i * UHSFS_XATTR_PAYLOAD);
            UHSFS_TRY(write(blocks[i], images[i].span()));
        }
        return {};
    }

    bool is_xattr_block(const Inode &inode, std::uint64_t block, MutableBytes image,
                        unsigned level) {
        if (!read(block, image))
            return false;
        const auto *record = reinterpret_cast<const uhsfs_xattr_block *>(image.data());
        if (cleaner_.is_record(image, UHSFS_TAG_XATTR, block, inode.ino()) &&
            le16_to_cpu(record->level) == level)
            return true;
        bad(inode, fmt::format("block {} is none of its attributes", block));
        return false;
    }

    // The data blocks of a long stream; copies the index itself.
    Result<std::vector<std::uint64_t>> xattr_index(const Inode &inode,
                                                   const uhsfs_xattr_place &place) {
        std::vector<std::uint64_t> blocks;
        AlignedBuffer buffer(block_size);
        uhsfs_xattr_block index = {};

        if (!is_xattr_block(inode, place.block, buffer.span(), 1))
            return blocks;
        std::memcpy(&index, buffer.data(), sizeof(index));
        Cleaner::xattr_block(buffer.span(), {}, 0);
        UHSFS_TRY(write(place.block, buffer.span()));
        for (std::uint32_t i = 0; i < uhsfs_xattr_data_blocks(place.bytes); i++) {
            const std::uint64_t block = le64_to_cpu(index.index[i]);
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
