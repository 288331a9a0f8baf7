// SPDX-License-Identifier: GPL-2.0
//
// Recovery against a second one that is written down as simply as the rules read, on
// random slots: those a protocol could leave behind and those that none could.
#include "recover_world.hpp"

namespace {

using uhsfs::test::Binding;
using uhsfs::test::Claim;
using uhsfs::test::Intent;
using uhsfs::test::Key;
using uhsfs::test::Outcome;
using uhsfs::test::Random;
using uhsfs::test::recover;
using uhsfs::test::recover_shuffled;
using uhsfs::test::show;
using uhsfs::test::Slot;
using uhsfs::test::Slots;
using uhsfs::test::World;
using uhsfs::test::written;

// ---- the oracle --------------------------------------------------------------------

class Oracle {
public:
    explicit Oracle(const World &world) : world_(world), slots_(world.marked) {
        for (auto &[ino, slot] : slots_)
            for (const Claim &c : slot.names) {
                if (c.seq > world.marked.at(ino).newest)
                    events[UHSFS_REC_SEQ_BEYOND]++;
                slot.newest = std::max(slot.newest, c.seq);
            }
        intents();
        root();
        names();
        directories();
        for (auto &[ino, slot] : slots_) {  // what does not change is not written
            const Slot &old = world.marked.at(ino);
            if (!gained_.contains(ino) && slot.names == old.names && slot.intent == old.intent &&
                slot.state == old.state)
                slot.newest = old.newest;
            if (slot.state == UHSFS_SLOT_FREE && old.state != UHSFS_SLOT_FREE) {
                slot.dir = false;
                slot.intent.reset();
            }
        }
        finish();
    }

    const Slots &result() const { return slots_; }
    std::map<int, u64> events;
    std::set<Binding> inserts;

private:
    const Slot *find(u64 ino) const {
        static const Slot unreadable{.state = UHSFS_REC_UNREADABLE, .names = {}, .intent = {}};
        if (const auto at = slots_.find(ino); at != slots_.end())
            return &at->second;
        if (const auto at = world_.outside.find(ino); at != world_.outside.end())
            return &at->second;
        return &unreadable;
    }

    void intents() {
        std::map<u64, std::vector<u64>> by_peer;
        for (const auto &[ino, slot] : slots_)
            if (slot.intent)
                by_peer[slot.intent->peer].push_back(ino);
        std::map<u64, u64> open;  // holder -> peer
        for (auto &[peer, holders] : by_peer) {
            std::stable_sort(holders.begin(), holders.end(), [&](u64 a, u64 b) {
                return slots_.at(a).intent->claim.seq > slots_.at(b).intent->claim.seq;
            });
            if (judge(holders[0], peer, *find(peer)) == UHSFS_REC_INTENT_FINISHED)
                open[holders[0]] = peer;
        }
        for (auto &[peer, holders] : by_peer)
            for (const auto &[h, p] : open)
                if (h == peer)
                    for (const auto &[h2, p2] : open)
                        if (p2 == peer) {
                            chained_.insert(h);
                            chained_.insert(h2);
                        }
        for (auto &[peer, holders] : by_peer) {
            const Slot was = *find(peer);
            bool fits = false;
            for (std::size_t i = 0; i < holders.size(); i++) {
                int what = judge(holders[i], peer, was);
                if (!i && chained_.contains(holders[i]))
                    what = UHSFS_REC_INTENT_CHAIN;
                if (!i)
                    fits = what < UHSFS_REC_DAMAGE;
                else if (what != UHSFS_REC_INTENT_DONE && what != UHSFS_REC_INTENT_SELF &&
                         what != UHSFS_REC_INTENT_UNKNOWN)
                    what = UHSFS_REC_INTENT_TWICE;
                events[what]++;
                const Intent intent = *slots_.at(holders[i]).intent;
                if (what == UHSFS_REC_INTENT_FINISHED) {
                    Slot &gains = slots_.at(peer);
                    if (intent.op == UHSFS_INTENT_WHITEOUT) {
                        gains.state = UHSFS_SLOT_INODE;
                        gains.gen = intent.peer_gen;
                        gains.dir = false;
                    }
                    gained_[peer] = intent.claim;
                    gains.newest = intent.claim.seq;
                    gains.names.push_back(intent.claim);
                }
                if (what == UHSFS_REC_INTENT_FINISHED || what == UHSFS_REC_INTENT_DONE ||
                    (what == UHSFS_REC_INTENT_TWICE && fits)) {
                    slots_.at(holders[i]).intent.reset();
                } else {
                    pinned_.insert(holders[i]);
                    pinned_.insert(peer);
                }
            }
        }
    }

