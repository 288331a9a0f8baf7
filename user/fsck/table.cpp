// SPDX-License-Identifier: GPL-2.0
/*
 * The command line of fsck.uhsfs. Options and exit statuses are those that fsck(8) expects
 * of a checker.
 */
#include "common/manual.hpp"

namespace uhsfs::manual {

const Program &program() {
    static const Program table = {
        .name = "fsck.uhsfs",
        .section = 8,
        .self =
            {.summary = "check a uhsfs filesystem",
             .description =
                 "Reads everything that stands on the device and compares it: both copies of "
                 "everything that is overwritten in place, the chunk table, every inode with its "
                 "trees and attributes, the names of inodes against the entries of directories, "
                 "bitmaps against the blocks that are in use. Nothing is changed.\n\n"
                 "A filesystem that was not unmounted is not damaged: the next mount recovers it "
                 "in little time. What recovery is going to do is worked out in memory and "
                 "reported, and everything else is checked as if it had been done.\n\n"
                 "Each finding is one line: the object and its number, the field, its value, and "
                 "the rule that it breaks. The first 1000 findings are shown and all are counted. "
                 "With -v notes are shown too: what recovery or the next scrub is going to "
                 "repair.\n\n"
                 "A mounted device can be checked, but changes meanwhile: findings are then "
                 "likely to be false.",
             .arguments = {{.name = "DEVICE",
                            .kind = Kind::device,
                            .text = "A block device or an image file."}},
             .options =
                 {{.brief = 'n', .name = "no-changes", .text = "Check only. This is the default."},
                  {.brief = 'a',
                   .name = "automatic",
                   .text = "Check at boot, as -p: a filesystem that only needs recovery is left to "
                           "its mount, which is success."},
                  {.brief = 'p', .name = "preen", .text = "The same as -a."},
                  {.brief = 'y', .name = "yes", .text = "Repair. Not available yet."},
                  {.brief = 'r', .name = "repair", .text = "Repair. Not available yet."},
                  {.brief = 'f',
                   .name = "force",
                   .text = "Check even if the filesystem seems clean. This is always done."},
                  {.brief = 'C',
                   .name = "progress",
                   .argument = "FD",
                   .text = "Write progress to this file descriptor in the form that fsck(8) reads; "
                           "0: show a bar on the terminal. Without this option a bar is shown if "
                           "standard error is a terminal."},
                  {.brief = 'v',
                   .name = "verbose",
                   .text = "Show notes as well, and each thing that recovery is going to do."},
                  {.brief = 'o',
                   .name = "output",
                   .argument = "FORMAT",
                   .kind = Kind::choice,
                   .choices = {"text", "json"},
                   .text = "The format of standard output: text, or one JSON object."},
                  {.brief = 'V', .name = "version", .text = "Print the version and exit."},
                  {.name = "help", .text = "Print this help and exit."}},
             .examples = {{"fsck.uhsfs /dev/nvme0n1", "Check a device that is not mounted."},
                          {"fsck.uhsfs -o json disk.img", "The result as JSON."}}},
        .exits = {{0, "No damage. Recovery may be needed: mount does it."},
                  {4, "There is damage, which was not repaired."},
                  {8, "The check could not be done."},
                  {16, "The command line is wrong."},
                  {32, "The check was cancelled."}},
        .see_also = {"fsck(8)", "mkfs.uhsfs(8)", "uhsfs-ctl(8)", "mount(8)"}};

    return table;
}

}  // namespace uhsfs::manual
