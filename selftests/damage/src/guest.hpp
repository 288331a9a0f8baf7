/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine: disks, mounts, the kernel log.
 */
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "image.hpp"
#include "libuhsfs/fd.hpp"
#include "tree.hpp"

namespace uhsfs::damage {

// Results are lines "ok NAME" and "not ok NAME", which the script numbers.
class Results {
public:
    // From now on this is tested, and must end in time.
    void begin(const std::string &name);
    // shape: a few words for the line of a problem.
    void problem(const std::string &shape, const std::string &text);
    void end();
    [[nodiscard]] bool failed() const { return !problems_.empty(); }

private:
    std::string name_;
    std::vector<std::string> problems_;
};

// A filesystem of one shape: its image, the disk that it is put on, and what is in it.
class Disk {
public:
    // Shared by the filesystems that are put on it in turn.
    struct Device {
        explicit Device(const std::string &where);
        std::string path;
        unique_fd fd;
        std::vector<std::uint8_t> content;  // what was put on it; empty: unknown
    };

    // Makes the image with mkfs.uhsfs in the folder `work`, from the tree `source`.
    Disk(const std::string &work, const std::string &source, const std::shared_ptr<Device> &device,
         bool shadow, unsigned slot_size);

    [[nodiscard]] Image &image() { return *image_; }
    [[nodiscard]] const std::string &shape() const { return shape_; }
    [[nodiscard]] bool shadow() const { return shadow_; }
    [[nodiscard]] const std::string &path() const { return device_->path; }
    [[nodiscard]] std::string name() const { return name_of(device_->path); }
    // The source, with the inode numbers in the image.
    [[nodiscard]] const Tree &tree() const { return tree_; }
    [[nodiscard]] std::uint64_t ino(const std::string &path) const { return tree_.at(path).ino; }

    void put() { image_->put_on(device_->fd.get(), device_->content); }
    [[nodiscard]] bool unchanged() const { return image_->same_as(device_->fd.get()); }

    // 0 or an errno.
    [[nodiscard]] int mount(const std::string &options, bool writes = false) const;
    [[nodiscard]] int unmount() const;
    // All paths of the source and of `also` are looked up.
    [[nodiscard]] Tree walk(const Tree &also) const;
    // /sys/fs/uhsfs/DEVICE/FILE
    [[nodiscard]] std::string sysfs(const std::string &file) const;

private:
    std::string shape_;
    bool shadow_;
    std::shared_ptr<Device> device_;
    std::string mount_point_;
    std::unique_ptr<Image> image_;
    Tree tree_;
};

// The four shapes on two disks.
std::vector<std::unique_ptr<Disk>> all_disks(const std::string &work, const std::string &large,
                                             const std::string &small);

void clear_log();
// Lines without their time, since the log was cleared.
std::vector<std::string> read_log();

// Exit status of a program, -1 if it did not exit; what it printed is appended.
int run(std::vector<std::string> command, std::string *output);

// The three kinds of tests.
int test_damage(std::vector<std::unique_ptr<Disk>> &disks);
int test_crash(std::vector<std::unique_ptr<Disk>> &disks);
int test_replay(std::vector<std::unique_ptr<Disk>> &disks);
int test_hostile(std::vector<std::unique_ptr<Disk>> &disks, std::uint64_t seed, unsigned images);

}  // namespace uhsfs::damage