    int judge(u64 holder, u64 ino, const Slot &peer) const {
        const Intent &intent = *slots_.at(holder).intent;
        if (intent.op != UHSFS_INTENT_EXCHANGE && intent.op != UHSFS_INTENT_WHITEOUT)
            return UHSFS_REC_INTENT_UNKNOWN;
        if (holder == ino)
            return UHSFS_REC_INTENT_SELF;
        if (peer.state == UHSFS_REC_UNREADABLE)
            return UHSFS_REC_INTENT_UNREADABLE;
        if (peer.newest >= intent.claim.seq)
            return UHSFS_REC_INTENT_DONE;
        if (!slots_.contains(ino))
            return UHSFS_REC_INTENT_UNMARKED;
        const bool fits = intent.op == UHSFS_INTENT_EXCHANGE
                              ? peer.state == UHSFS_SLOT_INODE && peer.gen == intent.peer_gen
                              : peer.state == UHSFS_SLOT_FREE;
        return fits && ino != UHSFS_INO_ROOT ? UHSFS_REC_INTENT_FINISHED : UHSFS_REC_INTENT_PEER;
    }

    void root() {
        const auto at = slots_.find(UHSFS_INO_ROOT);
        if (at == slots_.end())
            return;
        events[UHSFS_REC_ROOT_NAMED] += at->second.names.size();
        if (at->second.state == UHSFS_SLOT_FREE ||
            (at->second.state == UHSFS_SLOT_INODE && !at->second.dir))
            events[UHSFS_REC_ROOT_BAD]++;
    }

    void names() {
        std::map<Key, std::map<u64, std::vector<u64>>> claims;  // name -> inode -> name_seqs
        for (const auto &[ino, slot] : slots_)
            for (const Claim &c : slot.names)
                if (ino != UHSFS_INO_ROOT)
                    claims[c.key][ino].push_back(c.seq);
        for (auto &[key, owners] : claims) {
            u64 best = 0;
            for (auto &[ino, seqs] : owners)
                best = std::max(best, *std::max_element(seqs.begin(), seqs.end()));
            u64 first = 0;
            for (auto &[ino, seqs] : owners) {
                if (!first && std::count(seqs.begin(), seqs.end(), best))
                    first = ino;
            }
            for (auto &[ino, seqs] : owners) {
                const auto equal = static_cast<u64>(std::count(seqs.begin(), seqs.end(), best));
                if (ino == first) {
                    const auto gained = gained_.find(ino);
                    if (gained == gained_.end() || gained->second != Claim{key, best})
                        events[UHSFS_REC_NAME_TWICE] += seqs.size() - 1;
                } else {
                    events[UHSFS_REC_NAME_LOST] += seqs.size() - equal;
                    events[UHSFS_REC_NAME_TWICE] += equal ? equal - 1 : 0;
                    events[UHSFS_REC_SEQ_TWICE] += equal ? 1 : 0;
                    if (equal)
                        held_.insert({key, ino});
                }
                bool stays = equal > 0;
                std::erase_if(slots_.at(ino).names, [&, key = key](const Claim &c) {
                    if (c.key != key)
                        return false;
                    const bool keep = stays && c.seq == best;
                    stays = stays && !keep;
                    return !keep;
                });
            }
        }
    }

