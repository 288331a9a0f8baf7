// SPDX-License-Identifier: GPL-2.0
/*
 * Whole images. Input: which image (1 byte), then patches: block, offset and length (2 bytes
 * each), 1 byte whose lowest bit says that the checksum is made right, and the bytes.
 *
 * The changed image is checked and then listed and read. What the checker calls clean can be
 * read from end to end and holds as many files as the checker says. It is not clean where
 * all changes are such that a checksum is wrong, nor where the one change is in a bitmap or
 * in what a directory says.
 */
#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "image_base.hpp"
#include "libuhsfs/check.hpp"
#include "libuhsfs/text.hpp"
#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr std::size_t most_patches = 48;

struct Patch {
    std::uint16_t block;
    std::uint16_t offset;
    bool seal;
    std::vector<std::uint8_t> bytes;
};

struct Input {
    std::uint8_t image = 0;
    std::vector<Patch> patches;
};

Input parse(Bytes bytes) {
    Reader reader(bytes);
    Input input;

    input.image = reader.byte();
    while (!reader.empty() && input.patches.size() < most_patches) {
        Patch patch = {};
        patch.block = reader.get<std::uint16_t>();
        patch.offset = reader.get<std::uint16_t>() % block_size;
        const std::size_t length = 1 + reader.get<std::uint16_t>() % (block_size - patch.offset);
        patch.seal = (reader.byte() & 1) != 0;
        patch.bytes.resize(length);
        reader.copy(patch.bytes.data(), length);
        input.patches.push_back(std::move(patch));
    }
    return input;
}

std::vector<std::uint8_t> write(const Input &input) {
    std::vector<std::uint8_t> bytes = {input.image};
    const auto append = [&](std::uint16_t word) {
        bytes.push_back(static_cast<std::uint8_t>(word));
        bytes.push_back(static_cast<std::uint8_t>(word >> 8));
    };

    for (const Patch &patch : input.patches) {
        append(patch.block);
        append(patch.offset);
        append(static_cast<std::uint16_t>(patch.bytes.size() - 1));
        bytes.push_back(patch.seal ? 1 : 0);
        bytes.insert(bytes.end(), patch.bytes.begin(), patch.bytes.end());
    }
    return bytes;
}

const ImageBase &base_of(std::uint8_t choice) {
    static const std::array<std::unique_ptr<ImageBase>, 4> bases = {
        std::make_unique<ImageBase>(
            ImageBase::Shape{.slot_size = 1024, .shadow = false, .recovery = false}),
        std::make_unique<ImageBase>(
            ImageBase::Shape{.slot_size = 1024, .shadow = true, .recovery = false}),
        std::make_unique<ImageBase>(
            ImageBase::Shape{.slot_size = 4096, .shadow = true, .recovery = true}),
        std::make_unique<ImageBase>(
            ImageBase::Shape{.slot_size = 2048, .shadow = false, .recovery = true})};

    return *bases[choice % bases.size()];
}

// The blocks that patches change, as they are then.
using Changed = std::map<std::uint64_t, Block>;

Changed apply(const ImageBase &base, const Input &input) {
    Changed changed;
    std::set<std::uint64_t> sealed;

    for (const Patch &patch : input.patches) {
        const std::uint64_t block = patch.block % base.blocks();
        const auto [at, fresh] = changed.try_emplace(block);
        if (fresh)
            std::memcpy(at->second.bytes, base.block(block), block_size);
        std::memcpy(at->second.bytes + patch.offset, patch.bytes.data(), patch.bytes.size());
        if (patch.seal)
            sealed.insert(block);
    }
    for (const std::uint64_t block : sealed)
        seal_block(base.geo(), changed.at(block).bytes);
    return changed;
}

