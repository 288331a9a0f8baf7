// SPDX-License-Identifier: GPL-2.0
/*
 * Images as a crash leaves them: what a read-only mount makes of them in memory.
 *
 * Each scenario writes what had reached the disk in the order in which the kernel writes, and
 * says what the tree is then. The mount is tried twice, for nothing may be written, and once
 * with norecovery; fsck.uhsfs -n must find nothing but that recovery is needed.
 */
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "crc32c.h"
#include "guest.hpp"
#include "random.hpp"

namespace uhsfs::damage {

namespace {

constexpr std::int64_t then_ns = 1'500'000'000'000'000'000;

class Crash {
public:
    explicit Crash(Disk &on) : disk(on), image(on.image()) {
        expected.tree = on.tree();
        image.begin_epoch();
    }

    Disk &disk;
    Image &image;
    Expected expected;
    bool applies = true;
    bool unclean = true;   // some chunk is marked
    bool damaged = false;  // recovery and fsck report damage
    bool intents = false;  // some slot holds an intent

    [[nodiscard]] std::uint64_t ino(const std::string &path) const { return disk.ino(path); }
    [[nodiscard]] Inode dir(const std::string &path) const { return image.inode(path); }

    // An existing inode, marked, to be changed and committed.
    Slot take(const std::string &path) {
        image.mark(ino(path));
        return image.slot(ino(path));
    }
    void give_name(Slot &slot, const std::string &path) {
        set_name(slot, dir(parent_of(path)), name_of(path), image.draw_seq());
    }

