// SPDX-License-Identifier: GPL-2.0
/*
 * Images: where homes are, and writing them in place or as the kernel does.
 */
#include "image.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>

#include "libuhsfs/fd.hpp"
#include "structures.hpp"

namespace uhsfs::damage {

namespace {

[[noreturn]] void failed(const std::string &what) {
    throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

std::uint64_t seq_of(const uhsfs_geometry &, const std::uint8_t *bytes) {
    const auto *header = reinterpret_cast<const uhsfs_header *>(bytes);
    if (le32_to_cpu(header->magic) == UHSFS_TAG_SLOT)
        return le64_to_cpu(reinterpret_cast<const uhsfs_slot *>(bytes)->block_seq);
    return le64_to_cpu(header->seq);
}

}  // namespace

void set_name(Slot &slot, const Inode &dir, std::string_view name, std::uint64_t name_seq) {
    std::vector<std::uint8_t> &value = slot.value[UHSFS_TLV_NAME];
    const uhsfs_claim claim = {.parent_ino = dir.ino(),
                               .parent_gen = dir.attr().generation,
                               .len = static_cast<u32>(name.size()),
                               .name_seq = name_seq,
                               .name = reinterpret_cast<const u8 *>(name.data())};

    value.assign(sizeof(uhsfs_name) + name.size(), 0);
    uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(value.data()));
    slot.attr.name_seq_max = std::max<u64>(slot.attr.name_seq_max, name_seq);
    slot.attr.nlink = std::max(slot.attr.nlink, 1U);
}

Image::Image(const std::string &path) : path_(path) {
    const unique_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct stat st = {};

    if (!fd || ::fstat(fd.get(), &st) != 0)
        failed(path);
    size_ = static_cast<std::size_t>(st.st_size);
    void *map = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (map == MAP_FAILED)
        failed(path);
    bytes_ = static_cast<std::uint8_t *>(map);
    original_.assign(bytes_, bytes_ + size_);
    super_ = volume().super();
    restore();
}

Image::~Image() { ::munmap(bytes_, size_); }

void Image::restore() {
    for (std::size_t block = 0; block < blocks(); block++)
        if (std::memcmp(at(block), original_.data() + block * block_size, block_size) != 0)
            std::memcpy(at(block), original_.data() + block * block_size, block_size);
    epoch_ = 0;
    counter_ = 0;
    marked_.clear();
    used_.clear();
    for (unsigned half = 0; half < UHSFS_GROUP_MAPS; half++) {
        const auto map = volume().bitmap(0, half);
        used_.insert(used_.end(), map.record->bits, map.record->bits + sizeof(map.record->bits));
    }
}

void Image::put_on(int device, std::vector<std::uint8_t> &content) const {
    // A few blocks in between that are the same cost less than a write of its own.
    constexpr std::size_t gap = 16;
    constexpr std::size_t most = 256;
    AlignedBuffer buffer(most * block_size);
    const bool all = content.empty();
    std::size_t from = 0;
    std::size_t end = 0;  // [from, end) differs

    content.resize(size_);
    const auto flush = [&] {
        const std::size_t size = (end - from) * block_size;
        if (size == 0)
            return;
        std::memcpy(buffer.data(), at(from), size);
        if (::pwrite(device, buffer.data(), size, static_cast<off_t>(from * block_size)) !=
            static_cast<ssize_t>(size))
            failed("writing the device");
        std::memcpy(content.data() + from * block_size, at(from), size);
    };
    for (std::size_t block = 0; block < blocks(); block++) {
        if (!all && std::memcmp(content.data() + block * block_size, at(block), block_size) == 0)
            continue;
        if (block >= end + gap || block >= from + most) {
            flush();
            from = block;
        }
        end = block + 1;
    }
    flush();
}

bool Image::same_as(int device) const {
    constexpr std::size_t piece = 1U << 20;
    AlignedBuffer buffer(piece);

    for (std::size_t from = 0; from < size_; from += piece) {
        const std::size_t want = std::min(piece, size_ - from);
        if (::pread(device, buffer.data(), want, static_cast<off_t>(from)) !=
            static_cast<ssize_t>(want))
            failed("reading the device");
        if (std::memcmp(buffer.data(), bytes_ + from, want) != 0)
            return false;
    }
    return true;
}

std::uint64_t Image::free_blocks(std::uint64_t count) {
    const auto bits =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks(), used_.size() * 8));
    const std::uint32_t from =
        uhsfs_map_find(used_.data(), bits, 0, static_cast<std::uint32_t>(count), 1);

    if (from >= bits)
        throw std::runtime_error("the image is full");
    uhsfs_map_fill(used_.data(), from, static_cast<std::uint32_t>(count), true);
    return from;
}

