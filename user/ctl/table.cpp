// SPDX-License-Identifier: GPL-2.0
/*
 * The commands of uhsfs-ctl. Everything that is said about them is said here; what they do
 * is in commands.cpp.
 */
#include "common/manual.hpp"

namespace uhsfs::manual {

namespace {

const Argument device = {.name = "DEVICE",
                         .kind = Kind::device,
                         .text =
                             "A block device or an image file. A mounted one is read past its "
                             "caches, so that what is shown may be some seconds old."};
const Argument inode = {.name = "INO",
                        .text = "An inode number, decimal or hexadecimal with 0x. The root is 1."};

std::vector<Command> dump_commands() {
    return {
        {.name = "dump super",
         .summary = "show the superblock",
         .description =
             "Prints every field of the copy of the superblock that counts, and which features its "
             "bits stand for. With -v both copies are shown. This works as well where the "
             "filesystem cannot be opened: a damaged copy is shown with the fault, and a copy of "
             "another format version as far as this version of the program understands it.",
         .arguments = {device},
         .examples = {{"uhsfs-ctl dump super -v /dev/nvme0n1", "Both copies of the superblock."}}},
        {.name = "dump slot",
         .summary = "show the slot of an inode",
         .description =
             "Prints every field of an inode's record and of all records in its body: names, "
             "directory root, attributes, inline data, extents. A slot that is free or damaged is "
             "shown too, a damaged one with the fault. With -v the state of both copies of the "
             "slot "
             "block is shown, and the slot in each of them.",
         .arguments = {inode, device},
         .examples = {{"uhsfs-ctl dump slot 1 /dev/nvme0n1", "The root directory."},
                      {"uhsfs-ctl dump slot -o json 65 disk.img",
                       "The same of inode 65 as JSON."}}},
        {.name = "dump path",
         .summary = "show the slot that a path leads to",
         .description = "As dump slot, of the inode at a path. Symbolic links are not followed.",
         .arguments = {{.name = "PATH", .text = "A path within the filesystem, from its root."},
                       device},
         .examples = {{"uhsfs-ctl dump path etc/passwd /dev/nvme0n1", "The inode of one file."}}},
        {.name = "dump dir",
         .summary = "show the index of a directory",
         .description =
             "Prints the buckets of a directory and what is in them: cookie, inode, generation, "
             "type "
             "and name of every entry, in the order in which it stands on disk. An entry says "
             "nothing until the slot it points to confirms it: the column confirmed says whether "
             "it "
             "does. With -v the copies of every bucket are shown with their state.",
         .arguments = {inode, device},
         .examples = {{"uhsfs-ctl dump dir 1 /dev/nvme0n1", "The index of the root directory."}}},
        {.name = "dump extents",
         .summary = "show where the blocks of an inode stand",
         .description =
             "Prints the extents of an inode in the order of their logical blocks, in units of "
             "blocks "
             "of 4096 bytes. In a directory of a filesystem with atomic = shadow a logical block "
             "is "
             "a bucket of two device blocks. With -v the nodes of the extent tree are listed.",
         .arguments = {inode, device},
         .examples = {{"uhsfs-ctl dump extents 80 /dev/nvme0n1", "The map of inode 80."}}},
        {.name = "dump chunks",
         .summary = "show the inode chunks",
         .description =
             "Prints the descriptor of every inode chunk: where it stands, which of its slots are "
             "in "
             "use, nonce and incarnation. With -v the copies of every block of the table are shown "
             "with their state.",
         .arguments = {device},
         .examples = {{"uhsfs-ctl dump chunks /dev/nvme0n1", "All chunks that were made."}}},
        {.name = "dump intents",
         .summary = "show the write-intent and suspect maps",
         .description =
             "Prints the runs of chunks that are marked in the two write-intent maps and in the "
             "suspect "
             "map. A block of an intent map counts only if its epoch is newer than the "
             "superblock's: "
             "its chunks are read by the next recovery. With -v every block of the maps is shown "
             "with the state of its copies.",
         .arguments = {device},
         .examples = {{"uhsfs-ctl dump intents /dev/nvme0n1", "What recovery would read."}}},
        {.name = "dump bitmap",
         .summary = "show which blocks of a group are in use",
         .description =
             "Prints zone and counts of a group of 32768 blocks, and the runs of blocks that are "
             "in use "
             "or free. With -v the copies of both bitmap blocks are shown with their state.",
         .arguments = {{.name = "GROUP", .text = "A group number, from 0."}, device},
         .examples = {{"uhsfs-ctl dump bitmap 0 /dev/nvme0n1", "The first 128 MiB."}}},
        {.name = "dump block",
         .summary = "show a metadata block by its number",
         .description =
             "Prints whatever the block's magic says that it is: slots, a bucket, a node of a "
             "tree, "
             "attributes, a map, chunk descriptors or a superblock. The block is shown as it "
             "stands and is not checked; what other commands name as damaged can be looked at.",
         .arguments = {{.name = "BLOCK", .text = "A block number, in blocks of 4096 bytes."},
                       device},
         .examples = {{"uhsfs-ctl dump block 0x1003 /dev/nvme0n1", "One block."}}},
    };
}

std::vector<Command> commands() {
    std::vector<Command> all = {
        {.name = "info",
         .summary = "show what a filesystem is",
         .description =
             "Prints label, UUID, size, geometry, features, how metadata is written "
             "(atomic), the newest checkpointed epoch, times, and whether the next mount "
             "has to recover: then the filesystem is mounted, or was not unmounted.",
         .arguments = {device},
         .examples = {{"uhsfs-ctl info /dev/nvme0n1", "About a device."},
                      {"uhsfs-ctl info -o json disk.img", "About an image file, as JSON."}}},
        {.name = "usage",
         .summary = "show what the blocks are used for",
         .description =
             "Reads all inodes and bitmaps and counts blocks by kind: file data, slots, "
             "directories, "
             "trees of extents and names, extended attributes, maps and tables, free. Blocks that "
             "the bitmaps call used but that nothing owns are shown as unaccounted: leaks, or what "
             "a "
             "mounted filesystem has not written yet. Groups are counted by zone. With -v every "
             "group is listed.",
         .arguments = {device},
         .examples = {{"uhsfs-ctl usage /dev/nvme0n1", "Where the space went."}}},
        {.name = "features",
         .summary = "show features of this program or of a filesystem",
         .description = "Without a device: the features that this version knows. With one: what "
                        "the filesystem "
                        "has, and what this version may do with it.",
         .arguments = {{.name = "DEVICE",
                        .kind = Kind::device,
                        .optional = true,
                        .text = "A block device or an image file."}},
         .examples = {{"uhsfs-ctl features", "What this version can use."},
                      {"uhsfs-ctl features /dev/nvme0n1", "What a filesystem needs."}}},
        {.name = "ls",
         .summary = "list a directory without mounting",
         .description =
             "Lists a directory in the order of its names, byte by byte. Only entries that their "
             "inode "
             "confirms are listed, as a mounted filesystem does it. Names are shown with control "
             "characters as \\xNN and with backslashes doubled.\n\n"
             "With -l a line has mode, owner and group, size in bytes (of a device: major,minor), "
             "links, modification time in UTC, and the path, of a symbolic link followed by its "
             "target. A directory has two links and one for each subdirectory.\n\n"
             "A filesystem that needs recovery is listed as its directories stand now.",
         .arguments = {device,
                       {.name = "PATH",
                        .optional = true,
                        .text = "A path within the filesystem; the root if there is none."}},
         .options = {{.brief = 'l', .name = "long", .text = "Show attributes as well."},
                     {.brief = 'R',
                      .name = "recursive",
                      .text = "Go down into directories; paths are from PATH on."}},
         .examples = {{"uhsfs-ctl ls -lR /dev/nvme0n1", "Everything in the filesystem."},
                      {"uhsfs-ctl ls disk.img etc", "The names in one directory."}}},
        {.name = "cat",
         .summary = "write the content of a file to standard output",
         .description =
             "Writes a regular file as it stands on the device: what a mounted filesystem has only "
             "in "
             "memory is not in it. Symbolic links are not followed; of one the target is written. "
             "With -o json the content is in the member data, in base64.",
         .arguments = {device, {.name = "PATH", .text = "A path within the filesystem."}},
         .examples = {{"uhsfs-ctl cat disk.img etc/hostname", "One file."}}},
        {.name = "image",
         .summary = "copy the metadata of a filesystem for a bug report",
         .description =
             "Writes a sparse image file that holds the metadata of a filesystem and none of its "
             "data: blocks of files are holes, inline data and values of attributes are zeros "
             "(those of "
             "ACLs are kept, they say no more than owners do), targets of symbolic links are x. "
             "Checksums are made anew, so that the image can be checked and mounted.\n\n"
             "With --hash-names every name is replaced by a random one of the same length that "
             "belongs to the same bucket of its directory and, of a further link, to the same leaf "
             "of "
             "the names tree: the structure stays as it is and is valid. Names of up to three "
             "bytes "
             "for "
             "which no such name is left are kept; how many is reported. The label becomes x, and "
             "keys in inner nodes of names trees, which are hashes of old names, become others. "
             "Names of attributes are kept.\n\n"
             "Damage stays damage. A block is copied only if it says that it is the record of this "
             "filesystem that belongs there; what does not is named and left out, since it may be "
             "data of a file. Of a record whose checksum is wrong only the head is copied, and "
             "its checksum stays wrong.",
         .arguments = {device, {.name = "FILE", .kind = Kind::file, .text = "The image to make."}},
         .options = {{.name = "hash-names", .text = "Replace the names of files."},
                     {.brief = 'f', .name = "force", .text = "Overwrite FILE if it exists."}},
         .examples = {{"uhsfs-ctl image /dev/nvme0n1 report.img", "Everything but the data."},
                      {"uhsfs-ctl image --hash-names /dev/nvme0n1 report.img",
                       "The same without names; compress it with tar -S before sending it."}},
         .exits = {{1,
                    "It failed, or something could not be read: then the image holds the rest."}}},
        {.name = "completion",
         .summary = "write a script for command line completion",
         .description =
             "Writes a script that makes the shell complete this program's command lines.",
         .arguments = {{.name = "SHELL",
                        .kind = Kind::choice,
                        .choices = {"bash"},
                        .text = "The shell: bash."}},
         .examples = {{"source <(uhsfs-ctl completion bash)", "Completion in this shell."}}},
        {.name = "help",
         .summary = "show help about the program or one of its commands",
         .description = "Prints what --help does. With -o json: the whole table of commands.",
         .arguments = {{.name = "COMMAND", .optional = true, .text = "A command."},
                       {.name = "SUBCOMMAND", .optional = true, .text = "Its second word."}},
         .examples = {{"uhsfs-ctl help dump slot", "About one command."}}},
        {.name = "version",
         .summary = "show the version of the program and of the format",
         .description = "Prints the version of this program and the version of the on-disk format "
                        "that it reads.",
         .examples = {{"uhsfs-ctl version", "One line."}}},
    };
    auto dump = dump_commands();

    // Behind features, where the overview reads best.
    constexpr std::ptrdiff_t place = 3;
    all.insert(all.begin() + place, dump.begin(), dump.end());
    return all;
}

}  // namespace

const Program &program() {
    static const Program table = {
        .name = "uhsfs-ctl",
        .section = 8,
        .self =
            {.summary = "look into uhsfs filesystems",
             .description =
                 "uhsfs-ctl shows what stands on a device or in an image file of the uhsfs "
                 "filesystem, mounted or not, and changes nothing there.\n\n"
                 "Each command prints text for people or, with -o json, one JSON object: keys are "
                 "whole words with '-', numbers are raw, errors are in the member errors. "
                 "What goes wrong is said in one line on standard error as well.",
             .options = {{.brief = 'o',
                          .name = "output",
                          .argument = "FORMAT",
                          .kind = Kind::choice,
                          .choices = {"text", "json"},
                          .text = "How to print: text is the default."},
                         {.brief = 'q', .name = "quiet", .text = "No notes, only errors."},
                         {.brief = 'v', .name = "verbose", .text = "Say more."},
                         {.brief = 'h', .name = "help", .text = "Show help about the command."}},
             .examples = {{"uhsfs-ctl info /dev/nvme0n1", "What a filesystem is."},
                          {"uhsfs-ctl help dump slot", "Help about one command."}}},
        .commands = commands(),
        .exits = {{0, "Success."},
                  {1, "It failed, or damage was found."},
                  {2, "The command line is wrong."}},
        .see_also = {"mkfs.uhsfs(8)", "fsck.uhsfs(8)"},
    };

    return table;
}

}  // namespace uhsfs::manual
