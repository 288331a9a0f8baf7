// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Everything that one inode has: its extents, its trees, its names, its attributes. A damaged
 * node is told and the walk goes on behind it.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "libuhsfs/check_state.hpp"
#include "libuhsfs/tree_reader.hpp"

namespace uhsfs::checking {

namespace {

class Walk {
public:
    Walk(const Volume &volume, const uhsfs_slot_view &view, const InodeVisitor &visitor)
        : volume_(volume), view_(view), visitor_(visitor), reader_(volume.device()) {}

    InodeTotals run() {
        if (!visitor_.names_only) {
            extents();
            xattrs();
        }
        names();
        return totals_;
    }

private:
    [[nodiscard]] std::uint64_t ino() const { return view_.attr.ino; }
    [[nodiscard]] std::string of_inode() const { return fmt::format("of inode {}", ino()); }

    void own(BlockOwner::Kind kind, std::uint64_t block, std::uint64_t count) {
        totals_.blocks += count;
        if (visitor_.own)
            visitor_.own({.kind = kind, .id = ino()}, block, count);
    }

    void fault(const uhsfs_fault &what, const std::string &detail = {}) {
        if (visitor_.fault)
            visitor_.fault(what, detail);
    }

    // Notes the sequence number of the newest node on the way.
    static int read_node(void *ctx, unsigned long long block, uhsfs_tree_node **node) {
        auto *walk = static_cast<Walk *>(ctx);
        const int known = TreeReader::ops()->read(&walk->reader_, block, node);

        if (known >= 0) {
            walk->block_ = block;
            walk->seq_ = le64_to_cpu((*node)->h.seq);
        }
        return known;
    }

    static const uhsfs_tree_ops *ops() {
        static const uhsfs_tree_ops operations = {.read = read_node,
                                                  .alloc = TreeReader::ops()->alloc,
                                                  .free = TreeReader::ops()->free,
                                                  .fresh = TreeReader::ops()->fresh};
        return &operations;
    }

    static int node(void *ctx, unsigned long long block) {
        auto *walk = static_cast<Walk *>(ctx);

        walk->own(walk->kind_, block, 1);
        if (walk->visitor_.seq && walk->block_ == block)
            walk->visitor_.seq(walk->object_, block, walk->seq_);
        return 0;
    }

    static int damaged(void *ctx, unsigned long long block, int err, const uhsfs_fault *what) {
        auto *walk = static_cast<Walk *>(ctx);

        walk->totals_.complete = false;
        walk->tree_complete_ = false;
        if (err == -EUCLEAN)
            walk->fault(*what, walk->of_inode());
        else
            walk->fault(make_fault(walk->object_, block, "read error",
                                   static_cast<std::uint64_t>(-err), 0, "must be readable"),
                        walk->of_inode());
        return 0;
    }

    static int extent(void *ctx, const uhsfs_ext *ext) {
        static_cast<Walk *>(ctx)->extent(*ext);
        return 0;
    }

    void extent(const uhsfs_ext &ext) {
        const std::uint64_t scale = uhsfs_is_dir(view_.attr.mode) ? volume_.geo().homes : 1;

        own(BlockOwner::data, ext.physical, ext.len * scale);
        if (visitor_.extent)
            visitor_.extent(ext);
    }

    void extents() {
        if (const auto *list = static_cast<const uhsfs_extent *>(view_.value[UHSFS_TLV_EXTENTS])) {
            for (std::size_t i = 0; i < view_.len[UHSFS_TLV_EXTENTS] / sizeof(*list); i++) {
                uhsfs_ext ext = {};
                uhsfs_extent_decode(&list[i], &ext);
                extent(ext);
            }
        }
        const auto *root =
            static_cast<const uhsfs_extent_root *>(view_.value[UHSFS_TLV_EXTENT_ROOT]);
        if (root == nullptr)
            return;
        uhsfs_etree tree = {};
        const uhsfs_etree_visitor visitor = {
            .node = node, .extent = extent, .damaged = damaged, .ctx = this};
        unsigned long long count = 0;
        begin_tree(BlockOwner::extent_node, "extent tree node");
        uhsfs_etree_init(&tree, &volume_.geo(), ops(), this, ino(), view_.attr.generation,
                         uhsfs_is_dir(view_.attr.mode), root);
        if (const int err = uhsfs_etree_check(&tree, &visitor, &count))
            damaged(this, tree.tree.root, err, &tree.tree.fault);
        else if (tree_complete_ && count != tree.tree.count)
            fault(make_fault("slot", ino(), "extent root.count", tree.tree.count, count,
                             UHSFS_RULE_EQUAL));
    }

