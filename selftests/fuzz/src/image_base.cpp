// SPDX-License-Identifier: GPL-2.0
/*
 * Making the images: mkfs's builder writes to a file in memory.
 */
#include "image_base.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>

#include "libuhsfs/builder.hpp"
#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr std::int64_t now_ns = 1'600'000'000'000'000'000;
constexpr std::uint64_t image_blocks = UHSFS_MIN_BLOCKS;

template <typename T>
T must(Result<T> result) {
    if (!result)
        MUST(false, "{}", result.error().to_string());
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

std::vector<std::uint8_t> bytes_of(std::size_t size, char fill) {
    return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(fill));
}

// Directories and files in memory, then all at once.
class Tree {
public:
    explicit Tree(Builder &builder) : builder_(builder) {
        root_ = make(true, UHSFS_S_IFDIR | 0755);
    }

    [[nodiscard]] std::uint64_t root() const { return root_; }

    std::uint64_t make(bool late, unsigned mode) {
        NewInode inode;
        inode.id = must(builder_.assign(late));
        inode.mode = static_cast<std::uint16_t>(mode);
        inode.atime = inode.mtime = inode.ctime = now_ns;
        const std::uint64_t ino = inode.id.ino;
        inodes_[ino] = std::move(inode);
        return ino;
    }

    NewInode &operator[](std::uint64_t ino) { return inodes_.at(ino); }

    void link(std::uint64_t dir, const std::string &name, std::uint64_t ino) {
        const NewInode &parent = inodes_.at(dir);
        NewInode &inode = inodes_.at(ino);
        inode.names.push_back(
            {.parent_ino = dir, .parent_gen = parent.id.generation, .name_seq = 0, .name = name});
        entries_[dir].push_back({.cookie = 0,
                                 .ino = ino,
                                 .gen = inode.id.generation,
                                 .type = uhsfs_mode_dtype(inode.mode),
                                 .name = name});
    }

    std::uint64_t add(std::uint64_t dir, const std::string &name, unsigned mode,
                      const std::vector<std::uint8_t> &content = {}) {
        const std::uint64_t ino = make(uhsfs_is_dir(static_cast<u16>(mode)), mode);
        link(dir, name, ino);
        if (!content.empty())
            must(builder_.set_content(inodes_.at(ino), content, false));
        return ino;
    }

    void put_all() {
        for (auto &[ino, inode] : inodes_)
            if (uhsfs_is_dir(inode.mode))
                must(builder_.make_directory(inode, entries_[ino]));
        for (auto &[ino, inode] : inodes_)
            must(builder_.put(std::move(inode)));
    }

private:
    Builder &builder_;
    std::uint64_t root_ = 0;
    std::map<std::uint64_t, NewInode> inodes_;
    std::map<std::uint64_t, std::vector<DirEntry>> entries_;
};

void make_files(Builder &builder, Tree &tree) {
    const std::uint64_t root = tree.root();
    const std::uint64_t dir = tree.add(root, "dir", UHSFS_S_IFDIR | 0755);
    const std::uint64_t many = tree.add(dir, "many", UHSFS_S_IFDIR | 0755);

    tree.add(root, "inline", UHSFS_S_IFREG | 0644, bytes_of(100, 'i'));
    tree.add(root, "short", UHSFS_S_IFLNK | 0777, bytes_of(30, 't'));
    tree.add(root, "long", UHSFS_S_IFLNK | 0777, bytes_of(4000, 't'));
    tree.add(root, "data", UHSFS_S_IFREG | 0644, bytes_of(9000, 'd'));
    tree.add(dir, "fifo", UHSFS_S_IFIFO | 0600);
    tree[tree.add(dir, "null", UHSFS_S_IFCHR | 0666)].device = {1, 3};

    // A bucket that overflows or several of them, depending on chance.
    for (int i = 0; i < 24; i++)
        tree.add(many, fmt::format("{:02}{}", i, std::string(220, 'm')), UHSFS_S_IFREG | 0600);

    NewInode &attributes = tree[tree.add(root, "attributes", UHSFS_S_IFREG | 0644)];
    for (const char *name : {"one", "two", "three", "four"})
        attributes.xattrs.push_back(
            {.space = UHSFS_XATTR_USER, .name = name, .value = bytes_of(1500, 'v')});
    tree[dir].xattrs.push_back({.space = UHSFS_XATTR_USER, .name = "a", .value = bytes_of(5, 'v')});

    const std::uint64_t linked = tree.make(true, UHSFS_S_IFREG | 0644);
    for (int i = 0; i < 30; i++)
        tree.link(dir, fmt::format("link-{:02}-{}", i, std::string(40, 'n')), linked);

    // An extent in every second block: a tree.
    NewInode &pieces = tree[tree.add(root, "pieces", UHSFS_S_IFREG | 0644)];
    const std::vector<std::uint8_t> block = bytes_of(block_size, 'p');
    for (std::uint64_t i = 0; i < 180; i++) {
        const Run run = must(builder.extend(pieces, i * 2, 1, false));
        must(builder.write(run.block, block));
        pieces.size = (i * 2 + 1) * block_size;
    }
}

}  // namespace

