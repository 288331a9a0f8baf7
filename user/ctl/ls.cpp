// SPDX-License-Identifier: GPL-2.0
/*
 * ls and cat: files of a filesystem that is not mounted.
 */
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "commands.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

// ---- ls ------------------------------------------------------------------------------------

namespace {

struct Listed {
    std::string name;
    Inode inode;
};

class Listing {
public:
    Listing(const Volume &volume, Report &report, bool attributes, bool recursive)
        : volume_(volume), report_(report), attributes_(attributes), recursive_(recursive) {}

    void list(Inode start, const std::string &path) {
        report_.begin_rows("entries", {});
        if (start.is_dir())
            walk(std::move(start));
        else
            show(path, start);
        report_.end_rows();
    }

private:
    // One directory on the way down: what is left of it.
    struct Level {
        std::string path;
        std::vector<Listed> entries;
        std::size_t next = 0;
    };

    void walk(Inode start) {
        std::vector<Level> levels;

        enter(levels, start, "");
        while (!levels.empty()) {
            Level &level = levels.back();
            if (level.next == level.entries.size()) {
                levels.pop_back();
                continue;
            }
            const Listed entry = std::move(level.entries[level.next++]);
            const std::string path =
                level.path.empty() ? entry.name : fmt::format("{}/{}", level.path, entry.name);
            show(path, entry.inode);
            if (recursive_ && entry.inode.is_dir())
                enter(levels, entry.inode, path);
        }
    }

    void enter(std::vector<Level> &levels, const Inode &dir, const std::string &path) {
        // A directory has one name, unless the filesystem is damaged.
        if (!seen_.insert(dir.ino()).second) {
            report_.error(
                {.code = EUCLEAN,
                 .object = volume_.path(),
                 .message = fmt::format("directory {} has two names, one is '{}'", dir.ino(), path),
                 .hint = "run fsck.uhsfs"});
            return;
        }
        levels.push_back({.path = path, .entries = read(dir)});
    }

    // The confirmed entries in order of their names.
    std::vector<Listed> read(const Inode &dir) {
        std::vector<Listed> list;
        const auto entries = volume_.entries(dir);

        if (!entries) {
            report_.error(entries.error());
            return list;
        }
        for (const DirEntry &entry : *entries) {
            auto inode = volume_.inode(entry.ino);
            if (!inode) {
                // A hint that no slot confirms is no damage.
                if (inode.error().code != ENOENT)
                    report_.error(inode.error());
                continue;
            }
            if (inode->attr().generation != entry.gen)
                continue;
            const auto confirmed = volume_.confirms(*inode, dir, entry.name);
            if (!confirmed)
                report_.error(confirmed.error());
            else if (*confirmed)
                list.push_back({.name = entry.name, .inode = std::move(*inode)});
        }
        const auto less = [](const Listed &a, const Listed &b) { return a.name < b.name; };
        const auto equal = [](const Listed &a, const Listed &b) { return a.name == b.name; };
        std::ranges::sort(list, less);
        // A crash may leave one entry in two blocks.
        list.erase(std::unique(list.begin(), list.end(), equal), list.end());
        return list;
    }

    std::uint64_t links(const Inode &inode) {
        if (!inode.is_dir())
            return inode.attr().nlink;
        const auto info = volume_.dir_info(inode);
        constexpr std::uint64_t name_and_dot = 2;
        return name_and_dot + (info ? info->subdirs : 0);
    }

    void show(const std::string &path, const Inode &inode) {
        const uhsfs_attr &attr = inode.attr();
        std::string target;

        if (attributes_ && uhsfs_is_lnk(attr.mode)) {
            auto read = volume_.readlink(inode);
            if (read)
                target = std::move(*read);
            else
                report_.error(read.error());
        }
        if (report_.json())
            report_.row(row(path, inode, target));
        else if (attributes_)
            report_.raw(line(path, inode, target));
        else
            report_.raw(fmt::format("{}\n", printable(path)));
    }

    static std::pair<std::uint32_t, std::uint32_t> device(const Inode &inode) {
        uhsfs_device device = {};

        if (inode.view().value[UHSFS_TLV_DEVICE] != nullptr &&
            inode.view().len[UHSFS_TLV_DEVICE] == sizeof(device))
            std::memcpy(&device, inode.view().value[UHSFS_TLV_DEVICE], sizeof(device));
        return {le32_to_cpu(device.major), le32_to_cpu(device.minor)};
    }

    static bool is_device(const Inode &inode) {
        return inode.view().value[UHSFS_TLV_DEVICE] != nullptr;
    }

    std::string line(const std::string &path, const Inode &inode, const std::string &target) {
        const uhsfs_attr &attr = inode.attr();
        const auto [major, minor] = device(inode);
        const std::string size =
            is_device(inode) ? fmt::format("{},{}", major, minor) : fmt::format("{}", attr.size);
        std::string text =
            fmt::format("{} {}:{} {} {} {} {}", mode_text(attr.mode), attr.uid, attr.gid, size,
                        links(inode), time_text(attr.mtime), printable(path));
        if (uhsfs_is_lnk(attr.mode))
            text += fmt::format(" -> {}", printable(target));
        return text + '\n';
    }

