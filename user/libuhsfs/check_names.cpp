// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Names: claims against each other and against their parents, and the way of every directory
 * to the root.
 */
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <tuple>

#include "libuhsfs/check_state.hpp"
#include "libuhsfs/workers.hpp"

namespace uhsfs::checking {

// ---- claims --------------------------------------------------------------------------------

void Claims::add(const Claim &claim) {
    const auto number = static_cast<std::size_t>(claim.key >> part_shift);
    const std::scoped_lock guard(lock_[number]);

    part_[number].push_back(claim);
}

void Claims::sort(unsigned threads) {
    for_each_item(threads, parts, [&](unsigned, std::uint64_t i) {
        std::ranges::sort(part_[i], [](const Claim &a, const Claim &b) {
            return std::tuple(a.key, a.who, a.gen) < std::tuple(b.key, b.who, b.gen);
        });
    });
}

std::uint64_t Claims::size() const {
    std::uint64_t sum = 0;

    for (const auto &part : part_)
        sum += part.size();
    return sum;
}

std::span<Claim> Claims::find(std::uint64_t key) {
    auto &part = part_[static_cast<std::size_t>(key >> part_shift)];
    const auto range = std::ranges::equal_range(part, key, {}, &Claim::key);

    return {range.begin(), range.end()};
}

std::uint64_t Checker::name_key(std::uint64_t parent, std::uint32_t gen, const std::uint8_t *name,
                                std::size_t len) const {
    std::array<std::uint8_t, sizeof(parent) + sizeof(gen)> prefix = {};

    uhsfs_put_le64(prefix.data(), parent);
    uhsfs_put_le32(prefix.data() + sizeof(parent), gen);
    return uhsfs_siphash2(key_.data(), prefix.data(), prefix.size(), name, len);
}

// ---- to tell -------------------------------------------------------------------------------

std::string Checker::claimed_name(const Claim &claim) const {
    std::string name = "a name";
    const auto inode = volume_.inode(claim.ino());

    if (!inode)
        return name;
    InodeVisitor visitor;
    visitor.names_only = true;
    visitor.name = [&](const uhsfs_claim &own) {
        if (name_key(own.parent_ino, own.parent_gen, own.name, own.len) == claim.key)
            name = fmt::format("'{}' in directory {}",
                               std::string_view(reinterpret_cast<const char *>(own.name), own.len),
                               own.parent_ino);
    };
    walk_inode(volume_, inode->view(), visitor);
    return name;
}

std::string Checker::slot_text(std::uint64_t ino) const {
    const uhsfs_rec_outside slot = describe_slot(volume_, ino);

    if (slot.state == UHSFS_SLOT_FREE)
        return fmt::format("slot {} is free", ino);
    if (slot.state != UHSFS_SLOT_INODE)
        return fmt::format("there is no inode {}", ino);
    return fmt::format("inode {} is a {} of generation {}", ino, slot.is_dir ? "directory" : "file",
                       slot.generation);
}

// ---- claims against parents ----------------------------------------------------------------

Directory *Checker::directory(std::uint64_t ino) {
    const auto at = std::ranges::lower_bound(dirs_, ino, {}, &Directory::ino);

    return at == dirs_.end() || at->ino != ino ? nullptr : &*at;
}

Directory *Checker::directory(std::uint64_t ino, std::uint32_t gen) {
    Directory *dir = directory(ino);

    return dir == nullptr || dir->gen != gen ? nullptr : dir;
}

void Checker::check_claims() {
    pass(4, "names", Claims::parts);
    claims_.sort(threads_);
    std::ranges::sort(dirs_, {}, &Directory::ino);
    parallel(Claims::parts, [&](std::uint64_t i) {
        check_claim_part(claims_.part(static_cast<unsigned>(i)));
        step();
    });
    if (!stop())
        check_ways();
}

void Checker::check_claim_part(std::vector<Claim> &part) {
    for (std::size_t i = 0; i < part.size();) {
        std::size_t end = i + 1;
        while (end < part.size() && part[end].key == part[i].key)
            end++;
        if (end - i > 1)
            check_same_name({&part[i], end - i});
        for (; i < end; i++)
            check_claim(part[i]);
    }
}

void Checker::check_same_name(std::span<const Claim> claims) {
    for (std::size_t i = 1; i < claims.size(); i++) {
        const Claim &a = claims[i - 1];
        const Claim &b = claims[i];
        const bool one = a.ino() == b.ino();
        if (a.has(Claim::held) || b.has(Claim::held))
            continue;  // told by recovery
        findings_.add_with(make_fault("slot", b.ino(), "name", a.ino(), b.ino(),
                                      one ? "must not be claimed twice by one inode"
                                          : "must not be claimed by two inodes"),
                           [&] { return claimed_name(b); });
    }
}

void Checker::check_claim(const Claim &claim) {
    constexpr std::uint8_t directory_type = UHSFS_S_IFDIR >> 12;
    const bool is_dir = claim.type() == directory_type;
    Directory *self = is_dir ? directory(claim.ino()) : nullptr;
    Directory *parent = directory(claim.parent_ino);

    if (self != nullptr &&
        std::atomic_ref(self->names).fetch_add(1, std::memory_order_relaxed) == 0)
        self->parent_ino = claim.parent_ino;
    if (parent != nullptr && parent->gen == claim.parent_gen) {
        std::atomic_ref(parent->children).fetch_add(1, std::memory_order_relaxed);
        if (is_dir)
            std::atomic_ref(parent->child_dirs).fetch_add(1, std::memory_order_relaxed);
        return;
    }
    if (claim.has(Claim::held) || unreadable_.has(claim.parent_ino))
        return;
    if (parent != nullptr)
        findings_.add_with(make_fault("slot", claim.ino(), "name.parent_gen", claim.parent_gen,
                                      parent->gen, UHSFS_RULE_EQUAL),
                           [&] { return claimed_name(claim); });
    else
        findings_.add_with(make_fault("slot", claim.ino(), "name.parent_ino", claim.parent_ino, 0,
                                      "must be a directory"),
                           [&] {
                               return fmt::format("{}; {}", claimed_name(claim),
                                                  slot_text(claim.parent_ino));
                           });
}

// ---- the way to the root -------------------------------------------------------------------

void Checker::check_ways() {
    enum Way : std::uint8_t { unknown, walking, rooted, lost };
    std::vector<Directory *> path;

    for (Directory &start : dirs_) {
        Directory *at = &start;
        std::uint8_t end = lost;
        path.clear();
        while (at != nullptr && at->way == unknown) {
            if (at->ino == UHSFS_INO_ROOT) {
                at->way = rooted;
                break;
            }
            at->way = walking;
            path.push_back(at);
            // Without a name, or below something that is no directory: told already.
            at = at->names == 0 ? nullptr : directory(at->parent_ino);
        }
        if (at != nullptr && at->way == rooted)
            end = rooted;
        if (at != nullptr && at->way == walking) {
            const auto from = std::ranges::find(path, at);
            const Directory *least =
                *std::ranges::min_element(from, path.end(), {}, &Directory::ino);
            findings_.add(make_fault("directory", least->ino, "parent", least->parent_ino,
                                     static_cast<std::uint64_t>(path.end() - from),
                                     "must lead to the root, not back to itself"));
        }
        for (Directory *dir : path)
            dir->way = end;
    }
    if (directory(UHSFS_INO_ROOT) == nullptr && !unreadable_.has(UHSFS_INO_ROOT))
        findings_.add(make_fault("directory", UHSFS_INO_ROOT, "state", 0, 1,
                                 "the root directory must be there"));
}

}  // namespace uhsfs::checking
