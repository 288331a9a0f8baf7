// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Volumes: superblocks, homes, chunks, maps and slots.
 *
 * Everything that has a home is read in one way: the copies are read, the core checks
 * each, and uhsfs_home_choose() says which one counts.
 */
#include "libuhsfs/volume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace uhsfs {

// ---- faults --------------------------------------------------------------------------------

namespace {

// Block numbers and counts as people read them; keys and magic numbers as they stand on disk.
std::string number_text(std::uint64_t number) {
    return number <= UINT32_MAX ? fmt::format("{}", number) : fmt::format("{:#x}", number);
}

}  // namespace

std::string fault_text(const uhsfs_fault &fault) {
    return fmt::format("{} {}: {} is {}: {} ({})", fault.object, fault.id, fault.field,
                       number_text(fault.value), fault.rule, number_text(fault.limit));
}

Error fault_error(std::string_view object, const uhsfs_fault &fault) {
    return {
        .code = EUCLEAN, .object = std::string(object), .message = fault_text(fault), .hint = {}};
}

// ---- homes ---------------------------------------------------------------------------------

namespace {

std::string copy_text(const Copy &copy, std::uint64_t block) {
    if (copy.code == EUCLEAN)
        return fault_text(copy.fault);
    return fmt::format("cannot read block {} ({})", block, std::strerror(copy.code));
}

}  // namespace

Error Home::error(std::string_view device) const {
    std::string message = copy_text(copy[0], block);
    int code = copy[0].code;

    if (copies == 2) {
        message =
            fmt::format("both copies are bad: {}; {}", message, copy_text(copy[1], block + 1));
        if (copy[1].code == EUCLEAN)
            code = EUCLEAN;
    }
    return {.code = code, .object = std::string(device), .message = message, .hint = {}};
}

void Home::choose() {
    if (copies == 1) {
        chosen = copy[0].code == 0 ? 0 : -1;
        return;
    }
    const uhsfs_copy a = {.valid = copy[0].code == 0, .seq = copy[0].seq};
    const uhsfs_copy b = {.valid = copy[1].code == 0, .seq = copy[1].seq};
    chosen = uhsfs_home_choose(&a, &b, &suspicious);
    if (chosen < 0)
        chosen = -1;
}

void Home::compare(const std::array<const std::uint8_t *, 2> &images, std::size_t record) {
    if (copies == 1 || copy[0].code != 0 || copy[1].code != 0 || copy[0].seq != copy[1].seq)
        return;
    for (std::size_t at = 0; at < block_size; at += record)
        differ = differ || !uhsfs_record_same(images[0] + at, images[1] + at, record);
}

Home Volume::read_home(std::uint64_t block, const CopyCheck &check, MutableBytes image,
                       std::size_t record) const {
    AlignedBuffer buffer(geo().homes * block_size);
    Home home;

    home.block = block;
    home.copies = geo().homes;
    for (unsigned i = 0; i < home.copies; i++) {
        const MutableBytes part = buffer.span().subspan(i * block_size, block_size);
        Copy &copy = home.copy[i];
        const auto read = device_.read(block + i, part);
        copy.code = read ? -check(part.data(), block + i, copy) : read.error().code;
    }
    home.choose();
    home.compare({buffer.data(), buffer.data() + (home.copies - 1) * block_size}, record);
    if (home.valid())
        std::memcpy(image.data(),
                    buffer.data() + static_cast<std::size_t>(home.chosen) * block_size, block_size);
    return home;
}

namespace {

template <typename Record, typename Check>
HomeOf<Record> read_record(const Volume &volume, std::uint64_t block, Check check,
                           std::size_t record_size = block_size) {
    static_assert(sizeof(Record) == block_size);
    HomeOf<Record> result;
    auto record = std::make_unique<Record>();

    result.home = volume.read_home(
        block,
        [&](const std::uint8_t *image, std::uint64_t at, Copy &copy) {
            return check(reinterpret_cast<const Record *>(image), at, copy);
        },
        {reinterpret_cast<std::uint8_t *>(record.get()), block_size}, record_size);
    if (result.home.valid())
        result.record = std::move(record);
    return result;
}

void take_header(const uhsfs_header &header, Copy &copy) { copy.seq = le64_to_cpu(header.seq); }

}  // namespace

// ---- superblock ----------------------------------------------------------------------------

Result<Volume> Volume::open(const std::string &path, OpenMode mode, const VolumeOptions &options) {
    return open(UHSFS_TRY(Device::open(path, mode)), options);
}

Result<Volume> Volume::open(Device device, const VolumeOptions &options) {
    Volume volume(std::move(device));

    UHSFS_TRY(volume.load_super(options));
    return volume;
}

