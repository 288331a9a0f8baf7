/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every fuzz target has in common.
 *
 * A target defines run(), mutate() and seeds(). run() takes any bytes; it does not only have
 * to survive them, it states with MUST() what has to hold. mutate() changes an input so that
 * it stays a structure, with right checksums, because random changes of bytes would all end at
 * the checksum. seeds() makes the seed corpus anew (TARGET seeds=FOLDER).
 */
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "libuhsfs/core.hpp"
#include "libuhsfs/device.hpp"
#include "random.hpp"

namespace uhsfs::fuzz {

// What has to hold does not: tells it and aborts, which libFuzzer records.
[[noreturn]] void violated(const char *file, int line, const char *condition,
                           const std::string &detail);

#define MUST(condition, ...)                                                                   \
    do {                                                                                       \
        if (!(condition))                                                                      \
            ::uhsfs::fuzz::violated(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    } while (false)

std::string text(const uhsfs_fault &fault);

// A check that refuses says why.
#define MUST_SAY_WHY(err, fault)                                                            \
    MUST((err) == -EUCLEAN && (fault).object && (fault).field && (fault).rule,              \
         "error {}, object {}, field {}", (err), static_cast<const void *>((fault).object), \
         static_cast<const void *>((fault).field))

// Reads an input from the front; zeros behind its end.
class Reader {
public:
    explicit Reader(Bytes input) : input_(input) {}

    template <typename T>
    T get() {
        T value = {};
        copy(&value, sizeof(value));
        return value;
    }
    std::uint8_t byte() { return get<std::uint8_t>(); }
    // In [0, n).
    std::uint32_t below(std::uint32_t n) { return get<std::uint16_t>() % n; }
    void copy(void *to, std::size_t size);
    Bytes take(std::size_t size);
    [[nodiscard]] bool empty() const { return input_.empty(); }
    [[nodiscard]] std::size_t left() const { return input_.size(); }

private:
    Bytes input_;
};

// Of small variety, chosen by the first byte of an input: homes and slot size.
uhsfs_geometry geometry(std::uint8_t choice);

// A block as it stands in memory, aligned as everywhere.
struct alignas(block_size) Block {
    std::uint8_t bytes[block_size];

    template <typename Record>
    Record *as() {
        static_assert(sizeof(Record) <= block_size);
        return reinterpret_cast<Record *>(bytes);
    }
};

// libFuzzer's own mutations of bytes in place; the length stays.
void mutate_bytes(std::uint8_t *bytes, std::size_t size);
// The same with growth up to `most` bytes.
void mutate_bytes(std::vector<std::uint8_t> &bytes, std::size_t most);

// An input without the zeros at its end, which Reader gives back.
void trim(std::vector<std::uint8_t> &input);

// ---- defined by the target -----------------------------------------------------------------

using SeedSink = std::function<void(const std::string &name, Bytes input)>;

void run(Bytes input);
// most: bytes that the input may have afterwards.
void mutate(Random &random, std::vector<std::uint8_t> &input, std::size_t most);
void seeds(const SeedSink &sink);

}  // namespace uhsfs::fuzz
