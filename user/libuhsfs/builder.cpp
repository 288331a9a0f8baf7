// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Builder: chunks, tables, maps, superblocks.
 */
#include "libuhsfs/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

namespace uhsfs {

// Purposes of KeySource below this are the layout's.
constexpr std::uint64_t generation_purpose = std::uint64_t{1} << 32;

struct Builder::Chunk {
    std::uint64_t number = 0;
    std::uint32_t assigned = 0;  // slots given out, from 0 on
    std::uint32_t put = 0;
    bool closed = false;  // no more are given out
    std::vector<std::unique_ptr<std::uint8_t[]>> slots;
};

Builder::Builder(const Device *device, const uhsfs_super_info &layout, const KeySource &keys)
    : sink_(device),
      device_(device),
      info_(layout),
      keys_(keys),
      space_(layout.geo, layout.reserve_blocks),
      seq_(uhsfs_seq_make(first_epoch, 0)) {
    for (unsigned i = 0; i < info_.segments; i++) {
        const uhsfs_segment_info &segment = info_.segment[i];
        const std::uint64_t first = segment.intent[0];
        space_.take({.block = first,
                     .count = static_cast<std::uint32_t>(segment_blocks(geo(), segment.chunks))});
    }
}

Builder::~Builder() = default;

tl::unexpected<Error> Builder::no_space(std::uint64_t want) const {
    const std::uint64_t free = space_.free_blocks();
    const std::uint64_t usable = free > info_.reserve_blocks ? free - info_.reserve_blocks : 0;

    return fail(ENOSPC, device_ != nullptr ? device_->path() : "",
                fmt::format("the contents do not fit: {} more blocks are needed, {} of {} are left",
                            want, usable, geo().blocks),
                "use a larger device, or give more blocks for the image");
}

tl::unexpected<Error> Builder::core_error(const char *what, std::uint64_t ino, int err,
                                          const uhsfs_fault &fault) const {
    if (err == -ENOSPC)
        return no_space(1);
    if (err == -EUCLEAN)
        return tl::make_unexpected(fault_error(what, fault));
    return fail(-err, fmt::format("inode {}", ino), fmt::format("cannot build its {}", what));
}

// ---- begin ---------------------------------------------------------------------------------

Result<void> Builder::begin() {
    std::vector<std::uint64_t> places = {uhsfs_super_block(&geo(), 0),
                                         uhsfs_super_block(&geo(), 1)};

    if (device_ == nullptr)
        return {};
    // A uhsfs of another size that stood here has its second copy elsewhere.
    AlignedBuffer block(block_size);
    if (device_->read(UHSFS_SB_BLOCK, block.span())) {
        uhsfs_super_info old = {};
        const auto *raw = reinterpret_cast<const uhsfs_super *>(block.data());
        if (uhsfs_super_decode(raw, UHSFS_SB_BLOCK, &old, nullptr) == 0 &&
            old.version == UHSFS_FORMAT_VERSION)
            places.push_back(uhsfs_super_block(&old.geo, 1));
    }
    // Its first copy may be too damaged to say where; readers look in both places.
    places.insert(places.end(), {UHSFS_SB_COPY_SMALL, UHSFS_SB_COPY});
    for (const std::uint64_t place : places)
        if (place < device_->blocks())
            UHSFS_TRY(sink_.zero(place, 1));
    return sink_.flush();
}

// Both copies of a shadow home are written the first time, so that an invalid one is never
// just what stood there before.
Result<void> Builder::write_home(std::uint64_t home, void *record) {
    const auto *bytes = static_cast<const std::uint8_t *>(record);

    UHSFS_TRY(sink_.write(home, {bytes, block_size}));
    if (geo().homes == 1)
        return {};
    uhsfs_record_move(record, block_size, home + 1);
    return sink_.write(home + 1, {bytes, block_size});
}

// ---- chunks --------------------------------------------------------------------------------

// Another segment as large as all there are, or as large as there is room for.
Result<void> Builder::grow_table() {
    const std::uint64_t have = uhsfs_super_chunks(&info_);
    const std::uint64_t most =
        segment_capacity(geo(), UHSFS_GROUP_BLOCKS - UHSFS_BITMAP_OFFSET -
                                    std::uint64_t{UHSFS_GROUP_MAPS} * geo().homes);

    for (std::uint64_t chunks = std::min(have, most);
         info_.segments < UHSFS_MAX_SEGMENTS && chunks >= UHSFS_TABLE_CHUNKS; chunks /= 2) {
        chunks -= chunks % UHSFS_TABLE_CHUNKS;
        const auto run =
            space_.contiguous(static_cast<std::uint32_t>(segment_blocks(geo(), chunks)));
        if (!run)
            continue;
        info_.segment[info_.segments++] = place_segment(geo(), run->block, have, chunks);
        return {};
    }
    return no_space(segment_blocks(geo(), UHSFS_TABLE_CHUNKS));
}

Result<std::shared_ptr<Builder::Chunk>> Builder::new_chunk() {
    auto chunk = std::make_shared<Chunk>();
    uhsfs_chunk_info entry = {};

    chunk->number = table_.size();
    chunk->slots.resize(geo().slots_per_chunk);
    if (chunk->number == uhsfs_super_chunks(&info_))
        UHSFS_TRY(grow_table());
    const auto run = space_.contiguous(uhsfs_chunk_blocks(&geo()));
    if (!run)
        return no_space(uhsfs_chunk_blocks(&geo()));
    entry.block = run->block;
    entry.incarnation = 1;
    entry.nonce = uhsfs_chunk_nonce(&geo(), chunk->number, entry.incarnation);
    entry.gen_base =
        static_cast<std::uint32_t>(keys_.number(generation_purpose + chunk->number)) | 1;
    entry.birth = first_epoch;
    table_.push_back(entry);
    chunks_.emplace(chunk->number, chunk);
    return chunk;
}

Result<InodeId> Builder::assign(bool late) {
    std::shared_ptr<Chunk> &open = open_[late ? 1 : 0];

    if (open && open->assigned == geo().slots_per_chunk) {
        open->closed = true;
        if (open->put == open->assigned)
            UHSFS_TRY(write_chunk(*open));
        open = nullptr;
    }
    if (!open) {
        open = UHSFS_TRY(new_chunk());
        // Nobody can have number 0: it is put as it stands.
        if (open->number == 0) {
            assert(late);
            open->assigned = 1;
            open->put = 1;
        }
    }
    return InodeId{.ino = open->number * geo().slots_per_chunk + open->assigned++,
                   .generation = table_[open->number].gen_base};
}

void Builder::drop_content(NewInode &inode) {
    // The newest first.
    while (!inode.extents.empty()) {
        uhsfs_ext &last = inode.extents.back();
        // An extent may have grown from group to group.
        const std::uint64_t end = last.physical + last.len;
        const auto count = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(last.len, (end - 1) % UHSFS_GROUP_BLOCKS + 1));
        space_.free({.block = end - count, .count = count});
        last.len -= count;
        if (last.len == 0)
            inode.extents.pop_back();
    }
    inode.data.clear();
    inode.blocks = 0;
    inode.size = 0;
}

