// SPDX-License-Identifier: GPL-2.0
#include "copies.hpp"

#include <cstring>

namespace uhsfs::ctl {

unsigned Copies::best() const {
    if (home.valid())
        return static_cast<unsigned>(home.chosen);
    if (home.copies < 2)
        return 0;
    uhsfs_header headers[2] = {};
    for (const unsigned i : {0U, 1U})
        std::memcpy(&headers[i], image(i).data(), sizeof(headers[i]));
    // A copy that still has its magic says more than one that has not.
    const auto known = [](const uhsfs_header &h) { return h.magic != 0; };
    if (known(headers[0]) != known(headers[1]))
        return known(headers[1]) ? 1 : 0;
    return le64_to_cpu(headers[1].seq) > le64_to_cpu(headers[0].seq) ? 1 : 0;
}

Copies read_copies(const Volume &volume, std::uint64_t block, const CopyCheck &check) {
    Copies copies;

    copies.home.block = block;
    copies.home.copies = volume.geo().homes;
    copies.bytes = AlignedBuffer(copies.home.copies * block_size);
    for (unsigned i = 0; i < copies.home.copies; i++) {
        const MutableBytes part = copies.bytes.span().subspan(i * block_size, block_size);
        Copy &copy = copies.home.copy.at(i);
        const auto read = volume.device().read(block + i, part);
        if (!read)
            std::memset(part.data(), 0, part.size());
        copy.code = read ? -check(part.data(), block + i, copy) : read.error().code;
    }
    copies.home.choose();
    return copies;
}

Copies read_slot_copies(const Volume &volume, const uhsfs_chunk_info &chunk, std::uint64_t ino) {
    const uhsfs_geometry &geo = volume.geo();
    const std::uint64_t first = ino - ino % geo.slots_per_block;

    return read_copies(volume, uhsfs_slot_home(&geo, chunk.block, ino),
                       [&](const std::uint8_t *image, std::uint64_t at, Copy &copy) {
                           return check_slot_block(geo, image, at, first, chunk.nonce, copy);
                       });
}

}  // namespace uhsfs::ctl
