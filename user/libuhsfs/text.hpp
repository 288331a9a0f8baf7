/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * On-disk structures as values: every field, for people and for programs.
 *
 * These functions describe whatever bytes they get, sound or not, and read nothing outside
 * of them: a damaged structure is shown as far as it makes sense. Whether it is sound is for
 * the checks of the core to say.
 */
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libuhsfs/device.hpp"
#include "libuhsfs/value.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs {

// ---- words ---------------------------------------------------------------------------------

// "4.0 MiB", exact where it is: "512 bytes".
std::string size_text(std::uint64_t bytes);
// "2026-11-30T20:11:02.000000001Z"; 0 is a time as any other.
std::string time_text(std::int64_t ns);
// "-rwxr-xr-x"
std::string mode_text(std::uint32_t mode);
// 'f', 'd', 'l', 'p', 's', 'b', 'c' of a mode, '?' of no known type.
char mode_letter(std::uint32_t mode);
// "file", "directory", "symlink", ..., "unknown" of a mode.
std::string_view mode_word(std::uint32_t mode);
// "SLOT" of a record's magic; a number if it is not made of letters.
std::string tag_text(std::uint32_t magic);
std::string_view atomic_word(std::uint8_t atomic);
std::string_view errors_word(std::uint8_t errors);
std::string_view zone_word(std::uint8_t zone);
std::string_view state_word(std::uint8_t state);
std::string_view dtype_word(std::uint8_t type);
std::string uuid_text(const std::uint8_t (&uuid)[UHSFS_UUID_LEN]);

// True if all bytes are zero, as reserved ones must be.
bool all_zero(const void *bytes, std::size_t size);

// Names of features, from bit 0 of each kind on.
enum class FeatureKind : std::uint8_t { compat, ro_compat, incompat };
struct Feature {
    FeatureKind kind;
    std::uint64_t bit;
    std::string_view name;
    std::string_view text;
    bool supported;  // by this program
};
const std::vector<Feature> &known_features();
std::string_view feature_kind_word(FeatureKind kind);
// The names of set bits; unknown ones as "0x100".
Value feature_names(FeatureKind kind, std::uint64_t bits);

// Names of set flags, unknown ones as a number; "none".
std::string inode_flags_text(std::uint32_t flags);

// ---- numbers with two faces ----------------------------------------------------------------

Value hex_value(std::uint64_t number);
Value time_value(std::int64_t ns);
Value seq_value(std::uint64_t seq);       // "epoch.counter"
Value blocks_value(std::uint64_t count);  // "1024 (4.0 MiB)"
Value size_value(std::uint64_t bytes);
Value mode_value(std::uint32_t mode);

// ---- structures ----------------------------------------------------------------------------

Value describe(const uhsfs_fault &fault);
// What a copy of a home is: number, block, state ("valid", "damaged", "unreadable"), fault.
Value describe(const Copy &copy, std::uint64_t block, bool chosen);
// Copy 0 or 1 of a home.
Value describe_copy(const Home &home, unsigned copy);

Value describe(const uhsfs_header &header);
Value describe(const uhsfs_super &super);
Value describe(const uhsfs_ext &ext);
// A slot of geo.slot_size bytes; `slot` is at least as long.
Value describe_slot(const uhsfs_geometry &geo, Bytes slot);
Value describe(const uhsfs_chunk &chunk, std::uint64_t number);
Value describe(const uhsfs_table_block &table);
Value describe(const uhsfs_map_block &map);
Value describe(const uhsfs_tree_node &node);
Value describe(const uhsfs_bucket &bucket);
Value describe(const uhsfs_xattr_block &block);
// Whatever a block's magic says that it is; EINVAL: no metadata of uhsfs.
Result<Value> describe_block(const uhsfs_geometry &geo, Bytes block);

}  // namespace uhsfs
