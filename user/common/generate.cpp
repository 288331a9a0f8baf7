// SPDX-License-Identifier: GPL-2.0
/*
 * Writes the man pages and the completion of the program whose table is linked with this:
 *
 *     generate VERSION MAN-FOLDER COMPLETION-FOLDER
 */
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/manual.hpp"

namespace {

bool write_file(const std::filesystem::path &path, const std::string &text) {
    std::ofstream file(path, std::ios::binary);

    file << text;
    file.close();
    if (!file)
        fmt::print(stderr, "generate: cannot write {}\n", path.string());
    return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char **argv) {
    using namespace uhsfs::manual;
    constexpr int words = 4;
    const Program &table = program();

    if (argc != words) {
        fmt::print(stderr, "usage: generate VERSION MAN-FOLDER COMPLETION-FOLDER\n");
        return 2;
    }
    const std::string version = fmt::format("uhsfs {}", argv[1]);
    const std::filesystem::path man = argv[2];
    const std::filesystem::path completion = argv[3];
    std::filesystem::create_directories(man);
    std::filesystem::create_directories(completion);
    const auto page = [&](const Command &command) {
        return write_file(man / fmt::format("{}.{}", page_name(table, command), table.section),
                          man_page(table, command, version));
    };
    // Pages of commands that are no more.
    for (const auto &entry : std::filesystem::directory_iterator(man)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(fmt::format("{}-", table.name)))
            std::filesystem::remove(entry.path());
    }
    bool good = page(table.self);
    for (const Command &command : table.commands)
        good = page(command) && good;
    good = write_file(completion / table.name, bash_completion(table)) && good;
    return good ? 0 : 1;
}