ImageBase::ImageBase(const Shape &shape) : shape_(shape) {
    fd_.reset(::memfd_create("uhsfs-fuzz", MFD_CLOEXEC));
    MUST(fd_, "memfd_create");
    MUST(::ftruncate(fd_.get(), image_blocks * block_size) == 0, "ftruncate");
    path_ = fmt::format("/proc/self/fd/{}", fd_.get());
    fill();
    image_.resize(image_blocks * block_size);
    MUST(::pread(fd_.get(), image_.data(), image_.size(), 0) == static_cast<ssize_t>(image_.size()),
         "pread");
    geo_ = volume().geo();
    find_metadata();
    if (shape_.recovery)
        prepare_recovery();
}

Volume ImageBase::volume() const { return must(Volume::open(path_)); }

void ImageBase::write(std::uint64_t number, const std::uint8_t *bytes) const {
    MUST(::pwrite(fd_.get(), bytes, block_size, static_cast<off_t>(number * block_size)) ==
             static_cast<ssize_t>(block_size),
         "pwrite");
}

bool ImageBase::is_metadata(std::uint64_t block) const {
    return std::ranges::binary_search(metadata_, block);
}

void ImageBase::fill() {
    const Uuid uuid = {1, 2, 3};
    const KeySource keys = KeySource::repeatable(uuid, now_ns);
    const Device device = must(Device::open(path_, OpenMode::write));
    const uhsfs_super_info layout = must(make_layout({.blocks = image_blocks,
                                                      .slot_size = shape_.slot_size,
                                                      .erase_unit = UHSFS_ERASE_UNIT_MIN,
                                                      .shadow = shape_.shadow,
                                                      .uuid = uuid,
                                                      .label = "fuzz",
                                                      .writer = "fuzz",
                                                      .now_ns = now_ns},
                                                     keys));
    Builder builder(&device, layout, keys);
    must(builder.begin());
    Tree tree(builder);
    make_files(builder, tree);
    tree.put_all();
    must(builder.finish());
}

void ImageBase::find_metadata() {
    const Volume at = volume();
    const auto note = [&](std::uint64_t block) { metadata_.push_back(block); };
    const auto copies = [&](const Home &home) {
        MUST(home.valid(), "{}", home.error(path_).to_string());
        for (unsigned i = 0; i < home.copies; i++)
            if (home.copy[i].code == 0)
                note(home.block + i);
    };

    for (int copy = 0; copy < 2; copy++)
        note(uhsfs_super_block(&geo_, copy));
    copies(must(at.table_block(0)).home);
    for (unsigned half = 0; half < UHSFS_GROUP_MAPS; half++)
        copies(at.bitmap(0, half).home);
    for (unsigned which = 0; which <= UHSFS_MAP_WHICH_SUSPECT; which++)
        copies(must(at.chunk_map(0, which)).home);
    const auto errors = at.scan_slots({.threads = 1, .filter = {}}, [&](unsigned,
                                                                        const SlotBlock &block) {
        if (block.in_use == 0)
            return;
        copies(block.home);
        for (unsigned i = 0; i < geo_.slots_per_block; i++) {
            if ((block.in_use >> i & 1) == 0)
                continue;
            const Inode inode = must(at.inode(block.first_ino + i));
            const auto extents = must(at.extents(inode, note));
            (void)must(at.names(inode, note));
            (void)must(at.xattrs(inode, note));
            if (!inode.is_dir())
                continue;
            const uhsfs_dir_info info = must(at.dir_info(inode));
            for (std::uint32_t bucket = 0; bucket < info.buckets; bucket++)
                for (const BucketBlock &one : must(at.bucket_chain(inode, info, extents, bucket)))
                    copies(one.bucket.home);
        }
    });
    MUST(errors.empty(), "{}", errors.front().to_string());
    std::ranges::sort(metadata_);
    metadata_.erase(std::unique(metadata_.begin(), metadata_.end()), metadata_.end());
}

