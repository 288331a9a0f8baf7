// SPDX-License-Identifier: GPL-2.0
//
// Recovery of the cuts that DESIGN names, of damage, of what callers get wrong, and of
// many slots at once.  Scenario numbers are those of "Scenarios that must never fail".
// Slots stand as on the disk at the cut; sN is inode N, name_seqs grow with time, and
// what the checkpoint left has name_seqs below 10.
#include <ctime>

#include "recover_world.hpp"
#include "sort.h"

namespace {

using uhsfs::test::Binding;
using uhsfs::test::Claim;
using uhsfs::test::Intent;
using uhsfs::test::Key;
using uhsfs::test::Outcome;
using uhsfs::test::Random;
using uhsfs::test::recover;
using uhsfs::test::Recovery;
using uhsfs::test::show;
using uhsfs::test::Slot;
using uhsfs::test::Slots;
using uhsfs::test::World;
using uhsfs::test::written;

constexpr u64 root = UHSFS_INO_ROOT;
constexpr u64 a = 10, b = 11, c = 12, t = 13, w = 14;  // files
constexpr u64 p = 20, q = 21, d = 22;                  // directories

Claim claim(u64 parent, const std::string &name, u64 seq) { return {{parent, 1, name}, seq}; }

Slot inode(std::vector<Claim> names, bool dir = false) {
    Slot slot;
    slot.dir = dir;
    for (const Claim &each : names)
        slot.newest = std::max(slot.newest, each.seq);
    slot.names = std::move(names);
    return slot;
}

Slot directory(std::vector<Claim> names) { return inode(std::move(names), true); }

Slot with(Slot slot, u8 op, u64 peer, const Claim &claim) {
    slot.intent = Intent{op, peer, 1, claim};
    return slot;
}

Slot nothing(u64 newest = 0, u32 gen = 1) {
    Slot slot;
    slot.state = UHSFS_SLOT_FREE;
    slot.newest = newest;
    slot.gen = gen;
    return slot;
}

Slot unreadable() {
    Slot slot;
    slot.state = UHSFS_REC_UNREADABLE;
    return slot;
}

// The root is durable and unmarked unless a test says otherwise.
World cut(Slots marked, Slots outside = {}) {
    if (!marked.contains(root))
        outside.try_emplace(root, directory({}));
    return {std::move(marked), std::move(outside)};
}

// What users see: every name that is in its directory after recovery, "parent/name" -> inode.
std::map<std::string, u64> names(const Outcome &outcome) {
    std::map<std::string, u64> list;
    for (const auto &[key, ino] : outcome.inserts)
        list[std::to_string(key.parent) + "/" + key.name] = ino;
    return list;
}

using Names = std::map<std::string, u64>;

class RecoverCut : public ::testing::Test {
protected:
    // Recovery of this finds no damage and comes to these names and inodes in use.
    void expect(const World &world, const Names &want, const std::set<u64> &in_use) {
        const Outcome outcome = recover(world);
        ASSERT_EQ(outcome.err, 0);
        EXPECT_EQ(outcome.damage, 0U) << ::testing::PrintToString(outcome.log);
        EXPECT_EQ(names(outcome), want) << ::testing::PrintToString(outcome.log);
        after = written(world.marked, outcome);
        std::set<u64> used;
        for (const auto &[ino, slot] : after)
            if (slot.state == UHSFS_SLOT_INODE)
                used.insert(ino);
        EXPECT_EQ(used, in_use) << show(after);
    }

