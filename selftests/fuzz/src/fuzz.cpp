// SPDX-License-Identifier: GPL-2.0
/*
 * The frame of a target: libFuzzer's entry points, and the helpers of fuzz.hpp.
 */
#include "fuzz.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

extern "C" {
// libFuzzer's interface.
std::size_t LLVMFuzzerMutate(std::uint8_t *data, std::size_t size, std::size_t most);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t most,
                                    unsigned seed);
}

namespace uhsfs::fuzz {

void violated(const char *file, int line, const char *condition, const std::string &detail) {
    fmt::print(stderr, "{}:{}: VIOLATED: {}\n  {}\n", file, line, condition, detail);
    std::fflush(stderr);
    std::abort();
}

std::string text(const uhsfs_fault &fault) {
    if (fault.object == nullptr)
        return "no fault";
    return fmt::format("{} {}: {} is {}: {} ({})", fault.object, fault.id, fault.field, fault.value,
                       fault.rule, fault.limit);
}

void Reader::copy(void *to, std::size_t size) {
    const std::size_t n = std::min(size, input_.size());

    if (n > 0)
        std::memcpy(to, input_.data(), n);
    std::memset(static_cast<std::uint8_t *>(to) + n, 0, size - n);
    input_ = input_.subspan(n);
}

Bytes Reader::take(std::size_t size) {
    const std::size_t n = std::min(size, input_.size());
    const Bytes taken = input_.first(n);

    input_ = input_.subspan(n);
    return taken;
}

uhsfs_geometry geometry(std::uint8_t choice) {
    uhsfs_geometry geo = {};

    geo.fsid = 0x1122334455667788ULL;
    geo.blocks = 1U << 20;
    geo.homes = 1 + (choice & 1);
    geo.slot_size = 1024U << std::min(choice >> 1 & 3, 2);
    geo.slots_per_block = block_size / geo.slot_size;
    geo.slots_per_chunk = geo.slots_per_block * UHSFS_CHUNK_BLOCKS;
    geo.erase_unit = 512;
    for (u8 i = 0; i < sizeof(geo.hash_key); i++) {
        geo.hash_key[i] = static_cast<u8>(i * 7 + 1);
        geo.nonce_key[i] = static_cast<u8>(i * 5 + 3);
    }
    return geo;
}

void mutate_bytes(std::uint8_t *bytes, std::size_t size) {
    std::vector<std::uint8_t> copy(bytes, bytes + size);
    const std::size_t used = LLVMFuzzerMutate(copy.data(), size, size);

    std::memset(bytes, 0, size);
    std::memcpy(bytes, copy.data(), used);
}

void mutate_bytes(std::vector<std::uint8_t> &bytes, std::size_t most) {
    const std::size_t size = std::min(bytes.size(), most);

    if (most == 0)
        return;
    bytes.resize(most);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), size, most));
}

void trim(std::vector<std::uint8_t> &input) {
    while (input.size() > 1 && input.back() == 0)
        input.pop_back();
}

namespace {

[[noreturn]] void make_seeds(const std::filesystem::path &folder) {
    std::filesystem::create_directories(folder);
    seeds([&](const std::string &name, Bytes input) {
        std::ofstream file(folder / name, std::ios::binary | std::ios::trunc);
        std::vector<std::uint8_t> bytes(input.begin(), input.end());
        trim(bytes);
        file.write(reinterpret_cast<const char *>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        run(bytes);
    });
    std::exit(0);
}

}  // namespace

}  // namespace uhsfs::fuzz

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    constexpr std::string_view option = "seeds=";

    if (*argc == 2 && std::string_view((*argv)[1]).starts_with(option))
        uhsfs::fuzz::make_seeds((*argv)[1] + option.size());
    return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    uhsfs::fuzz::run({data, size});
    return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size, std::size_t most,
                                    unsigned seed) {
    std::vector<std::uint8_t> input(data, data + size);
    uhsfs::fuzz::Random random(seed);

    uhsfs::fuzz::mutate(random, input, most);
    uhsfs::fuzz::trim(input);
    if (input.empty())
        input.push_back(0);
    input.resize(std::min(input.size(), most));
    std::memcpy(data, input.data(), input.size());
    return input.size();
}
