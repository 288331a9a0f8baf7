// SPDX-License-Identifier: GPL-2.0
/*
 * dump dir and extents: what an inode has.
 */
#include <fmt/format.h>

#include <cerrno>

#include "commands.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

namespace {

Result<Inode> inode_of(const Arguments &arguments, const Volume &volume) {
    return volume.inode(UHSFS_TRY(parse_number("INO", arguments.words().at(0))));
}

// "yes", "no", or why nobody knows.
Value confirmed(const Volume &volume, const Inode &dir, const uhsfs_dirent &e) {
    const std::string_view name{reinterpret_cast<const char *>(e.name), e.len};
    const auto inode = volume.inode(e.ino);

    if (!inode)
        return inode.error().code == ENOENT ? Value::boolean(false) : Value::null("unknown");
    if (inode->attr().generation != e.gen)
        return Value::boolean(false);
    const auto confirms = volume.confirms(*inode, dir, name);
    return confirms ? Value::boolean(*confirms) : Value::null("unknown");
}

struct Range {
    unsigned long long first = 0;
    unsigned long long last = 0;
};

void entry_rows(const Volume &volume, const Inode &dir, const BucketBlock &block,
                const Range &range, Report &report) {
    uhsfs_dirent e = {};

    for (std::uint32_t offset = 0; uhsfs_bucket_get(block.bucket.record.get(), offset, &e);
         offset += uhsfs_dirent_size(e.len)) {
        Value row = Value::object();
        row.add("bucket", block.at.bucket);
        row.add("position", block.at.position);
        row.add("cookie", hex_value(e.cookie));
        row.add("ino", e.ino);
        row.add("generation", e.gen);
        row.add("type", Value::word(dtype_word(e.type)));
        // What a split left behind counts for nothing.
        row.add("in-range", e.cookie >= range.first && e.cookie <= range.last);
        row.add("confirmed", confirmed(volume, dir, e));
        row.add("name", std::string_view{reinterpret_cast<const char *>(e.name), e.len});
        report.row(row);
    }
}

void block_rows(const BucketBlock &block, Report &report) {
    for (unsigned i = 0; i < block.bucket.home.copies; i++) {
        Value row = Value::object();
        row.add("bucket", block.at.bucket);
        row.add("position", block.at.position);
        row.add("logical", block.logical);
        row.extend(describe_copy(block.bucket.home, i));
        report.row(row);
    }
}

// Every chain, whatever is wrong with others.
template <typename Each>
void each_chain(const Volume &volume, const Inode &dir, const uhsfs_dir_info &info,
                const std::vector<uhsfs_ext> &extents, Each each) {
    for (std::uint32_t bucket = 0; bucket < info.buckets; bucket++)
        each(bucket, volume.bucket_chain(dir, info, extents, bucket));
}

// The first and last buckets of a directory that claims more than its extents can hold would
// be a list without end.
bool too_many_buckets(const std::vector<uhsfs_ext> &extents, const uhsfs_dir_info &info) {
    std::uint64_t mapped = 0;

    for (const uhsfs_ext &ext : extents)
        mapped += ext.len;
    return info.buckets > mapped;
}

}  // namespace

Result<void> run_dump_dir(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(1)));
    const Inode dir = UHSFS_TRY(inode_of(arguments, volume));
    const uhsfs_dir_info info = UHSFS_TRY(volume.dir_info(dir));
    const auto extents = UHSFS_TRY(volume.extents(dir));

    report.add("ino", dir.ino());
    report.add("generation", dir.attr().generation);
    report.add("buckets", info.buckets);
    report.add("overflow", info.overflow);
    report.add("entries-hint", info.entries);
    report.add("subdirectories-hint", info.subdirs);
    if (too_many_buckets(extents, info))
        return fail(EUCLEAN, volume.path(),
                    fmt::format("directory {}: {} buckets are more than its extents hold",
                                dir.ino(), info.buckets));
    if (report.verbose()) {
        report.begin_rows("blocks", {{"bucket", 8},
                                     {"position", 8},
                                     {"logical", 10},
                                     {"block", 10},
                                     {"state", 10},
                                     {"counts", 6},
                                     {"seq", 12},
                                     {"fault", 6}});
        each_chain(volume, dir, info, extents, [&](std::uint32_t, const auto &chain) {
            if (chain)
                for (const BucketBlock &block : *chain)
                    block_rows(block, report);
        });
        report.end_rows();
    }
    report.begin_rows("entries", {{"bucket", 6},
                                  {"position", 8},
                                  {"cookie", 18},
                                  {"ino", 8},
                                  {"generation", 10},
                                  {"type", 9},
                                  {"in-range", 8},
                                  {"confirmed", 9},
                                  {"name", 8}});
    each_chain(volume, dir, info, extents, [&](std::uint32_t bucket, const auto &chain) {
        Range range;
        if (!chain) {
            report.error(chain.error());
            return;
        }
        uhsfs_dir_range(bucket, info.buckets, &range.first, &range.last);
        for (const BucketBlock &block : *chain) {
            if (!block.bucket)
                report.error(block.bucket.home.error(volume.path()));
            else
                entry_rows(volume, dir, block, range, report);
        }
    });
    report.end_rows();
    return {};
}

Result<void> run_dump_extents(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(1)));
    const Inode inode = UHSFS_TRY(inode_of(arguments, volume));
    Value nodes = Value::array();
    const auto extents =
        volume.extents(inode, [&](std::uint64_t block) { nodes.push(Value::number(block)); });

    report.add("ino", inode.ino());
    report.add("size", size_value(inode.attr().size));
    report.add("inline", inode.view().value[UHSFS_TLV_INLINE] != nullptr);
    report.add("blocks-per-logical", inode.is_dir() ? volume.geo().homes : 1U);
    if (report.verbose())
        report.add("tree-nodes", std::move(nodes));
    report.begin_rows(
        "extents", {{"logical", 10}, {"physical", 10}, {"blocks", 8}, {"birth", 8}, {"flags", 9}});
    if (extents)
        for (const uhsfs_ext &ext : *extents)
            report.row(describe(ext));
    report.end_rows();
    if (!extents)
        return tl::make_unexpected(extents.error());
    return {};
}

}  // namespace uhsfs::ctl