    int parent(const Key &key) const {
        const Slot *p = find(key.parent);
        if (p->state == UHSFS_REC_UNREADABLE)
            return UHSFS_REC_PARENT_UNREADABLE;
        const bool same = p->state == UHSFS_SLOT_INODE && p->gen == key.gen;
        if (same && p->dir)
            return UHSFS_REC_NOTHING;
        if (key.parent == UHSFS_INO_ROOT)
            return UHSFS_REC_PARENT_ROOT;
        return same ? UHSFS_REC_PARENT_NOT_DIR : UHSFS_REC_NAME_DROPPED;
    }

    void directories() {
        for (const auto &[ino, slot] : slots_)
            for (const Claim &c : slot.names)
                if (const int what = parent(c.key); ino != UHSFS_INO_ROOT && what != 0)
                    if (what != UHSFS_REC_NAME_DROPPED) {
                        events[what]++;
                        held_.insert({c.key, ino});
                    }
        for (bool again = true; again;) {
            again = false;
            for (auto &[ino, slot] : slots_) {
                if (ino == UHSFS_INO_ROOT || slot.state != UHSFS_SLOT_INODE)
                    continue;
                const auto gone = std::erase_if(slot.names, [&](const Claim &c) {
                    return parent(c.key) == UHSFS_REC_NAME_DROPPED;
                });
                events[UHSFS_REC_NAME_DROPPED] += gone;
                again |= gone > 0;
                if (slot.names.empty() && !slot.partial && !pinned_.contains(ino)) {
                    slot.state = UHSFS_SLOT_FREE;
                    events[UHSFS_REC_SLOT_FREED]++;
                    again = true;
                }
            }
        }
    }

    void finish() {
        std::map<u64, u64> up;
        for (const auto &[ino, slot] : slots_) {
            if (ino != UHSFS_INO_ROOT && slot.state == UHSFS_SLOT_INODE && slot.names.empty())
                events[UHSFS_REC_NAMELESS_KEPT]++;
            std::optional<Claim> own;
            u64 count = 0;
            for (const Claim &c : slot.names) {
                if (ino == UHSFS_INO_ROOT || held_.contains({c.key, ino}))
                    continue;
                inserts.insert({c.key, ino});
                count++;
                if (!own || c.seq > own->seq || (c.seq == own->seq && c.key < own->key))
                    own = c;
            }
            if (slot.dir && count > 1)
                events[UHSFS_REC_DIR_NAMES] += count - 1;
            if (slot.dir && own)
                up[ino] = own->key.parent;
        }
        for (const auto &[ino, first] : up) {
            u64 at = first;
            for (std::size_t i = 0; i <= up.size() && up.contains(at) && at != ino; i++)
                at = up.at(at);
            if (at == ino)
                events[UHSFS_REC_DIR_CYCLE]++;
        }
        std::erase_if(events, [](const auto &e) { return e.second == 0; });
    }

    const World &world_;
    Slots slots_;
    std::set<u64> pinned_, chained_;
    std::map<u64, Claim> gained_;
    std::set<Binding> held_;
};

// ---- random slots --------------------------------------------------------------------

class Maker {
public:
    explicit Maker(Random &random, bool hostile) : random_(random), hostile_(hostile) {}

    World world() {
        World world;
        last_ = random_.between(2, 14);
        for (u64 ino = 1; ino <= last_; ino++) {
            Slot slot = this->slot(ino);
            if (one_in(ino == UHSFS_INO_ROOT ? 3 : 6))
                world.outside[ino] = std::move(slot);
            else if (!one_in(40) || !hostile_)
                world.marked[ino] = std::move(slot);
        }
        return world;
    }

private:
    bool one_in(u64 n) { return random_.between(1, n) == 1; }

    u64 inode() {
        return hostile_ && one_in(20) ? random_.between(0, last_ + 2) : random_.between(1, last_);
    }

    u32 gen() { return one_in(8) ? 2 : 1; }

    // Unique where a protocol draws them, small and colliding otherwise.
    u64 seq() {
        return hostile_ && one_in(2) ? random_.between(1, 12) : random_.between(1, ~0ULL >> 1);
    }

