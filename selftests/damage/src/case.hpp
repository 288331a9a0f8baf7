/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A case of damage: what is changed in an image, and what is to be expected then.
 */
#pragma once

#include <cerrno>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "guest.hpp"
#include "random.hpp"

namespace uhsfs::damage {

// One case on one filesystem: damages the image and says what is to be expected.
class Context {
public:
    explicit Context(Disk &on) : disk(on), image(on.image()) { expected.tree = on.tree(); }

    Disk &disk;
    Image &image;
    Expected expected;
    bool applies = true;
    int mount_error = 0;
    // Parts of lines that the log must have, each.
    std::vector<std::string> log;
    // Reported damage must count.
    bool counted = true;
    // Whatever is made of it, only no harm comes of it.
    bool anything = false;

    [[nodiscard]] std::uint64_t ino(const std::string &path) const { return disk.ino(path); }

    // Nobody may notice.
    void harmless() { counted = false; }

    // ---- what is affected
    void lose_slots(std::uint64_t ino) {
        const u32 n = image.geo().slots_per_block;
        const std::uint64_t first = ino - ino % n;
        for (const auto &[path, node] : disk.tree())
            if (node.ino >= first && node.ino < first + n)
                expected.no_stat.insert(path);
        if (expected.no_stat.contains(""))
            fail_mount(EUCLEAN, {"the root directory cannot be read"});
    }
    void lose_slots(const std::string &path) { lose_slots(ino(path)); }
    void lose_bucket(const std::string &dir, std::uint32_t bucket) {
        const Volume volume = image.volume();
        const std::uint32_t buckets = must(volume.dir_info(must(volume.resolve(dir)))).buckets;
        expected.no_list.insert(dir);
        for (const std::string &path : children(dir)) {
            const std::string name = name_of(path);
            const std::uint64_t hash =
                uhsfs_dir_hash(&image.geo(), reinterpret_cast<const u8 *>(name.data()),
                               static_cast<u8>(name.size()));
            if (uhsfs_dir_bucket(hash, buckets) == bucket)
                expected.no_stat.insert(path);
        }
    }
    void lose_directory(const std::string &dir) {
        expected.no_list.insert(dir);
        for (const std::string &path : children(dir))
            expected.no_stat.insert(path);
    }
    void fail_mount(int error, const std::vector<std::string> &lines) {
        mount_error = error;
        log.insert(log.end(), lines.begin(), lines.end());
    }

    // ---- where structures are
    [[nodiscard]] std::vector<std::string> children(const std::string &dir) const {
        std::vector<std::string> all;
        for (const auto &[path, node] : disk.tree())
            if (!path.empty() && parent_of(path) == dir)
                all.push_back(path);
        return all;
    }
    [[nodiscard]] std::uint64_t bucket_home(const std::string &dir, std::uint32_t bucket) const {
        const Volume volume = image.volume();
        const Inode inode = must(volume.resolve(dir));
        return must(volume.bucket_chain(inode, must(volume.dir_info(inode)),
                                        must(volume.extents(inode)), bucket))
            .front()
            .bucket.home.block;
    }
    // The n-th bucket of one block.
    [[nodiscard]] std::uint32_t short_bucket(const std::string &dir, unsigned n) const {
        const Volume volume = image.volume();
        const Inode inode = must(volume.resolve(dir));
        const uhsfs_dir_info info = must(volume.dir_info(inode));
        const auto extents = must(volume.extents(inode));
        for (std::uint32_t bucket = 0; bucket < info.buckets; bucket++)
            if (must(volume.bucket_chain(inode, info, extents, bucket)).size() == 1 && n-- == 0)
                return bucket;
        throw std::runtime_error("too few buckets of one block");
    }
    // Of a tree, root first.

    [[nodiscard]] std::vector<std::uint64_t> extent_nodes(const std::string &path) const {
        std::vector<std::uint64_t> nodes;
        must(image.volume().extents(image.inode(path),
                                    [&](std::uint64_t at) { nodes.push_back(at); }));
        return nodes;
    }
    [[nodiscard]] std::vector<std::uint64_t> name_nodes(const std::string &path) const {
        std::vector<std::uint64_t> nodes;
        must(image.volume().names(image.inode(path),
                                  [&](std::uint64_t at) { nodes.push_back(at); }));
        return nodes;
    }
    [[nodiscard]] std::vector<std::uint64_t> xattr_blocks(const std::string &path) const {
        std::vector<std::uint64_t> blocks;
        must(image.volume().xattrs(image.inode(path),
                                   [&](std::uint64_t at) { blocks.push_back(at); }));
        return blocks;
    }
    // Names in the tree of this inode, only those in one leaf unless leaf is 0.
    void lose_links(std::uint64_t leaf) {
        const Inode linked = image.inode("links/linked");
        const std::vector<Name> names = must(image.volume().names(linked));
        for (std::size_t i = 1; i < names.size(); i++)
            if (leaf == 0 || in_leaf(leaf, names[i].name))
                expected.no_stat.insert("links/" + names[i].name);
    }
    [[nodiscard]] std::uint64_t map_home(unsigned which) const {
        return must(image.volume().chunk_map(0, which)).home.block;
    }
    [[nodiscard]] std::uint64_t table_home() const {
        return must(image.volume().table_block(0)).home.block;
    }

private:
    [[nodiscard]] bool in_leaf(std::uint64_t leaf, const std::string &name) const {
        const std::string_view bytes(reinterpret_cast<const char *>(image.at(leaf)), block_size);
        return bytes.find(name) != std::string_view::npos;
    }
};

using Action = std::function<void(Context &)>;

struct Case {
    std::string name;
    Action damage;
};

// Ways to damage a whole block.
struct Way {
    const char *name;
    std::function<void(fuzz::Random &, std::uint8_t *)> change;
};

const std::vector<Way> &ways();

// Cases of fields that lie, with right checksums.
void add_fields(std::vector<Case> &cases);

}  // namespace uhsfs::damage