    Slots after;
};

TEST_F(RecoverCut, Scenario1_ReplacedNameIsOldOrNew) {
    const Slot old_t = inode({claim(root, "tmp", 1)});
    const Slot new_t = inode({claim(root, "f", 10)});
    const Slot v = inode({claim(root, "f", 2)});
    expect(cut({{t, old_t}, {a, v}}), {{"1/tmp", t}, {"1/f", a}}, {t, a});
    expect(cut({{t, new_t}, {a, v}}), {{"1/f", t}}, {t});
    expect(cut({{t, new_t}, {a, nothing(10)}}), {{"1/f", t}}, {t});
}

TEST_F(RecoverCut, Scenario3_RenamedAndCreatedAgain) {
    // foo is recreated only after the slot that left it is durable (R4a).
    expect(cut({{a, inode({claim(root, "bar", 10)})}, {b, inode({claim(root, "foo", 11)})}}),
           {{"1/bar", a}, {"1/foo", b}}, {a, b});
    expect(cut({{a, inode({claim(root, "bar", 10)})}, {b, nothing()}}), {{"1/bar", a}}, {a});
    expect(cut({{a, inode({claim(root, "foo", 1)})}, {b, nothing()}}), {{"1/foo", a}}, {a});
}

TEST_F(RecoverCut, Scenario4_LinkedUnlinkedAndCreatedAgain) {
    expect(cut({{a, inode({claim(root, "g", 10)})}, {b, inode({claim(root, "f", 12)})}}),
           {{"1/g", a}, {"1/f", b}}, {a, b});
    // Unlink not durable: the newer claim holds, the inode stays under its other name.
    expect(cut({{a, inode({claim(root, "f", 1), claim(root, "g", 10)})},
                {b, inode({claim(root, "f", 12)})}}),
           {{"1/g", a}, {"1/f", b}}, {a, b});
    EXPECT_EQ(after.at(a).names, std::vector{claim(root, "g", 10)});
}

TEST_F(RecoverCut, Scenario8_MovedOutOfARemovedDirectory) {
    // R5: p's slot waits for c's departure.
    expect(cut({{c, inode({claim(q, "c", 10)})}, {p, nothing(11)}}, {{q, directory({})}}),
           {{"21/c", c}}, {c});
    expect(cut({{c, inode({claim(p, "c", 1)})}, {p, directory({claim(root, "p", 1)})}},
               {{q, directory({})}}),
           {{"20/c", c}, {"1/p", p}}, {c, p});
}

TEST_F(RecoverCut, Scenario9_ChildrenOfAnUnreadableParentSurvive) {
    for (const bool marked : {false, true}) {
        World world = cut({{c, inode({claim(p, "c", 1)})},
                           {d, directory({claim(p, "d", 2)})},
                           {a, inode({claim(d, "a", 3)})}});
        if (marked)
            world.marked[p] = unreadable();
        const Outcome outcome = recover(world);
        EXPECT_TRUE(outcome.changed.empty());
        EXPECT_EQ(names(outcome), (Names{{"22/a", a}}));
        EXPECT_EQ(outcome.events, (std::map<int, u64>{{UHSFS_REC_PARENT_UNREADABLE, 2}}));
        EXPECT_EQ(outcome.damage, 2U);
    }
}

TEST_F(RecoverCut, Scenario15_AnOrphanIsFreed) {
    Slot orphan = inode({});
    orphan.newest = 5;
    expect(cut({{a, orphan}, {b, inode({claim(root, "b", 1)})}}), {{"1/b", b}}, {b});
    EXPECT_EQ(after.at(a), nothing(5));
}

TEST_F(RecoverCut, Scenario17_ExchangeHalfDurable) {
    const Slot old_a = inode({claim(root, "a", 1)});
    const Slot old_b = inode({claim(root, "b", 2)});
    const Slot half =
        with(inode({claim(root, "b", 10)}), UHSFS_INTENT_EXCHANGE, b, claim(root, "a", 10));
    const Slot whole = inode({claim(root, "a", 10)});
    expect(cut({{a, old_a}, {b, old_b}}), {{"1/a", a}, {"1/b", b}}, {a, b});
    expect(cut({{a, half}, {b, old_b}}), {{"1/a", b}, {"1/b", a}}, {a, b});
    EXPECT_EQ(after.at(b), whole);
    EXPECT_FALSE(after.at(a).intent);
    expect(cut({{a, half}, {b, whole}}), {{"1/a", b}, {"1/b", a}}, {a, b});
    // The peer is written before the intent goes.
    const Outcome outcome = recover(cut({{a, half}, {b, old_b}}));
    EXPECT_EQ(outcome.peers, std::vector{b});
    EXPECT_EQ(outcome.others, std::vector{a});
}

TEST_F(RecoverCut, Scenario17_ExchangeOfDirectoriesWithinEachOthersParents) {
    // p and q/d change places.
    expect(cut({{p, with(directory({claim(q, "d", 10)}), UHSFS_INTENT_EXCHANGE, d,
                         claim(root, "p", 10))},
                {d, directory({claim(q, "d", 2)})},
                {q, directory({claim(root, "q", 3)})},
                {a, inode({claim(d, "a", 4)})}}),
           {{"21/d", p}, {"1/p", d}, {"1/q", q}, {"22/a", a}}, {p, d, q, a});
}

TEST_F(RecoverCut, Scenario18_TheWhiteoutIsThere) {
    const Slot half =
        with(inode({claim(root, "b", 10)}), UHSFS_INTENT_WHITEOUT, w, claim(root, "a", 10));
    expect(cut({{a, half}, {w, nothing()}, {b, inode({claim(root, "b", 2)})}}),
           {{"1/a", w}, {"1/b", a}}, {a, w});
    expect(cut({{a, half}, {w, inode({claim(root, "a", 10)})}, {b, nothing(10)}}),
           {{"1/a", w}, {"1/b", a}}, {a, w});
    // Of a reused slot: another generation than the FREE one says.
    Slot again = half;
    again.intent->peer_gen = 8;
    expect(cut({{a, again}, {w, nothing(9, 7)}}), {{"1/a", w}, {"1/b", a}}, {a, w});
    EXPECT_EQ(after.at(w).gen, 8U);
    // Removed since: its FREE slot remembers.
    expect(cut({{a, half}, {w, nothing(11)}}), {{"1/b", a}}, {a});
}

TEST_F(RecoverCut, Scenario25_BucketBeforeSlots) {
    expect(cut({{a, inode({claim(root, "a", 1)})}, {b, inode({claim(root, "b", 2)})}}),
           {{"1/a", a}, {"1/b", b}}, {a, b});
}

TEST_F(RecoverCut, Scenario26_ReplacedTwice) {
    // mv a b; mv p/c b; only c's slot is written.
    expect(cut({{a, inode({claim(root, "a", 1)})},
                {b, inode({claim(root, "b", 2)})},
                {c, inode({claim(root, "b", 11)})}},
               {{p, directory({})}}),
           {{"1/a", a}, {"1/b", c}}, {a, c});
    expect(cut({{a, inode({claim(root, "b", 10)})},
                {b, inode({claim(root, "b", 2)})},
                {c, inode({claim(root, "b", 11)})}}),
           {{"1/b", c}}, {c});
}

TEST_F(RecoverCut, Scenario27_MovedIntoANewDirectory) {
    // N1: t is durable before a's name in it; its own name is not in the index yet.
    expect(cut({{d, directory({claim(root, "t", 10)})}, {a, inode({claim(d, "x", 11)})}}),
           {{"1/t", d}, {"22/x", a}}, {d, a});
    expect(cut({{d, nothing()}, {a, inode({claim(root, "a", 1)})}}), {{"1/a", a}}, {a});
}

TEST_F(RecoverCut, Scenario28_TheReplacedOneDoesNotReturn) {
    // N2: a's victim is FREE before c leaves the name.
    expect(cut({{c, inode({claim(root, "t", 12)})}, {a, nothing(10)}}), {{"1/t", c}}, {c});
    expect(cut({{c, inode({claim(root, "a", 10)})}, {a, inode({claim(root, "a", 1)})}}),
           {{"1/a", c}}, {c});
}

TEST_F(RecoverCut, Scenario29_ReplacedWithAnotherLink) {
    expect(cut({{a, inode({claim(root, "a", 1), claim(q, "d", 10)})},
                {t, inode({claim(root, "a", 11)})}},
               {{q, directory({})}}),
           {{"1/a", t}, {"21/d", a}}, {a, t});
}

TEST_F(RecoverCut, Scenario30_ExchangeOfAnyTwo) {
    // A file and a directory that has entries.
    expect(cut({{a, with(inode({claim(root, "p", 10)}), UHSFS_INTENT_EXCHANGE, p,
                         claim(root, "a", 10))},
                {p, directory({claim(root, "p", 2)})},
                {c, inode({claim(p, "c", 3)})}}),
           {{"1/p", a}, {"1/a", p}, {"20/c", c}}, {a, p, c});
    // Names of one inode are exchanged with another one's; the rest stay.
    expect(cut({{a, with(inode({claim(root, "b", 10), claim(root, "h", 1)}), UHSFS_INTENT_EXCHANGE,
                         b, claim(root, "a", 10))},
                {b, inode({claim(root, "b", 2), claim(q, "l", 3)})}},
               {{q, directory({})}}),
           {{"1/b", a}, {"1/h", a}, {"1/a", b}, {"21/l", b}}, {a, b});
}

TEST_F(RecoverCut, Scenario31_TheIntentClaimsForItsPeer) {
    // mv b a; mv a t; create a; WHITEOUT a -> b: t is b's inode before the intent stands.
    expect(cut({{b, inode({claim(root, "t", 11)})},
                {a, nothing(10)},
                {c, with(inode({claim(root, "b", 13)}), UHSFS_INTENT_WHITEOUT, w,
                         claim(root, "a", 13))},
                {w, nothing()}}),
           {{"1/t", b}, {"1/b", c}, {"1/a", w}}, {b, c, w});
}

TEST_F(RecoverCut, Scenario32_LinkedAndExchanged) {
    // link b q/c; exchange a b: b's link is durable before the first half.
    expect(cut({{a, with(inode({claim(root, "b", 11)}), UHSFS_INTENT_EXCHANGE, b,
                         claim(root, "a", 11))},
                {b, inode({claim(root, "b", 2), claim(q, "c", 10)})}},
               {{q, directory({})}}),
           {{"1/b", a}, {"1/a", b}, {"21/c", b}}, {a, b});
}

TEST_F(RecoverCut, Scenario33_NothingUnlinkedIsResurrected) {
    // Exchanged a and b, unlinked "a" (inode b): nameless, but newer than a's intent.
    const Slot half =
        with(inode({claim(root, "b", 10)}), UHSFS_INTENT_EXCHANGE, b, claim(root, "a", 10));
    Slot orphan = inode({});
    orphan.newest = 10;
    expect(cut({{a, half}, {b, orphan}}), {{"1/b", a}}, {a});
    expect(cut({{a, half}, {b, nothing(11)}}), {{"1/b", a}}, {a});
    // A new generation of the slot took another name.
    Slot reused = inode({claim(root, "n", 12)});
    reused.gen = 2;
    expect(cut({{a, half}, {b, reused}}), {{"1/b", a}, {"1/n", b}}, {a, b});
}

TEST_F(RecoverCut, Scenario34_MovedOutOfAnOpenRemovedDirectory) {
    Slot open = directory({});
    open.newest = 11;
    expect(cut({{c, inode({claim(q, "c", 10)})}, {p, open}}, {{q, directory({})}}), {{"21/c", c}},
           {c});
    // mv p/c a; rmdir p; rm a: everything is gone.
    expect(cut({{c, nothing(12)}, {p, open}, {a, nothing(10)}}), {}, {});
}

TEST_F(RecoverCut, Scenario35_RenamedOverEachOthersNames) {
    // t over a (V keeps b), then V's b over a.
    expect(cut({{a, inode({claim(root, "a", 1), claim(root, "b", 2)})},
                {t, inode({claim(root, "a", 10)})}}),
           {{"1/a", t}, {"1/b", a}}, {a, t});
    expect(cut({{a, inode({claim(root, "a", 11)})}, {t, inode({claim(root, "a", 10)})}}),
           {{"1/a", a}}, {a});
}

TEST_F(RecoverCut, Scenario37_NewTreeIsThereFromTheTopOrNotAtAll) {
    const Slot top = directory({claim(root, "t", 10)});
    const Slot middle = directory({claim(p, "y", 11)});
    const Slot leaf = inode({claim(q, "z", 12)});
    expect(cut({{p, top}, {q, middle}, {c, leaf}}), {{"1/t", p}, {"20/y", q}, {"21/z", c}},
           {p, q, c});
    // N1 writes them from the top; were it not so, nothing would dangle.
    expect(cut({{p, nothing()}, {q, middle}, {c, leaf}}), {}, {});
    expect(cut({{p, top}, {q, nothing()}, {c, leaf}}), {{"1/t", p}}, {p});
    const Outcome outcome = recover(
        cut({{q, top}, {p, directory({claim(q, "y", 11)})}, {c, inode({claim(p, "z", 12)})}}));
    EXPECT_EQ(outcome.inserts,
              (std::vector<Binding>{{{root, 1, "t"}, q}, {{q, 1, "y"}, p}, {{p, 1, "z"}, c}}));
}

// ---- damage ----------------------------------------------------------------------------

class RecoverDamage : public ::testing::Test {
protected:
    // Nothing is written and exactly this is reported.
    void untouched(const World &world, const std::map<int, u64> &events, const Names &want) {
        const Outcome outcome = recover(world);
        ASSERT_EQ(outcome.err, 0);
        EXPECT_TRUE(outcome.changed.empty()) << ::testing::PrintToString(outcome.log);
        EXPECT_EQ(outcome.events, events) << ::testing::PrintToString(outcome.log);
        EXPECT_EQ(names(outcome), want);
    }
};

TEST_F(RecoverDamage, ParentIsAFile) {
    untouched(cut({{a, inode({claim(root, "a", 1)})}, {c, inode({claim(a, "c", 2)})}}),
              {{UHSFS_REC_PARENT_NOT_DIR, 1}}, {{"1/a", a}});
    untouched(cut({{c, inode({claim(c, "c", 2)})}}), {{UHSFS_REC_PARENT_NOT_DIR, 1}}, {});
}

TEST_F(RecoverDamage, CyclesOfDirectories) {
    untouched(cut({{d, directory({claim(d, "d", 2)})}, {a, inode({claim(d, "a", 3)})}}),
              {{UHSFS_REC_DIR_CYCLE, 1}}, {{"22/d", d}, {"22/a", a}});
    untouched(cut({{d, directory({claim(p, "d", 2)})},
                   {p, directory({claim(q, "p", 3)})},
                   {q, directory({claim(d, "q", 4)})}}),
              {{UHSFS_REC_DIR_CYCLE, 3}}, {{"20/d", d}, {"21/p", p}, {"22/q", q}});
}

TEST_F(RecoverDamage, UnusableRootDropsNothing) {
    const Slots files = {{a, inode({claim(root, "a", 1)})}};
    for (const bool marked : {false, true}) {
        World world{files, {}};
        (marked ? world.marked : world.outside)[root] = nothing();
        const Outcome outcome = recover(world);
        EXPECT_TRUE(outcome.changed.empty());
        EXPECT_EQ(outcome.events.at(UHSFS_REC_PARENT_ROOT), 1U);
        EXPECT_EQ(outcome.events.contains(UHSFS_REC_ROOT_BAD), marked);
    }
    untouched({files, {}}, {{UHSFS_REC_PARENT_UNREADABLE, 1}}, {});
    World world{files, {}};
    world.outside[root] = directory({});
    world.outside[root].gen = 2;
    untouched(world, {{UHSFS_REC_PARENT_ROOT, 1}}, {});
}

TEST_F(RecoverDamage, TheRootIsNeverFreedAndItsNamesCountForNothing) {
    untouched(cut({{root, directory({})}}), {}, {});
    untouched(cut({{root, directory({claim(root, "a", 9)})}, {a, inode({claim(root, "a", 1)})}}),
              {{UHSFS_REC_ROOT_NAMED, 1}}, {{"1/a", a}});
}

TEST_F(RecoverDamage, EqualNameSeqsKeepBothInodes) {
    untouched(cut({{b, inode({claim(root, "x", 5)})}, {a, inode({claim(root, "x", 5)})}}),
              {{UHSFS_REC_SEQ_TWICE, 1}}, {{"1/x", a}});
}

TEST_F(RecoverDamage, NamesThatCouldNotBeReadKeepTheSlot) {
    World world = cut({{a, inode({claim(p, "a", 1)})}}, {{p, nothing()}});
    world.marked[a].partial = true;
    const Outcome outcome = recover(world);
    EXPECT_EQ(outcome.changed.at(a).state, UHSFS_SLOT_INODE);
    EXPECT_EQ(outcome.events,
              (std::map<int, u64>{{UHSFS_REC_NAME_DROPPED, 1}, {UHSFS_REC_NAMELESS_KEPT, 1}}));
}

TEST_F(RecoverDamage, IntentsInDoubtStay) {
    const auto half = [](u8 op, u64 peer) {
        return with(inode({claim(root, "b", 10)}), op, peer, claim(root, "a", 10));
    };
    const Slot other = inode({claim(root, "o", 2)});
    const Names b_only{{"1/b", a}};
    const Names both{{"1/b", a}, {"1/o", b}};
    untouched(cut({{a, half(UHSFS_INTENT_EXCHANGE, a)}}), {{UHSFS_REC_INTENT_SELF, 1}}, b_only);
    untouched(cut({{a, half(3, b)}, {b, other}}), {{UHSFS_REC_INTENT_UNKNOWN, 1}}, both);
    untouched(cut({{a, half(UHSFS_INTENT_EXCHANGE, b)}, {b, unreadable()}}),
              {{UHSFS_REC_INTENT_UNREADABLE, 1}}, b_only);
    untouched(cut({{a, half(UHSFS_INTENT_EXCHANGE, b)}}), {{UHSFS_REC_INTENT_UNREADABLE, 1}},
              b_only);
    untouched(cut({{a, half(UHSFS_INTENT_EXCHANGE, b)}, {b, nothing()}}),
              {{UHSFS_REC_INTENT_PEER, 1}}, b_only);
    untouched(cut({{a, half(UHSFS_INTENT_WHITEOUT, b)}, {b, other}}), {{UHSFS_REC_INTENT_PEER, 1}},
              both);
    untouched(cut({{a, half(UHSFS_INTENT_WHITEOUT, root)}}, {}), {{UHSFS_REC_INTENT_UNMARKED, 1}},
              b_only);
    untouched(cut({{a, half(UHSFS_INTENT_EXCHANGE, b)}}, {{b, other}}),
              {{UHSFS_REC_INTENT_UNMARKED, 1}}, b_only);
}

TEST_F(RecoverDamage, AnIntentInDoubtKeepsItsNamelessPeer) {
    // a took "b" from b, but what b was to have instead is in doubt.
    const Outcome outcome =
        recover(cut({{a, with(inode({claim(root, "b", 10)}), 3, b, claim(root, "a", 10))},
                     {b, inode({claim(root, "b", 2)})}}));
    EXPECT_EQ(outcome.changed.at(b).state, UHSFS_SLOT_INODE);
    EXPECT_TRUE(outcome.changed.at(b).names.empty());
    EXPECT_EQ(outcome.events.at(UHSFS_REC_NAMELESS_KEPT), 1U);
}

TEST_F(RecoverDamage, ChainsAndRingsOfIntentsStay) {
    const auto half = [](const std::string &name, u64 peer) {
        return with(inode({claim(root, name, 2)}), UHSFS_INTENT_EXCHANGE, peer,
                    claim(root, name, 10));
    };
    untouched(cut({{a, half("a", b)}, {b, half("b", c)}, {c, inode({claim(root, "c", 2)})}}),
              {{UHSFS_REC_INTENT_CHAIN, 2}}, {{"1/a", a}, {"1/b", b}, {"1/c", c}});
    untouched(cut({{a, half("a", b)}, {b, half("b", a)}}), {{UHSFS_REC_INTENT_CHAIN, 2}},
              {{"1/a", a}, {"1/b", b}});
}

// ---- callers -----------------------------------------------------------------------------

class RecoverInput : public ::testing::Test {
protected:
    World world = cut({{a, with(inode({claim(root, "a", 1), claim(root, "b", 2)}),
                                UHSFS_INTENT_EXCHANGE, c, claim(root, "c", 1))},
                       {c, inode({claim(root, "c", 3)})}});
    Recovery recovery{world, {a, c}};
    uhsfs_recovery &r = recovery.r;

