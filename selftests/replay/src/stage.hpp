/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Devices in memory: one whose writes are recorded, and one that crash images are mounted from.
 *
 * Both have blocks of 4096 or of 512 bytes. The recorded one has dm-log-writes above it, which
 * stays for all recordings: each reads the part of the log that is new.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libuhsfs/device.hpp"
#include "libuhsfs/fd.hpp"
#include "recording.hpp"

namespace uhsfs::replay {

[[noreturn]] void failed(const std::string &what);

// Runs a program; throws with its output if it fails.
void run(const std::vector<std::string> &command);

void write_file(const std::string &path, const std::string &text);

// What a device has: blocks that are not used are zero.
struct Image {
    std::vector<std::uint8_t> bytes;
    std::vector<bool> used;  // by block

    explicit Image(std::uint64_t size = 0);
    void write(std::uint64_t at, const std::uint8_t *data, std::size_t size);
};

// A device in memory (null_blk), which answers whoever asks at once.
class Disk {
public:
    Disk(const std::string &name, std::uint64_t bytes, unsigned lba);
    Disk(const Disk &) = delete;
    Disk(Disk &&) = delete;
    Disk &operator=(const Disk &) = delete;
    Disk &operator=(Disk &&) = delete;
    ~Disk();

    [[nodiscard]] const std::string &path() const { return path_; }
    [[nodiscard]] std::uint64_t size() const { return size_; }
    void load(const Image &image);
    [[nodiscard]] Image image();
    // Changes the block with the byte at that place.
    void edit(std::uint64_t at, const std::function<void(std::uint8_t *byte)> &change);
    // "252:0"
    [[nodiscard]] std::string number() const;

private:
    void transfer(bool write, std::uint64_t block, std::uint64_t count);

    std::string folder_, path_;
    std::uint64_t size_;
    unique_fd fd_;
    AlignedBuffer buffer_;
};

// The log: a file on a tmpfs behind a loop device, mapped into this program. Parts that were
// read have no memory.
class LogFile {
public:
    LogFile(const std::string &path, unsigned lba);
    LogFile(const LogFile &) = delete;
    LogFile(LogFile &&) = delete;
    LogFile &operator=(const LogFile &) = delete;
    LogFile &operator=(LogFile &&) = delete;
    ~LogFile();

    [[nodiscard]] const std::uint8_t *bytes() const { return map_; }
    void release(std::uint64_t from, std::uint64_t end) const;
    [[nodiscard]] std::string number() const;

private:
    std::string path_;
    unique_fd file_, loop_;
    const std::uint8_t *map_ = nullptr;
};

class Stage {
public:
    // In the folder work: files, and the place to mount at.
    Stage(const std::string &work, std::uint64_t bytes, unsigned lba);
    Stage(const Stage &) = delete;
    Stage(Stage &&) = delete;
    Stage &operator=(const Stage &) = delete;
    Stage &operator=(Stage &&) = delete;
    ~Stage();

    [[nodiscard]] unsigned lba() const { return lba_; }
    [[nodiscard]] std::uint64_t size() const { return data_.size(); }
    [[nodiscard]] const std::string &mount_point() const { return mount_point_; }
    [[nodiscard]] Disk &crash() { return crash_; }

    // The recorded device has this image, and is mounted.
    void begin(const Image &image, const std::string &options);
    void note(const std::string &text) const;
    // The device says that it has no volatile write cache, or that it has one.
    void write_cache(bool on) const;
    // Unmounts; that belongs to the recording.
    Recording end();
    // What the device has after end().
    [[nodiscard]] Image image() { return data_.image(); }

private:
    void make_target();
    void remove_target() const;
    [[nodiscard]] std::string trace() const;

    unsigned lba_;
    Disk data_, crash_;
    LogFile log_;
    std::string mount_point_, mapped_, tracing_;
    unique_fd target_, marker_;
    std::uint64_t place_ = 0;    // in the log
    std::uint64_t entries_ = 0;  // read
    bool mounted_ = false;
};

}  // namespace uhsfs::replay
