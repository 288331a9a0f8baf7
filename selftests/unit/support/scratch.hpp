/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A folder for one test, gone with it.
 */
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace uhsfs::test {

class Scratch {
public:
    Scratch() {
        // In memory where that is possible: images are flushed often.
        const bool memory = ::access("/dev/shm", W_OK) == 0;
        const std::filesystem::path top =
            memory ? "/dev/shm" : std::filesystem::temp_directory_path();
        std::string name = (top / "uhsfs-test-XXXXXX").string();

        if (::mkdtemp(name.data()) == nullptr)
            ADD_FAILURE() << "cannot make a folder like " << name;
        path_ = name;
    }
    Scratch(const Scratch &) = delete;
    Scratch(Scratch &&) = delete;
    Scratch &operator=(const Scratch &) = delete;
    Scratch &operator=(Scratch &&) = delete;
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::filesystem::path &path() const { return path_; }
    [[nodiscard]] std::string operator/(const std::string &name) const {
        return (path_ / name).string();
    }

    // A file with that content, and the folders above it.
    std::string write(const std::string &name, std::string_view content) const {
        const std::filesystem::path file = path_ / name;

        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << content;
        return file.string();
    }

private:
    std::filesystem::path path_;
};

}  // namespace uhsfs::test