    // A new file with a name but no entry.
    Slot new_file(const std::string &path, const std::string &content) {
        Slot slot = image.new_slot(UHSFS_S_IFREG | 0640);
        image.mark(slot.attr.ino);
        finish_file(slot, path, content);
        return slot;
    }
    void finish_file(Slot &slot, const std::string &path, const std::string &content) {
        fill(slot, content);
        give_name(slot, path);
        image.commit(slot);
        expected.add(path, node_of(slot, content));
    }
    static void fill(Slot &slot, const std::string &content) {
        slot.value[UHSFS_TLV_INLINE].assign(content.begin(), content.end());
        slot.attr.size = content.size();
        slot.attr.atime = slot.attr.mtime = slot.attr.ctime = slot.attr.btime = then_ns;
    }
    static Node node_of(const Slot &slot, const std::string &content) {
        Node node;
        node.mode = slot.attr.mode;
        node.nlink = 1;
        node.size = content.size();
        node.mtime_ns = slot.attr.mtime;
        node.ino = slot.attr.ino;
        node.data = checksum(content);
        return node;
    }
    static std::string checksum(const std::string &content) {
        return fmt::format("{} bytes {:08x}", content.size(),
                           uhsfs_crc32c(0, content.data(), content.size()));
    }
    // A new directory with an index and a name, but no entry.
    Slot new_dir(const std::string &path) {
        Slot slot = image.new_slot(UHSFS_S_IFDIR | 0755);
        Node node;
        image.mark(slot.attr.ino);
        image.make_index(slot);
        give_name(slot, path);
        image.commit(slot);
        node.mode = slot.attr.mode;
        node.ino = slot.attr.ino;
        expected.add(path, node);
        return slot;
    }
    void set_intent(Slot &holder, std::uint8_t op, std::uint64_t peer, std::uint32_t peer_gen,
                    const std::string &path) {
        const Inode parent = dir(parent_of(path));
        const std::string name = name_of(path);
        auto &value = holder.value[UHSFS_TLV_INTENT];
        uhsfs_intent intent = {};
        intents = true;

        intent.peer_ino = cpu_to_le64(peer);
        intent.peer_gen = cpu_to_le32(peer_gen);
        intent.op = op;
        intent.len = static_cast<u8>(name.size());
        intent.parent_ino = cpu_to_le64(parent.ino());
        intent.parent_gen = cpu_to_le32(parent.attr().generation);
        intent.name_seq = cpu_to_le64(image.draw_seq());
        value.assign(sizeof(intent) + name.size(), 0);
        std::memcpy(value.data(), &intent, sizeof(intent));
        std::memcpy(value.data() + sizeof(intent), name.data(), name.size());
    }
};

struct Scenario {
    const char *name;
    std::function<void(Crash &)> happen;
};

// ---- one inode -------------------------------------------------------------------------------

void nothing(Crash &c) {
    for (const auto &[path, node] : c.disk.tree())
        c.image.mark(node.ino);
}

void rename_over(Crash &c) {
    Slot moved = c.take("more");
    c.take("data");
    c.give_name(moved, "data");
    c.image.commit(moved);
    c.expected.move("more", "data");
}

void rename_without_entry(Crash &c) {
    Slot moved = c.take("inline");
    c.give_name(moved, "dir/renamed");
    c.image.commit(moved);
    c.expected.move("inline", "dir/renamed");
}

void rename_with_entries_only(Crash &c) {
    // The slot was not written: both names stand in buckets, the old one holds.
    const Slot same = c.take("inline");
    c.image.insert_entry(c.dir("dir"), "renamed", same.attr.ino, same.attr.generation, 8);
    c.image.remove_entry(c.dir(""), "inline");
}

void create_without_entry(Crash &c) { c.new_file("dir/created", "hello"); }

void create_many(Crash &c) {
    for (int i = 0; i < 12; i++)
        c.new_file(fmt::format("many/created-{:02}", i), fmt::format("content {}", i));
}

void unlink_with_entry(Crash &c) {
    c.image.mark(c.ino("data"));
    c.image.free_slot(c.ino("data"));
    c.expected.remove("data");
}

void orphan(Crash &c) {
    Slot slot = c.take("data");
    slot.value[UHSFS_TLV_NAME].clear();
    slot.attr.nlink = 0;
    c.image.commit(slot);
    c.expected.remove("data");
}

void new_inode_over_old(Crash &c) {
    // Unlinked, and the slot in use again with another generation, under another name.
    c.image.mark(c.ino("inline"));
    c.image.free_slot(c.ino("inline"));
    Slot slot = c.image.slot(c.ino("inline"));
    const uhsfs_attr old = slot.attr;
    slot.attr = {};
    slot.attr.ino = old.ino;
    slot.attr.generation = old.generation + 1;
    slot.attr.state = UHSFS_SLOT_INODE;
    slot.attr.mode = UHSFS_S_IFREG | 0600;
    slot.attr.name_seq_max = old.name_seq_max;
    slot.attr.nonce = old.nonce;
    c.expected.remove("inline");
    c.finish_file(slot, "reborn", "another");
}

void write_data(Crash &c) {
    Slot slot = c.take("data");
    const std::uint64_t blocks = c.image.free_blocks(4);
    const std::string content(std::size_t{4} * block_size, 'n');
    const uhsfs_ext ext = {
        .logical = 0, .physical = blocks, .len = 4, .birth = c.image.epoch(), .flags = 0};

    std::memcpy(c.image.at(blocks), content.data(), content.size());
    slot.value[UHSFS_TLV_EXTENTS].resize(sizeof(uhsfs_extent));
    uhsfs_extent_encode(&ext,
                        reinterpret_cast<uhsfs_extent *>(slot.value[UHSFS_TLV_EXTENTS].data()));
    slot.attr.size = content.size();
    slot.attr.blocks = 4;
    slot.attr.mtime = then_ns;
    c.image.commit(slot);
    Node &node = c.expected.tree["data"];
    node.size = content.size();
    node.mtime_ns = then_ns;
    node.data = Crash::checksum(content);
}

void write_twice(Crash &c) {
    for (const unsigned mode : {0600U, 0400U}) {
        Slot slot = c.take("inline");
        slot.attr.mode = static_cast<u16>(UHSFS_S_IFREG | mode);
        c.image.commit(slot);
    }
    c.expected.tree["inline"].mode = UHSFS_S_IFREG | 0400;
}

void torn_newer_copy(Crash &c) {
    fuzz::Random random(3);
    c.applies = c.disk.shadow();
    if (!c.applies)
        return;
    write_twice(c);
    const std::uint64_t home = c.image.slot_home(c.ino("inline"));
    const std::uint64_t newest = c.image.newest_copy(home);
    std::uint8_t *torn = c.image.at(newest == home ? home + 1 : home);
    for (std::size_t i = 512; i < block_size; i++)
        torn[i] = static_cast<std::uint8_t>(random.next());
}

void hard_link_without_entry(Crash &c) {
    Slot slot = c.take("inline");
    c.image.add_link(slot, c.dir("dir"), "linked", c.image.draw_seq());
    c.image.commit(slot);
    c.expected.count_links(c.ino("inline"), 1);
    c.expected.add("dir/linked", c.expected.tree["inline"]);
}

void link_that_another_took(Crash &c) {
    // Of a file with many links one name went to another file.
    Slot moved = c.take("inline");
    c.take("links/linked");
    c.give_name(moved, "links/link-007-" + std::string(40, 'n'));
    c.image.commit(moved);
    c.expected.move("inline", "links/link-007-" + std::string(40, 'n'));
    c.expected.count_links(c.ino("links/linked"), -1);
}

// ---- directories -------------------------------------------------------------------------------

void mkdir_with_files(Crash &c) {
    c.new_dir("fresh");
    // The directory can be found by its name only after recovery: names are given by hand.
    const std::uint64_t fresh = c.expected.tree["fresh"].ino;
    const std::uint32_t gen = c.image.slot(fresh).attr.generation;
    for (const char *name : {"a", "b"}) {
        Slot slot = c.image.new_slot(UHSFS_S_IFREG | 0644);
        c.image.mark(slot.attr.ino);
        Crash::fill(slot, name);
        c.give_name(slot, name);
        auto *raw = reinterpret_cast<uhsfs_name *>(slot.value[UHSFS_TLV_NAME].data());
        raw->parent_ino = cpu_to_le64(fresh);
        raw->parent_gen = cpu_to_le32(gen);
        c.image.commit(slot);
        c.expected.add(std::string("fresh/") + name, Crash::node_of(slot, name));
    }
}

void rmdir_with_children(Crash &c) {
    // The directory is FREE on disk, and what was in it still says that it is there.
    for (const auto &[path, node] : c.disk.tree())
        if (within(path, "dir/sub"))
            c.image.mark(node.ino);
    c.image.free_slot(c.ino("dir/sub"));
    c.expected.remove("dir/sub");
}

void move_directory(Crash &c) {
    Slot moved = c.take("dir/sub");
    c.give_name(moved, "moved");
    c.image.commit(moved);
    c.expected.move("dir/sub", "moved");
}

void directory_over_empty_one(Crash &c) {
    Slot moved = c.take("dir/sub");
    c.take("dir/empty");
    c.give_name(moved, "dir/empty");
    c.image.commit(moved);
    c.expected.move("dir/sub", "dir/empty");
}

void stale_counts(Crash &c) {
    Slot slot = c.take("dir");
    auto *root = reinterpret_cast<uhsfs_dir_root *>(slot.value[UHSFS_TLV_DIR].data());
    root->entries = cpu_to_le64(1000);
    root->subdirs = cpu_to_le32(500);
    c.image.commit(slot);
}

// ---- two at once -------------------------------------------------------------------------------

void exchange_half_done(Crash &c) {
    Slot holder = c.take("inline");
    const Slot peer = c.take("dir/sub/other");
    c.give_name(holder, "dir/sub/other");
    c.set_intent(holder, UHSFS_INTENT_EXCHANGE, peer.attr.ino, peer.attr.generation, "inline");
    c.image.commit(holder);
    c.expected.exchange("inline", "dir/sub/other");
}

void exchange_with_intent_left(Crash &c) {
    Slot holder = c.take("inline");
    Slot peer = c.take("more");
    c.give_name(holder, "more");
    c.set_intent(holder, UHSFS_INTENT_EXCHANGE, peer.attr.ino, peer.attr.generation, "inline");
    c.image.commit(holder);
    const auto *intent =
        reinterpret_cast<const uhsfs_intent *>(holder.value[UHSFS_TLV_INTENT].data());
    set_name(peer, c.dir(""), "inline", le64_to_cpu(intent->name_seq));
    c.image.commit(peer);
    c.expected.exchange("inline", "more");
}

void exchange_of_directories(Crash &c) {
    Slot holder = c.take("dir/sub");
    const Slot peer = c.take("many");
    c.give_name(holder, "many");
    c.set_intent(holder, UHSFS_INTENT_EXCHANGE, peer.attr.ino, peer.attr.generation, "dir/sub");
    c.image.commit(holder);
    c.expected.exchange("dir/sub", "many");
}

void whiteout_half_done(Crash &c) {
    Slot holder = c.take("inline");
    const Slot peer = c.image.new_slot(UHSFS_S_IFCHR);
    Node whiteout;

    c.image.mark(peer.attr.ino);
    c.give_name(holder, "dir/away");
    c.set_intent(holder, UHSFS_INTENT_WHITEOUT, peer.attr.ino, peer.attr.generation, "inline");
    c.image.commit(holder);
    c.expected.move("inline", "dir/away");
    whiteout.mode = S_IFCHR;
    whiteout.nlink = 1;
    whiteout.ino = peer.attr.ino;
    c.expected.add("inline", whiteout);
}

// ---- chunks and maps ---------------------------------------------------------------------------

void fill_with_garbage(Image &image, std::uint64_t chunk) {
    fuzz::Random random(9);
    const uhsfs_chunk_info info = must(image.volume().chunk(chunk));

    for (u32 i = 0; i < uhsfs_chunk_blocks(&image.geo()); i++)
        for (std::size_t at = 0; at < block_size; at++)
            image.at(info.block + i)[at] = static_cast<std::uint8_t>(random.next());
}

void new_chunk(Crash &c) {
    std::uint64_t chunk = 0;
    Slot slot = c.image.new_slot_in_new_chunk(UHSFS_S_IFREG | 0600, &chunk);

    fill_with_garbage(c.image, chunk);
    c.image.mark(slot.attr.ino);
    c.finish_file(slot, "in-a-new-chunk", "the first one");
}

void never_used_chunk(Crash &c) {
    std::uint64_t chunk = 0;

    c.image.new_slot_in_new_chunk(UHSFS_S_IFREG | 0600, &chunk);
    fill_with_garbage(c.image, chunk);
    c.take("inline");
}

void never_used_chunk_alone(Crash &c) {
    std::uint64_t chunk = 0;

    // A copy of real slots stands there, of an older use of the blocks.
    c.image.new_slot_in_new_chunk(UHSFS_S_IFREG | 0600, &chunk);
    const std::uint64_t from = c.image.slot_home(c.ino("inline"));
    const uhsfs_chunk_info info = must(c.image.volume().chunk(chunk));
    for (u32 i = 0; i < uhsfs_chunk_blocks(&c.image.geo()); i++)
        std::memcpy(c.image.at(info.block + i), c.image.at(from), block_size);
    c.unclean = false;
}

void suspect_entries(Crash &c) {
    const Inode file = c.image.inode("inline");

    c.image.suspect(file.ino());
    c.image.insert_entry(c.dir("dir"), "ghost", file.ino(), file.attr().generation, 8);
    c.image.insert_entry(c.dir("dir"), "older", file.ino(), file.attr().generation - 1, 8);
    c.unclean = false;
}

void torn_intent_map(Crash &c) {
    // The first write of the epoch's map tore: it says nothing, and nothing else was written.
    fuzz::Random random(4);
    c.applies = c.disk.shadow();
    if (!c.applies)
        return;
    const std::uint64_t home = must(c.image.volume().chunk_map(0, c.image.epoch() & 1)).home.block;
    for (std::size_t i = 512; i < block_size; i++)
        c.image.at(home + 1)[i] = static_cast<std::uint8_t>(random.next());
    c.unclean = false;
}

// ---- damage that recovery finds
// ------------------------------------------------------------------

void cycle(Crash &c) {
    Slot slot = c.take("dir");
    set_name(slot, c.dir("dir/sub"), "loop", c.image.draw_seq());
    for (const auto &[path, node] : c.disk.tree())
        if (within(path, "dir"))
            c.image.mark(node.ino);
    c.image.commit(slot);
    c.expected.remove("dir");
    c.damaged = true;
}

void marked_slots_lost(Crash &c) {
    // Nothing is known of what they claimed; they are kept.
    const std::uint64_t ino = c.ino("inline");
    const u32 n = c.image.geo().slots_per_block;
    const std::uint64_t first = ino - ino % n;

    for (const auto &[path, node] : c.disk.tree()) {
        c.image.mark(node.ino);
        if (node.ino < first || node.ino >= first + n)
            continue;
        // Entries that point to marked chunks are confirmed; of these nothing is known.
        c.expected.no_stat.insert(path);
    }
    for (const std::uint64_t block : c.image.copies(c.image.slot_home(ino)))
        std::memset(c.image.at(block), 0, block_size);
    c.damaged = true;
}

const std::vector<Scenario> &scenarios() {
    static const std::vector<Scenario> all = {
        {"all chunks are marked, nothing was changed", nothing},
        {"rename over a file, the victim not yet free", rename_over},
        {"rename, neither bucket written", rename_without_entry},
        {"rename, both buckets written, the slot not", rename_with_entries_only},
        {"a new file without an entry", create_without_entry},
        {"twelve new files without entries", create_many},
        {"an unlinked file whose entry stands", unlink_with_entry},
        {"an orphan", orphan},
        {"a slot in use again with another generation", new_inode_over_old},
        {"new data, its blocks not in the bitmap", write_data},
        {"two writes of one slot", write_twice},
        {"a torn write beside the newest image", torn_newer_copy},
        {"a hard link without an entry", hard_link_without_entry},
        {"one of many links taken by another file", link_that_another_took},
        {"a new directory with files, all without entries", mkdir_with_files},
        {"a removed directory that others still name", rmdir_with_children},
        {"a directory moved to another one", move_directory},
        {"a directory renamed over an empty one", directory_over_empty_one},
        {"a directory with wrong counts", stale_counts},
        {"EXCHANGE, half done", exchange_half_done},
        {"EXCHANGE, done but for the intent", exchange_with_intent_left},
        {"EXCHANGE of directories, half done", exchange_of_directories},
        {"WHITEOUT, half done", whiteout_half_done},
        {"a new chunk with homes never written", new_chunk},
        {"a new chunk that was never used", never_used_chunk},
        {"a new chunk that was never used, on old slots", never_used_chunk_alone},
        {"stale entries into a suspect chunk", suspect_entries},
        {"the first write of an intent map torn", torn_intent_map},
        {"damage: directories in a circle", cycle},
        {"damage: marked slots are lost", marked_slots_lost},
    };
    return all;
}

// ---- running them ------------------------------------------------------------------------------

bool logged(const std::string &text) {
    return std::ranges::any_of(read_log(), [&](const std::string &line) {
        return line.starts_with("uhsfs: ") && line.find(text) != std::string::npos;
    });
}

void check_mount(Crash &c, Results &results) {
    const std::string &shape = c.disk.shape();
    const std::string recovery = c.unclean ? "in-memory" : "clean";

    clear_log();
    const int error = c.disk.mount("");
    if (error != 0)
        return results.problem(shape, fmt::format("mount: {}", std::strerror(error)));
    if (c.disk.sysfs("recovery") != recovery)
        results.problem(
            shape, fmt::format("recovery is {}, expected {}", c.disk.sysfs("recovery"), recovery));
    if (logged(c.disk.name() + ": recovered in memory") != c.unclean)
        results.problem(shape, "the log does not say what was done");
    for (const std::string &line : differences(c.expected, c.disk.walk(c.expected.tree)))
        results.problem(shape, line);
    if ((c.disk.sysfs("corruptions") != "0") != c.damaged)
        results.problem(shape, fmt::format("corruptions: {}", c.disk.sysfs("corruptions")));
    if (c.disk.unmount() != 0)
        results.problem(shape, "cannot be unmounted");
    if (!c.disk.unchanged())
        results.problem(shape, "the device was written");
}

void check_norecovery(Crash &c, Results &results) {
    const std::string &shape = c.disk.shape();

    clear_log();
    const int error = c.disk.mount("norecovery");
    if (error != 0)
        return results.problem(shape, fmt::format("mount norecovery: {}", std::strerror(error)));
    if (c.disk.sysfs("recovery") != "skipped" || !logged(c.disk.name() + ": norecovery: "))
        results.problem(shape, "norecovery is not said");
    if (c.disk.walk(c.expected.tree).empty())
        results.problem(shape, "norecovery: nothing was read");
    if (c.disk.unmount() != 0)
        results.problem(shape, "norecovery: cannot be unmounted");
    if (!c.disk.unchanged())
        results.problem(shape, "norecovery: the device was written");
}

void check_fsck(const Crash &c, Results &results) {
    constexpr int clean = 0;
    constexpr int damaged = 4;
    std::string output;
    const int status = run({"fsck.uhsfs", "-n", c.image.path()}, &output);
    const int due = c.damaged ? damaged : clean;

    if (status != due)
        results.problem(c.disk.shape(), fmt::format("fsck.uhsfs -n: status {}, expected {}: {}",
                                                    status, due, output));
}

}  // namespace

namespace {

// Each scenario on each disk.
int run_scenarios(std::vector<std::unique_ptr<Disk>> &disks,
                  const std::function<void(Crash &, Results &)> &check) {
    for (const Scenario &scenario : scenarios()) {
        Results results;
        bool applied = false;
        results.begin(scenario.name);
        for (const auto &disk : disks) {
            disk->image().restore();
            try {
                Crash crash(*disk);
                scenario.happen(crash);
                if (!crash.applies)
                    continue;
                applied = true;
                disk->put();
                check(crash, results);
            } catch (const std::exception &error) {
                results.problem(disk->shape(), fmt::format("cannot be made: {}", error.what()));
            }
            if (results.failed())
                for (const std::string &line : read_log())
                    results.problem(disk->shape(), "log: " + line);
        }
        if (!applied)
            results.problem("all", "applies to no shape");
        results.end();
    }
    return 0;
}

void check_tree(Crash &c, Results &results, const char *when) {
    for (const std::string &line : differences(c.expected, c.disk.walk(c.expected.tree)))
        results.problem(c.disk.shape(), fmt::format("{}: {}", when, line));
}

// A mount that writes recovers, or refuses and leaves everything to be recovered.
void check_replay(Crash &c, Results &results) {
    const std::string &shape = c.disk.shape();
    std::string output;

    clear_log();
    const int error = c.disk.mount("", true);
    if (c.damaged || (c.intents && error == EOPNOTSUPP)) {
        // Half of an exchange is more than this version can finish; what is in doubt stays as it
        // is.
        if (error == 0 && c.disk.unmount() != 0)
            results.problem(shape, "cannot be unmounted");
        if (c.intents && c.disk.mount("") == 0) {
            check_tree(c, results, "after the refusal");
            if (c.disk.unmount() != 0)
                results.problem(shape, "cannot be unmounted");
        }
        return;
    }
    if (error != 0)
        return results.problem(shape, fmt::format("mount: {}", std::strerror(error)));
    if (logged(c.disk.name() + ": recovered on the device") != c.unclean)
        results.problem(shape, "the log does not say what was done");
    check_tree(c, results, "recovered");
    if (c.disk.unmount() != 0)
        return results.problem(shape, "cannot be unmounted");
    if (const int status = run({"fsck.uhsfs", "-n", c.disk.path()}, &output); status != 0)
        results.problem(shape, fmt::format("fsck.uhsfs -n: status {}: {}", status, output));
    if (c.disk.mount("") != 0)
        return results.problem(shape, "cannot be mounted again");
    if (c.disk.sysfs("recovery") != "clean")
        results.problem(shape, "recovery is " + c.disk.sysfs("recovery") + " the next time");
    check_tree(c, results, "mounted again");
    if (c.disk.unmount() != 0)
        results.problem(shape, "cannot be unmounted again");
}

}  // namespace

int test_crash(std::vector<std::unique_ptr<Disk>> &disks) {
    return run_scenarios(disks, [&](Crash &crash, Results &results) {
        check_mount(crash, results);
        // Of the other shapes once is enough.
        if (&crash.disk == disks.front().get() || &crash.disk == disks.back().get()) {
            check_mount(crash, results);
            check_norecovery(crash, results);
        }
        check_fsck(crash, results);
    });
}

int test_replay(std::vector<std::unique_ptr<Disk>> &disks) {
    return run_scenarios(disks, check_replay);
}

}  // namespace uhsfs::damage
