// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Slots: every block of every chunk, and the inodes in them.
 *
 * A slot block without a valid copy is damage if the chunk says that its home was written:
 * what it knew of FREE slots is lost as well. Else its first write was cut off, if there
 * ever was one: that is a note.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "libuhsfs/check_state.hpp"

namespace uhsfs::checking {

// ---- scanning ------------------------------------------------------------------------------

void InoRanges::add(std::uint64_t first, std::uint64_t count) {
    const std::scoped_lock guard(lock_);

    ranges_.emplace_back(first, first + count);
}

void InoRanges::sort() { std::ranges::sort(ranges_); }

bool InoRanges::has(std::uint64_t ino) const {
    const auto next =
        std::ranges::upper_bound(ranges_, ino, {}, &decltype(ranges_)::value_type::first);

    return next != ranges_.begin() && ino < std::prev(next)->second;
}

void Checker::scan(bool only_marked, const std::function<void(const SlotBlock &)> &each) {
    const auto wanted = [&](std::uint64_t chunk) {
        return !stop() && (marked(chunk) || (!only_marked && chunk < super_.chunks_used));
    };
    const ScanOptions options{.threads = threads_,
                              .filter = [&](std::uint64_t chunk, const uhsfs_chunk_info &info) {
                                  return wanted(chunk) && !unused(chunk, info);
                              }};
    const auto one = [&](const SlotBlock &block) {
        each(block);
        if (uhsfs_ino_index(&geo_, block.first_ino + geo_.slots_per_block) == 0)
            step();
    };

    // Errors are those of the chunk table, which read_tables() told.
    volume_.scan_slots(options, [&](unsigned, const SlotBlock &block) { one(block); });
    for (const LateChunk &late : late_) {
        for (unsigned i = 0; i < UHSFS_CHUNK_BLOCKS && wanted(late.number); i++) {
            SlotBlock block;
            block.chunk = late.number;
            block.info = &late.info;
            block.first_ino =
                late.number * geo_.slots_per_chunk + std::uint64_t{i} * geo_.slots_per_block;
            block.in_use = late.info.in_use >> (i * geo_.slots_per_block) &
                           ((std::uint64_t{1} << geo_.slots_per_block) - 1);
            block.written = (late.info.written >> i & 1) != 0;
            const auto read = volume_.slot_block(block.first_ino);
            if (!read)
                break;
            block.home = read->home;
            if (block.home.valid())
                block.image.at(static_cast<std::size_t>(block.home.chosen)) = read->record->data();
            one(block);
        }
    }
}

void Checker::each_slot(const SlotBlock &block,
                        const std::function<void(unsigned, const uhsfs_slot_view &)> &each) {
    for (unsigned i = 0; i < geo_.slots_per_block; i++) {
        const uhsfs_slot_id id = {.ino = block.first_ino + i,
                                  .block = block.home.chosen_block(),
                                  .nonce = block.info->nonce};
        uhsfs_slot_view view = {};
        // The block was checked when it was read.
        if (uhsfs_slot_parse(&geo_, block.chosen() + std::size_t{i} * geo_.slot_size, &id, &view,
                             nullptr) == 0)
            each(i, view);
    }
}

// ---- recovery ------------------------------------------------------------------------------

void Checker::read_marked() {
    scan(true, [&](const SlotBlock &block) {
        if (block.home.valid()) {
            each_slot(block, [&](unsigned, const uhsfs_slot_view &view) {
                if (view.attr.ino == UHSFS_INO_INVALID)
                    return;
                if (view.attr.state == UHSFS_SLOT_INODE)
                    recovery_.add(view);
                else
                    recovery_.add_empty(view.attr.ino, UHSFS_SLOT_FREE, view.attr.generation,
                                        view.attr.name_seq_max);
            });
            return;
        }
        const bool lost = block.written;
        for (unsigned i = 0; i < geo_.slots_per_block; i++)
            if (block.first_ino + i != UHSFS_INO_INVALID)
                recovery_.add_empty(block.first_ino + i,
                                    lost ? UHSFS_REC_UNREADABLE : UHSFS_SLOT_FREE,
                                    lost ? 0 : block.info->gen_base, 0);
    });
}

void Checker::take_event(const uhsfs_rec_event &event) {
    const bool damage = event.what >= UHSFS_REC_DAMAGE;
    const bool intent = event.what == UHSFS_REC_INTENT_FINISHED ||
                        event.what == UHSFS_REC_INTENT_DONE ||
                        (damage && event.what <= UHSFS_REC_INTENT_TWICE);
    const char *field = intent ? "intent" : event.name != nullptr ? "name" : "state";
    const auto fault = make_fault("slot", event.ino, field, event.against, event.other_seq,
                                  uhsfs_rec_what_text(event.what));

    (damage ? findings_ : notes_).add_with(fault, [&]() -> std::string {
        if (event.name == nullptr)
            return damage ? "recovery leaves it" : "recovery at mount";
        return fmt::format("'{}' in directory {}, {}",
                           std::string_view(reinterpret_cast<const char *>(event.name), event.len),
                           event.parent_ino, damage ? "recovery leaves it" : "recovery at mount");
    });
}

void Checker::take_recovery() {
    const uhsfs_recovery &r = recovery_.result();

    if (!unclean_)
        return;
    report_.recovery.slots = r.slot_count;
    report_.recovery.intents = r.events[UHSFS_REC_INTENT_FINISHED];
    report_.recovery.names_lost = r.events[UHSFS_REC_NAME_LOST];
    report_.recovery.names_dropped = r.events[UHSFS_REC_NAME_DROPPED];
    report_.recovery.slots_freed = r.events[UHSFS_REC_SLOT_FREED];
    recovery_.each_name([&](const uhsfs_rec_slot &owner, std::uint8_t type,
                            const uhsfs_rec_name &name) {
        const std::uint64_t flags = name.fate == UHSFS_REC_HELD ? Claim::held : Claim::recovered;
        claims_.add({.key = name_key(name.parent_ino, name.parent_gen, name.name, name.len),
                     .who = owner.ino | std::uint64_t{type} << Claim::type_shift | flags,
                     .parent_ino = name.parent_ino,
                     .gen = owner.generation,
                     .parent_gen = name.parent_gen});
    });
}

// ---- slot blocks ---------------------------------------------------------------------------

void Checker::check_slots() {
    pass(3, "inodes", chunks_made_);
    scan(false, [&](const SlotBlock &block) { check_block(block); });
    unreadable_.sort();
    if (!stop())
        check_intents();
}

void Checker::check_block(const SlotBlock &block) {
    const bool recent = marked(block.chunk);

    if (!block.home.valid())
        return check_lost_block(block);
    check_home(block.home, slot_block, recent);
    if (!block.written && !recent)
        findings_.add(make_fault("chunk", block.chunk, "written", 0, 1,
                                 "must have the bits of the slot homes that were written"),
                      fmt::format("inodes from {}", block.first_ino));
    check_seq("slot", block.first_ino, "block_seq",
              block.home.copy[static_cast<std::size_t>(block.home.chosen)].seq);
    for (unsigned i = 0; i < geo_.slots_per_block; i++)
        check_slot(block, i);
}

void Checker::check_lost_block(const SlotBlock &block) {
    if (block.written) {
        check_home(block.home, slot_block, false,
                   fmt::format("inodes {} to {}", block.first_ino,
                               block.first_ino + geo_.slots_per_block - 1));
        unreadable_.add(block.first_ino, geo_.slots_per_block);
        incomplete_ = true;
        return;
    }
    for (unsigned i = 0; i < block.home.copies; i++) {
        const std::uint8_t *image = block.image[i];
        const int code = block.home.copy[i].code;
        if (code != 0 && code != EUCLEAN)
            notes_.add(make_fault(slot_block, block.home.block + i, "read error",
                                  static_cast<std::uint64_t>(code), 0, "must be readable"),
                       "it was never written");
        for (unsigned j = 0; image != nullptr && j < geo_.slots_per_block; j++) {
            uhsfs_slot slot = {};
            std::memcpy(&slot, image + std::size_t{j} * geo_.slot_size, sizeof(slot));
            if (le32_to_cpu(slot.h.magic) != UHSFS_TAG_SLOT ||
                le64_to_cpu(slot.nonce) != block.info->nonce)
                continue;
            notes_.add(block.home.copy[i].fault,
                       fmt::format("in block {}, which was never written: its first write was "
                                   "cut off",
                                   block.home.block + i));
            break;
        }
    }
}

void Checker::check_slot(const SlotBlock &block, unsigned index) {
    const std::uint64_t ino = block.first_ino + index;
    const bool recent = marked(block.chunk);
    const bool in_use = (block.in_use >> index & 1) != 0;
    const uhsfs_slot_id id = {
        .ino = ino, .block = block.home.chosen_block(), .nonce = block.info->nonce};
    uhsfs_slot_view view = {};

    if (uhsfs_slot_parse(&geo_, block.chosen() + std::size_t{index} * geo_.slot_size, &id, &view,
                         nullptr) != 0)
        return;  // the block was checked when it was read
    const bool inode = view.attr.state == UHSFS_SLOT_INODE;
    check_seq("slot", ino, "seq", view.attr.seq);
    check_seq("slot", ino, "name_seq_max", view.attr.name_seq_max);
    if (!recent && inode != in_use)
        findings_.add(make_fault("chunk", block.chunk, "in_use", in_use, inode,
                                 "must have the bits of the slots that are inodes"),
                      fmt::format("inode {}", ino));
    if (ino == UHSFS_INO_INVALID) {
        if (inode)
            findings_.add(make_fault("slot", ino, "state", UHSFS_SLOT_INODE, UHSFS_SLOT_FREE,
                                     "inode 0 must be free"));
        return;
    }
    const uhsfs_rec_slot *rec = recent ? recovery_.slot(ino) : nullptr;
    const bool made = rec != nullptr && (rec->changed & UHSFS_REC_MADE) != 0;
    const bool freed = rec != nullptr && rec->state == UHSFS_SLOT_FREE;
    if (ino == UHSFS_INO_ROOT && !inode && !made)
        findings_.add(make_fault("slot", ino, "state", view.attr.state, UHSFS_SLOT_INODE,
                                 "the root directory must be there"));
    if (made)
        files_++;
    else if (inode)
        check_inode(view, recent, freed);
}

// ---- inodes --------------------------------------------------------------------------------

void Checker::check_inode(const uhsfs_slot_view &view, bool recent, bool freed) {
    const uhsfs_attr &attr = view.attr;
    const bool is_dir = uhsfs_is_dir(attr.mode);
    const std::uint64_t type = uhsfs_mode_dtype(attr.mode);
    std::uint32_t birth = 0;
    InodeVisitor visitor;

    if (!freed)
        visitor.own = [&](const BlockOwner &owner, std::uint64_t block, std::uint64_t count) {
            own(owner, block, count, recent);
        };
    visitor.fault = [&](const uhsfs_fault &fault, const std::string &detail) {
        findings_.add(fault, detail);
    };
    visitor.extent = [&](const uhsfs_ext &ext) { birth = std::max(birth, ext.birth); };
    visitor.seq = [&](const char *object, std::uint64_t block, std::uint64_t seq) {
        check_seq(object, block, "seq", seq);
    };
    if (!recent)
        visitor.name = [&](const uhsfs_claim &claim) {
            if (claim.name_seq > attr.name_seq_max)
                findings_.add(make_fault("slot", attr.ino, "name_seq", claim.name_seq,
                                         attr.name_seq_max, UHSFS_RULE_AT_MOST));
            claims_.add({.key = name_key(claim.parent_ino, claim.parent_gen, claim.name, claim.len),
                         .who = attr.ino | type << Claim::type_shift,
                         .parent_ino = claim.parent_ino,
                         .gen = attr.generation,
                         .parent_gen = claim.parent_gen});
        };
    const InodeTotals totals = walk_inode(volume_, view, visitor);
    if (birth > newest())
        findings_.add(make_fault("slot", attr.ino, "extent.birth", birth, newest(),
                                 "must not be of a newer epoch than the superblock's seq"));
    if (!totals.names_complete)
        unreadable_.add(attr.ino, 1);
    if (!totals.complete)
        incomplete_ = true;
    else if (totals.blocks != attr.blocks)
        findings_.add(make_fault("slot", attr.ino, "blocks", attr.blocks, totals.blocks,
                                 "must be the number of blocks that it owns"));
    if (attr.nlink == 0 && attr.ino != UHSFS_INO_ROOT && !recent)
        findings_.add(make_fault("slot", attr.ino, "nlink", 0, 1,
                                 "an inode without a name must be in a marked chunk"));
    if (freed)
        return;
    if (is_dir) {
        Directory dir;
        uhsfs_dir_info info = {};
        uhsfs_dir_root_decode(view.value[UHSFS_TLV_DIR], view.len[UHSFS_TLV_DIR], attr.ino, &info,
                              nullptr);
        dir.ino = attr.ino;
        dir.gen = attr.generation;
        dir.entries = info.entries;
        dir.subdirs = info.subdirs;
        const std::scoped_lock guard(dirs_lock_);
        dirs_.push_back(dir);
    } else {
        files_++;
    }
    const auto *intent = static_cast<const uhsfs_intent *>(view.value[UHSFS_TLV_INTENT]);
    if (intent != nullptr && !recent) {
        const std::scoped_lock guard(intents_lock_);
        intents_.push_back({.holder = attr.ino,
                            .peer = le64_to_cpu(intent->peer_ino),
                            .name_seq = le64_to_cpu(intent->name_seq),
                            .peer_gen = le32_to_cpu(intent->peer_gen)});
    }
}

// An intent in a chunk that is not marked is done: its peer is as new as it says, or its slot
// was given to another inode since.
void Checker::check_intents() {
    for (const OpenIntent &intent : intents_) {
        const uhsfs_rec_outside peer = describe_slot(volume_, intent.peer);
        if (peer.state == UHSFS_REC_UNREADABLE) {
            if (!unreadable_.has(intent.peer))
                findings_.add(make_fault("slot", intent.holder, "intent.peer_ino", intent.peer, 0,
                                         "must be an inode"));
        } else if (peer.generation == intent.peer_gen && peer.name_seq_max < intent.name_seq) {
            findings_.add(
                make_fault("slot", intent.holder, "intent.name_seq", intent.name_seq,
                           peer.name_seq_max, "must have been finished: the chunk is not marked"),
                fmt::format("peer {}", intent.peer));
        }
    }
}

// ---- owners --------------------------------------------------------------------------------

void Checker::find_owners() {
    const std::size_t most = 4 * options_.max_findings + 16;
    OwnerList owners(asked_, most);
    std::atomic<std::uint64_t> told = 0;
    const OwnFunction take = [&](const BlockOwner &owner, std::uint64_t block,
                                 std::uint64_t count) {
        // As in own(): enough is enough.
        if (block < geo_.blocks && count <= geo_.blocks - block &&
            told.fetch_add(count) / 4 <= geo_.blocks)
            owners.own(owner, block, count);
    };
    InodeVisitor visitor;

    pass(7, "owners", chunks_made_);
    visitor.own = take;
    own_fixed(take);
    each_chunk(take);
    scan(false, [&](const SlotBlock &block) {
        if (!block.home.valid())
            return;
        each_slot(block, [&](unsigned, const uhsfs_slot_view &view) {
            const uhsfs_rec_slot *rec =
                marked(block.chunk) ? recovery_.slot(view.attr.ino) : nullptr;
            if (view.attr.state == UHSFS_SLOT_INODE &&
                (rec == nullptr || rec->state != UHSFS_SLOT_FREE))
                walk_inode(volume_, view, visitor);
        });
    });
    const OwnerList::Range *last = nullptr;  // the one that ends last
    for (const OwnerList::Range &range : owners.ranges()) {
        const std::uint64_t end = range.block + range.count;
        for (auto [first, stop_at] = free_.next(range.block, end); first < end;
             std::tie(first, stop_at) = free_.next(stop_at, end))
            findings_.add(make_fault("bitmap", first / UHSFS_GROUP_BLOCKS, "bit", first,
                                     stop_at - first, "must be set where a block is in use"),
                          fmt::format("{} blocks, {}", stop_at - first, range.owner.text()));
        if (last != nullptr && range.block < last->block + last->count) {
            const std::uint64_t common = std::min(end, last->block + last->count) - range.block;
            findings_.add(make_fault("block", range.block, "owner", range.owner.id, last->owner.id,
                                     "must be owned once"),
                          fmt::format("{} blocks, {} and {}", common, last->owner.text(),
                                      range.owner.text()));
        }
        if (last == nullptr || end > last->block + last->count)
            last = &range;
    }
}

}  // namespace uhsfs::checking