    // Mostly without cycles: in a lower number.
    Claim claim(u64 owner) {
        static const std::vector<std::string> names = {"a", "b", "ab", std::string(255, 'a')};
        // Directories have odd numbers.
        u64 parent = (random_.between(0, (last_ - 1) / 2) * 2) + 1;
        if (hostile_ && one_in(4))
            parent = inode();
        else if (!one_in(4))
            parent = (random_.between(0, (owner - 1) / 2) * 2) + 1;
        return {{parent, gen(), names[random_.between(0, hostile_ || one_in(2) ? 1 : 3)]}, seq()};
    }

    Slot slot(u64 ino) {
        Slot slot;
        slot.gen = ino == UHSFS_INO_ROOT && !(hostile_ && one_in(30)) ? 1 : gen();
        slot.dir = (ino % 2 == 1) != (hostile_ && one_in(20));
        slot.newest = one_in(2) ? seq() : 0;
        if (hostile_ && one_in(12))
            slot.state = UHSFS_REC_UNREADABLE;
        else if ((ino != UHSFS_INO_ROOT && one_in(5)) || (hostile_ && one_in(30)))
            slot.state = UHSFS_SLOT_FREE;
        if (slot.state != UHSFS_SLOT_INODE) {
            slot.dir = false;
            return slot;
        }
        slot.partial = hostile_ && one_in(12);
        if (ino != UHSFS_INO_ROOT || (hostile_ && one_in(10))) {
            const u64 most = slot.dir && !(hostile_ && one_in(5)) ? 1 : 4;
            for (u64 i = random_.between(0, 8) ? random_.between(1, most) : 0; i > 0; i--)
                slot.names.push_back(claim(ino));
        }
        for (const Claim &c : slot.names)
            if (!hostile_ || !one_in(12))
                slot.newest = std::max(slot.newest, c.seq);
        const u64 peer = inode();
        if (peer && one_in(hostile_ ? 2 : 4))
            slot.intent =
                Intent{static_cast<u8>(hostile_ && one_in(12) ? 3 : random_.between(1, 2)), peer,
                       gen(), claim(peer)};
        return slot;
    }

    Random &random_;
    bool hostile_;
    u64 last_ = 0;
};

constexpr int worlds = 10000;

class RecoverRandom : public ::testing::TestWithParam<bool> {
protected:
    // check(world, number) until a failure.
    template <typename Check>
    void each(Check check) {
        SCOPED_TRACE(random.note());
        Maker maker(random, GetParam());
        for (int i = 0; i < worlds && !HasFailure(); i++) {
            const World world = maker.world();
            check(world);
            if (HasFailure())
                ADD_FAILURE() << "world " << i << "\nmarked\n"
                              << show(world.marked) << "outside\n"
                              << show(world.outside);
        }
    }