Result<void> Builder::put(NewInode inode) {
    const std::uint64_t number = uhsfs_ino_chunk(&geo(), inode.id.ino);
    const auto found = chunks_.find(number);

    assert(found != chunks_.end());
    Chunk &chunk = *found->second;
    auto slot = std::make_unique<std::uint8_t[]>(geo().slot_size);
    UHSFS_TRY(build_slot(inode, chunk, slot.get()));
    const std::uint32_t index = uhsfs_ino_index(&geo(), inode.id.ino);
    assert(!chunk.slots[index]);
    chunk.slots[index] = std::move(slot);
    table_[number].in_use |= std::uint64_t{1} << index;
    info_.used_slots++;
    chunk.put++;
    if (chunk.closed && chunk.put == chunk.assigned)
        return write_chunk(chunk);
    return {};
}

// Slot blocks without an inode are not written: the descriptor says that none is in use.
Result<void> Builder::write_chunk(Chunk &chunk) {
    const uhsfs_chunk_info &entry = table_[chunk.number];
    const std::uint64_t first = chunk.number * geo().slots_per_chunk;
    AlignedBuffer image(block_size);

    for (std::uint32_t i = 0; i < geo().slots_per_chunk; i += geo().slots_per_block) {
        bool used = false;
        for (std::uint32_t j = 0; j < geo().slots_per_block; j++) {
            std::uint8_t *slot = image.data() + std::size_t{j} * geo().slot_size;
            if (chunk.slots[i + j]) {
                std::memcpy(slot, chunk.slots[i + j].get(), geo().slot_size);
                used = true;
            } else {
                uhsfs_slot_build_free(&geo(), slot, first + i + j, entry.gen_base, 0, entry.nonce,
                                      draw());
            }
        }
        if (!used)
            continue;
        const std::uint64_t home = uhsfs_slot_home(&geo(), entry.block, first + i);
        const std::uint64_t block_seq = draw();
        for (std::uint32_t copy = 0; copy < geo().homes; copy++) {
            uhsfs_slot_block_seal(&geo(), image.data(), home + copy, block_seq);
            UHSFS_TRY(sink_.write(home + copy, image.span()));
        }
        table_[chunk.number].written |= static_cast<std::uint16_t>(1U << i / geo().slots_per_block);
    }
    chunks_.erase(chunk.number);
    return {};
}

