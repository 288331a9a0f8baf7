/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slots as they stand on a disk after a cut, recovery of them, and what the disk holds
 * once its decisions are written.
 */
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recover.h"
#include "support/random.hpp"

namespace uhsfs::test {

struct Key {
    u64 parent = 0;
    u32 gen = 1;
    std::string name;
    auto operator<=>(const Key &) const = default;
};

struct Claim {
    Key key;
    u64 seq = 0;
    auto operator<=>(const Claim &) const = default;
};

struct Intent {
    u8 op = 0;
    u64 peer = 0;
    u32 peer_gen = 1;
    Claim claim;
    bool operator==(const Intent &) const = default;
};

struct Slot {
    u8 state = UHSFS_SLOT_INODE;
    u32 gen = 1;
    bool dir = false;
    bool partial = false;
    u64 newest = 0;
    std::vector<Claim> names;
    std::optional<Intent> intent;
    bool operator==(const Slot &) const = default;
};

using Slots = std::map<u64, Slot>;
using Binding = std::pair<Key, u64>;

struct World {
    Slots marked;   // what recovery reads
    Slots outside;  // the rest of the disk; what is in neither cannot be read
};

struct Outcome {
    int err = 0;
    Slots changed;  // as they are to be written
    std::vector<u64> peers, others;
    std::vector<Binding> inserts;
    std::map<int, u64> events;
    std::vector<std::string> log;
    u64 damage = 0;
    u64 asked = 0;
    std::vector<std::pair<u64, u8>> chunks;
};

inline Slots written(Slots disk, const Outcome &outcome, const std::vector<u64> &inodes) {
    for (const u64 ino : inodes)
        disk[ino] = outcome.changed.at(ino);
    return disk;
}

inline Slots written(const Slots &disk, const Outcome &outcome) {
    return written(written(disk, outcome, outcome.peers), outcome, outcome.others);
}

// The arrays of a recovery, each exactly as long as promised, in the order of `order`.
class Recovery {
public:
    Recovery(const World &world, const std::vector<u64> &order) : world_(world) {
        for (const u64 ino : order)
            add(ino, world_.marked.at(ino));
        const auto count = names_.size();
        names_.resize(count + intents_.size());
        slot_order_.resize(slots_.size());
        name_order_.resize(names_.size());
        scratch_.resize(std::max(slots_.size(), names_.size()));
        r.slots = slots_.data();
        r.names = names_.data();
        r.intents = intents_.data();
        r.slot_count = static_cast<u32>(slots_.size());
        r.name_count = static_cast<u32>(count);
        r.name_room = static_cast<u32>(names_.size());
        r.intent_count = static_cast<u32>(intents_.size());
        r.slot_order = slot_order_.data();
        r.name_order = name_order_.data();
        r.scratch = scratch_.data();
        r.outside = outside;
        r.event = event;
        r.context = this;
    }
    Recovery(const Recovery &) = delete;
    Recovery &operator=(const Recovery &) = delete;

    Outcome run() {
        out_.err = uhsfs_recover(&r);
        if (out_.err)
            return std::move(out_);
        out_.damage = r.damage;
        for (int what = 0; what < UHSFS_REC_WHATS; what++)
            if (r.events[what])
                out_.events[what] = r.events[what];
        for (u32 i = 0; i < r.insert_count; i++)
            out_.inserts.emplace_back(claim(r.name_order[i]).key,
                                      slots_[names_[r.name_order[i]].owner].ino);
        collect(UHSFS_RECOVER_PEERS, out_.peers);
        collect(UHSFS_RECOVER_SLOTS, out_.others);
        const uhsfs_geometry geo{.fsid = 0,
                                 .blocks = 0,
                                 .homes = 1,
                                 .slot_size = 4096,
                                 .slots_per_block = 1,
                                 .slots_per_chunk = 16,
                                 .erase_unit = 16,
                                 .ro_compat = 0,
                                 .snapshot = 0,
                                 .hash_key = {},
                                 .nonce_key = {}};
        u32 cursor = 0;
        u64 chunk = 0;
        u8 changed = 0;
        while (uhsfs_recover_next_chunk(&r, &geo, &cursor, &chunk, &changed))
            out_.chunks.emplace_back(chunk, changed);
        return std::move(out_);
    }

    uhsfs_recovery r{};

private:
    void add(u64 ino, const Slot &slot) {
        const auto index = static_cast<u32>(slots_.size());
        uhsfs_rec_slot s{};
        s.ino = ino;
        s.name_seq_max = slot.newest;
        s.generation = slot.gen;
        s.state = slot.state;
        s.is_dir = slot.dir;
        s.partial = slot.partial;
        s.first_name = static_cast<u32>(names_.size());
        s.names = static_cast<u32>(slot.names.size());
        s.changed = 0xff;
        slots_.push_back(s);
        for (const Claim &c : slot.names) {
            uhsfs_rec_name n{};
            n.parent_ino = c.key.parent;
            n.parent_gen = c.key.gen;
            n.name_seq = c.seq;
            n.name = bytes(c.key.name);
            n.len = static_cast<u8>(c.key.name.size());
            n.owner = index;
            n.fate = 0xff;
            names_.push_back(n);
        }
        if (slot.intent) {
            const Claim &c = slot.intent->claim;
            uhsfs_rec_intent i{};
            i.peer_ino = slot.intent->peer;
            i.peer_gen = slot.intent->peer_gen;
            i.parent_ino = c.key.parent;
            i.parent_gen = c.key.gen;
            i.name_seq = c.seq;
            i.name = bytes(c.key.name);
            i.len = static_cast<u8>(c.key.name.size());
            i.holder = index;
            i.op = slot.intent->op;
            intents_.push_back(i);
        }
    }