// ---- damage --------------------------------------------------------------------------------

std::vector<std::uint64_t> Image::copies(std::uint64_t home) const {
    std::vector<std::uint64_t> all = {home};
    if (geo().homes == 2)
        all.push_back(home + 1);
    return all;
}

std::uint64_t Image::slot_home(std::uint64_t ino) const {
    return must(volume().slot_block(ino)).home.block;
}

void Image::edit_block(std::uint64_t block, const Edit &edit) const {
    edit(at(block));
    fuzz::seal_block(geo(), at(block));
}

void Image::edit_home(std::uint64_t home, const Edit &edit) const {
    for (const std::uint64_t block : copies(home))
        edit_block(block, edit);
}

void Image::edit_slot(std::uint64_t ino, const std::function<void(uhsfs_slot &)> &edit) const {
    const std::uint32_t offset = uhsfs_slot_offset(&geo(), ino);

    edit_home(slot_home(ino),
              [&](std::uint8_t *bytes) { edit(*reinterpret_cast<uhsfs_slot *>(bytes + offset)); });
}

void Image::rebuild_slot(std::uint64_t ino, const std::function<void(Slot &)> &edit) const {
    Slot changed = slot(ino);

    edit(changed);
    const std::vector<std::uint8_t> fresh = build(changed);
    edit_slot(ino, [&](uhsfs_slot &raw) {
        const uhsfs_slot old = raw;
        std::memcpy(&raw, fresh.data(), fresh.size());
        raw.h.block = old.h.block;
        raw.block_seq = old.block_seq;
    });
}

void Image::edit_super(const std::function<void(uhsfs_super &)> &edit) const {
    for (int copy = 0; copy < 2; copy++)
        edit_block(uhsfs_super_block(&geo(), copy),
                   [&](std::uint8_t *bytes) { edit(*reinterpret_cast<uhsfs_super *>(bytes)); });
}

// ---- writing as the kernel does -------------------------------------------------------------

std::uint64_t Image::newest_copy(std::uint64_t home) const {
    if (geo().homes == 1)
        return home;
    return seq_of(geo(), at(home)) >= seq_of(geo(), at(home + 1)) ? home : home + 1;
}

// image: with its new seq; address and checksum are set here.
void Image::write_home(std::uint64_t home, const void *image, bool first) {
    const bool slots =
        le32_to_cpu(static_cast<const uhsfs_header *>(image)->magic) == UHSFS_TAG_SLOT;
    const std::size_t record = slots ? geo().slot_size : block_size;
    std::vector<std::uint64_t> to = copies(home);

    if (!first && to.size() == 2)
        to = {newest_copy(home) == home ? home + 1 : home};
    for (const std::uint64_t block : to) {
        std::memcpy(at(block), image, block_size);
        for (std::size_t offset = 0; offset < block_size; offset += record)
            uhsfs_record_move(at(block) + offset, record, block);
    }
}

void Image::begin_epoch() {
    const Volume now = volume();
    uhsfs_super_info info = now.super();
    const std::uint64_t block = uhsfs_super_block(&geo(), 1 - now.super_chosen());

    epoch_ = info.epoch + 1;
    info.seq = draw_seq();
    uhsfs_super_encode(&info, block, reinterpret_cast<uhsfs_super *>(at(block)));
}