// True if the block is a copy of an intent map whose other copy is as it was: that may be the
// cut off first write of an epoch at any time, and is but a note.
bool may_be_torn(const ImageBase &base, std::uint64_t block, const Changed &changed) {
    uhsfs_super_info super = {};

    if (!base.shape().shadow)
        return false;
    MUST(uhsfs_super_decode(reinterpret_cast<const uhsfs_super *>(base.block(UHSFS_SB_BLOCK)),
                            UHSFS_SB_BLOCK, &super, nullptr) == 0,
         "the superblock of the base image");
    for (const unsigned which : {0U, 1U}) {
        uhsfs_place place = {};
        if (!uhsfs_chunk_map_place(&super, 0, which, &place))
            continue;
        if (block == place.home)
            return !changed.contains(place.home + 1);
        if (block == place.home + 1)
            return !changed.contains(place.home);
    }
    return false;
}

// True if each change leaves a wrong checksum, and one is in a block that counts.
bool surely_damaged(const ImageBase &base, const Input &input, const Changed &changed) {
    bool damaged = false;

    if (std::ranges::any_of(input.patches, [](const Patch &patch) { return patch.seal; }))
        return false;
    for (const auto &[block, bytes] : changed) {
        if (std::memcmp(bytes.bytes, base.block(block), block_size) == 0)
            continue;
        // A patch may bring its own right checksum.
        Block again = bytes;
        seal_block(base.geo(), again.bytes);
        if (std::memcmp(&again, &bytes, sizeof(again)) == 0)
            return false;
        damaged = damaged || (base.is_metadata(block) && !may_be_torn(base, block, changed));
    }
    return damaged;
}

// What a bucket says: which names lead where.
std::set<std::tuple<std::string, u64, u32>> entries_of(const uhsfs_bucket &bucket) {
    std::set<std::tuple<std::string, u64, u32>> entries;
    uhsfs_dirent e = {};

    for (u32 at = 0; uhsfs_bucket_get(&bucket, at, &e); at += uhsfs_dirent_size(e.len))
        entries.emplace(std::string(reinterpret_cast<const char *>(e.name), e.len), e.ino, e.gen);
    return entries;
}

// True if the one block that changes says something else now that nothing else confirms:
// which blocks are in use, or which names a directory has.
bool surely_different(const ImageBase &base, const Changed &changed) {
    if (base.shape().recovery || base.shape().shadow || changed.size() != 1)
        return false;
    const auto &[number, after] = *changed.begin();
    if (!base.is_metadata(number))
        return false;
    Block before = {};
    std::memcpy(before.bytes, base.block(number), block_size);
    const auto *old_map = before.as<const uhsfs_map_block>();
    const auto *new_map = reinterpret_cast<const uhsfs_map_block *>(after.bytes);
    switch (le32_to_cpu(old_map->h.magic)) {
        case UHSFS_TAG_BITMAP:
            return std::memcmp(old_map->bits, new_map->bits, sizeof(old_map->bits)) != 0;
        case UHSFS_TAG_BUCKET:
            return entries_of(*before.as<const uhsfs_bucket>()) !=
                   entries_of(*reinterpret_cast<const uhsfs_bucket *>(after.bytes));
        default:
            return false;
    }
}

// ---- ls -R and cat -------------------------------------------------------------------------

class Walk {
public:
    // strict: nothing may go wrong but that an entry is stale.
    Walk(const Volume &volume, bool strict) : volume_(volume), strict_(strict) {}

    void run() {
        std::vector<std::uint64_t> todo = {UHSFS_INO_ROOT};

        if (!fine(volume_.inode(UHSFS_INO_ROOT), "the root"))
            return;
        seen_.insert(UHSFS_INO_ROOT);
        directories = 1;
        while (!todo.empty()) {
            const auto dir = volume_.inode(todo.back());
            todo.pop_back();
            if (fine(dir, "a directory"))
                list(*dir, todo);
        }
    }

    std::uint64_t files = 0;
    std::uint64_t directories = 0;
    std::uint64_t names = 0;

private:
    template <typename T>
    bool fine(const Result<T> &result, std::string_view what) const {
        if (!result && strict_)
            MUST(false, "clean, says the checker, but {}: {}", what, result.error().to_string());
        return result.has_value();
    }

