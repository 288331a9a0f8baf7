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
#include <atomic>
#include <thread>
#include <utility>

#include "libuhsfs/volume.hpp"

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
        {
            std::vector<std::jthread> workers;
            for (unsigned i = 1; i < threads; i++)
                workers.emplace_back([this, i, &errors] { work(i, errors[i]); });
            work(0, errors[0]);
        }
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

    void work(unsigned worker, std::vector<Numbered> &errors) {
        AlignedBuffer buffer(static_cast<std::size_t>(uhsfs_chunk_blocks(&volume_.geo())) *
                             block_size);

        while (const auto first = next()) {
            const auto table = volume_.table_block(*first);
            if (!table) {
                errors.push_back({*first, table.error()});
                continue;
            }
            if (!*table) {
                errors.push_back({*first, table->home.error(volume_.path())});
                continue;
            }
            const std::uint64_t base = le64_to_cpu(table->record->first_chunk);
            for (std::uint64_t i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
                uhsfs_chunk_info info = {};
                uhsfs_chunk_decode(&table->record->chunk[i], &info);
                if (info.block != 0 && (!options_.filter || options_.filter(base + i, info)))
                    scan_chunk(worker, base + i, info, buffer);
            }
        }
    }

    // The first chunk of the next table block that was ever written.
    std::optional<std::uint64_t> next() {
        std::uint64_t n = next_.fetch_add(1);
        const uhsfs_super_info &super = volume_.super();

        for (unsigned i = 0; i < super.segments; i++) {
            const uhsfs_segment_info &segment = super.segment[i];
            const std::uint64_t blocks = DIV_ROUND_UP(segment.chunks, UHSFS_TABLE_CHUNKS);
            if (n >= blocks) {
                n -= blocks;
                continue;
            }
            const std::uint64_t first = segment.first_chunk + n * UHSFS_TABLE_CHUNKS;
            if (first >= super.chunks_used)
                break;
            return first;
        }
        return std::nullopt;
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
    std::atomic<std::uint64_t> next_ = 0;
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