void Image::set_map_bit(std::uint64_t chunk, unsigned which) {
    const auto map = must(volume().chunk_map(chunk, which));
    uhsfs_map_block image = *map.record;
    uhsfs_place place = {};

    uhsfs_chunk_map_place(&super_, chunk, which, &place);
    if (which != UHSFS_MAP_WHICH_SUSPECT && le32_to_cpu(image.epoch) != epoch_)
        std::memset(image.bits, 0, sizeof(image.bits));
    image.epoch = cpu_to_le32(epoch_);
    image.h.seq = cpu_to_le64(draw_seq());
    uhsfs_map_set(image.bits, place.index);
    uhsfs_map_seal(&image);
    write_home(map.home.block, &image, false);
}

void Image::mark(std::uint64_t ino) {
    const std::uint64_t chunk = uhsfs_ino_chunk(&geo(), ino);

    if (marked_.insert(chunk).second)
        set_map_bit(chunk, epoch_ & 1);
}

void Image::suspect(std::uint64_t ino) {
    set_map_bit(uhsfs_ino_chunk(&geo(), ino), UHSFS_MAP_WHICH_SUSPECT);
}

Slot Image::slot(std::uint64_t ino) const {
    const Volume now = volume();
    const auto block = must(now.slot_block(ino));
    const uhsfs_chunk_info chunk = must(now.chunk(uhsfs_ino_chunk(&geo(), ino)));
    const uhsfs_slot_id id = {.ino = ino, .block = block.home.chosen_block(), .nonce = chunk.nonce};
    uhsfs_slot_view view = {};
    Slot found;

    if (!block || uhsfs_slot_parse(&geo(), block.record->data() + uhsfs_slot_offset(&geo(), ino),
                                   &id, &view, nullptr) != 0)
        throw std::runtime_error(fmt::format("slot {} cannot be read", ino));
    found.attr = view.attr;
    for (std::size_t type = 1; type < UHSFS_TLV_TYPES; type++)
        if (const auto *value = static_cast<const std::uint8_t *>(view.value[type]))
            found.value[type].assign(value, value + view.len[type]);
    return found;
}

std::vector<std::uint8_t> Image::build(const Slot &slot) const {
    std::vector<std::uint8_t> image(geo().slot_size);
    uhsfs_slot_builder builder = {};

    if (slot.attr.state == UHSFS_SLOT_FREE) {
        uhsfs_slot_build_free(&geo(), image.data(), slot.attr.ino, slot.attr.generation,
                              slot.attr.name_seq_max, slot.attr.nonce, slot.attr.seq);
        return image;
    }
    uhsfs_slot_begin(&builder, &geo(), image.data(), &slot.attr);
    for (u16 type = 1; type < UHSFS_TLV_TYPES; type++)
        if (!slot.value[type].empty() &&
            uhsfs_slot_put(&builder, type, slot.value[type].data(),
                           static_cast<u32>(slot.value[type].size())) != 0)
            throw std::runtime_error(fmt::format("slot {} is full", slot.attr.ino));
    uhsfs_slot_finish(&builder);
    return image;
}

void Image::commit(Slot slot) {
    const Volume now = volume();
    const std::uint64_t ino = slot.attr.ino;
    const uhsfs_chunk_info chunk = must(now.chunk(uhsfs_ino_chunk(&geo(), ino)));
    const auto block = must(now.slot_block(ino));
    const bool first = !block;
    std::vector<std::uint8_t> image(block_size);

    slot.attr.nonce = chunk.nonce;
    slot.attr.seq = draw_seq();
    if (first) {
        const std::uint64_t base = ino - ino % geo().slots_per_block;
        for (u32 i = 0; i < geo().slots_per_block; i++)
            uhsfs_slot_build_free(&geo(), image.data() + std::size_t{i} * geo().slot_size, base + i,
                                  chunk.gen_base, 0, chunk.nonce, slot.attr.seq);
    } else {
        std::memcpy(image.data(), block.record->data(), block_size);
    }
    const std::vector<std::uint8_t> fresh = build(slot);
    std::memcpy(image.data() + uhsfs_slot_offset(&geo(), ino), fresh.data(), fresh.size());
    uhsfs_slot_block_seal(&geo(), image.data(), block.home.block, slot.attr.seq);
    write_home(block.home.block, image.data(), first);
}