    Random random;
};

TEST_P(RecoverRandom, DecidesAsTheRulesRead) {
    std::map<int, u64> seen;
    each([&](const World &world) {
        const Outcome outcome = recover(world);
        const Oracle oracle(world);
        ASSERT_EQ(outcome.err, 0);
        const Slots after = written(world.marked, outcome);
        ASSERT_EQ(show(after), show(oracle.result())) << ::testing::PrintToString(outcome.log);
        ASSERT_EQ(after, oracle.result());
        ASSERT_EQ(outcome.events, oracle.events) << ::testing::PrintToString(outcome.log);
        const std::set<Binding> inserts(outcome.inserts.begin(), outcome.inserts.end());
        ASSERT_EQ(inserts.size(), outcome.inserts.size());
        ASSERT_EQ(inserts, oracle.inserts);
        for (const auto &[ino, slot] : outcome.changed)
            ASSERT_FALSE(slot == world.marked.at(ino)) << ino << " is written unchanged";
        u64 damage = 0;
        for (const auto &[what, count] : outcome.events) {
            seen[what] += count;
            damage += what >= UHSFS_REC_DAMAGE ? count : 0;
        }
        ASSERT_EQ(outcome.damage, damage);
    });
    // Otherwise the test proves less than it says.
    for (int what = UHSFS_REC_NOTHING + 1; what < UHSFS_REC_WHATS; what++)
        if (GetParam() || what < UHSFS_REC_DAMAGE) {
            EXPECT_GE(seen[what], 30U) << uhsfs_rec_what_text(static_cast<uhsfs_rec_what>(what));
        }
}

TEST_P(RecoverRandom, DoesNotDependOnTheOrderOfSlots) {
    each([&](const World &world) {
        const Outcome one = recover(world);
        const Outcome other = recover_shuffled(world, random);
        ASSERT_EQ(one.log, other.log);
        ASSERT_EQ(one.changed, other.changed);
        ASSERT_EQ(one.inserts, other.inserts);
        ASSERT_EQ(one.chunks, other.chunks);
    });
}

TEST_P(RecoverRandom, ChangesNothingOnItsOwnResult) {
    each([&](const World &world) {
        const Outcome first = recover(world);
        const Outcome again = recover({written(world.marked, first), world.outside});
        ASSERT_TRUE(again.changed.empty()) << show(again.changed);
        ASSERT_EQ(again.inserts, first.inserts);
    });
}

// True if following any claims of directories can lead back: no protocol leaves that.
bool claims_cycle(const World &world) {
    std::map<u64, std::set<u64>> up;
    for (const auto &[ino, slot] : world.marked) {
        for (const Claim &c : slot.names)
            up[ino].insert(c.key.parent);
        if (slot.intent)
            up[slot.intent->peer].insert(slot.intent->claim.key.parent);
    }
    // Take away whatever leads nowhere; a cycle remains.
    for (bool again = true; again;) {
        again = false;
        for (auto at = up.begin(); at != up.end();) {
            std::erase_if(at->second, [&](u64 parent) { return !up.contains(parent); });
            again |= at->second.empty();
            at = at->second.empty() ? up.erase(at) : std::next(at);
        }
    }
    return !up.empty();
}

TEST_P(RecoverRandom, ComesToTheSameEndAfterACut) {
    int tried = 0;
    each([&](const World &world) {
        if (claims_cycle(world))
            return;
        const Outcome first = recover(world);
        const Slots want = written(world.marked, first);
        const auto some = [&](const std::vector<u64> &all) {
            std::vector<u64> part;
            std::copy_if(all.begin(), all.end(), std::back_inserter(part),
                         [&](u64) { return random.between(0, 1); });
            return part;
        };
        const auto same_end = [&](const Slots &cut) {
            ASSERT_EQ(show(written(cut, recover({cut, world.outside}))), show(want)) << show(cut);
        };
        same_end(written(world.marked, first, some(first.peers)));
        same_end(written(written(world.marked, first, first.peers), first, some(first.others)));
        tried++;
    });
    EXPECT_GT(tried, worlds / 5);
}

TEST_P(RecoverRandom, InsertsAncestorsFirstAndDirectoriesInOnePiece) {
    each([&](const World &world) {
        const Outcome outcome = recover(world);
        if (outcome.events.contains(UHSFS_REC_DIR_CYCLE) ||
            outcome.events.contains(UHSFS_REC_DIR_NAMES))
            return;
        std::set<std::pair<u64, u32>> begun;
        std::pair<u64, u32> last{0, 0};
        for (const auto &[key, ino] : outcome.inserts) {
            const std::pair directory{key.parent, key.gen};
            if (directory != last) {
                ASSERT_TRUE(begun.insert(directory).second) << key.parent << " in two pieces";
            }
            last = directory;
            if (const auto at = world.marked.find(ino);
                at != world.marked.end() && at->second.dir) {
                ASSERT_FALSE(begun.contains({ino, at->second.gen})) << ino << " after its entries";
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Slots, RecoverRandom, ::testing::Bool(),
                         [](const auto &kind) { return kind.param ? "hostile" : "orderly"; });

}  // namespace