// ---- finish --------------------------------------------------------------------------------

Result<void> Builder::write_table() {
    for (std::uint64_t first = 0; first < table_.size();) {
        uhsfs_place place = {};
        uhsfs_table_block block = {};
        uhsfs_chunk_table_place(&info_, first, &place);
        uhsfs_table_init(&block, &geo(), place.home, place.first, draw());
        // A table block ends with its segment.
        const uhsfs_segment_info *segment = uhsfs_super_segment(&info_, first);
        const std::uint64_t end = std::min<std::uint64_t>(
            {table_.size(), first + UHSFS_TABLE_CHUNKS, segment->first_chunk + segment->chunks});
        for (std::uint64_t i = first; i < end; i++)
            uhsfs_chunk_encode(&table_[i], &block.chunk[i - first]);
        uhsfs_record_seal(&block, sizeof(block));
        UHSFS_TRY(write_home(place.home, &block));
        first = end;
    }
    return {};
}

Result<void> Builder::write_maps() {
    auto block = std::make_unique<uhsfs_map_block>();

    for (unsigned i = 0; i < info_.segments; i++) {
        const uhsfs_segment_info &segment = info_.segment[i];
        for (unsigned which = 0; which <= UHSFS_MAP_WHICH_SUSPECT; which++) {
            const auto kind =
                which == UHSFS_MAP_WHICH_SUSPECT ? UHSFS_MAP_SUSPECT : UHSFS_MAP_INTENT;
            for (std::uint64_t at = 0; at < segment.chunks; at += UHSFS_MAP_BITS) {
                uhsfs_place place = {};
                uhsfs_chunk_map_place(&info_, segment.first_chunk + at, which, &place);
                const uhsfs_map_id id = {.kind = kind, .block = place.home, .index = place.first};
                // Of epoch 0, which is over: all clear.
                uhsfs_map_init(block.get(), &geo(), &id, draw(), 0);
                uhsfs_map_seal(block.get());
                UHSFS_TRY(write_home(place.home, block.get()));
            }
        }
    }
    return {};
}

Result<void> Builder::write_bitmaps() {
    auto block = std::make_unique<uhsfs_map_block>();

    for (std::uint64_t group = 0; group < space_.groups_used(); group++) {
        for (std::uint32_t half = 0; half < UHSFS_GROUP_MAPS; half++) {
            const std::uint64_t home = uhsfs_bitmap_home(&geo(), group, half);
            const uhsfs_map_id id = {
                .kind = UHSFS_MAP_BITMAP, .block = home, .index = 2 * group + half};
            uhsfs_map_init(block.get(), &geo(), &id, draw(), 0);
            block->zone = half == 0 ? space_.zone(group) : UHSFS_ZONE_UNASSIGNED;
            std::memcpy(block->bits, space_.bits(group) + half * sizeof(block->bits),
                        sizeof(block->bits));
            uhsfs_map_seal(block.get());
            UHSFS_TRY(write_home(home, block.get()));
        }
    }
    return {};
}

Result<uhsfs_super_info> Builder::finish() {
    AlignedBuffer image(block_size);

    while (!chunks_.empty()) {
        const std::shared_ptr<Chunk> chunk = chunks_.begin()->second;
        assert(chunk->put == chunk->assigned);
        UHSFS_TRY(write_chunk(*chunk));
    }
    UHSFS_TRY(write_table());
    UHSFS_TRY(write_maps());
    UHSFS_TRY(write_bitmaps());
    UHSFS_TRY(sink_.flush());
    info_.groups_used = space_.groups_used();
    info_.chunks_used = table_.size();
    info_.free_blocks = space_.free_blocks();
    // The second copy first: as long as copy 0 is missing, nothing recognises a filesystem.
    for (const int copy : {1, 0}) {
        const std::uint64_t block = uhsfs_super_block(&geo(), copy);
        info_.seq = draw();
        info_.epoch = uhsfs_seq_epoch(info_.seq);
        uhsfs_super_encode(&info_, block, reinterpret_cast<uhsfs_super *>(image.data()));
        UHSFS_TRY(sink_.write(block, image.span()));
        UHSFS_TRY(sink_.flush());
    }
    return info_;
}

}  // namespace uhsfs