namespace {

Slot fresh_slot(std::uint64_t ino, std::uint32_t generation, std::uint16_t mode) {
    Slot slot;

    slot.attr.ino = ino;
    slot.attr.generation = generation;
    slot.attr.state = UHSFS_SLOT_INODE;
    slot.attr.mode = mode;
    slot.attr.version = 1;
    return slot;
}

}  // namespace

Slot Image::new_slot(std::uint16_t mode) {
    std::uint64_t number = 0;

    for (;; number++) {
        const Volume now = volume();
        const auto chunk = now.chunk(number);
        if (!chunk)
            return new_slot_in_new_chunk(mode, &number);
        for (u32 i = 0; i < geo().slots_per_chunk; i++) {
            const std::uint64_t ino = number * geo().slots_per_chunk + i;
            if ((chunk->in_use >> i & 1) != 0 || ino <= UHSFS_INO_ROOT)
                continue;
            if (!must(now.slot_block(ino)))
                return fresh_slot(ino, chunk->gen_base + 1, mode);
            const Slot old = slot(ino);
            if (old.attr.state != UHSFS_SLOT_FREE)
                continue;
            Slot made = fresh_slot(ino, old.attr.generation + 1, mode);
            made.attr.name_seq_max = old.attr.name_seq_max;
            return made;
        }
    }
}

Slot Image::new_slot_in_new_chunk(std::uint16_t mode, std::uint64_t *number) {
    uhsfs_place place = {};
    uhsfs_chunk_info chunk = {};

    *number = super_.chunks_used;
    while (volume().chunk(*number))
        ++*number;
    if (!uhsfs_chunk_table_place(&super_, *number, &place))
        throw std::runtime_error("no chunk number left");
    const auto table = must(volume().table_block(*number));
    uhsfs_table_block image = *table.record;
    chunk.block = free_blocks(uhsfs_chunk_blocks(&geo()));
    chunk.incarnation = 1;
    chunk.nonce = uhsfs_chunk_nonce(&geo(), *number, chunk.incarnation);
    chunk.gen_base = 12345;
    chunk.birth = epoch_;
    uhsfs_chunk_encode(&chunk, &image.chunk[place.index]);
    image.h.seq = cpu_to_le64(draw_seq());
    write_home(table.home.block, &image, false);
    return fresh_slot(*number * geo().slots_per_chunk + geo().slots_per_block, chunk.gen_base + 1,
                      mode);
}

void Image::free_slot(std::uint64_t ino) {
    Slot freed = slot(ino);

    freed.attr.state = UHSFS_SLOT_FREE;
    commit(freed);
}

void Image::edit_bucket(const Inode &dir, std::string_view name,
                        const std::function<bool(uhsfs_bucket &, std::uint64_t hash)> &edit) {
    const Volume now = volume();
    const uhsfs_dir_info info = must(now.dir_info(dir));
    const std::uint64_t hash = uhsfs_dir_hash(&geo(), reinterpret_cast<const u8 *>(name.data()),
                                              static_cast<u8>(name.size()));
    const auto chain = must(
        now.bucket_chain(dir, info, must(now.extents(dir)), uhsfs_dir_bucket(hash, info.buckets)));

    for (const BucketBlock &block : chain) {
        uhsfs_bucket image = *block.bucket.record;
        if (!edit(image, hash))
            continue;
        image.h.seq = cpu_to_le64(draw_seq());
        write_home(block.bucket.home.block, &image, false);
        return;
    }
    throw std::runtime_error(fmt::format("the index cannot be changed for '{}'", name));
}

void Image::insert_entry(const Inode &dir, std::string_view name, std::uint64_t ino,
                         std::uint32_t gen, std::uint8_t type) {
    edit_bucket(dir, name, [&](uhsfs_bucket &bucket, std::uint64_t) {
        uhsfs_bucket *chain[] = {&bucket};
        uhsfs_dirent entry = {.cookie = 0,
                              .ino = ino,
                              .gen = gen,
                              .type = type,
                              .len = static_cast<u8>(name.size()),
                              .name = reinterpret_cast<const u8 *>(name.data())};
        u32 position = 0;
        return uhsfs_dir_insert(chain, 1, &geo(), &entry, &position) == 1;
    });
}

