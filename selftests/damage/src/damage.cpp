// SPDX-License-Identifier: GPL-2.0
/*
 * Damage of each kind of structure, in each way: what is hit gives an error and a line in the
 * kernel log, all else is still there.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "case.hpp"

namespace uhsfs::damage {

const std::vector<Way> &ways() {
    static const std::vector<Way> all = {
        {"zeroed", [](fuzz::Random &, std::uint8_t *bytes) { std::memset(bytes, 0, block_size); }},
        {"random bytes",
         [](fuzz::Random &random, std::uint8_t *bytes) {
             for (std::size_t i = 0; i < block_size; i++)
                 bytes[i] = static_cast<std::uint8_t>(random.next());
         }},
        {"one bit flipped",
         [](fuzz::Random &random, std::uint8_t *bytes) {
             // Behind the magic of a superblock, which tells that there is one.
             bytes[8 + random.below(block_size - 8)] ^=
                 static_cast<std::uint8_t>(1U << random.below(8));
         }},
    };
    return all;
}

namespace {

// ---- bytes of structures --------------------------------------------------------------------

// What can be damaged: its home or block, whether it has copies, and what that affects.
struct Structure {
    const char *name;
    std::function<std::uint64_t(Context &)> block;
    bool home;
    Action affects;
};

const std::vector<Structure> &structures() {
    static const std::vector<Structure> all = {
        {"slots of a file", [](Context &c) { return c.image.slot_home(c.ino("inline")); }, true,
         [](Context &c) {
             c.lose_slots("inline");
             c.log.emplace_back("slot ");
         }},
        {"slots of a directory", [](Context &c) { return c.image.slot_home(c.ino("dir/sub")); },
         true,
         [](Context &c) {
             c.lose_slots("dir/sub");
             c.log.emplace_back("slot ");
         }},
        {"slots of the root", [](Context &c) { return c.image.slot_home(UHSFS_INO_ROOT); }, true,
         [](Context &c) {
             c.lose_slots("");
             c.log.emplace_back("slot ");
         }},
        {"bucket of a directory", [](Context &c) { return c.bucket_home("many", 1); }, true,
         [](Context &c) {
             c.lose_bucket("many", 1);
             c.log.emplace_back("bucket ");
         }},
        {"bucket of the root", [](Context &c) { return c.bucket_home("", 0); }, true,
         [](Context &c) {
             c.lose_bucket("", 0);
             c.log.emplace_back("bucket ");
         }},
        {"root of an extent tree", [](Context &c) { return c.extent_nodes("pieces").at(0); }, false,
         [](Context &c) {
             c.expected.no_data.insert("pieces");
             c.log.emplace_back("extent");
         }},
        {"leaf of an extent tree", [](Context &c) { return c.extent_nodes("pieces").at(1); }, false,
         [](Context &c) {
             c.expected.no_data.insert("pieces");
             c.log.emplace_back("extent");
         }},
        {"root of a names tree", [](Context &c) { return c.name_nodes("links/linked").at(0); },
         false,
         [](Context &c) {
             c.lose_links(0);
             c.log.emplace_back("names");
         }},
        {"leaf of a names tree", [](Context &c) { return c.name_nodes("links/linked").at(1); },
         false,
         [](Context &c) {
             c.lose_links(c.name_nodes("links/linked").at(1));
             c.log.emplace_back("names");
         }},
        {"index of attributes", [](Context &c) { return c.xattr_blocks("attributes").at(0); },
         false,
         [](Context &c) {
             c.expected.no_xattrs.insert("attributes");
             c.log.emplace_back("xattr");
         }},
        {"block of attributes", [](Context &c) { return c.xattr_blocks("attributes").at(2); },
         false,
         [](Context &c) {
             c.expected.no_xattrs.insert("attributes");
             c.log.emplace_back("xattr");
         }},
        {"chunk table", [](Context &c) { return c.table_home(); }, true,
         [](Context &c) { c.fail_mount(EUCLEAN, {"chunk", "the root directory cannot be read"}); }},
        {"intent map", [](Context &c) { return c.map_home(0); }, true,
         [](Context &c) { c.fail_mount(EUCLEAN, {"intent map"}); }},
        {"other intent map", [](Context &c) { return c.map_home(1); }, true,
         [](Context &c) { c.fail_mount(EUCLEAN, {"intent map"}); }},
        // Then every entry is confirmed.
        {"suspect map", [](Context &c) { return c.map_home(UHSFS_MAP_WHICH_SUSPECT); }, true,
         [](Context &c) { c.log.emplace_back("suspect map"); }},
        {"bitmap", [](Context &c) { return uhsfs_bitmap_home(&c.image.geo(), 0, 0); }, true,
         // Reading needs none.
         [](Context &c) { c.harmless(); }},
    };
    return all;
}

void add_bytes(std::vector<Case> &cases) {
    std::uint64_t seed = 1;

    for (const Structure &structure : structures()) {
        for (const Way &way : ways()) {
            seed++;
            cases.push_back({fmt::format("{}: {}", structure.name, way.name), [=](Context &c) {
                                 fuzz::Random random(seed);
                                 const std::uint64_t block = structure.block(c);
                                 structure.affects(c);
                                 std::vector<std::uint64_t> blocks = {block};
                                 if (structure.home)
                                     blocks = c.image.copies(block);
                                 for (const std::uint64_t one : blocks)
                                     way.change(random, c.image.at(one));
                             }});
        }
    }
}

// One copy of two. Only maps may have been in flight while nothing else was.
void add_copies(std::vector<Case> &cases) {
    std::uint64_t seed = 1000;

    for (const Structure &structure : structures()) {
        if (!structure.home)
            continue;
        const bool map = std::string_view(structure.name).find("map") != std::string_view::npos;
        for (const unsigned copy : {0U, 1U}) {
            seed++;
            cases.push_back({fmt::format("{}: one bit flipped in copy {} of two{}", structure.name,
                                         copy, map ? ", which counts for nothing" : ""),
                             [=](Context &c) {
                                 fuzz::Random random(seed);
                                 c.applies = c.disk.shadow();
                                 if (!c.applies)
                                     return;
                                 const std::uint64_t block = structure.block(c) + copy;
                                 if (map)
                                     c.harmless();
                                 else
                                     structure.affects(c);
                                 ways().back().change(random, c.image.at(block));
                             }});
        }
    }
    // In an unclean filesystem it may be a torn write, but of slots only where they are marked.
    for (const bool marked : {true, false}) {
        cases.push_back(
            {fmt::format("unclean: a copy of {} slots is damaged", marked ? "marked" : "other"),
             [=](Context &c) {
                 fuzz::Random random(77);
                 c.applies = c.disk.shadow();
                 if (!c.applies)
                     return;
                 c.image.begin_epoch();
                 c.image.mark(c.ino(marked ? "inline" : ""));
                 const bool same = uhsfs_ino_chunk(&c.image.geo(), c.ino("inline")) ==
                                   uhsfs_ino_chunk(&c.image.geo(), c.ino(""));
                 if (same)
                     throw std::runtime_error("the root shares a chunk with files");
                 if (marked)
                     c.harmless();
                 else
                     c.lose_slots("inline");
                 ways().back().change(random, c.image.at(c.image.slot_home(c.ino("inline"))));
             }});
    }
    cases.push_back({"two valid copies of one seq that differ", [](Context &c) {
                         const std::uint64_t ino = c.ino("inline");
                         c.applies = c.disk.shadow();
                         c.lose_slots(ino);
                         c.log.emplace_back("copies of one seq must be the same");
                         c.image.edit_block(c.image.slot_home(ino), [&](std::uint8_t *bytes) {
                             reinterpret_cast<uhsfs_slot *>(bytes +
                                                            uhsfs_slot_offset(&c.image.geo(), ino))
                                 ->uid = cpu_to_le32(1);
                         });
                     }});
    cases.push_back(
        {"suspect chunks: a copy of the bucket of a directory is damaged", [](Context &c) {
             fuzz::Random random(79);
             c.applies = c.disk.shadow();
             if (!c.applies)
                 return;
             c.image.begin_epoch();
             c.image.suspect(c.ino("inline"));
             c.harmless();
             ways().back().change(random, c.image.at(c.bucket_home("many", 1) + 1));
         }});
    for (const char *what : {"bucket of a directory", "chunk table"}) {
        cases.push_back(
            {fmt::format("unclean: a copy of the {} is damaged", what), [=](Context &c) {
                 fuzz::Random random(78);
                 c.applies = c.disk.shadow();
                 if (!c.applies)
                     return;
                 c.image.begin_epoch();
                 c.image.mark(c.ino("inline"));
                 c.harmless();
                 for (const Structure &structure : structures())
                     if (std::string_view(structure.name) == what)
                         ways().back().change(random, c.image.at(structure.block(c) + 1));
             }});
    }
}

// ---- running them
// --------------------------------------------------------------------------------

bool has_line(const std::vector<std::string> &lines, const std::string &device,
              const std::string &part) {
    // errorf() of a mount names the device by its path, all else by its short name.
    return std::ranges::any_of(lines, [&](const std::string &line) {
        return line.starts_with("uhsfs: ") && line.find(device + ": ") != std::string::npos &&
               line.find(part) != std::string::npos;
    });
}

// "...: FIELD is 0xVALUE: RULE (0xLIMIT)"
bool has_fault(const std::vector<std::string> &lines) {
    return std::ranges::any_of(lines, [](const std::string &line) {
        const std::size_t value = line.find(" is 0x");
        const std::size_t none = line.find(" is 0: ");
        const std::size_t from = std::min(value, none);
        return from != std::string::npos && line.find(" (0", from) != std::string::npos &&
               line.ends_with(")");
    });
}

void check_case(Context &c, Results &results, const std::string &shape) {
    const int error = c.disk.mount("");

    if (error != 0 && !c.anything && error != c.mount_error)
        results.problem(shape, fmt::format("mount: {}", std::strerror(error)));
    if (error == 0 && c.mount_error != 0)
        results.problem(shape, "mount succeeds");
    if (error == 0) {
        const Tree found = c.disk.walk(c.expected.tree);
        const std::string counted = c.disk.sysfs("corruptions");
        if (!c.anything && c.mount_error == 0) {
            for (const std::string &line : differences(c.expected, found))
                results.problem(shape, line);
            if ((counted != "0") != c.counted)
                results.problem(shape, fmt::format("corruptions: {}", counted));
        }
        if (c.disk.unmount() != 0)
            results.problem(shape, "cannot be unmounted");
    }
    if (c.anything)
        return;
    const std::vector<std::string> lines = read_log();
    for (const std::string &part : c.log)
        if (!has_line(lines, c.disk.name(), part))
            results.problem(shape, fmt::format("no line of the log says '{}'", part));
    if (error != EINVAL && c.counted && !has_fault(lines))
        results.problem(shape, "no line of the log has field, value, rule and limit");
    if (results.failed())
        for (const std::string &line : lines)
            results.problem(shape, "log: " + line);
}

}  // namespace

int test_damage(std::vector<std::unique_ptr<Disk>> &disks) {
    std::vector<Case> cases = {{"nothing: all is there", [](Context &c) { c.harmless(); }}};

    add_bytes(cases);
    add_copies(cases);
    add_fields(cases);
    for (const Case &one : cases) {
        Results results;
        bool applied = false;
        results.begin(one.name);
        // One of each kind of homes; between them both sizes of slots and of blocks.
        for (const auto &disk : {disks.front().get(), disks.back().get()}) {
            disk->image().restore();
            Context context(*disk);
            try {
                one.damage(context);
            } catch (const std::exception &error) {
                results.problem(disk->shape(), fmt::format("cannot be damaged: {}", error.what()));
                continue;
            }
            if (!context.applies)
                continue;
            applied = true;
            disk->put();
            clear_log();
            check_case(context, results, disk->shape());
        }
        if (!applied)
            results.problem("all", "applies to no shape");
        results.end();
    }
    return 0;
}

}  // namespace uhsfs::damage
