// SPDX-License-Identifier: GPL-2.0
/*
 * The command line of mkfs.uhsfs.
 */
#include "common/manual.hpp"

namespace uhsfs::manual {

const Program &program() {
    static const Program table = {
        .name = "mkfs.uhsfs",
        .section = 8,
        .self =
            {.summary = "make a uhsfs filesystem",
             .description =
                 "Makes an empty filesystem on a device or in a file, or one with the contents of "
                 "a "
                 "directory tree (-d). What was there before is lost.\n\n"
                 "A device that is mounted or otherwise in use is always refused. One that holds "
                 "something that can be recognised, be it another filesystem, a partition table or "
                 "a uhsfs filesystem, is refused unless -f is given.\n\n"
                 "The device is discarded first, except for its first block, which uhsfs does not "
                 "use. The superblocks are written last: if mkfs.uhsfs is interrupted, there is no "
                 "filesystem. One line says what was made.\n\n"
                 "With -d everything in the tree is copied: files with their holes, directories, "
                 "symbolic and hard links, devices, FIFOs and sockets, owners, modes, times of "
                 "access and modification, extended attributes and ACLs. What is mounted within "
                 "the "
                 "tree is copied as well; the image itself, if it stands in the tree, is left out. "
                 "Inode flags (chattr) and project IDs are not copied. Anything that cannot be "
                 "read "
                 "is an error, and then there is no filesystem. A file that changes while it is "
                 "copied, as far as its times tell, is copied again; one that changes three times "
                 "is such an error too.\n\n"
                 "Images in files can be built again bit by bit: if -U is given and the "
                 "environment "
                 "has SOURCE_DATE_EPOCH, a number of seconds since 1970, then that is the time of "
                 "creation, later times of files become that time, times of access become those of "
                 "modification, and all keys follow from UUID and time. Whoever knows both can "
                 "then "
                 "choose names that collide in directories. On block devices keys stay random, so "
                 "that no record of an older filesystem can be taken for one of this.",
             .arguments = {{.name = "DEVICE",
                            .kind = Kind::device,
                            .text =
                                "A block device or a file. A file that does not exist is made if "
                                "BLOCKS is given."},
                           {.name = "BLOCKS",
                            .optional = true,
                            .text =
                                "The size in blocks of 4096 bytes. Default: all of the device. A "
                                "file is made larger if need be."}},
             .options =
                 {{.brief = 'L',
                   .name = "label",
                   .argument = "LABEL",
                   .text = "A name for the filesystem, up to 64 bytes of UTF-8."},
                  {.brief = 'U',
                   .name = "uuid",
                   .argument = "UUID",
                   .text = "The UUID of the filesystem. Default: a random one."},
                  {.brief = 'b',
                   .name = "block-size",
                   .argument = "BYTES",
                   .choices = {"4096"},
                   .text = "The size of a block. There is only one."},
                  {.name = "slot-size",
                   .argument = "BYTES",
                   .kind = Kind::choice,
                   .choices = {"1024", "2048", "4096"},
                   .text =
                       "The size of an inode with its names, attributes and extents. With larger "
                       "slots more of a file stands in its slot; with smaller ones more inodes "
                       "are written at once. Default: 1024."},
                  {.name = "atomic",
                   .argument = "MODE",
                   .kind = Kind::choice,
                   .choices = {"auto", "device", "shadow"},
                   .text =
                       "device: the device writes 4096 bytes as a whole even if power fails. "
                       "shadow: it does not, so that whatever is overwritten has two copies, "
                       "written alternately. auto, the default: device for NVMe namespaces with "
                       "4096-byte blocks and where the kernel reports atomic writes of 4096 "
                       "bytes, else shadow."},
                  {.name = "erase-unit",
                   .argument = "SIZE",
                   .text =
                       "Large files are laid out in units of this size: a power of two from 64K "
                       "to 64M. Default: what the device discards at once, if that is such a "
                       "size, else 2M."},
                  {.brief = 'd',
                   .name = "from-directory",
                   .argument = "DIR",
                   .kind = Kind::file,
                   .text = "Copy the contents of this directory."},
                  {.brief = 'f',
                   .name = "force",
                   .text = "Overwrite what was recognised on the device. Not if it is in use."},
                  {.brief = 'q', .name = "quiet", .text = "Print nothing but errors."},
                  {.brief = 'n',
                   .name = "dry-run",
                   .text = "Do everything but write, and say what would have been made."},
                  {.brief = 'o',
                   .name = "output",
                   .argument = "FORMAT",
                   .kind = Kind::choice,
                   .choices = {"text", "json"},
                   .text = "The format of standard output: text, or one JSON object."},
                  {.brief = 'V', .name = "version", .text = "Print the version and exit."},
                  {.name = "help", .text = "Print this help and exit."}},
             .examples = {{"mkfs.uhsfs /dev/nvme0n1", "A filesystem on all of a device."},
                          {"mkfs.uhsfs -L data -d /srv/data data.img 262144",
                           "An image of 1 GiB with a copy of /srv/data."},
                          {"mkfs.uhsfs -n -o json /dev/nvme0n1",
                           "What would be made, for a program."}}},
        .exits = {{0, "The filesystem is made and durable."},
                  {1, "It is not; standard error says why."}},
        .see_also = {"fsck.uhsfs(8)", "uhsfs-ctl(8)", "mount(8)"}};

    return table;
}

}  // namespace uhsfs::manual