void Image::remove_entry(const Inode &dir, std::string_view name) {
    edit_bucket(dir, name, [&](uhsfs_bucket &bucket, std::uint64_t hash) {
        const int offset =
            uhsfs_bucket_find(&bucket, 0, hash, reinterpret_cast<const u8 *>(name.data()),
                              static_cast<u8>(name.size()));
        return offset >= 0 && uhsfs_bucket_remove(&bucket, static_cast<u32>(offset)) == 0;
    });
}

void Image::make_index(Slot &dir) {
    const std::uint64_t home = free_blocks(geo().homes);
    auto bucket = std::make_unique<uhsfs_bucket>();
    uhsfs_dir_info info = {};
    uhsfs_extent extent = {};
    uhsfs_dir_root root = {};
    const uhsfs_ext ext = {.logical = 0, .physical = home, .len = 1, .birth = epoch_, .flags = 0};
    const auto bytes_of = [](const auto &record) {
        const auto *from = reinterpret_cast<const std::uint8_t *>(&record);
        return std::vector<std::uint8_t>(from, from + sizeof(record));
    };

    uhsfs_bucket_init(bucket.get(), &geo(), dir.attr.ino, dir.attr.generation, 0, 0);
    uhsfs_bucket_seal(bucket.get(), home, draw_seq());
    write_home(home, bucket.get(), true);
    uhsfs_dir_info_init(&info);
    uhsfs_dir_root_encode(&root, &info);
    uhsfs_extent_encode(&ext, &extent);
    dir.value[UHSFS_TLV_DIR] = bytes_of(root);
    dir.value[UHSFS_TLV_EXTENTS] = bytes_of(extent);
    dir.attr.blocks = geo().homes;
}

namespace {

// New nodes of a tree stand in the image at once.
struct NewNodes {
    Image &image;

    static int read(void *ctx, unsigned long long block, uhsfs_tree_node **node) {
        *node = reinterpret_cast<uhsfs_tree_node *>(static_cast<NewNodes *>(ctx)->image.at(block));
        return 0;
    }
    static int alloc(void *ctx, unsigned long long *block, uhsfs_tree_node **node) {
        Image &image = static_cast<NewNodes *>(ctx)->image;
        *block = image.free_blocks();
        std::memset(image.at(*block), 0, block_size);
        return read(ctx, *block, node);
    }
    static void free(void *, unsigned long long) {}
    static bool fresh(void *, unsigned long long) { return true; }
};

constexpr uhsfs_tree_ops new_node_ops = {.read = NewNodes::read,
                                         .alloc = NewNodes::alloc,
                                         .free = NewNodes::free,
                                         .fresh = NewNodes::fresh};

}  // namespace

void Image::add_link(Slot &slot, const Inode &dir, std::string_view name, std::uint64_t name_seq) {
    NewNodes nodes = {*this};
    uhsfs_names names = {};
    const uhsfs_claim claim = {.parent_ino = dir.ino(),
                               .parent_gen = dir.attr().generation,
                               .len = static_cast<u32>(name.size()),
                               .name_seq = name_seq,
                               .name = reinterpret_cast<const u8 *>(name.data())};
    uhsfs_names_root root = {};

    uhsfs_names_init(&names, &geo(), &new_node_ops, &nodes, slot.attr.ino, slot.attr.generation,
                     nullptr);
    if (uhsfs_names_load(&names, &claim, 1) != 0)
        throw std::runtime_error("a names tree cannot be made");
    uhsfs_tree_release(&names.tree, 0);
    uhsfs_tree_seal(reinterpret_cast<uhsfs_tree_node *>(at(names.tree.root)), draw_seq());
    uhsfs_names_put_root(&names, &root);
    slot.value[UHSFS_TLV_NAMES].assign(reinterpret_cast<std::uint8_t *>(&root),
                                       reinterpret_cast<std::uint8_t *>(&root + 1));
    slot.attr.nlink++;
    slot.attr.blocks++;
    slot.attr.name_seq_max = std::max<u64>(slot.attr.name_seq_max, name_seq);
}

}  // namespace uhsfs::damage
