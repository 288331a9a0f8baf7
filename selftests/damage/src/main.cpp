// SPDX-License-Identifier: GPL-2.0
/*
 * image_damage TEST WORK DISK4096 DISK512 [SEED IMAGES]: mounts images that are damaged
 * (TEST = damage), were not unmounted (crash, and replay to recover them on the disk), or are
 * hostile at random (hostile), reads them, and says of each whether it behaves as it must. WORK is
 * an empty folder in memory.
 */
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "guest.hpp"

int main(int argc, char **argv) {
    using namespace uhsfs::damage;

    try {
        const std::string test = argc > 1 ? argv[1] : "";
        if (argc < 5 || (test == "hostile" && argc < 7)) {
            fmt::print(stderr,
                       "usage: image_damage damage|crash|replay|hostile WORK DISK4096 DISK512 "
                       "[SEED IMAGES]\n");
            return 2;
        }
        auto disks = all_disks(argv[2], argv[3], argv[4]);
        if (test == "damage")
            return test_damage(disks);
        if (test == "crash")
            return test_crash(disks);
        if (test == "replay")
            return test_replay(disks);
        if (test == "hostile")
            return test_hostile(disks, std::strtoull(argv[5], nullptr, 0),
                                static_cast<unsigned>(std::strtoul(argv[6], nullptr, 0)));
        fmt::print(stderr, "image_damage: no test '{}'\n", test);
        return 2;
    } catch (const std::exception &error) {
        fmt::print("not ok the test itself\n# {}\n", error.what());
        return 1;
    }
}