    void list(const Inode &dir, std::vector<std::uint64_t> &todo) {
        const auto entries = volume_.entries(dir);

        use(dir);
        if (!fine(entries, "entries"))
            return;
        bool looked_up = false;
        for (const DirEntry &entry : *entries) {
            const Known &known = know(entry.ino);
            if (!known.inode || known.inode->attr().generation != entry.gen ||
                !known.claims.contains({dir.ino(), dir.attr().generation, entry.name}))
                continue;
            names++;
            if (!looked_up) {
                const auto found = volume_.lookup(dir, entry.name);
                if (fine(found, "lookup") && strict_)
                    MUST(found->ino() == entry.ino, "lookup of {} gives {}", entry.ino,
                         found->ino());
                looked_up = true;
            }
            if (!seen_.insert(entry.ino).second)
                continue;
            (known.inode->is_dir() ? directories : files)++;
            if (known.inode->is_dir())
                todo.push_back(entry.ino);
            else
                use(*known.inode);
        }
    }

    // An inode and the names that it claims, read once.
    struct Known {
        std::optional<Inode> inode;
        std::set<std::tuple<std::uint64_t, std::uint32_t, std::string>> claims;
    };

    const Known &know(std::uint64_t ino) {
        const auto [at, fresh] = known_.try_emplace(ino);
        if (!fresh)
            return at->second;
        auto inode = volume_.inode(ino);
        if (!inode) {
            // Nobody there: the entry is stale.
            if (inode.error().code != ENOENT)
                (void)fine(inode, "an entry's inode");
            return at->second;
        }
        const auto claimed = volume_.names(*inode);
        if (fine(claimed, "names"))
            for (const Name &name : *claimed)
                at->second.claims.emplace(name.parent_ino, name.parent_gen, name.name);
        at->second.inode = std::move(*inode);
        return at->second;
    }

    void use(const Inode &inode) {
        std::array<std::uint8_t, 8192> buffer = {};
        const std::uint64_t size = inode.attr().size;

        (void)fine(volume_.xattrs(inode), "attributes");
        (void)fine(volume_.extents(inode), "extents");
        if (uhsfs_is_lnk(inode.attr().mode))
            (void)fine(volume_.readlink(inode), "a symlink");
        if (!uhsfs_is_reg(inode.attr().mode))
            return;
        (void)fine(volume_.read(inode, 0, buffer), "the start of a file");
        if (size > buffer.size())
            (void)fine(volume_.read(inode, size - buffer.size(), buffer), "the end of a file");
    }

    const Volume &volume_;
    const bool strict_;
    std::set<std::uint64_t> seen_;
    std::map<std::uint64_t, Known> known_;
};

std::string findings(const CheckReport &report) {
    std::string all;

    for (const auto *list : {&report.findings, &report.notes})
        for (const Finding &finding : *list)
            all += "\n  " + finding.text();
    return all;
}

void inspect(const ImageBase &base, const Input &input, const Changed &changed) {
    const bool damaged = surely_damaged(base, input, changed);
    const auto volume = Volume::open(base.path());

    if (!volume) {
        MUST(!changed.empty(), "the base image: {}", volume.error().to_string());
        return;
    }
    if (volume->access() == UHSFS_ACCESS_NONE)
        return;
    const auto report = check_volume(*volume, {.threads = 1, .progress = {}, .cancelled = {}});
    MUST(report.has_value(), "{}", report.error().to_string());
    MUST(report->findings.size() <= report->findings_total && report->used_percent() <= 100,
         "a report of {} findings", report->findings_total);
    if (changed.empty())
        MUST(report->clean(), "the base image is not clean:{}", findings(*report));
    // A cut may explain damage in what was in flight.
    if (damaged && !base.shape().recovery)
        MUST(!report->clean(), "damaged, but clean, says the checker:{}", findings(*report));
    if (surely_different(base, changed))
        MUST(!report->clean() || report->notes_total > 0, "changed, but the checker says nothing");
    const bool strict = report->clean() && !report->recovery.needed;
    Walk walk(*volume, strict);
    walk.run();
    if (!strict)
        return;
    MUST(walk.files == report->files && walk.directories == report->directories &&
             walk.names == report->names,
         "{} files, {} directories, {} names, but the checker says {}, {}, {}:{}", walk.files,
         walk.directories, walk.names, report->files, report->directories, report->names,
         findings(*report));
}

}  // namespace