// As if the system had stopped: all chunks are marked in the next epoch, the first one is
// suspect, and "inline" holds an intent that is finished.
void ImageBase::prepare_recovery() {
    const Volume at = volume();
    const auto each = [&](const Home &home, const std::function<void(std::uint8_t *)> &edit) {
        for (unsigned i = 0; i < home.copies; i++) {
            const std::uint64_t block = home.block + i;
            if (home.copy[i].code != 0)
                continue;
            edit(image_.data() + block * block_size);
            seal_block(geo_, image_.data() + block * block_size);
            restore(block);
        }
    };
    const auto mark = [&](unsigned which, std::uint32_t epoch, std::uint32_t bits) {
        each(must(at.chunk_map(0, which)).home, [&](std::uint8_t *bytes) {
            auto *map = reinterpret_cast<uhsfs_map_block *>(bytes);
            if (epoch != 0)
                map->epoch = cpu_to_le32(epoch);
            uhsfs_map_fill(map->bits, 0, bits, true);
            uhsfs_map_seal(map);
        });
    };
    const Inode holder = must(at.resolve("inline"));
    const Inode peer = must(at.resolve("data"));
    const Name name = must(at.names(peer)).front();
    const Home home = must(at.slot_block(holder.ino())).home;
    std::vector<std::uint8_t> slot(geo_.slot_size);
    std::vector<std::uint8_t> intent(sizeof(uhsfs_intent) + name.name.size());
    uhsfs_slot_builder builder = {};

    *reinterpret_cast<uhsfs_intent *>(intent.data()) = {
        .peer_ino = cpu_to_le64(peer.ino()),
        .peer_gen = cpu_to_le32(peer.attr().generation),
        .op = UHSFS_INTENT_EXCHANGE,
        .len = static_cast<u8>(name.name.size()),
        .reserved = {},
        .parent_ino = cpu_to_le64(name.parent_ino),
        .parent_gen = cpu_to_le32(name.parent_gen),
        .reserved1 = 0,
        .name_seq = cpu_to_le64(name.name_seq)};
    std::ranges::copy(name.name, intent.begin() + sizeof(uhsfs_intent));
    uhsfs_slot_begin(&builder, &geo_, slot.data(), &holder.attr());
    for (u16 type = 1; type < UHSFS_TLV_TYPES; type++) {
        if (type == UHSFS_TLV_INTENT)
            uhsfs_slot_put(&builder, type, intent.data(), static_cast<u32>(intent.size()));
        else if (holder.view().value[type] != nullptr)
            uhsfs_slot_put(&builder, type, holder.view().value[type], holder.view().len[type]);
    }
    uhsfs_slot_finish(&builder);
    each(home, [&](std::uint8_t *bytes) {
        auto *raw = reinterpret_cast<uhsfs_slot *>(bytes + uhsfs_slot_offset(&geo_, holder.ino()));
        auto *fresh = reinterpret_cast<uhsfs_slot *>(slot.data());
        fresh->h.block = raw->h.block;
        fresh->h.flags = raw->h.flags;
        fresh->block_seq = raw->block_seq;
        std::memcpy(raw, fresh, slot.size());
    });
    // No record is newer than the superblock's seq.
    for (const int copy : {0, 1}) {
        const std::uint64_t block = uhsfs_super_block(&geo_, copy);
        auto *raw = reinterpret_cast<uhsfs_super *>(image_.data() + block * block_size);
        uhsfs_super_info info = {};
        MUST(uhsfs_super_decode(raw, block, &info, nullptr) == 0, "superblock {}", block);
        info.seq += uhsfs_seq_make(2, 0);
        uhsfs_super_encode(&info, block, raw);
        restore(block);
    }
    const std::uint32_t epoch = at.super().epoch + 1;
    mark(epoch & 1, epoch, static_cast<std::uint32_t>(at.super().chunks_used));
    mark(UHSFS_MAP_WHICH_SUSPECT, 0, 1);
}

}  // namespace uhsfs::fuzz
