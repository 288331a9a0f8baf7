// SPDX-License-Identifier: GPL-2.0
/*
 * Superblocks, and fields that lie in structures with right checksums.
 */
#include <algorithm>
#include <cstring>

#include "case.hpp"

namespace uhsfs::damage {

namespace {

using fuzz::Random;

// ---- superblocks -----------------------------------------------------------------------------

void add_supers(std::vector<Case> &cases) {
    const auto fields = [&](const char *name, int error, const char *line,
                            const std::function<void(uhsfs_super &)> &edit) {
        cases.push_back({fmt::format("superblock: {}", name), [=](Context &c) {
                             c.image.edit_super(edit);
                             c.fail_mount(error, {line});
                         }});
    };

    for (const Way &way : ways()) {
        const bool there = std::string_view(way.name).find("bit") != std::string_view::npos;
        cases.push_back({fmt::format("both superblocks: {}", way.name), [=](Context &c) {
                             Random random(5);
                             for (int copy = 0; copy < 2; copy++)
                                 way.change(random,
                                            c.image.at(uhsfs_super_block(&c.image.geo(), copy)));
                             if (there)
                                 c.fail_mount(EUCLEAN, {"superblock"});
                             else
                                 c.fail_mount(EINVAL, {"no uhsfs filesystem here"});
                         }});
        for (int copy = 0; copy < 2; copy++)
            cases.push_back(
                {fmt::format("superblock copy {}: {}: the other one counts", copy, way.name),
                 [=](Context &c) {
                     Random random(6);
                     way.change(random, c.image.at(uhsfs_super_block(&c.image.geo(), copy)));
                     c.harmless();
                 }});
    }
    fields("more blocks than the device", EINVAL, "blocks, the device only",
           [](uhsfs_super &s) { s.blocks = cpu_to_le64(32767); });
    fields("an unknown version", EINVAL, "format version 77",
           [](uhsfs_super &s) { s.version = cpu_to_le32(77); });
    fields("an unknown feature", EINVAL, "features 0x10",
           [](uhsfs_super &s) { s.incompat = cpu_to_le64(le64_to_cpu(s.incompat) | 1ULL << 36); });
    fields("an impossible slot size", EUCLEAN, "slot_size",
           [](uhsfs_super &s) { s.slot_size = cpu_to_le32(3000); });
    fields("an impossible block size", EUCLEAN, "block_size",
           [](uhsfs_super &s) { s.block_size = cpu_to_le32(0); });
    fields("an impossible erase unit", EUCLEAN, "erase_unit",
           [](uhsfs_super &s) { s.erase_unit = cpu_to_le32(0); });
    fields("an impossible number of copies", EUCLEAN, "atomic",
           [](uhsfs_super &s) { s.atomic = 3; });
    fields("an impossible errors=", EUCLEAN, "errors", [](uhsfs_super &s) { s.errors = 9; });
    fields("too many segments", EUCLEAN, "segments",
           [](uhsfs_super &s) { s.segments = cpu_to_le32(49); });
    fields("no segment", EUCLEAN, "segments", [](uhsfs_super &s) { s.segments = 0; });
    fields("a table beyond the device", EUCLEAN, "superblock",
           [](uhsfs_super &s) { s.segment[0].table = cpu_to_le64(1ULL << 50); });
    fields("a map on the superblock", EUCLEAN, "superblock",
           [](uhsfs_super &s) { s.segment[0].intent[0] = cpu_to_le64(UHSFS_SB_BLOCK); });
    fields("a huge number of chunks", EUCLEAN, "superblock",
           [](uhsfs_super &s) { s.segment[0].chunks = cpu_to_le64(1ULL << 63); });
    fields("an epoch beyond its own seq", EUCLEAN, "superblock",
           [](uhsfs_super &s) { s.epoch = cpu_to_le32(100); });
    fields("more chunks in use than there are", EUCLEAN, "chunks_used",
           [](uhsfs_super &s) { s.chunks_used = cpu_to_le64(1ULL << 40); });
    fields("bytes in reserved fields", EUCLEAN, "reserved",
           [](uhsfs_super &s) { s.reserved1[100] = 1; });
}

// ---- hostile fields: maps and chunks ----------------------------------------------------------

void add_maps(std::vector<Case> &cases) {
    const auto field = [&](const char *name, const char *line,
                           const std::function<void(uhsfs_map_block &)> &edit) {
        cases.push_back({fmt::format("intent map: {}", name), [=](Context &c) {
                             c.image.edit_home(c.map_home(0), [&](std::uint8_t *bytes) {
                                 edit(*reinterpret_cast<uhsfs_map_block *>(bytes));
                             });
                             c.fail_mount(EUCLEAN, {"intent map", line});
                         }});
    };
    const auto chunk = [&](const char *name, const char *line,
                           const std::function<void(uhsfs_chunk &)> &edit) {
        cases.push_back({fmt::format("chunk: {}", name), [=](Context &c) {
                             c.image.edit_home(c.table_home(), [&](std::uint8_t *bytes) {
                                 edit(reinterpret_cast<uhsfs_table_block *>(bytes)->chunk[1]);
                             });
                             // All descriptors of a block stand or fall together.
                             c.fail_mount(EUCLEAN, {line});
                         }});
    };

    field("a count that lies", "set is", [](uhsfs_map_block &map) { map.set = cpu_to_le32(5); });
    field("chunks of another block", "index is",
          [](uhsfs_map_block &map) { map.index = cpu_to_le64(UHSFS_MAP_BITS); });
    field("an owner", "owner_ino", [](uhsfs_map_block &map) { map.h.owner_ino = cpu_to_le64(9); });
    field("another address", "block is",
          [](uhsfs_map_block &map) { map.h.block = cpu_to_le64(77); });
    field("another filesystem", "fsid", [](uhsfs_map_block &map) { map.h.fsid ^= 1; });
    field("a suspect map", "magic",
          [](uhsfs_map_block &map) { map.h.magic = cpu_to_le32(UHSFS_TAG_SUSPECT); });

    cases.push_back({"intent map: every bit of a live epoch", [](Context &c) {
                         c.image.begin_epoch();
                         c.image.mark(c.ino(""));
                         c.image.edit_home(c.map_home(c.image.epoch() & 1), [](std::uint8_t *b) {
                             auto *map = reinterpret_cast<uhsfs_map_block *>(b);
                             std::memset(map->bits, 0xff, sizeof(map->bits));
                             uhsfs_map_seal(map);
                         });
                         c.anything = true;
                     }});

    chunk("beyond the device", "chunk 1: block",
          [](uhsfs_chunk &raw) { raw.block = cpu_to_le64(1ULL << 40); });
    chunk("on the superblock", "chunk 1: block",
          [](uhsfs_chunk &raw) { raw.block = cpu_to_le64(UHSFS_SB_BLOCK); });
    chunk("a nonce of another", "chunk 1: nonce", [](uhsfs_chunk &raw) { raw.nonce ^= 1; });
    chunk("another incarnation", "chunk 1: nonce",
          [](uhsfs_chunk &raw) { raw.incarnation = cpu_to_le32(55); });
    chunk("slots in homes never written", "chunk 1: written",
          [](uhsfs_chunk &raw) { raw.written = 0; });
    cases.push_back({"chunk: two at one place", [](Context &c) {
                         const std::uint64_t number =
                             1 - std::min<std::uint64_t>(
                                     1, uhsfs_ino_chunk(&c.image.geo(), c.ino("inline")));
                         // The other of chunks 0 and 1 than that of "inline" moves onto it.
                         c.image.edit_home(c.table_home(), [&](std::uint8_t *bytes) {
                             auto *table = reinterpret_cast<uhsfs_table_block *>(bytes);
                             table->chunk[number].block = table->chunk[1 - number].block;
                         });
                         c.anything = true;
                     }});
}

// ---- hostile fields: slots ---------------------------------------------------------------------

// In whatever a slot of "inline" lies, its whole block cannot be used.
void add_slots(std::vector<Case> &cases) {
    const auto field = [&](const char *name, const std::string &path, const char *line,
                           const std::function<void(uhsfs_slot &)> &edit) {
        cases.push_back({fmt::format("slot: {}", name), [=](Context &c) {
                             c.image.edit_slot(c.ino(path), edit);
                             c.lose_slots(path);
                             c.log.emplace_back(line);
                         }});
    };
    const auto record = [&](const char *name, const std::string &path, const char *line,
                            const std::function<void(Slot &)> &edit) {
        cases.push_back({fmt::format("slot: {}", name), [=](Context &c) {
                             c.image.rebuild_slot(c.ino(path), edit);
                             c.lose_slots(path);
                             c.log.emplace_back(line);
                         }});
    };
    const auto extent = [](Slot &slot, std::size_t i) {
        return reinterpret_cast<uhsfs_extent *>(slot.value[UHSFS_TLV_EXTENTS].data()) + i;
    };

    field("another owner", "inline", "owner_ino",
          [](uhsfs_slot &s) { s.h.owner_ino = cpu_to_le64(le64_to_cpu(s.h.owner_ino) + 1); });
    field("another nonce", "inline", "nonce", [](uhsfs_slot &s) { s.nonce ^= 1; });
    field("another address", "inline", "block", [](uhsfs_slot &s) { s.h.block ^= 8; });
    cases.push_back({"slot: a block_seq of its own", [](Context &c) {
                         c.image.edit_slot(c.ino("inline"),
                                           [](uhsfs_slot &s) { s.block_seq ^= 1; });
                         c.applies = c.image.geo().slots_per_block > 1;
                         c.lose_slots("inline");
                         c.log.emplace_back("block_seq");
                     }});

    field("an unknown state", "inline", "state", [](uhsfs_slot &s) { s.state = 7; });
    field("no type", "inline", "mode", [](uhsfs_slot &s) { s.mode = cpu_to_le16(0644); });
    field("a FREE slot with content", "inline", "body",
          [](uhsfs_slot &s) { s.state = UHSFS_SLOT_FREE; });
    field("a file that is called a directory", "inline", "inline data",
          [](uhsfs_slot &s) { s.mode = cpu_to_le16(UHSFS_S_IFDIR | 0755); });
    field("a size beyond the inline data", "inline", "size",
          [](uhsfs_slot &s) { s.size = cpu_to_le64(4000); });
    field("a negative size", "data", "size",
          [](uhsfs_slot &s) { s.size = cpu_to_le64(1ULL << 63); });
    field("an unknown flag", "inline", "flags",
          [](uhsfs_slot &s) { s.flags = cpu_to_le32(1U << 20); });
    field("a link count that lies", "inline", "nlink",
          [](uhsfs_slot &s) { s.nlink = cpu_to_le32(2); });
    field("a huge body", "inline", "body_len",
          [](uhsfs_slot &s) { s.body_len = cpu_to_le16(0xfff8); });
    field("a record beyond the body", "inline", "tlv.len",
          [](uhsfs_slot &s) { reinterpret_cast<uhsfs_tlv *>(&s + 1)->len = cpu_to_le16(0xffff); });
    field("an unknown record", "inline", "tlv.type",
          [](uhsfs_slot &s) { reinterpret_cast<uhsfs_tlv *>(&s + 1)->type = cpu_to_le16(200); });
    field("more blocks than the device", "data", "blocks",
          [](uhsfs_slot &s) { s.blocks = cpu_to_le64(1ULL << 47); });
    field("a symlink of 5000 bytes", "long", "size",
          [](uhsfs_slot &s) { s.size = cpu_to_le64(5000); });
    field("an empty symlink", "long", "size", [](uhsfs_slot &s) { s.size = 0; });

    record("a name with a slash", "inline", "name",
           [](Slot &s) { s.value[UHSFS_TLV_NAME].back() = '/'; });
    record("the name ..", "inline", "name", [](Slot &s) {
        auto &value = s.value[UHSFS_TLV_NAME];
        value.resize(sizeof(uhsfs_name) + 2, '.');
        value[value.size() - 2] = '.';
        value.back() = '.';
        reinterpret_cast<uhsfs_name *>(value.data())->len = 2;
    });
    record("an extent beyond the device", "data", "extent",
           [=](Slot &s) { extent(s, 0)->physical = cpu_to_le64(1ULL << 45); });
    record("an extent that ends beyond the device", "data", "extent",
           [=](Slot &s) { extent(s, 0)->len = cpu_to_le32(0xffffffff); });
    record("an extent on the superblock", "data", "extent", [=](Slot &s) {
        extent(s, 0)->physical = cpu_to_le64(UHSFS_SB_BLOCK);
        extent(s, 0)->len = cpu_to_le32(1);
    });
    record("an extent on the bitmap", "data", "extent", [=](Slot &s) {
        extent(s, 0)->physical = cpu_to_le64(UHSFS_BITMAP_OFFSET);
        extent(s, 0)->len = cpu_to_le32(1);
    });
    record("an empty extent", "data", "extent", [=](Slot &s) { extent(s, 0)->len = 0; });
    record("extents out of order", "extents", "extent",
           [=](Slot &s) { std::swap(*extent(s, 0), *extent(s, 1)); });
    record("extents that overlap", "extents", "extent",
           [=](Slot &s) { extent(s, 0)->len = cpu_to_le32(3); });
    record("an unknown flag of an extent", "data", "extent",
           [=](Slot &s) { extent(s, 0)->physical |= cpu_to_le64(1ULL << 60); });
    record("an extent tree that is too deep", "pieces", "extent root", [](Slot &s) {
        reinterpret_cast<uhsfs_extent_root *>(s.value[UHSFS_TLV_EXTENT_ROOT].data())->depth =
            cpu_to_le32(9);
    });
    record("an extent tree beyond the device", "pieces", "extent root", [](Slot &s) {
        reinterpret_cast<uhsfs_extent_root *>(s.value[UHSFS_TLV_EXTENT_ROOT].data())->block =
            cpu_to_le64(1ULL << 45);
    });
    record("a directory with further names", "dir/empty", "names root", [](Slot &s) {
        const uhsfs_names_root root = {.block = cpu_to_le64(500),
                                       .count = cpu_to_le32(1),
                                       .depth = cpu_to_le16(1),
                                       .reserved = {}};
        const auto *bytes = reinterpret_cast<const std::uint8_t *>(&root);
        s.value[UHSFS_TLV_NAMES].assign(bytes, bytes + sizeof(root));
        s.attr.nlink = 2;
    });
    record("no buckets", "dir/sub", "buckets", [](Slot &s) {
        reinterpret_cast<uhsfs_dir_root *>(s.value[UHSFS_TLV_DIR].data())->buckets = 0;
    });
    record("attributes that go beyond their record", "small-attributes", "xattr", [](Slot &s) {
        reinterpret_cast<uhsfs_xattr *>(s.value[UHSFS_TLV_XATTRS].data())->value_len =
            cpu_to_le32(60000);
    });
    record("attributes of an unknown kind", "small-attributes", "xattr", [](Slot &s) {
        reinterpret_cast<uhsfs_xattr *>(s.value[UHSFS_TLV_XATTRS].data())->space = 77;
    });
    record("more attributes than there may be", "attributes", "bytes", [](Slot &s) {
        reinterpret_cast<uhsfs_xattr_root *>(s.value[UHSFS_TLV_XATTR_ROOT].data())->bytes =
            cpu_to_le32(0x7fffffff);
    });
    record("an intent aimed at nobody", "inline", "intent", [](Slot &s) {
        s.value[UHSFS_TLV_INTENT].assign(sizeof(uhsfs_intent) + 1, 0);
        auto *intent = reinterpret_cast<uhsfs_intent *>(s.value[UHSFS_TLV_INTENT].data());
        intent->op = UHSFS_INTENT_EXCHANGE;
        intent->len = 1;
        intent->name[0] = 'x';
    });
}

// Lies that one slot cannot disprove.
void add_lies(std::vector<Case> &cases) {
    cases.push_back({"slot: a size far beyond the extents reads as a hole", [](Context &c) {
                         c.image.edit_slot(c.ino("data"),
                                           [](uhsfs_slot &s) { s.size = cpu_to_le64(1ULL << 62); });
                         c.expected.tree["data"].size = 1ULL << 62;
                         c.expected.tree["data"].data = "too large";
                         c.harmless();
                     }});
    cases.push_back({"slot: NUL in the target of a symlink", [](Context &c) {
                         c.image.rebuild_slot(c.ino("short"),
                                              [](Slot &s) { s.value[UHSFS_TLV_INLINE][10] = 0; });
                         c.expected.no_stat.insert("short");
                         c.log.emplace_back("target");
                     }});
    cases.push_back({"block: NUL in the target of a symlink", [](Context &c) {
                         const auto extents = must(c.image.volume().extents(c.image.inode("long")));
                         c.image.at(extents.front().physical)[10] = 0;
                         c.expected.no_data.insert("long");
                         c.log.emplace_back("target");
                     }});
    cases.push_back(
        {"slot: a device that Linux has no number for", [](Context &c) {
             c.image.rebuild_slot(c.ino("dir/null"), [](Slot &s) {
                 reinterpret_cast<uhsfs_device *>(s.value[UHSFS_TLV_DEVICE].data())->major =
                     cpu_to_le32(1U << 30);
             });
             c.expected.stat_error["dir/null"] = EOVERFLOW;
             c.log.emplace_back("device 1073741824:3 is beyond");
             c.counted = false;
         }});
    for (const std::uint32_t buckets : {1U << 31, 1U << 20}) {
        cases.push_back(
            {fmt::format("directory: claims {} buckets", buckets), [=](Context &c) {
                 c.image.rebuild_slot(c.ino("dir/sub"), [&](Slot &s) {
                     reinterpret_cast<uhsfs_dir_root *>(s.value[UHSFS_TLV_DIR].data())->buckets =
                         cpu_to_le32(buckets);
                 });
                 c.lose_directory("dir/sub");
                 c.log.emplace_back("must be mapped");
             }});
    }
    cases.push_back({"directory: a name that is another directory's", [](Context &c) {
                         // The parent says nothing of it, so that it is not found.
                         const Inode sub = c.image.inode("dir/sub");
                         c.image.rebuild_slot(c.ino("dir"), [&](Slot &s) {
                             set_name(s, sub, "loop", s.attr.name_seq_max);
                         });
                         c.expected.remove("dir");
                         c.expected.listed.insert("dir");
                         c.expected.any_links.insert("");
                         c.harmless();
                     }});
    cases.push_back({"directory: an entry that leads back to its parent", [](Context &c) {
                         const Inode sub = c.image.inode("dir/sub");
                         const Inode dir = c.image.inode("dir");
                         c.image.begin_epoch();
                         c.image.insert_entry(sub, "loop", dir.ino(), dir.attr().generation, 4);
                         c.expected.listed.insert("dir/sub/loop");
                         c.harmless();
                     }});
}

// ---- hostile fields: buckets -----------------------------------------------------------------

uhsfs_entry &first_entry(uhsfs_bucket &b) { return *reinterpret_cast<uhsfs_entry *>(b.entries); }

void add_buckets(std::vector<Case> &cases) {
    const auto field = [&](const char *name, const char *line,
                           const std::function<void(uhsfs_bucket &)> &edit) {
        cases.push_back({fmt::format("bucket: {}", name), [=](Context &c) {
                             c.image.edit_home(c.bucket_home("many", 1), [&](std::uint8_t *bytes) {
                                 edit(*reinterpret_cast<uhsfs_bucket *>(bytes));
                             });
                             c.lose_bucket("many", 1);
                             c.log.emplace_back(line);
                         }});
    };

    field("another directory's", "owner_ino",
          [](uhsfs_bucket &b) { b.h.owner_ino = cpu_to_le64(1); });
    field("another generation's", "owner_gen", [](uhsfs_bucket &b) { b.h.owner_gen ^= 1; });
    field("another bucket", "bucket", [](uhsfs_bucket &b) { b.bucket = 0; });
    field("another position", "position", [](uhsfs_bucket &b) { b.position = cpu_to_le32(3); });
    field("overflow that does not exist", "next",
          [](uhsfs_bucket &b) { b.next = cpu_to_le32(1000); });

    field("a count that lies", "count", [](uhsfs_bucket &b) { b.count = cpu_to_le16(0xffff); });
    field("a length that lies", "used", [](uhsfs_bucket &b) { b.used = cpu_to_le16(0xfff8); });
    field("an entry without a name", "entry.name", [](uhsfs_bucket &b) { first_entry(b).len = 0; });
    field("a name that goes beyond the entries", "entry.len", [](uhsfs_bucket &b) {
        uhsfs_dirent entry = {};
        u32 last = 0;
        for (u32 at = 0; uhsfs_bucket_get(&b, at, &entry); at += uhsfs_dirent_size(entry.len))
            last = at;
        reinterpret_cast<uhsfs_entry *>(b.entries + last)->len = 255;
    });

    field("a name with a slash", "entry.name",
          [](uhsfs_bucket &b) { first_entry(b).name[0] = '/'; });
    field("an entry for inode 0", "entry.ino", [](uhsfs_bucket &b) { first_entry(b).ino = 0; });
    field("an entry of no type", "entry.type", [](uhsfs_bucket &b) { first_entry(b).type = 99; });
    field("a cookie of another name", "entry.cookie",
          [](uhsfs_bucket &b) { first_entry(b).cookie ^= cpu_to_le64(1ULL << 40); });
    field("bytes behind the entries", "rest", [](uhsfs_bucket &b) { b.entries[4000] = 1; });

    // Chains: one more overflow block of the directory, wherever that is; which block is next.
    const auto extend = [](Context &c, std::uint64_t block) {
        std::uint32_t number = 0;
        c.image.rebuild_slot(c.ino("many"), [&](Slot &s) {
            auto &value = s.value[UHSFS_TLV_EXTENTS];
            auto *root = reinterpret_cast<uhsfs_dir_root *>(s.value[UHSFS_TLV_DIR].data());
            const std::uint32_t overflow = le32_to_cpu(root->overflow);
            const uhsfs_ext ext = {.logical = UHSFS_DIR_OVERFLOW + overflow,
                                   .physical = block,
                                   .len = 1,
                                   .birth = 1,
                                   .flags = 0};
            number = overflow + 1;
            root->overflow = cpu_to_le32(number);
            if (block == 0)
                return;
            value.resize(value.size() + sizeof(uhsfs_extent));
            uhsfs_extent_encode(&ext, reinterpret_cast<uhsfs_extent *>(value.data() + value.size() -
                                                                       sizeof(uhsfs_extent)));
        });
        return number;
    };
    const auto link = [](Context &c, std::uint32_t bucket, std::uint32_t next) {
        c.image.edit_home(c.bucket_home("many", bucket), [&](std::uint8_t *bytes) {
            reinterpret_cast<uhsfs_bucket *>(bytes)->next = cpu_to_le32(next);
        });
    };
    const auto lead_astray = [&](const char *name, const char *line,
                                 const std::function<std::uint64_t(Context &, std::uint32_t)> &to) {
        cases.push_back({fmt::format("bucket: {}", name), [=](Context &c) {
                             const std::uint32_t bucket = c.short_bucket("many", 0);
                             link(c, bucket, extend(c, to(c, bucket)));

                             // What stands before the bad block is found before it is read.
                             c.expected.no_list.insert("many");
                             c.log.emplace_back(line);
                         }});
    };
    lead_astray("a chain that leads back to itself", "position",
                [](Context &c, std::uint32_t bucket) { return c.bucket_home("many", bucket); });
    lead_astray("a chain that leads to another bucket", "bucket is", [](Context &c, std::uint32_t) {
        return c.bucket_home("many", c.short_bucket("many", 1));
    });
    lead_astray("overflow that is not mapped", "must be mapped",
                [](Context &, std::uint32_t) { return 0; });
    cases.push_back({"bucket: two chains with one end", [=](Context &c) {
                         const Inode dir = c.image.inode("many");
                         std::uint32_t owner = c.short_bucket("many", 0);
                         std::uint32_t other = c.short_bucket("many", 1);
                         const std::uint32_t buckets = must(c.image.volume().dir_info(dir)).buckets;
                         const auto first = [&](std::uint32_t bucket) {
                             u64 from = 0;
                             u64 to = 0;
                             uhsfs_dir_range(bucket, buckets, &from, &to);
                             return from;
                         };
                         // Readdir comes to the owner first, so that the end is in the cache as
                         // sound.
                         if (first(other) < first(owner))
                             std::swap(owner, other);
                         const std::uint64_t home = c.image.free_blocks(c.image.geo().homes);
                         std::vector<std::uint8_t> bytes(block_size);
                         auto *end = reinterpret_cast<uhsfs_bucket *>(bytes.data());
                         uhsfs_bucket_init(end, &c.image.geo(), dir.ino(), dir.attr().generation,
                                           owner, 1);
                         for (const std::uint64_t block : c.image.copies(home)) {
                             uhsfs_bucket_seal(end, block, uhsfs_seq_make(1, 1000));
                             std::memcpy(c.image.at(block), end, block_size);
                         }
                         const std::uint32_t number = extend(c, home);
                         link(c, owner, number);
                         link(c, other, number);
                         c.expected.no_list.insert("many");
                         c.log.emplace_back("bucket");
                     }});
}

// ---- hostile fields: trees and attributes
// --------------------------------------------------------

void add_trees(std::vector<Case> &cases) {
    const auto edit_node = [](Context &c, std::uint64_t block,
                              const std::function<void(uhsfs_tree_node &)> &edit) {
        c.image.edit_block(
            block, [&](std::uint8_t *bytes) { edit(*reinterpret_cast<uhsfs_tree_node *>(bytes)); });
    };
    // node: 0 the root, 1 the first leaf.
    const auto extents = [&](const char *name, const char *line, std::size_t node,
                             const std::function<void(Context &, uhsfs_tree_node &)> &edit) {
        cases.push_back({fmt::format("extent tree: {}", name), [=](Context &c) {
                             edit_node(c, c.extent_nodes("pieces").at(node),
                                       [&](uhsfs_tree_node &n) { edit(c, n); });
                             c.expected.no_data.insert("pieces");
                             c.log.emplace_back("extent");
                             c.log.emplace_back(line);
                         }});
    };
    const auto names = [&](const char *name, const char *line, std::size_t node,
                           const std::function<void(Context &, uhsfs_tree_node &)> &edit) {
        cases.push_back({fmt::format("names tree: {}", name), [=](Context &c) {
                             const std::uint64_t block = c.name_nodes("links/linked").at(node);
                             c.lose_links(node == 0 ? 0 : block);
                             edit_node(c, block, [&](uhsfs_tree_node &n) { edit(c, n); });
                             c.log.emplace_back("names");
                             c.log.emplace_back(line);
                         }});
    };

    extents("a node within itself", "level", 0,
            [](Context &, uhsfs_tree_node &n) { n.ref[0].block = n.h.block; });
    extents("a node of another file", "magic", 0, [](Context &c, uhsfs_tree_node &n) {
        n.ref[0].block = cpu_to_le64(c.name_nodes("links/linked").at(1));
    });
    extents("a node beyond the device", "block", 0,
            [](Context &, uhsfs_tree_node &n) { n.ref[0].block = cpu_to_le64(1ULL << 45); });
    extents("keys out of order", "key", 0, [](Context &, uhsfs_tree_node &n) {
        n.ref[1].key = cpu_to_le64(1ULL << 50);
        n.ref[0].key = cpu_to_le64(1ULL << 51);
    });
    extents("two references to one node", "", 0,
            [](Context &, uhsfs_tree_node &n) { n.ref[1].block = n.ref[0].block; });
    extents("a level that lies", "level", 0,
            [](Context &, uhsfs_tree_node &n) { n.level = cpu_to_le16(7); });
    extents("a leaf that is called a node", "level", 1,
            [](Context &, uhsfs_tree_node &n) { n.level = cpu_to_le16(1); });
    extents("an empty node", "count", 0, [](Context &, uhsfs_tree_node &n) { n.count = 0; });
    extents("more entries than fit", "count", 1,
            [](Context &, uhsfs_tree_node &n) { n.count = cpu_to_le16(0xffff); });
    extents("an extent beyond the device", "physical", 1,
            [](Context &, uhsfs_tree_node &n) { n.extent[3].physical = cpu_to_le64(1ULL << 45); });
    extents("extents that overlap", "logical", 1,
            [](Context &, uhsfs_tree_node &n) { n.extent[3].len = cpu_to_le32(10); });
    extents("another file's leaf", "owner_ino", 1,
            [](Context &, uhsfs_tree_node &n) { n.h.owner_ino = cpu_to_le64(1); });
    for (const std::uint32_t depth : {1U, 8U}) {
        cases.push_back({fmt::format("extent tree: a depth of {}", depth), [=](Context &c) {
                             c.image.rebuild_slot(c.ino("pieces"), [&](Slot &s) {
                                 reinterpret_cast<uhsfs_extent_root *>(
                                     s.value[UHSFS_TLV_EXTENT_ROOT].data())
                                     ->depth = cpu_to_le32(depth);
                             });
                             c.expected.no_data.insert("pieces");
                             c.log.emplace_back("level");
                         }});
    }

    names("a node within itself", "level", 0, [](Context &, uhsfs_tree_node &n) {
        for (unsigned i = 0; i < le16_to_cpu(n.count); i++)
            n.ref[i].block = n.h.block;
    });
    names("a level that lies", "level", 0,
          [](Context &, uhsfs_tree_node &n) { n.level = cpu_to_le16(7); });
    names("a leaf's length that lies", "used", 1,
          [](Context &, uhsfs_tree_node &n) { n.used = cpu_to_le16(0xfff8); });
    names("a leaf's count that lies", "used", 1,
          [](Context &, uhsfs_tree_node &n) { n.count = cpu_to_le16(3); });
    cases.push_back({"names tree: a name that goes beyond the leaf", [=](Context &c) {
                         const std::uint64_t leaf = c.name_nodes("links/linked").at(1);
                         c.lose_links(leaf);
                         edit_node(c, leaf, [](uhsfs_tree_node &n) {
                             reinterpret_cast<uhsfs_name *>(n.bytes)->len = 255;
                         });
                         c.log.emplace_back("must be a legal file name");
                     }});
    names("another generation's leaf", "owner_gen", 1,
          [](Context &, uhsfs_tree_node &n) { n.h.owner_gen ^= 1; });
}

void add_attributes(std::vector<Case> &cases) {
    const auto block = [&](const char *name, const char *line, std::size_t which,
                           const std::function<void(Context &, uhsfs_xattr_block &)> &edit) {
        cases.push_back({fmt::format("attributes: {}", name), [=](Context &c) {
                             c.image.edit_block(
                                 c.xattr_blocks("attributes").at(which), [&](std::uint8_t *bytes) {
                                     edit(c, *reinterpret_cast<uhsfs_xattr_block *>(bytes));
                                 });
                             c.expected.no_xattrs.insert("attributes");
                             c.log.emplace_back("xattr");
                             c.log.emplace_back(line);
                         }});
    };

    block("an index of itself", "index", 0,
          [](Context &, uhsfs_xattr_block &b) { b.index[0] = b.h.block; });
    block("an index beyond the device", "index", 0,
          [](Context &, uhsfs_xattr_block &b) { b.index[1] = cpu_to_le64(1ULL << 45); });
    block("a block twice", "index", 0,
          [](Context &, uhsfs_xattr_block &b) { b.index[1] = b.index[0]; });
    block("a count that lies", "count", 0,
          [](Context &, uhsfs_xattr_block &b) { b.count = cpu_to_le16(0xffff); });
    block("another position", "position", 1,
          [](Context &, uhsfs_xattr_block &b) { b.position = cpu_to_le32(1); });
    block("a length that lies", "used", 1,
          [](Context &, uhsfs_xattr_block &b) { b.used = cpu_to_le32(0xffffffff); });
    block("a value that goes beyond the stream", "value_len", 1,
          [](Context &, uhsfs_xattr_block &b) {
              reinterpret_cast<uhsfs_xattr *>(b.bytes)->value_len = cpu_to_le32(0xfffffff0);
          });
    block("another file's", "owner_ino", 1,
          [](Context &, uhsfs_xattr_block &b) { b.h.owner_ino = cpu_to_le64(1); });
}

}  // namespace

void add_fields(std::vector<Case> &cases) {
    add_supers(cases);
    add_maps(cases);
    add_slots(cases);
    add_lies(cases);
    add_buckets(cases);
    add_trees(cases);
    add_attributes(cases);
}

}  // namespace uhsfs::damage
