// SPDX-License-Identifier: GPL-2.0
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "crc32c.h"

namespace {

// 1 KiB is a slot, 4 KiB a block, 64 KiB a typical buffer of the tools.
void crc32c(benchmark::State &state) {
    const auto size = static_cast<std::size_t>(state.range(0));
    std::vector<unsigned char> data(size);
    for (std::size_t i = 0; i < size; i++)
        data[i] = static_cast<unsigned char>(i * 31);

    for ([[maybe_unused]] auto _ : state)
        benchmark::DoNotOptimize(uhsfs_crc32c(0, data.data(), size));
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

BENCHMARK(crc32c)->RangeMultiplier(4)->Range(64, 64 << 10);

}  // namespace
