// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios of the design that must never fail, each on both kinds of devices.
 */
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "libuhsfs/volume.hpp"
#include "tests.hpp"

namespace uhsfs::replay {

namespace {

struct Scenario {
    const char *name;
    const char *setup;
    const char *tell;
    unsigned leave = 0;  // blocks that stay free, if the disk is full
    unsigned slot_size = 0;
    bool device = true;  // not only in shadow mode
    void (*special)(Theatre &theatre, const Scenario &scenario, const TestOptions &options,
                    Results &results) = nullptr;
};

template <typename T>
T must(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().to_string());
    return std::move(*result);
}

std::uint64_t ino_of(const std::string &identity) {
    std::uint64_t ino = 0;
    std::memcpy(&ino, identity.data(), sizeof(ino));
    return ino;
}

std::string operations(char first, char last, const char *format) {
    std::string all;
    for (char letter = first; letter <= last; letter++)
        all += fmt::format(fmt::runtime(format), letter);
    return all;
}

void set_up(Theatre &theatre, Story &story, const Scenario &scenario) {
    story.begin();
    for (const Op &op : parse_ops(scenario.setup))
        story.world().run(op);
    if (scenario.leave != 0)
        fill_disk(theatre, story.world(), scenario.leave);
    story.end_setup();
}

void plain(Theatre &theatre, const Scenario &scenario, const TestOptions &options,
           Results &results) {
    Story story(theatre, results);

    set_up(theatre, story, scenario);
    story.tell(parse_ops(scenario.tell));
    story.replay(options.crashes);
}

// ---- 9: a directory's slot cannot be read, while a child has to be recovered
// ----------------------

Content read_by_handle(const std::string &top, const std::string &identity) {
    constexpr int type = 0x81;
    alignas(struct file_handle) std::array<char, sizeof(struct file_handle) + 64> bytes = {};
    auto *handle = reinterpret_cast<struct file_handle *>(bytes.data());
    const unique_fd mount(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));

    handle->handle_type = type;
    handle->handle_bytes = static_cast<unsigned>(identity.size());
    std::memcpy(static_cast<unsigned char *>(handle->f_handle), identity.data(), identity.size());
    const unique_fd fd(::open_by_handle_at(mount.get(), handle, O_RDONLY | O_CLOEXEC));
    if (!fd)
        failed("the child");
    Content content(1U << 16U);
    const ssize_t got = ::pread(fd.get(), content.data(), content.size(), 0);
    if (got < 0)
        failed("the child's data");
    content.resize(static_cast<std::size_t>(got));
    return content;
}

void wipe_home(Disk &disk, const Home &home) {
    constexpr int rotten = 0x5a;
    for (unsigned copy = 0; copy < home.copies; copy++)
        disk.edit((home.block + copy) * block_size,
                  [](std::uint8_t *bytes) { std::memset(bytes, rotten, block_size); });
}

void unreadable_parent(Theatre &theatre, const Scenario &scenario, const TestOptions &options,
                       Results &results) {
    Disk &disk = theatre.stage().crash();
    const std::string &top = theatre.stage().mount_point();
    Story story(theatre, results);

    set_up(theatre, story, scenario);
    story.begin();
    for (const Op &op : parse_ops(scenario.tell))
        story.world().run(op);
    const std::string parent = identity_of(top + "/p");
    const std::string child = identity_of(top + "/p/c");
    const Content content = read_by_handle(top, child);
    const unsigned promised = story.world().operations();
    story.end();

    CrashOptions crashes = options.crashes;
    for (const Note &note : story.recording().notes)
        if (note.kind == Note::Kind::end && note.operation == promised)
            crashes.from = note.at;
    story.each(crashes, [&](const Cut &cut, const Image &image) {
        disk.load(image);
        wipe_home(disk, must(must(Volume::open(disk.path())).slot_block(ino_of(parent))).home);
        if (::mount(disk.path().c_str(), top.c_str(), "uhsfs", MS_NOATIME, "checkpoint=300") == 0) {
            try {
                if (read_by_handle(top, child) != content)
                    results.problem(cut.text + ": the child has other data");
            } catch (const std::exception &error) {
                results.problem(cut.text + ": " + error.what());
            }
            if (::umount2(top.c_str(), 0) != 0)
                failed("umount");
        }
        const Inode inode = must(must(Volume::open(disk.path())).inode(ino_of(child)));
        if (inode.free())
            results.problem(cut.text + ": the child's slot is free");
        return !results.failed();
    });
}

// ---- 12: the newer of two copies rots
// ---------------------------------------------------------------

