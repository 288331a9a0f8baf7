/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the passes of a check share. Only check*.cpp include this.
 */
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libuhsfs/check.hpp"
#include "libuhsfs/check_findings.hpp"
#include "libuhsfs/check_space.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "le.h"
#include "names.h"
#include "recover.h"
#include "siphash.h"
#include "xattr.h"
#pragma GCC diagnostic pop

namespace uhsfs::checking {

inline constexpr const char *slot_block = "slot block";  // the object of findings

// ---- bits of chunks ------------------------------------------------------------------------

// The bits that are set in blocks of chunk maps; blocks without any take no memory.
class ChunkBits {
public:
    void add(std::uint64_t first, const std::uint8_t *bits);
    // The same for what stands in several maps: the union.
    [[nodiscard]] bool has(const uhsfs_super_info &super, std::uint64_t chunk) const;
    [[nodiscard]] bool empty() const { return blocks_.empty(); }
    [[nodiscard]] std::uint64_t count() const;
    // Set chunk numbers in ascending order.
    [[nodiscard]] std::vector<std::uint64_t> chunks() const;

private:
    using Bits = std::array<std::uint8_t, UHSFS_MAP_BITS / 8>;
    std::unordered_map<std::uint64_t, std::unique_ptr<Bits>> blocks_;  // by first chunk
};

// ---- names ---------------------------------------------------------------------------------

// A name that an inode claims, without its bytes: they are read again when there is something
// to tell. Keys are hashes under a key of this run, so that no image can make them collide.
struct Claim {
    static constexpr unsigned type_shift = 48;
    static constexpr std::uint64_t type_mask = std::uint64_t{0xf} << type_shift;
    static constexpr std::uint64_t recovered = std::uint64_t{1} << 52;  // recovery inserts it
    static constexpr std::uint64_t matched = std::uint64_t{1} << 53;    // an entry was found
    static constexpr std::uint64_t held = std::uint64_t{1} << 54;       // recovery leaves it alone
    static constexpr std::uint64_t ino_mask = (std::uint64_t{1} << type_shift) - 1;

    std::uint64_t key = 0;
    std::uint64_t who = 0;  // ino, DT_... of its mode, flags
    std::uint64_t parent_ino = 0;
    std::uint32_t gen = 0;
    std::uint32_t parent_gen = 0;

    [[nodiscard]] std::uint64_t ino() const { return who & ino_mask; }
    [[nodiscard]] std::uint8_t type() const {
        return static_cast<std::uint8_t>((who & type_mask) >> type_shift);
    }
    [[nodiscard]] bool has(std::uint64_t flag) const { return (who & flag) != 0; }
};
static_assert(sizeof(Claim) == 32);

// Claims by leading bits of their keys, each part sorted by itself.
class Claims {
public:
    static constexpr unsigned parts = 64;
    static constexpr unsigned part_shift = 58;

    void add(const Claim &claim);  // safe from several threads
    void sort(unsigned threads);
    [[nodiscard]] std::uint64_t size() const;
    // The claims of a key.
    std::span<Claim> find(std::uint64_t key);
    std::vector<Claim> &part(unsigned number) { return part_[number]; }

private:
    std::array<std::vector<Claim>, parts> part_;
    std::array<std::mutex, parts> lock_;
};

struct Directory {
    std::uint64_t ino = 0;
    std::uint64_t parent_ino = 0;
    std::uint64_t entries = 0;   // hint
    std::uint64_t children = 0;  // claims in it
    std::uint32_t gen = 0;
    std::uint32_t subdirs = 0;  // hint
    std::uint32_t child_dirs = 0;
    std::uint32_t names = 0;
    bool damaged = false;  // some of its buckets cannot be read
    std::uint8_t way = 0;  // to the root: see names
};

// Ranges of inode numbers whose slots cannot be read.
class InoRanges {
public:
    void add(std::uint64_t first, std::uint64_t count);  // safe from several threads
    void sort();
    [[nodiscard]] bool has(std::uint64_t ino) const;  // after sort()
    [[nodiscard]] bool empty() const { return ranges_.empty(); }

private:
    std::mutex lock_;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;  // first, end
};

using OwnFunction =
    std::function<void(const BlockOwner &owner, std::uint64_t block, std::uint64_t count)>;

// ---- one inode -----------------------------------------------------------------------------

// What walking through an inode tells. Any function may be empty.
struct InodeVisitor {
    OwnFunction own;
    std::function<void(const uhsfs_claim &claim)> name;
    std::function<void(const uhsfs_fault &fault, const std::string &detail)> fault;
    std::function<void(const uhsfs_ext &extent)> extent;
    // Of tree nodes and xattr blocks: sequence number of the record in `block`.
    std::function<void(const char *object, std::uint64_t block, std::uint64_t seq)> seq;
    bool names_only = false;
};

struct InodeTotals {
    std::uint64_t blocks = 0;
    std::uint64_t names = 0;
    bool complete = true;        // everything could be read
    bool names_complete = true;  // all names could
};

// Walks through everything the inode of a checked slot has.
InodeTotals walk_inode(const Volume &volume, const uhsfs_slot_view &view,
                       const InodeVisitor &visitor);

// ---- recovery ------------------------------------------------------------------------------

// The marked slots and what recovery makes of them.
class Recovery {
public:
    explicit Recovery(const Volume &volume) : volume_(volume) {}