    Value row(const std::string &path, const Inode &inode, const std::string &target) {
        const uhsfs_attr &attr = inode.attr();
        Value value = Value::object();

        value.add("path", path);
        value.add("ino", inode.ino());
        value.add("type", Value::word(mode_word(attr.mode)));
        if (!attributes_)
            return value;
        value.add("generation", attr.generation);
        value.add("mode", attr.mode);
        value.add("uid", attr.uid);
        value.add("gid", attr.gid);
        value.add("project", attr.projid);
        value.add("size", attr.size);
        value.add("blocks", attr.blocks);
        value.add("nlink", links(inode));
        value.add("access-time", attr.atime);
        value.add("modification-time", attr.mtime);
        value.add("change-time", attr.ctime);
        value.add("birth-time", attr.btime);
        value.add("flags", attr.flags);
        if (is_device(inode)) {
            value.add("major", device(inode).first);
            value.add("minor", device(inode).second);
        }
        if (uhsfs_is_lnk(attr.mode))
            value.add("target", target);
        return value;
    }

    const Volume &volume_;
    Report &report_;
    bool attributes_;
    bool recursive_;
    std::set<std::uint64_t> seen_;
};

void note_recovery(const Volume &volume, Report &report) {
    const auto needed = volume.needs_recovery();

    if (needed && *needed)
        report.note(
            fmt::format("{}: is mounted or was not unmounted; what is shown may change with "
                        "the next mount",
                        volume.path()));
}

}  // namespace

Result<void> run_ls(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0)));
    const std::string path = arguments.words().size() > 1 ? arguments.words().at(1) : "";

    note_recovery(volume, report);
    Listing(volume, report, arguments.has("long"), arguments.has("recursive"))
        .list(UHSFS_TRY(volume.resolve(path)), path);
    return {};
}

// ---- cat -----------------------------------------------------------------------------------

namespace {

// Base64 of a stream in pieces.
class Base64 {
public:
    std::string encode(Bytes bytes) {
        std::string out;

        for (const std::uint8_t byte : bytes) {
            held_ = held_ << 8 | byte;
            if (++count_ == 3)
                out += take(4);
        }
        return out;
    }
    std::string end() {
        if (count_ == 0)
            return {};
        const unsigned digits = count_ + 1;
        held_ <<= 8 * (3 - count_);
        std::string out = take(digits);
        out.resize(4, '=');
        return out;
    }

private:
    std::string take(unsigned digits) {
        constexpr std::string_view alphabet =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        std::string out;

        for (unsigned i = 0; i < digits; i++)
            out += alphabet[held_ >> (18 - 6 * i) & 63];
        held_ = 0;
        count_ = 0;
        return out;
    }

    std::uint32_t held_ = 0;
    unsigned count_ = 0;
};

// The content piece by piece. Extents are read once: a file may have very many.
template <typename Each>
Result<void> each_piece(const Volume &volume, const Inode &inode, Each each) {
    constexpr std::uint64_t step = 256;
    AlignedBuffer buffer(step * block_size);
    const std::uint64_t size = inode.attr().size;
    std::uint64_t at = 0;  // bytes written so far
    const auto zeros = [&](std::uint64_t until) {
        std::memset(buffer.data(), 0, buffer.size());
        while (at < until) {
            const std::uint64_t n = std::min<std::uint64_t>(until - at, buffer.size());
            each(Bytes(buffer.span()).first(n));
            at += n;
        }
    };

    if (inode.view().value[UHSFS_TLV_INLINE] != nullptr) {
        std::vector<std::uint8_t> bytes(size);
        bytes.resize(UHSFS_TRY(volume.read(inode, 0, bytes)));
        each(Bytes(bytes));
        return {};
    }
    for (const uhsfs_ext &ext : UHSFS_TRY(volume.extents(inode))) {
        if (ext.logical >= size / block_size + 1)
            break;
        if ((ext.flags & UHSFS_EXT_UNWRITTEN) != 0)
            continue;
        zeros(std::min<std::uint64_t>(size, ext.logical * block_size));
        for (std::uint64_t done = 0; done < ext.len && at < size;) {
            const std::uint64_t n = std::min<std::uint64_t>(step, ext.len - done);
            const MutableBytes part = buffer.span().first(n * block_size);
            UHSFS_TRY(volume.device().read(ext.physical + done, part));
            const std::uint64_t bytes = std::min<std::uint64_t>(part.size(), size - at);
            each(Bytes(part).first(bytes));
            at += bytes;
            done += n;
        }
    }
    zeros(size);
    return {};
}

std::string_view chars(Bytes bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

Result<void> cat_json(const Volume &volume, const Inode &inode, const std::string &path,
                      Report &report) {
    Base64 base64;

    report.add("path", path);
    report.add("ino", inode.ino());
    report.add("size", inode.attr().size);
    report.add("encoding", "base64");
    report.begin_raw("data");
    report.raw("\"");
    const auto result =
        each_piece(volume, inode, [&](Bytes bytes) { report.raw(base64.encode(bytes)); });
    report.raw(base64.end());
    report.raw("\"");
    return result;
}

}  // namespace

Result<void> run_cat(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0)));
    const std::string &path = arguments.words().at(1);
    const Inode inode = UHSFS_TRY(volume.resolve(path));

    if (!uhsfs_is_reg(inode.attr().mode) && !uhsfs_is_lnk(inode.attr().mode))
        return fail(0, volume.path(),
                    fmt::format("'{}' is a {}, not a file", path, mode_word(inode.attr().mode)),
                    inode.is_dir() ? "'uhsfs-ctl ls' lists directories" : "");
    note_recovery(volume, report);
    if (report.json())
        return cat_json(volume, inode, path, report);
    return each_piece(volume, inode, [&](Bytes bytes) { report.raw(chars(bytes)); });
}

}  // namespace uhsfs::ctl
