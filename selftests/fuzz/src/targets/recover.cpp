// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery. Input: a byte that chooses, then either slots as they may stand on disk, one
 * decision a byte, or the arrays themselves, however they contradict each other.
 *
 * Of slots: the result does not depend on their order, nothing is written unchanged, and
 * recovery of the result changes nothing. Of arrays: an error or none, no access outside.
 */
#include <algorithm>
#include <array>

#include "core/recover_world.hpp"
#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

using test::Claim;
using test::Outcome;
using test::Slot;
using test::World;

Claim read_claim(Reader &reader, u64 last) {
    static const std::array<std::string, 5> names = {"a", "b", "ab", "c", std::string(255, 'a')};
    Claim claim;

    claim.key.parent = reader.byte() % (last + 2);
    const std::uint8_t choice = reader.byte();
    claim.key.gen = choice % 8 == 0 ? 2 : 1;
    claim.key.name = names[choice / 8U % names.size()];
    claim.seq = 1 + reader.byte() % 32U;
    return claim;
}

Slot read_slot(Reader &reader, u64 ino, u64 last) {
    Slot slot;
    const std::uint8_t choice = reader.byte();

    slot.dir = ino == UHSFS_INO_ROOT ? choice % 16 != 0 : choice % 2 == 0;
    slot.gen = choice / 16 % 8 == 1 ? 2 : 1;
    slot.newest = reader.byte() % 40U;
    const std::uint8_t kind = reader.byte();
    if (kind % 8 == 1 || kind % 16 == 2) {
        slot.state = kind % 8 == 1 ? UHSFS_SLOT_FREE : UHSFS_REC_UNREADABLE;
        slot.dir = false;
        return slot;
    }
    slot.partial = kind % 32 == 3;
    std::uint32_t names = kind / 32U % 4;
    if (slot.dir)
        names = names == 3 ? 2 : names != 0 ? 1 : 0;
    if (ino == UHSFS_INO_ROOT && kind % 16 != 4)
        names = 0;
    for (; names > 0; names--)
        slot.names.push_back(read_claim(reader, last));
    if (kind % 16 >= 12) {
        const std::uint8_t peer = reader.byte();
        slot.intent = test::Intent{.op = static_cast<u8>(1 + peer / 64 % 3),
                                   .peer = 1 + peer % (last + 1),
                                   .peer_gen = peer % 16 == 0 ? 2U : 1U,
                                   .claim = read_claim(reader, last)};
    }
    return slot;
}

World read_world(Reader &reader) {
    World world;
    const u64 last = 1 + reader.byte() % 24U;

    for (u64 ino = 1; ino <= last && !reader.empty(); ino++) {
        const std::uint8_t where = reader.byte();
        Slot slot = read_slot(reader, ino, last);
        if (where % 8 == 1)
            world.outside[ino] = std::move(slot);
        else if (where % 32 != 2)
            world.marked[ino] = std::move(slot);
    }
    return world;
}

void run_world(Reader &reader, u64 seed) {
    const World world = read_world(reader);
    test::Random order(seed);
    const Outcome one = test::recover(world);
    const std::string shown = "\nmarked\n" + show(world.marked) + "outside\n" + show(world.outside);

    MUST(one.err == 0, "error {}{}", one.err, shown);
    const Outcome other = test::recover_shuffled(world, order);
    MUST(one.log == other.log && one.changed == other.changed && one.inserts == other.inserts &&
             one.chunks == other.chunks && one.events == other.events,
         "the order of slots matters{}", shown);
    for (const auto &[ino, slot] : one.changed)
        MUST(!(slot == world.marked.at(ino)), "{} is written unchanged{}", ino, shown);
    const Outcome again = test::recover({written(world.marked, one), world.outside});
    MUST(again.changed.empty(), "its own result is changed:\n{}{}", show(again.changed), shown);
    MUST(again.inserts == one.inserts, "its own result has other insertions{}", shown);
    MUST(again.damage <= one.damage, "damage rises from {} to {}{}", one.damage, again.damage,
         shown);
}

// A number that is mostly small.
u32 index(Reader &reader) {
    const std::uint8_t choice = reader.byte();

    return choice == 255 ? U32_MAX : choice == 254 ? reader.get<u32>() : choice % 20U;
}

int outside(void * /*context*/, u64 ino, uhsfs_rec_outside *slot) {
    *slot = {.name_seq_max = ino % 8,
             .generation = static_cast<u32>(ino % 3),
             .state = static_cast<u8>(ino % 4),
             .is_dir = ino % 2 != 0};
    return ino == 13 ? -EIO : 0;
}