    // Safe from several threads. state: UHSFS_SLOT_... or UHSFS_REC_UNREADABLE.
    void add_empty(std::uint64_t ino, std::uint8_t state, std::uint32_t generation,
                   std::uint64_t name_seq_max);
    void add(const uhsfs_slot_view &view);
    // Decides. EFBIG: more slots than it can take.
    Result<void> run(const std::function<void(const uhsfs_rec_event &)> &event);

    // After run(). Null: not a marked slot.
    [[nodiscard]] const uhsfs_rec_slot *slot(std::uint64_t ino) const;
    [[nodiscard]] const uhsfs_recovery &result() const { return r_; }
    // Each name that stays, with the slot that has it and its DT_... type.
    void each_name(const std::function<void(const uhsfs_rec_slot &owner, std::uint8_t type,
                                            const uhsfs_rec_name &name)> &each) const;

private:
    static int outside(void *context, unsigned long long ino, uhsfs_rec_outside *slot);
    static void event(void *context, const uhsfs_rec_event *event);
    const std::uint8_t *keep(const std::uint8_t *name, std::size_t len);

    const Volume &volume_;
    std::mutex lock_;
    uhsfs_recovery r_ = {};
    std::vector<uhsfs_rec_slot> slots_;
    std::vector<std::uint8_t> types_;  // of slots, DT_...
    std::vector<uhsfs_rec_name> names_;
    std::vector<uhsfs_rec_intent> intents_;
    std::vector<std::unique_ptr<std::uint8_t[]>> bytes_;  // of names
    std::size_t bytes_left_ = 0;
    std::uint8_t *bytes_at_ = nullptr;
    std::vector<std::uint32_t> slot_order_, name_order_, scratch_;
    const std::function<void(const uhsfs_rec_event &)> *event_ = nullptr;
};

// What slot `ino` says of itself; unreadable if nothing.
uhsfs_rec_outside describe_slot(const Volume &volume, std::uint64_t ino);

// ---- the check -----------------------------------------------------------------------------

class Checker {
public:
    Checker(const Volume &volume, const CheckOptions &options);
    Result<CheckReport> run();

private:
    // An intent that no map marks.
    struct OpenIntent {
        std::uint64_t holder = 0, peer = 0, name_seq = 0;
        std::uint32_t peer_gen = 0;
    };
    struct LateChunk {
        std::uint64_t number = 0;
        uhsfs_chunk_info info = {};
    };

    // check.cpp
    [[nodiscard]] bool stop();
    void pass(unsigned number, const char *name, std::uint64_t total);
    void step(std::uint64_t n = 1);
    void parallel(std::uint64_t items, const std::function<void(std::uint64_t item)> &work);
    // No record may be of a newer epoch.
    [[nodiscard]] std::uint32_t newest() const { return uhsfs_seq_epoch(super_.seq); }
    void check_seq(const char *object, std::uint64_t id, const char *field, std::uint64_t seq);
    // What is wrong with copies; tolerated: a torn write may be the reason.
    void check_home(const Home &home, const char *object, bool tolerated,
                    const std::string &detail = {});
    void own(const BlockOwner &owner, std::uint64_t block, std::uint64_t count, bool recent);

    // check_maps.cpp
    void check_supers();
    void read_maps();
    void read_map(std::uint64_t chunk, unsigned which);
    void own_fixed(const OwnFunction &each);
    void each_table(const std::function<void(std::uint64_t first, unsigned segment)> &each);
    void read_tables();
    void read_table(std::uint64_t first, unsigned segment);
    void each_chunk(const OwnFunction &each);
    [[nodiscard]] bool suspect(std::uint64_t ino) const;
    [[nodiscard]] bool marked(std::uint64_t chunk) const;
    // Its descriptor is void: see uhsfs_chunk_void().
    [[nodiscard]] bool unused(std::uint64_t number, const uhsfs_chunk_info &chunk) const;
    [[nodiscard]] bool crashed() const;