    static int name(void *ctx, const uhsfs_claim *claim) {
        static_cast<Walk *>(ctx)->name(*claim);
        return 0;
    }

    void name(const uhsfs_claim &claim) {
        totals_.names++;
        if (visitor_.name)
            visitor_.name(claim);
    }

    void names() {
        if (const auto *first = static_cast<const uhsfs_name *>(view_.value[UHSFS_TLV_NAME])) {
            uhsfs_claim claim = {};
            uhsfs_name_decode(first, &claim);
            name(claim);
        }
        const auto *root =
            static_cast<const struct uhsfs_names_root *>(view_.value[UHSFS_TLV_NAMES]);
        if (root == nullptr)
            return;
        uhsfs_names tree = {};
        const uhsfs_names_visitor visitor = {
            .node = node, .name = name, .damaged = damaged, .ctx = this};
        unsigned long long count = 0;
        begin_tree(BlockOwner::names_node, "names tree node");
        uhsfs_names_init(&tree, &volume_.geo(), ops(), this, ino(), view_.attr.generation, root);
        if (const int err = uhsfs_names_walk(&tree, &visitor, &count))
            damaged(this, tree.tree.root, err, &tree.tree.fault);
        else if (tree_complete_ && count != tree.tree.count)
            fault(make_fault("slot", ino(), "names root.count", tree.tree.count, count,
                             UHSFS_RULE_EQUAL));
        totals_.names_complete = tree_complete_;
    }

    void begin_tree(BlockOwner::Kind kind, const char *object) {
        kind_ = kind;
        object_ = object;
        tree_complete_ = true;
    }

    // Reads one block of attributes; false if that or its check fails.
    bool xattr_block(std::uint64_t block, uhsfs_xattr_block &to,
                     const std::function<int(uhsfs_fault *)> &check) {
        uhsfs_fault what = {};
        const auto read =
            volume_.device().read(block, {reinterpret_cast<std::uint8_t *>(&to), block_size});

        begin_tree(BlockOwner::xattr_block, "xattr block");
        if (!read || check(&what) != 0) {
            damaged(this, block, read ? -EUCLEAN : -read.error().code, &what);
            return false;
        }
        own(BlockOwner::xattr_block, block, 1);
        if (visitor_.seq)
            visitor_.seq(object_, block, le64_to_cpu(to.h.seq));
        return true;
    }

    void xattrs() {
        const void *root = view_.value[UHSFS_TLV_XATTR_ROOT];
        const uhsfs_geometry *geo = &volume_.geo();
        const uhsfs_xattr_owner owner = {.ino = ino(), .gen = view_.attr.generation};
        uhsfs_xattr_place place = {};
        uhsfs_fault what = {};

        if (root == nullptr)
            return;
        if (uhsfs_xattr_root_decode(root, view_.len[UHSFS_TLV_XATTR_ROOT], geo, ino(), &place,
                                    &what) != 0) {
            totals_.complete = false;
            return fault(what);
        }
        uhsfs_xattr_block index = {};
        uhsfs_xattr_block data = {};
        if (place.depth > 1 && !xattr_block(place.block, index, [&](uhsfs_fault *f) {
                return uhsfs_xattr_index_check(&index, geo, &owner, place.block, place.bytes, f);
            }))
            return;
        std::vector<std::uint8_t> stream(place.bytes);
        bool whole = true;
        for (std::uint32_t i = 0; i < uhsfs_xattr_data_blocks(place.bytes); i++) {
            const std::uint64_t block =
                place.depth > 1 ? uhsfs_xattr_index_get(&index, i) : place.block;
            if (xattr_block(block, data, [&](uhsfs_fault *f) {
                    return uhsfs_xattr_data_check(&data, geo, &owner, block, place.bytes, i, f);
                }))
                uhsfs_xattr_collect(stream.data(), place.bytes, i, &data);
            else
                whole = false;
        }
        if (whole && uhsfs_xattr_check(stream.data(), place.bytes, "xattrs", ino(), &what) != 0)
            fault(what);
    }

    const Volume &volume_;
    const uhsfs_slot_view &view_;
    const InodeVisitor &visitor_;
    TreeReader reader_;
    InodeTotals totals_;
    BlockOwner::Kind kind_ = BlockOwner::data;
    const char *object_ = "";
    bool tree_complete_ = true;
    std::uint64_t block_ = 0;
    std::uint64_t seq_ = 0;
};

}  // namespace

InodeTotals walk_inode(const Volume &volume, const uhsfs_slot_view &view,
                       const InodeVisitor &visitor) {
    return Walk(volume, view, visitor).run();
}

}  // namespace uhsfs::checking