void run_arrays(Reader &reader) {
    static std::array<u8, 256> bytes = {'a', 'b', 'c'};
    std::vector<uhsfs_rec_slot> slots(reader.byte() % 17U);
    std::vector<uhsfs_rec_name> names(reader.byte() % 17U);
    std::vector<uhsfs_rec_intent> intents(reader.byte() % 9U);
    uhsfs_recovery r = {};

    for (uhsfs_rec_slot &slot : slots) {
        reader.copy(&slot.generation, sizeof(slot.generation));
        slot.ino = reader.byte() % 24U;
        slot.name_seq_max = reader.byte();
        slot.state = static_cast<u8>(reader.byte() % 4U);
        const std::uint8_t choice = reader.byte();
        slot.generation %= 3;
        slot.is_dir = (choice & 1) != 0;
        slot.partial = (choice & 2) != 0;
        slot.first_name = index(reader);
        slot.names = index(reader);
        slot.gained = slot.up = slot.children = slot.depth = U32_MAX;  // garbage
    }
    for (uhsfs_rec_name &name : names) {
        name.parent_ino = reader.byte() % 24U;
        name.parent_gen = reader.byte() % 3U;
        name.name_seq = reader.byte() % 16U;
        name.name = bytes.data() + reader.byte() % 3;
        name.len = static_cast<u8>(reader.byte() % 4U);
        name.owner = index(reader);
        name.by = name.parent = U32_MAX;
    }
    for (uhsfs_rec_intent &intent : intents) {
        intent.peer_ino = reader.byte() % 24U;
        intent.parent_ino = reader.byte() % 24U;
        intent.name_seq = reader.byte() % 16U;
        intent.name = bytes.data();
        intent.len = 1;
        intent.peer_gen = reader.byte() % 3U;
        intent.parent_gen = reader.byte() % 3U;
        intent.holder = index(reader);
        intent.op = static_cast<u8>(reader.byte() % 4U);
    }
    const u32 name_count = static_cast<u32>(names.size());
    names.resize(name_count + reader.byte() % 12U);
    std::vector<u32> slot_order(slots.size());
    std::vector<u32> name_order(names.size());
    std::vector<u32> scratch(std::max(slots.size(), names.size()));
    r.slots = slots.data();
    r.names = names.data();
    r.intents = intents.data();
    r.slot_count = static_cast<u32>(slots.size());
    r.name_count = name_count;
    r.name_room = static_cast<u32>(names.size());
    r.intent_count = static_cast<u32>(intents.size());
    r.slot_order = slot_order.data();
    r.name_order = name_order.data();
    r.scratch = scratch.data();
    r.outside = outside;
    const int err = uhsfs_recover(&r);
    MUST(err == 0 || err == -EINVAL || err == -E2BIG || err == -EIO, "error {}", err);
    if (err != 0)
        return;
    const uhsfs_geometry geo = geometry(0);
    for (const auto stage : {UHSFS_RECOVER_PEERS, UHSFS_RECOVER_SLOTS}) {
        u32 cursor = 0;
        u32 written = 0;
        while (uhsfs_recover_next_slot(&r, stage, &cursor) != UHSFS_REC_NONE)
            MUST(++written <= slots.size(), "{} slots written", written);
    }
    u32 cursor = 0;
    u64 chunk = 0;
    u8 changed = 0;
    for (u32 n = 0; uhsfs_recover_next_chunk(&r, &geo, &cursor, &chunk, &changed); n++)
        MUST(n < slots.size(), "{} chunks", n);
    MUST(r.name_count <= r.name_room && r.insert_count <= r.name_count, "{} names, {} inserted",
         r.name_count, r.insert_count);
    for (u32 i = 0; i < r.insert_count; i++)
        MUST(r.name_order[i] < r.name_count && names[r.name_order[i]].fate == UHSFS_REC_KEPT,
             "inserts name {}", r.name_order[i]);
}

}  // namespace

void run(Bytes input) {
    Reader reader(input);
    const std::uint8_t choice = reader.byte();

    if (choice % 4 == 3)
        run_arrays(reader);
    else
        run_world(reader, choice);
}

void mutate(Random & /*random*/, std::vector<std::uint8_t> &input, std::size_t most) {
    mutate_bytes(input, most);
}

void seeds(const SeedSink &sink) {
    Random random(4);

    for (int number = 0; number < 12; number++) {
        std::vector<std::uint8_t> input(60 + random.below(120));
        for (auto &byte : input)
            byte = static_cast<std::uint8_t>(random.next());
        input[0] = static_cast<std::uint8_t>(number % 3 == 2 ? 3 : 0);
        input.back() = 1;
        sink(fmt::format("{}-{:02}", number % 3 == 2 ? "arrays" : "world", number), input);
    }
}

}  // namespace uhsfs::fuzz