    // check_slots.cpp
    void read_marked();
    void take_event(const uhsfs_rec_event &event);
    void take_recovery();
    void check_slots();
    void check_block(const SlotBlock &block);
    void check_lost_block(const SlotBlock &block);
    void check_slot(const SlotBlock &block, unsigned index);
    void check_inode(const uhsfs_slot_view &view, bool recent, bool freed);
    void check_intents();
    void scan(bool only_marked, const std::function<void(const SlotBlock &)> &each);
    void each_slot(const SlotBlock &block,
                   const std::function<void(unsigned index, const uhsfs_slot_view &view)> &each);
    void find_owners();

    // check_names.cpp
    [[nodiscard]] std::uint64_t name_key(std::uint64_t parent, std::uint32_t gen,
                                         const std::uint8_t *name, std::size_t len) const;
    void check_claims();
    void check_claim_part(std::vector<Claim> &part);
    void check_same_name(std::span<const Claim> claims);
    void check_claim(const Claim &claim);
    void check_ways();
    Directory *directory(std::uint64_t ino, std::uint32_t gen);
    Directory *directory(std::uint64_t ino);
    [[nodiscard]] std::string claimed_name(const Claim &claim) const;
    [[nodiscard]] std::string slot_text(std::uint64_t ino) const;

    // check_dirs.cpp
    void check_directories();
    void check_directory(Directory &dir);
    void check_chain(Directory &dir, const Inode &inode, const uhsfs_dir_info &info,
                     const std::vector<uhsfs_ext> &extents, std::uint32_t bucket, unsigned &damage);
    void check_entry(const Directory &dir, const uhsfs_dirent &entry, std::uint64_t block);
    void check_stray(const uhsfs_dir_info &info, std::uint32_t bucket, const uhsfs_dirent &entry,
                     std::uint64_t block);
    void check_unmatched();
    void check_hints();

    // check_bitmaps.cpp
    void check_bitmaps();
    using GroupMaps = std::array<HomeOf<uhsfs_map_block>, UHSFS_GROUP_MAPS>;
    void check_group(std::uint64_t group);
    void check_zone(std::uint64_t group, const GroupMaps &maps, const std::uint8_t *fixed);
    void check_totals();

    const Volume &volume_;
    const CheckOptions &options_;
    const uhsfs_super_info &super_;
    const uhsfs_geometry &geo_;
    const unsigned threads_;

    // Set once by one thread.
    std::uint32_t newest_epoch_ = 0;  // live, or the one that is open next: for the report
    bool unclean_ = false;            // some chunk is marked
    bool suspects_known_ = true;      // all maps and tables could be read
    bool marks_known_ = true;
    bool tables_known_ = true;
    // By several.
    std::atomic<bool> stopped_ = false;
    std::atomic<bool> incomplete_ = false;  // not all owners are known: leaks mean nothing
    std::atomic<bool> bitmaps_known_ = true;

    FindingSet findings_;
    FindingSet notes_;
    CheckReport report_;

    std::mutex progress_lock_;
    CheckProgress progress_;

    // maps and chunks
    ChunkBits marked_;
    ChunkBits suspects_;
    std::vector<LateChunk> late_;  // marked, in table blocks behind chunks_used
    std::uint64_t in_use_slots_ = 0;
    std::uint64_t chunks_made_ = 0;

    // space
    BlockSet owned_;
    BlockSet asked_;   // owned twice, or owned but free, says the bitmap
    BlockSet free_;    // the latter
    BlockSet recent_;  // owned by what recovery reads
    std::atomic<std::uint64_t> claimed_blocks_ = 0;
    std::atomic<std::uint64_t> free_bits_ = 0;  // clear in bitmaps
    std::atomic<std::uint64_t> leaked_ = 0;

    // inodes and names
    Recovery recovery_;
    InoRanges unreadable_;
    Claims claims_;
    std::array<std::uint8_t, UHSFS_SIPHASH_KEY> key_ = {};
    std::mutex dirs_lock_;
    std::vector<Directory> dirs_;
    std::mutex intents_lock_;
    std::vector<OpenIntent> intents_;
    std::atomic<std::uint64_t> files_ = 0;
    std::atomic<std::uint64_t> stale_ = 0;
    std::atomic<std::uint64_t> inserted_ = 0;
};

}  // namespace uhsfs::checking
