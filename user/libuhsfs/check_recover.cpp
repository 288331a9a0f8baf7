// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Recovery in memory: the marked slots in the form that kmod/core/recover.h takes.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libuhsfs/check_state.hpp"

namespace uhsfs::checking {

void Recovery::add_empty(std::uint64_t ino, std::uint8_t state, std::uint32_t generation,
                         std::uint64_t name_seq_max) {
    const std::scoped_lock guard(lock_);
    uhsfs_rec_slot slot = {};

    slot.ino = ino;
    slot.state = state;
    slot.generation = generation;
    slot.name_seq_max = name_seq_max;
    slot.first_name = static_cast<std::uint32_t>(names_.size());
    slots_.push_back(slot);
    types_.push_back(0);
}

const std::uint8_t *Recovery::keep(const std::uint8_t *name, std::size_t len) {
    constexpr std::size_t piece = std::size_t{1} << 20;

    if (bytes_left_ < len) {
        bytes_.push_back(std::make_unique<std::uint8_t[]>(piece));
        bytes_at_ = bytes_.back().get();
        bytes_left_ = piece;
    }
    std::uint8_t *to = bytes_at_;
    std::memcpy(to, name, len);
    bytes_at_ += len;
    bytes_left_ -= len;
    return to;
}

void Recovery::add(const uhsfs_slot_view &view) {
    const std::scoped_lock guard(lock_);
    const auto index = static_cast<std::uint32_t>(slots_.size());
    uhsfs_rec_slot slot = {};

    slot.ino = view.attr.ino;
    slot.state = UHSFS_SLOT_INODE;
    slot.generation = view.attr.generation;
    slot.name_seq_max = view.attr.name_seq_max;
    slot.is_dir = uhsfs_is_dir(view.attr.mode);
    slot.first_name = static_cast<std::uint32_t>(names_.size());
    InodeVisitor visitor;
    visitor.names_only = true;
    visitor.name = [&](const uhsfs_claim &claim) {
        uhsfs_rec_name name = {};
        name.parent_ino = claim.parent_ino;
        name.parent_gen = claim.parent_gen;
        name.name_seq = claim.name_seq;
        name.name = keep(claim.name, claim.len);
        name.len = static_cast<std::uint8_t>(claim.len);
        name.owner = index;
        names_.push_back(name);
        slot.names++;
    };
    slot.partial = !walk_inode(volume_, view, visitor).names_complete;
    slots_.push_back(slot);
    types_.push_back(uhsfs_mode_dtype(view.attr.mode));
    if (const auto *raw = static_cast<const uhsfs_intent *>(view.value[UHSFS_TLV_INTENT])) {
        uhsfs_rec_intent intent = {};
        intent.peer_ino = le64_to_cpu(raw->peer_ino);
        intent.peer_gen = le32_to_cpu(raw->peer_gen);
        intent.parent_ino = le64_to_cpu(raw->parent_ino);
        intent.parent_gen = le32_to_cpu(raw->parent_gen);
        intent.name_seq = le64_to_cpu(raw->name_seq);
        intent.name = keep(raw->name, raw->len);
        intent.len = raw->len;
        intent.op = raw->op;
        intent.holder = index;
        intents_.push_back(intent);
    }
}

uhsfs_rec_outside describe_slot(const Volume &volume, std::uint64_t ino) {
    const uhsfs_geometry &geo = volume.geo();
    const std::uint64_t chunk = uhsfs_ino_chunk(&geo, ino);
    uhsfs_rec_outside slot = {};

    slot.state = UHSFS_REC_UNREADABLE;
    if (ino == UHSFS_INO_INVALID || chunk >= uhsfs_super_chunks(&volume.super()))
        return slot;
    const auto info = volume.chunk(chunk);
    if (!info)
        return slot;
    const auto block = volume.slot_block(ino);
    if (!block)
        return slot;
    if (!*block) {
        if ((info->in_use >> uhsfs_ino_index(&geo, ino) & 1) == 0) {
            slot.state = UHSFS_SLOT_FREE;
            slot.generation = info->gen_base;
        }
        return slot;
    }
    const uhsfs_slot_id id = {
        .ino = ino, .block = block->home.chosen_block(), .nonce = info->nonce};
    uhsfs_slot_view view = {};
    uhsfs_fault fault = {};
    if (uhsfs_slot_parse(&geo, block->record->data() + uhsfs_slot_offset(&geo, ino), &id, &view,
                         &fault) != 0)
        return slot;
    slot.state = view.attr.state;
    slot.generation = view.attr.generation;
    slot.name_seq_max = view.attr.name_seq_max;
    slot.is_dir = uhsfs_is_dir(view.attr.mode);
    return slot;
}

int Recovery::outside(void *context, unsigned long long ino, uhsfs_rec_outside *slot) {
    *slot = describe_slot(static_cast<Recovery *>(context)->volume_, ino);
    return 0;
}

void Recovery::event(void *context, const uhsfs_rec_event *event) {
    (*static_cast<Recovery *>(context)->event_)(*event);
}

Result<void> Recovery::run(const std::function<void(const uhsfs_rec_event &)> &each) {
    const std::uint64_t names = names_.size() + intents_.size();

    if (slots_.size() > UHSFS_REC_MAX || names > UHSFS_REC_MAX)
        return fail(EFBIG, volume_.path(),
                    fmt::format("recovery of {} slots with {} names is more than this program "
                                "can do",
                                slots_.size(), names));
    event_ = &each;
    r_.slot_count = static_cast<std::uint32_t>(slots_.size());
    r_.name_count = static_cast<std::uint32_t>(names_.size());
    r_.name_room = static_cast<std::uint32_t>(names);
    r_.intent_count = static_cast<std::uint32_t>(intents_.size());
    names_.resize(names);
    slot_order_.resize(slots_.size());
    name_order_.resize(names);
    scratch_.resize(std::max<std::size_t>({slots_.size(), names, intents_.size()}));
    r_.slots = slots_.data();
    r_.names = names_.data();
    r_.intents = intents_.data();
    r_.slot_order = slot_order_.data();
    r_.name_order = name_order_.data();
    r_.scratch = scratch_.data();
    r_.outside = outside;
    r_.event = event;
    r_.context = this;
    if (const int err = uhsfs_recover(&r_))
        return fail(-err, volume_.path(), "cannot work out what recovery would do");
    return {};
}

const uhsfs_rec_slot *Recovery::slot(std::uint64_t ino) const {
    const auto at = std::ranges::lower_bound(
        slot_order_, ino, {},
        [&](std::uint32_t index) -> std::uint64_t { return slots_[index].ino; });

    if (at == slot_order_.end() || slots_[*at].ino != ino)
        return nullptr;
    return &slots_[*at];
}

void Recovery::each_name(const std::function<void(const uhsfs_rec_slot &, std::uint8_t,
                                                  const uhsfs_rec_name &)> &each) const {
    for (std::uint32_t i = 0; i < r_.name_count; i++) {
        const uhsfs_rec_name &name = names_[i];
        if (name.fate != UHSFS_REC_KEPT && name.fate != UHSFS_REC_HELD)
            continue;
        const uhsfs_rec_slot &slot = slots_[name.owner];
        const bool made = (slot.changed & UHSFS_REC_MADE) != 0;
        each(slot, made ? uhsfs_mode_dtype(UHSFS_S_IFCHR) : types_[name.owner], name);
    }
}

}  // namespace uhsfs::checking
