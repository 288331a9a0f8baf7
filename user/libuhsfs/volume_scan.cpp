// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Reading every slot block of a volume.
 *
 * A thread takes the next block of the chunk table, and reads the chunks that it
 * describes one after the other, each with one request. So memory is bounded by one
 * chunk per thread, and a fast device gets as many requests at once as there are threads.
 */
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "libuhsfs/volume.hpp"
#include "libuhsfs/workers.hpp"

namespace uhsfs {

namespace {

using SlotCallback = std::function<void(unsigned worker, const SlotBlock &block)>;

class Scanner {
public:
    Scanner(const Volume &volume, const ScanOptions &options, const SlotCallback &each)
        : volume_(volume), options_(options), each_(each) {}

    std::vector<Error> run() {
        const unsigned threads = Volume::scan_threads(options_);
        std::vector<std::vector<Numbered>> errors(threads);
        for_each_item(threads, table_blocks(), [&](unsigned worker, std::uint64_t item) {
            scan_table(worker, first_chunk(item), errors[worker]);
        });
        std::vector<Numbered> all;
        for (auto &part : errors)
            std::ranges::move(part, std::back_inserter(all));
        std::ranges::stable_sort(all, {}, &Numbered::chunk);
        std::vector<Error> sorted;
        sorted.reserve(all.size());
        for (auto &error : all)
            sorted.push_back(std::move(error.error));
        return sorted;
    }

private:
    struct Numbered {
        std::uint64_t chunk;
        Error error;
    };

    void scan_table(unsigned worker, std::uint64_t first, std::vector<Numbered> &errors) {
        const auto table = volume_.table_block(first);
        if (!table) {
            errors.push_back({first, table.error()});
            return;
        }
        if (!*table) {
            errors.push_back({first, table->home.error(volume_.path())});
            return;
        }
        AlignedBuffer buffer(static_cast<std::size_t>(uhsfs_chunk_blocks(&volume_.geo())) *
                             block_size);
        for (std::uint64_t i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
            uhsfs_chunk_info info = {};
            uhsfs_chunk_decode(&table->record->chunk[i], &info);
            if (info.block != 0 && (!options_.filter || options_.filter(first + i, info)))
                scan_chunk(worker, first + i, info, buffer);
        }
    }

    // Table blocks that were ever written: those with chunks below chunks_used, which comes
    // before the later segments.
    [[nodiscard]] std::uint64_t table_blocks() const {
        const uhsfs_super_info &super = volume_.super();
        std::uint64_t blocks = 0;

        for (unsigned i = 0; i < super.segments; i++) {
            const uhsfs_segment_info &segment = super.segment[i];
            if (segment.first_chunk >= super.chunks_used)
                break;
            blocks += DIV_ROUND_UP(
                std::min<std::uint64_t>(segment.chunks, super.chunks_used - segment.first_chunk),
                UHSFS_TABLE_CHUNKS);
        }
        return blocks;
    }

    // The first chunk that the nth of them describes.
    [[nodiscard]] std::uint64_t first_chunk(std::uint64_t n) const {
        const uhsfs_super_info &super = volume_.super();
        unsigned i = 0;

        for (; n >= DIV_ROUND_UP(super.segment[i].chunks, UHSFS_TABLE_CHUNKS); i++)
            n -= DIV_ROUND_UP(super.segment[i].chunks, UHSFS_TABLE_CHUNKS);
        return super.segment[i].first_chunk + n * UHSFS_TABLE_CHUNKS;
    }

    void scan_chunk(unsigned worker, std::uint64_t number, const uhsfs_chunk_info &info,
                    AlignedBuffer &buffer) {
        const uhsfs_geometry &geo = volume_.geo();
        std::array<int, std::size_t{2} * UHSFS_CHUNK_BLOCKS> codes = {};
        const auto whole = volume_.device().read(info.block, buffer.span());

        for (std::uint32_t i = 0; !whole && i < uhsfs_chunk_blocks(&geo); i++) {
            const auto read = volume_.device().read(
                info.block + i, buffer.span().subspan(i * block_size, block_size));
            codes[i] = read ? 0 : read.error().code;
        }
        for (std::uint32_t i = 0; i < UHSFS_CHUNK_BLOCKS; i++) {
            SlotBlock block;
            block.chunk = number;
            block.info = &info;
            block.first_ino = number * geo.slots_per_chunk + i * geo.slots_per_block;
            block.in_use = info.in_use >> (i * geo.slots_per_block) &
                           ((std::uint64_t{1} << geo.slots_per_block) - 1);
            block.written = (info.written >> i & 1) != 0;
            block.home.block = info.block + static_cast<std::uint64_t>(i) * geo.homes;
            block.home.copies = geo.homes;
            for (std::uint32_t j = 0; j < geo.homes; j++) {
                const std::uint32_t at = i * geo.homes + j;
                Copy &copy = block.home.copy[j];
                copy.code = codes[at];
                if (codes[at] != 0)
                    continue;
                block.image[j] = buffer.data() + std::size_t{at} * block_size;
                copy.code = -check_slot_block(geo, block.image[j], info.block + at, block.first_ino,
                                              info.nonce, copy);
            }
            block.home.choose();
            block.home.compare(block.image, geo.slot_size);
            each_(worker, block);
        }
    }

    const Volume &volume_;
    const ScanOptions &options_;
    const SlotCallback &each_;
};

}  // namespace

unsigned Volume::scan_threads(const ScanOptions &options) {
    return options.threads != 0 ? options.threads
                                : std::max(1U, std::thread::hardware_concurrency());
}

std::vector<Error> Volume::scan_slots(const ScanOptions &options, const SlotCallback &each) const {
    return Scanner(*this, options, each).run();
}

}  // namespace uhsfs