namespace {

void decode_super(SuperCopy &copy, std::uint64_t block) {
    uhsfs_super raw = {};

    copy.block = block;
    std::memcpy(&raw, copy.raw.data(), sizeof(raw));
    copy.recognised = uhsfs_super_recognise(copy.raw.data());
    copy.code = -uhsfs_super_decode(&raw, block, &copy.info, &copy.fault);
}

std::unique_ptr<SuperCopy> read_super(const Device &device, std::uint64_t block) {
    auto copy = std::make_unique<SuperCopy>();

    copy->block = block;
    const auto read = device.read(block, copy->raw);
    if (read)
        decode_super(*copy, block);
    else
        copy->code = read.error().code;
    return copy;
}

// Copy 1 when copy 0 does not say how large the filesystem is.
std::unique_ptr<SuperCopy> find_second(const Device &device) {
    auto copy = read_super(device, UHSFS_SB_COPY);

    if (copy->code == 0)
        return copy;
    auto small = read_super(device, UHSFS_SB_COPY_SMALL);
    return small->code == 0 || device.blocks() <= UHSFS_SB_COPY ? std::move(small)
                                                                : std::move(copy);
}

std::string super_text(const SuperCopy &copy) {
    if (copy.code == EUCLEAN)
        return fault_text(copy.fault);
    return fmt::format("superblock {}: cannot be read ({})", copy.block, std::strerror(copy.code));
}

}  // namespace

Result<void> Volume::load_super(const VolumeOptions &options) {
    if (device_.blocks() <= UHSFS_SB_BLOCK)
        return fail(EINVAL, path(), fmt::format("{} bytes hold no filesystem", device_.bytes()));
    copies_[0] = read_super(device_, UHSFS_SB_BLOCK);
    const bool sound = copies_[0]->code == 0 && copies_[0]->info.version == UHSFS_FORMAT_VERSION;
    copies_[1] = sound ? read_super(device_, uhsfs_super_block(&copies_[0]->info.geo, 1))
                       : find_second(device_);
    if (copies_[0]->code != 0 && copies_[1]->code != 0) {
        if (!copies_[0]->recognised && !copies_[1]->recognised && copies_[0]->code == EUCLEAN)
            return fail(EINVAL, path(), "no uhsfs filesystem here");
        return fail(EUCLEAN, path(),
                    fmt::format("both superblocks are bad: {}; {}", super_text(*copies_[0]),
                                super_text(*copies_[1])));
    }
    const auto sound_info = [](const SuperCopy &copy) {
        return copy.code == 0 ? &copy.info : nullptr;
    };
    chosen_ = uhsfs_super_choose(sound_info(*copies_[0]), sound_info(*copies_[1]));
    super_ = &copies_[static_cast<std::size_t>(chosen_)]->info;
    std::uint64_t unknown = 0;
    unsigned long long bits = 0;
    access_ = uhsfs_super_access(super_, &bits);
    unknown = bits;
    if (access_ == UHSFS_ACCESS_NONE) {
        if (options.foreign)
            return {};
        if (super_->version != UHSFS_FORMAT_VERSION)
            return fail(EOPNOTSUPP, path(),
                        fmt::format("format version {}; this program knows version {}",
                                    super_->version, UHSFS_FORMAT_VERSION),
                        "use the uhsfs tools that made it");
        return fail(EOPNOTSUPP, path(), fmt::format("unknown incompatible features {:#x}", unknown),
                    "use newer uhsfs tools");
    }
    if (access_ == UHSFS_ACCESS_READ && device_.writable())
        return fail(EOPNOTSUPP, path(), fmt::format("features {:#x} allow reading only", unknown),
                    "use newer uhsfs tools");
    if (super_->geo.blocks > device_.blocks())
        return fail(EUCLEAN, path(),
                    fmt::format("the filesystem has {} blocks, the device only {}",
                                super_->geo.blocks, device_.blocks()),
                    "the device was made smaller, or the image was cut off");
    return {};
}

// ---- chunks and maps -----------------------------------------------------------------------

Result<HomeOf<uhsfs_table_block>> Volume::table_block(std::uint64_t chunk) const {
    uhsfs_place place = {};

    if (!uhsfs_chunk_table_place(super_, chunk, &place))
        return fail(EINVAL, path(),
                    fmt::format("chunk {} is past the last of the chunk table ({})", chunk,
                                uhsfs_super_chunks(super_) - 1));
    const uhsfs_segment_info *segment = uhsfs_super_segment(super_, chunk);
    const std::uint64_t limit = segment->first_chunk + segment->chunks;
    return read_record<uhsfs_table_block>(
        *this, place.home, [&](const uhsfs_table_block *table, std::uint64_t at, Copy &copy) {
            take_header(table->h, copy);
            return uhsfs_table_check(table, &geo(), at, place.first, limit, &copy.fault);
        });
}

Result<uhsfs_chunk_info> Volume::chunk(std::uint64_t number) const {
    uhsfs_place place = {};
    uhsfs_chunk_info info = {};

    const auto table = UHSFS_TRY(table_block(number));
    if (!table)
        return tl::make_unexpected(table.home.error(path()));
    uhsfs_chunk_table_place(super_, number, &place);
    uhsfs_chunk_decode(&table.record->chunk[place.index], &info);
    if (info.block == 0)
        return fail(ENOENT, path(), fmt::format("chunk {} was never made", number));
    return info;
}