    int run() { return uhsfs_recover(&r); }
};

TEST_F(RecoverInput, IsTakenAsItIs) { EXPECT_EQ(run(), 0); }

TEST_F(RecoverInput, AnInodeTwice) {
    r.slots[1].ino = a;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, NamesOfAnother) {
    r.names[1].owner = 1;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, NamesOfNobody) {
    r.slots[0].names = 1;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, NamesPastTheEnd) {
    r.slots[1].names = 2;
    EXPECT_EQ(run(), -EINVAL);
    r.slots[1].names = 1;
    r.slots[1].first_name = U32_MAX;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, NamesOfAFreeSlot) {
    r.slots[1].state = UHSFS_SLOT_FREE;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, EmptyNames) {
    r.names[0].len = 0;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, IntentOfNobody) {
    const_cast<uhsfs_rec_intent *>(r.intents)->holder = 2;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, NoRoomForNames) {
    r.name_room--;
    EXPECT_EQ(run(), -EINVAL);
}

TEST_F(RecoverInput, TooMany) {
    r.slot_count = UHSFS_REC_MAX + 1;
    EXPECT_EQ(run(), -E2BIG);
}

TEST_F(RecoverInput, ErrorsOfTheCallerEndIt) {
    r.outside = [](void *, u64, uhsfs_rec_outside *) { return -ENOMEM; };
    EXPECT_EQ(run(), -ENOMEM);
}

TEST_F(RecoverInput, NothingAtAll) {
    const Outcome outcome = recover(World{});
    EXPECT_EQ(outcome.err, 0);
    EXPECT_TRUE(outcome.chunks.empty());
}

TEST(RecoverChunks, EachOnceWithWhatBecomesOfItsSlots) {
    // 16 slots in a chunk.
    const Outcome outcome = recover(cut({{a, inode({claim(root, "a", 1)})},
                                         {b, inode({})},
                                         {16, nothing()},
                                         {31, inode({claim(a, "n", 3), claim(root, "m", 4)})},
                                         {64, inode({claim(9, "n", 3), claim(root, "k", 4)})}},
                                        {{9, nothing()}}));
    EXPECT_EQ(outcome.chunks, (std::vector<std::pair<u64, u8>>{
                                  {0, UHSFS_REC_FREED}, {1, 0}, {4, UHSFS_REC_LESS_NAMES}}));
}

TEST(RecoverOutside, IsAskedOncePerDirectory) {
    World world = cut({});
    for (u64 ino = 100; ino < 200; ino++)
        world.marked[ino] = inode({claim(ino % 2 ? root : p, std::to_string(ino), ino)});
    world.outside[p] = directory({});
    EXPECT_EQ(recover(world).asked, 2U);
}

TEST(RecoverTexts, EveryOneSaysSomething) {
    std::set<std::string> texts;
    for (int what = 0; what < UHSFS_REC_WHATS; what++)
        texts.insert(uhsfs_rec_what_text(static_cast<uhsfs_rec_what>(what)));
    EXPECT_EQ(texts.size(), static_cast<std::size_t>(UHSFS_REC_WHATS));
    texts.clear();
    for (int stage = 0; stage < UHSFS_RECOVER_WRITES; stage++)
        texts.insert(uhsfs_recover_write_text(static_cast<uhsfs_recover_write>(stage)));
    EXPECT_EQ(texts.size(), static_cast<std::size_t>(UHSFS_RECOVER_WRITES));
    EXPECT_STREQ(uhsfs_rec_what_text(UHSFS_REC_WHATS), "unknown");
    EXPECT_STREQ(uhsfs_recover_write_text(UHSFS_RECOVER_WRITES), "unknown");
}

// ---- the sort -------------------------------------------------------------------------------

TEST(Sort, IsStableAtEveryLength) {
    Random random;
    SCOPED_TRACE(random.note());
    constexpr u32 longest = 300;
    for (u32 n = 0; n <= longest; n++) {
        std::vector<u64> keys(n);
        for (auto &key : keys)
            key = random.between(0, n / 2);
        std::vector<u32> order(n), scratch(n);
        std::iota(order.begin(), order.end(), 0);
        std::vector<u32> want = order;
        std::stable_sort(want.begin(), want.end(), [&](u32 x, u32 y) { return keys[x] < keys[y]; });
        uhsfs_sort(
            order.data(), scratch.data(), n,
            [](const void *context, u32 x, u32 y) {
                const auto &all = *static_cast<const std::vector<u64> *>(context);
                return all[x] < all[y] ? -1 : static_cast<int>(all[x] > all[y]);
            },
            &keys);
        ASSERT_EQ(order, want) << n;
    }
}

// ---- many ------------------------------------------------------------------------------

constexpr u64 many = 100000;

double seconds() {
    constexpr double nano = 1e-9;
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * nano;
}

// Recovery of `marked`, read in random order, within a second of this thread's time.
Outcome in_time(const World &world) {
    Random random;
    std::vector<u64> order = uhsfs::test::inodes(world.marked);
    for (std::size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[random.between(0, i - 1)]);
    Recovery recovery(world, order);
    recovery.r.event = nullptr;
    const double start = seconds();
    const int err = uhsfs_recover(&recovery.r);
    const double took = seconds() - start;
    EXPECT_EQ(err, 0);
#if defined(__SANITIZE_ADDRESS__)
    constexpr double most = 8;
#else
    constexpr double most = 0.8;
#endif
    EXPECT_LT(took, most);
    ::testing::Test::RecordProperty("milliseconds", static_cast<int>(took * 1000));
    Outcome outcome;
    for (int what = 0; what < UHSFS_REC_WHATS; what++)
        outcome.events[what] = recovery.r.events[what];
    return outcome;
}

Slot named(u64 parent, const std::string &name, u64 seq, bool dir = false) {
    return Slot{.dir = dir, .newest = seq, .names = {{{parent, 1, name}, seq}}, .intent = {}};
}

TEST(RecoverMany, OrdinarySlots) {
    World world;
    Random random;
    world.marked[1] = Slot{.dir = true, .names = {}, .intent = {}};
    for (u64 ino = 2; ino <= many; ino++)
        world.marked[ino] = named(ino < 100 ? 1 : random.between(2, 99),
                                  std::to_string(random.between(1, many)), ino, ino < 100);
    Outcome outcome = in_time(world);
    EXPECT_GT(outcome.events[UHSFS_REC_NAME_LOST], 100U);
    EXPECT_EQ(outcome.events[UHSFS_REC_SLOT_FREED], outcome.events[UHSFS_REC_NAME_LOST]);
}

TEST(RecoverMany, ChainOfDirectoriesThatLosesItsTop) {
    World world;
    for (u64 ino = 2; ino <= many; ino++)
        world.marked[ino] = named(ino == many ? many + 1 : ino + 1, "d", ino, true);
    world.outside[many + 1] = Slot{.state = UHSFS_SLOT_FREE, .names = {}, .intent = {}};
    EXPECT_EQ(in_time(world).events[UHSFS_REC_SLOT_FREED], many - 1);
    world.outside[many + 1] = Slot{.dir = true, .names = {}, .intent = {}};
    EXPECT_EQ(in_time(world).events[UHSFS_REC_SLOT_FREED], 0U);
}

TEST(RecoverMany, OneCycle) {
    World world;
    for (u64 ino = 2; ino <= many; ino++)
        world.marked[ino] = named(ino == many ? 2 : ino + 1, "d", ino, true);
    EXPECT_EQ(in_time(world).events[UHSFS_REC_DIR_CYCLE], many - 1);
}

TEST(RecoverMany, ClaimsToOneName) {
    World world;
    world.outside[1] = Slot{.dir = true, .names = {}, .intent = {}};
    for (u64 ino = 2; ino <= many; ino++)
        world.marked[ino] = named(1, "n", ino);
    EXPECT_EQ(in_time(world).events[UHSFS_REC_NAME_LOST], many - 2);
    for (auto &[ino, slot] : world.marked)
        slot.names[0].seq = 1;
    EXPECT_EQ(in_time(world).events[UHSFS_REC_SEQ_TWICE], many - 2);
}

TEST(RecoverMany, IntentsForOnePeer) {
    World world;
    world.outside[1] = Slot{.dir = true, .names = {}, .intent = {}};
    world.marked[2] = Slot{.state = UHSFS_SLOT_FREE, .names = {}, .intent = {}};
    for (u64 ino = 3; ino <= many; ino++) {
        world.marked[ino] = named(1, std::to_string(ino), ino);
        world.marked[ino].intent = Intent{UHSFS_INTENT_WHITEOUT, 2, 1, {{1, 1, "w"}, ino}};
    }
    EXPECT_EQ(in_time(world).events[UHSFS_REC_INTENT_TWICE], many - 3);
}

}  // namespace