void bit_rot(Theatre &theatre, const Scenario &scenario, const TestOptions &, Results &results) {
    Disk &disk = theatre.stage().crash();
    const std::string &top = theatre.stage().mount_point();
    Story story(theatre, results);

    set_up(theatre, story, scenario);
    story.begin();
    for (const Op &op : parse_ops(scenario.tell))
        story.world().run(op);
    const std::uint64_t file = ino_of(identity_of(top + "/p/c"));
    const std::uint64_t dir = ino_of(identity_of(top + "/p"));
    story.end();
    const Image image = theatre.stage().image();

    const auto rot = [&](const char *what, const std::function<Home(const Volume &)> &find) {
        for (const std::size_t byte : {0U, 100U, 4095U}) {
            disk.load(image);
            const Home home = find(must(Volume::open(disk.path())));
            disk.edit(home.chosen_block() * block_size + byte,
                      [](std::uint8_t *bytes) { *bytes ^= 0x10; });
            if (::mount(disk.path().c_str(), top.c_str(), "uhsfs", MS_RDONLY, "") != 0) {
                if (errno != EUCLEAN)
                    results.problem(fmt::format("{}: mount: {}", what, std::strerror(errno)));
                continue;
            }
            const FoundTree tree = look(top, {"p/c"});
            if (tree.problems.empty())
                results.problem(fmt::format("{}: byte {} of the newer copy: {}", what, byte,
                                            "nothing is wrong"));
            for (const Found &found : tree.names)
                if (found.path == "p/c" && (found.mode & 07777) != 0600)
                    results.problem(fmt::format("{}: the mode is the old one", what));
            if (::umount2(top.c_str(), 0) != 0)
                failed("umount");
        }
    };
    rot("slot of a file", [&](const Volume &v) { return must(v.slot_block(file)).home; });
    rot("slot of a directory", [&](const Volume &v) { return must(v.slot_block(dir)).home; });
    rot("bucket", [&](const Volume &v) {
        const Inode inode = must(v.inode(dir));
        const auto chain =
            must(v.bucket_chain(inode, must(v.dir_info(inode)), must(v.extents(inode)), 0));
        return chain.at(0).bucket.home;
    });
}

// ---- 13: data that looks like slots
// ------------------------------------------------------------------

void forged_slots(Theatre &theatre, const Scenario &scenario, const TestOptions &options,
                  Results &results) {
    constexpr std::size_t blocks = 64;
    Disk &disk = theatre.stage().crash();
    Story story(theatre, results);

    // What slots look like.
    {
        Story first(theatre, results);
        first.setup(parse_ops("create a; write a 0 100; mkdir p; create p/c; write p/c 0 100"));
        disk.load(first.image());
    }
    Content content;
    const auto block = must(must(Volume::open(disk.path())).slot_block(2));
    for (std::size_t i = 0; i < blocks; i++)
        content.insert(content.end(), block.record->begin(), block.record->end());

    story.begin();
    for (const Op &op : parse_ops(scenario.setup))
        story.world().run(op);
    story.world().run({.kind = Op::Kind::create, .path = "forged"});
    story.world().run_raw("forged", content);
    story.world().run({.kind = Op::Kind::sync});
    fill_disk(theatre, story.world(), scenario.leave);
    story.end_setup();

    // Enough for a new chunk, which has to be where the file was.
    story.tell(parse_ops("unlink forged; sync; " +
                         operations('a', 'z', "create x{0}; create y{0};") +
                         operations('a', 'z', "create z{0};") + "fsync xa; fsync zz; sync"));
    story.replay(options.crashes);
}

// ---- 24: the write cache is turned off and on
// ----------------------------------------------------------

void switched_cache(Theatre &theatre, const Scenario &scenario, const TestOptions &options,
                    Results &results) {
    Story story(theatre, results);
    bool on = true;

    set_up(theatre, story, scenario);
    story.begin();
    for (const std::string part : {"create t; write t 0 9000; fsync t", "write t 0 5000; fsync t",
                                   "create u; write u 0 9000; fsync u; sync",
                                   "write t 5000 9000; fsync t; unlink a; fsyncdir /"}) {
        for (const Op &op : parse_ops(part))
            story.world().run(op);
        // Nothing is under way: whoever switches it has to see to that.
        story.world().run({.kind = Op::Kind::sync});
        on = !on;
        theatre.stage().write_cache(on);
    }
    for (const Op &op : parse_ops("write t 0 20000; fsync t; create v; fsync v"))
        story.world().run(op);
    story.end();
    story.replay(options.crashes);
}

// ---- 38: the kernel stops, not the device; then the power fails
// -----------------------------------------

void two_crashes(Theatre &theatre, const Scenario &scenario, const TestOptions &options,
                 Results &results) {
    CrashOptions crashes = options.crashes;

    crashes.most = crashes.most / 2;
    for (const bool ended : {false, true}) {
        Story story(theatre, results);
        set_up(theatre, story, scenario);
        story.tell(parse_ops(scenario.tell));
        const std::uint64_t stop = ended ? story.stop_after_last() : story.stop_in_last();
        story.stop(stop);
        story.tell(parse_ops("chmod a 384; fsync a; create u; write u 0 100; fsync u"));
        crashes.from = stop;
        story.replay(crashes);
    }
}