HomeOf<uhsfs_map_block> Volume::bitmap(std::uint64_t group, unsigned half) const {
    return read_record<uhsfs_map_block>(
        *this, uhsfs_bitmap_home(&geo(), group, half),
        [&](const uhsfs_map_block *map, std::uint64_t at, Copy &copy) {
            const uhsfs_map_id id = {
                .kind = UHSFS_MAP_BITMAP, .block = at, .index = 2 * group + half};
            take_header(map->h, copy);
            return uhsfs_map_check(map, &geo(), &id, &copy.fault);
        });
}

Result<HomeOf<uhsfs_map_block>> Volume::chunk_map(std::uint64_t chunk, unsigned which) const {
    uhsfs_place place = {};

    if (!uhsfs_chunk_map_place(super_, chunk, which, &place))
        return fail(EINVAL, path(),
                    fmt::format("chunk {} is past the last of the chunk maps ({})", chunk,
                                uhsfs_super_chunks(super_) - 1));
    const auto kind = which == UHSFS_MAP_WHICH_SUSPECT ? UHSFS_MAP_SUSPECT : UHSFS_MAP_INTENT;
    return read_record<uhsfs_map_block>(
        *this, place.home, [&](const uhsfs_map_block *map, std::uint64_t at, Copy &copy) {
            const uhsfs_map_id id = {.kind = kind, .block = at, .index = place.first};
            take_header(map->h, copy);
            return uhsfs_map_check(map, &geo(), &id, &copy.fault);
        });
}

Result<bool> Volume::needs_recovery() const {
    for (unsigned i = 0; i < super_->segments; i++) {
        const uhsfs_segment_info &segment = super_->segment[i];
        for (std::uint64_t chunk = 0; chunk < segment.chunks; chunk += UHSFS_MAP_BITS) {
            for (const unsigned which : {0U, 1U}) {
                const auto map = UHSFS_TRY(chunk_map(segment.first_chunk + chunk, which));
                if (!map)
                    return tl::make_unexpected(map.home.error(path()));
                if (uhsfs_map_live(map.record.get(), super_->epoch) && map.record->set != 0)
                    return true;
            }
        }
    }
    return false;
}

// ---- slots ---------------------------------------------------------------------------------

Result<Inode> Inode::parse(const uhsfs_geometry &geo, const std::uint8_t *slot,
                           const uhsfs_slot_id &id, std::string_view device) {
    Inode inode;
    uhsfs_fault fault = {};

    inode.image_ = std::make_unique<std::uint8_t[]>(geo.slot_size);
    std::memcpy(inode.image_.get(), slot, geo.slot_size);
    if (uhsfs_slot_parse(&geo, inode.image_.get(), &id, &inode.view_, &fault) != 0)
        return tl::make_unexpected(fault_error(device, fault));
    return inode;
}

int check_slot_block(const uhsfs_geometry &geo, const std::uint8_t *image, std::uint64_t block,
                     std::uint64_t first_ino, std::uint64_t nonce, Copy &copy) {
    unsigned long long seq = 0;
    const int err = uhsfs_slot_block_check(&geo, image, block, first_ino, nonce, &seq, &copy.fault);

    copy.seq = seq;
    return err;
}

Result<HomeOf<SlotImage>> Volume::slot_block(std::uint64_t ino) const {
    const std::uint64_t number = uhsfs_ino_chunk(&geo(), ino);

    if (number >= uhsfs_super_chunks(super_))
        return fail(ENOENT, path(), fmt::format("no inode {}: past the last chunk", ino));
    const uhsfs_chunk_info info = UHSFS_TRY(chunk(number));
    const std::uint64_t first = ino - ino % geo().slots_per_block;
    return read_record<SlotImage>(
        *this, uhsfs_slot_home(&geo(), info.block, ino),
        [&](const SlotImage *image, std::uint64_t at, Copy &copy) {
            return check_slot_block(geo(), image->data(), at, first, info.nonce, copy);
        },
        geo().slot_size);
}

Result<Inode> Volume::inode(std::uint64_t ino) const {
    const std::uint64_t number = uhsfs_ino_chunk(&geo(), ino);
    const std::string missing = fmt::format("no inode {}", ino);

    if (ino == UHSFS_INO_INVALID || number >= uhsfs_super_chunks(super_))
        return fail(ENOENT, path(), missing);
    const uhsfs_chunk_info info = UHSFS_TRY(chunk(number));
    const auto block = UHSFS_TRY(slot_block(ino));
    if (!block) {
        const std::uint32_t home = uhsfs_ino_index(&geo(), ino) / geo().slots_per_block;
        if ((info.written >> home & 1) == 0)
            return fail(ENOENT, path(), missing);
        return tl::make_unexpected(block.home.error(path()));
    }
    const uhsfs_slot_id id = {.ino = ino, .block = block.home.chosen_block(), .nonce = info.nonce};
    Inode inode = UHSFS_TRY(
        Inode::parse(geo(), block.record->data() + uhsfs_slot_offset(&geo(), ino), id, path()));
    if (inode.free())
        return fail(ENOENT, path(), missing);
    return inode;
}

}  // namespace uhsfs