    static const u8 *bytes(const std::string &text) {
        return reinterpret_cast<const u8 *>(text.data());
    }

    [[nodiscard]] Claim claim(u32 index) const {
        const auto &n = names_[index];
        return {{n.parent_ino, n.parent_gen,
                 std::string(reinterpret_cast<const char *>(n.name), n.len)},
                n.name_seq};
    }

    void collect(uhsfs_recover_write stage, std::vector<u64> &inodes) {
        u32 cursor = 0;
        for (u32 s = 0; (s = uhsfs_recover_next_slot(&r, stage, &cursor)) != UHSFS_REC_NONE;) {
            const auto &slot = slots_[s];
            inodes.push_back(slot.ino);
            out_.changed[slot.ino] = image(slot);
        }
    }

    // The image a writer would make of the decisions about a slot.
    [[nodiscard]] Slot image(const uhsfs_rec_slot &slot) const {
        Slot made = world_.marked.at(slot.ino);
        made.state = slot.state;
        made.gen = slot.generation;
        made.newest = slot.name_seq_max;
        made.dir = slot.is_dir;
        made.names.clear();
        for (u32 i = slot.first_name; i < slot.first_name + slot.names; i++)
            if (names_[i].fate <= UHSFS_REC_HELD)
                made.names.push_back(claim(i));
        if (slot.changed & UHSFS_REC_GAINED && names_[slot.gained].fate <= UHSFS_REC_HELD)
            made.names.push_back(claim(slot.gained));
        if (slot.changed & UHSFS_REC_INTENT_GONE)
            made.intent.reset();
        if (slot.changed & UHSFS_REC_FREED) {
            made.dir = false;
            made.intent.reset();
        }
        return made;
    }

    static int outside(void *context, u64 ino, uhsfs_rec_outside *slot) {
        auto *self = static_cast<Recovery *>(context);
        const auto found = self->world_.outside.find(ino);

        self->out_.asked++;
        slot->state = UHSFS_REC_UNREADABLE;
        if (found != self->world_.outside.end()) {
            slot->state = found->second.state;
            slot->generation = found->second.gen;
            slot->is_dir = found->second.dir;
            slot->name_seq_max = found->second.newest;
        }
        return 0;
    }

    static void event(void *context, const uhsfs_rec_event *e) {
        std::string text = std::to_string(e->ino) + " " + uhsfs_rec_what_text(e->what);
        if (e->name)
            text += ": " + std::to_string(e->parent_ino) + "." + std::to_string(e->parent_gen) +
                    "/" + std::string(reinterpret_cast<const char *>(e->name), e->len) + "@" +
                    std::to_string(e->name_seq) + "|" + std::to_string(e->other_seq);
        if (e->against)
            text += " against " + std::to_string(e->against);
        static_cast<Recovery *>(context)->out_.log.push_back(std::move(text));
    }

    const World &world_;
    std::vector<uhsfs_rec_slot> slots_;
    std::vector<uhsfs_rec_name> names_;
    std::vector<uhsfs_rec_intent> intents_;
    std::vector<u32> slot_order_, name_order_, scratch_;
    Outcome out_;
};

inline std::vector<u64> inodes(const Slots &slots) {
    std::vector<u64> list;
    for (const auto &[ino, slot] : slots)
        list.push_back(ino);
    return list;
}

inline Outcome recover(const World &world) { return Recovery(world, inodes(world.marked)).run(); }

inline Outcome recover_shuffled(const World &world, Random &random) {
    auto order = inodes(world.marked);
    for (std::size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[random.between(0, i - 1)]);
    return Recovery(world, order).run();
}

inline std::string show(const Slots &slots) {
    std::string text;
    for (const auto &[ino, slot] : slots) {
        text += std::to_string(ino) + ": state " + std::to_string(slot.state) + " gen " +
                std::to_string(slot.gen) + (slot.dir ? " dir" : "") +
                (slot.partial ? " partial" : "") + " newest " + std::to_string(slot.newest);
        for (const Claim &c : slot.names)
            text += " " + std::to_string(c.key.parent) + "." + std::to_string(c.key.gen) + "/" +
                    c.key.name + "@" + std::to_string(c.seq);
        if (slot.intent)
            text += " intent " + std::to_string(slot.intent->op) + " for " +
                    std::to_string(slot.intent->peer) + "." +
                    std::to_string(slot.intent->peer_gen) + " " +
                    std::to_string(slot.intent->claim.key.parent) + "/" +
                    slot.intent->claim.key.name + "@" + std::to_string(slot.intent->claim.seq);
        text += "\n";
    }
    return text;
}

}  // namespace uhsfs::test