void run(Bytes bytes) {
    const Input input = parse(bytes);
    const ImageBase &base = base_of(input.image);
    const Changed changed = apply(base, input);

    for (const auto &[block, content] : changed)
        base.write(block, content.bytes);
    inspect(base, input, changed);
    for (const auto &[block, content] : changed) {
        const auto value = describe_block(base.geo(), content.bytes);
        if (value)
            MUST(!value->to_json().empty() && !value->to_text().empty(), "block {}", block);
        base.restore(block);
    }
}

namespace {

// Patches that make `from` to `to`; ranges that are near each other are one.
void difference(const Block &from, const Block &to, std::uint16_t block, bool seal,
                std::vector<Patch> &patches) {
    constexpr std::size_t near = 7;

    for (std::size_t at = 0; at < block_size; at++) {
        if (from.bytes[at] == to.bytes[at])
            continue;
        std::size_t last = at;
        for (std::size_t i = at; i < block_size && i <= last + near; i++)
            if (from.bytes[i] != to.bytes[i])
                last = i;
        patches.push_back({.block = block,
                           .offset = static_cast<std::uint16_t>(at),
                           .seal = seal,
                           .bytes = {to.bytes + at, to.bytes + last + 1}});
        at = last;
    }
}

}  // namespace

void mutate(Random &random, std::vector<std::uint8_t> &bytes, std::size_t most) {
    Input input = parse(bytes);

    if (random.one_in(40))
        input.image = static_cast<std::uint8_t>(random.below(4));
    const ImageBase &base = base_of(input.image);
    if (!input.patches.empty() && random.one_in(6))
        input.patches.erase(input.patches.begin() +
                            static_cast<long>(random.below(input.patches.size())));
    if (!input.patches.empty() && random.one_in(6)) {
        Patch &patch = input.patches[random.below(input.patches.size())];
        mutate_bytes(patch.bytes, block_size - patch.offset);
        if (patch.bytes.empty())
            patch.bytes.push_back(0);
    } else {
        const Changed changed = apply(base, input);
        std::uint64_t number = base.metadata()[random.below(base.metadata().size())];
        if (random.one_in(40))
            number = random.below(base.blocks());
        Block before = {};
        if (const auto at = changed.find(number); at != changed.end())
            before = at->second;
        else
            std::memcpy(before.bytes, base.block(number), block_size);
        Block after = before;
        if (random.one_in(60))
            std::memcpy(after.bytes,
                        base.block(base.metadata()[random.below(base.metadata().size())]),
                        block_size);
        else
            mutate_deep(random, base.geo(), after.bytes);
        difference(before, after, static_cast<std::uint16_t>(number), !random.one_in(8),
                   input.patches);
    }
    if (input.patches.size() > most_patches)
        input.patches.resize(most_patches);
    std::vector<std::uint8_t> changed = write(input);
    if (changed.size() <= most)
        bytes = std::move(changed);
}

void seeds(const SeedSink &sink) {
    for (std::uint8_t image = 0; image < 4; image++) {
        const ImageBase &base = base_of(image);
        // No text, to whoever looks at the file.
        const auto choice = static_cast<std::uint8_t>(128 + image);
        sink(fmt::format("base-{}", image), write({.image = choice, .patches = {}}));
        // A size, and a checksum, in the root's slot.
        const std::uint64_t block = base.metadata().back();
        sink(fmt::format("sealed-{}", image),
             write({.image = image,
                    .patches = {{.block = static_cast<std::uint16_t>(block),
                                 .offset = 45,
                                 .seal = true,
                                 .bytes = {9}}}}));
        sink(fmt::format("torn-{}", image),
             write({.image = image,
                    .patches = {{.block = static_cast<std::uint16_t>(base.metadata()[2]),
                                 .offset = 2000,
                                 .seal = false,
                                 .bytes = {1, 2, 3}}}}));
    }
}

}  // namespace uhsfs::fuzz