const Scenario *all_scenarios(std::size_t &count) {
    static const std::string names = operations('a', 'z', "create p/{0}; create p/long-{0}-name;");
    static const std::string fewer = operations('a', 'm', "unlink p/{0};");
    static const std::string again = operations('a', 'm', "mkdir p/{0}; create p/second-{0};");
    static const std::string torn_setup = "mkdir p;" + names;
    static const std::string torn_tell = fewer + "sync;" + again + "fsyncdir p; sync";
    static const Scenario scenarios[] = {
        {.name = "2 unlink: blocks are not used again before the slot is durable",
         .setup = "create a; write a 0 65536",
         .tell = "unlink a; create t; write t 0 65536; fsync t; create u; write u 0 20000; sync",
         .leave = 24},
        {.name = "9 a directory that cannot be read: its children survive",
         .setup = "mkdir p",
         .tell = "create p/c; write p/c 0 9000; fsync p/c",
         .slot_size = 4096,
         .special = unreadable_parent},
        {.name = "10 torn buckets, bit maps and intent maps",
         .setup = torn_setup.c_str(),
         .tell = torn_tell.c_str()},
        {.name = "11 slot rewrites that are torn: the synced image survives",
         .setup = "create a",
         .tell = "chmod a 384; fsync a; chmod a 420; fsync a; chmod a 256; fsync a; chmod a 384"},
        {.name = "12 the newer copy rots: no silent step back",
         .setup = "mkdir p; create p/c; chmod p/c 420",
         .tell = "chmod p/c 420; sync; chmod p/c 384; create p/d; sync",
         .slot_size = 4096,
         .device = false,
         .special = bit_rot},
        {.name = "13 data that looks like slots, where a chunk comes to be",
         .setup = "create a",
         .tell = "",
         .leave = 8,
         .slot_size = 1024,
         .special = forged_slots},
        {.name = "15 an orphan that is open over a checkpoint is freed",
         .setup = "create a; write a 0 20000; mkdir p",
         .tell = "unlink a keep; sync; create t; fsync t; rmdir p keep; sync; create u; write u 0 "
                 "9000; fsync u"},
        {.name = "16 truncate and extend: zeros, no old bytes",
         .setup = "create a; write a 0 20000",
         .tell = "truncate a 100; truncate a 9000; fsync a; write a 0 12000; fsync a; truncate a "
                 "5000; fdatasync a; truncate a 20000; sync; truncate a 100; write a 4096 4096; "
                 "fsync a"},
        {.name = "22 truncate on a full disk",
         .setup = "create a; write a 0 65536; link a b; create t",
         .tell = "truncate a 0; write t 0 49152; fsync t; truncate filler 1000000; write t 49152 "
                 "65536; link t u; fsync a; unlink a; unlink b; sync",
         .leave = 4},
        {.name = "24 the write cache is turned off and on: no flush is lost",
         .setup = "create a",
         .tell = "",
         .special = switched_cache},
        {.name = "37 new directories in new directories: nothing dangles",
         .setup = "create a",
         .tell = "mkdir t; mkdir t/y; create t/y/z; mkdir t/q; fsync t/y/z; mkdir v; mkdir v/w; "
                 "create v/w/x; link v/w/x v/l; fsyncdir v/w; mkdir v/w/n; sync"},
        {.name = "38 kernel crash, mount, power cut: one copy survives",
         .setup = "create a; write a 0 9000",
         .tell = "chmod a 256; fsync a; create t; fsync t; sync; write a 0 4096; chmod a 384; "
                 "fsync a",
         .special = two_crashes},
    };

    count = sizeof(scenarios) / sizeof(scenarios[0]);
    return scenarios;
}

}  // namespace

void fill_disk(Theatre &theatre, World &world, unsigned leave) {
    struct statvfs now = {};

    world.run({.kind = Op::Kind::create, .path = "filler"});
    if (::statvfs(theatre.stage().mount_point().c_str(), &now) != 0)
        failed("statvfs");
    if (now.f_bfree <= leave)
        throw std::runtime_error("the disk is too small to be filled");
    world.run(
        {.kind = Op::Kind::write, .path = "filler", .size = (now.f_bfree - leave) * block_size});
    world.run({.kind = Op::Kind::sync});
}

void test_scenarios(const std::string &work, const TestOptions &options) {
    constexpr unsigned small_disk = 1024;
    std::size_t count = 0;
    const Scenario *const scenarios = all_scenarios(count);

    for (const bool shadow : {false, true}) {
        for (std::size_t i = 0; i < count; i++) {
            const Scenario &scenario = scenarios[i];
            Results results;
            if (!shadow && !scenario.device)
                continue;
            Shape shape{.shadow = shadow, .slot_size = shadow ? 4096U : 1024U};
            if (scenario.slot_size != 0)
                shape.slot_size = scenario.slot_size;
            if (scenario.leave != 0)
                shape.blocks = small_disk;
            results.begin(fmt::format("{} ({})", scenario.name, shape.text()));
            try {
                Theatre theatre(shape, work);
                (scenario.special != nullptr ? scenario.special : plain)(theatre, scenario, options,
                                                                         results);
            } catch (const std::exception &error) {
                results.problem(error.what());
            }
            results.end();
        }
    }
}

}  // namespace uhsfs::replay
