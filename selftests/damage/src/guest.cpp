// SPDX-License-Identifier: GPL-2.0
#include "guest.hpp"

#include <fcntl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace uhsfs::damage {

namespace {

constexpr unsigned time_limit_s = 60;
constexpr const char *image_blocks = "2048";

[[noreturn]] void failed(const std::string &what) {
    throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

// What the alarm has to say; a signal handler cannot format.
char late[512];
std::size_t late_size;

void on_alarm(int) {
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, late, late_size);
    ::_exit(1);
}

}  // namespace

void Results::begin(const std::string &name) {
    const std::string text =
        fmt::format("not ok {}\n# did not end within {} s\n", name, time_limit_s);

    if (name != name_)
        problems_.clear();
    late_size = std::min(text.size(), sizeof(late));
    std::memcpy(late, text.data(), late_size);
    std::signal(SIGALRM, on_alarm);
    ::alarm(time_limit_s);
    name_ = name;
}

void Results::problem(const std::string &shape, const std::string &text) {
    constexpr std::size_t most = 12;

    if (problems_.size() < most)
        problems_.push_back(fmt::format("{}: {}", shape, text));
}

void Results::end() {
    ::alarm(0);
    fmt::print("{} {}\n", problems_.empty() ? "ok" : "not ok", name_);
    for (const std::string &text : problems_)
        fmt::print("# {}\n", text);
    std::fflush(stdout);
}

int run(std::vector<std::string> command, std::string *output) {
    std::vector<char *> argv;
    std::array<int, 2> ends = {};
    std::array<char, 4096> buffer = {};
    int status = 0;
    ssize_t got = 0;

    argv.reserve(command.size() + 1);
    for (std::string &word : command)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        failed("pipe");
    const unique_fd from(ends[0]);
    unique_fd to(ends[1]);
    const pid_t child = ::fork();
    if (child < 0)
        failed("fork");
    if (child == 0) {
        ::dup2(to.get(), STDOUT_FILENO);
        ::dup2(to.get(), STDERR_FILENO);
        ::execvp(argv[0], argv.data());
        ::_exit(127);
    }
    to.reset();
    while ((got = ::read(from.get(), buffer.data(), buffer.size())) > 0)
        output->append(buffer.data(), static_cast<std::size_t>(got));
    if (::waitpid(child, &status, 0) != child)
        failed("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Disk::Device::Device(const std::string &where)
    : path(where), fd(::open(where.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC)) {
    if (!fd)
        failed(where);
}

Disk::Disk(const std::string &work, const std::string &source,
           const std::shared_ptr<Device> &device, bool shadow, unsigned slot_size)
    : shape_(fmt::format("{}, slots of {}", shadow ? "shadow" : "device", slot_size)),
      shadow_(shadow),
      device_(device),
      mount_point_(work + "/mnt") {
    const std::string path =
        fmt::format("{}/image-{}-{}", work, shadow ? "shadow" : "device", slot_size);

    std::string output;
    if (run({"mkfs.uhsfs", "-q", "--atomic", shadow ? "shadow" : "device", "--slot-size",
             fmt::format("{}", slot_size), "-U", "6f1e5a2c-0b7d-4c55-9d10-3a5be8f04c21", "-d",
             source, path, image_blocks},
            &output) != 0)
        throw std::runtime_error(output);
    image_ = std::make_unique<Image>(path);
    tree_ = damage::walk(source, {});
    const Volume volume = image_->volume();
    for (auto &[where, node] : tree_)
        node.ino = must(volume.resolve(where)).ino();
}

int Disk::mount(const std::string &options, bool writes) const {
    const unsigned long flags = writes ? MS_NOATIME : MS_RDONLY;
    ::mkdir(mount_point_.c_str(), 0755);
    return ::mount(device_->path.c_str(), mount_point_.c_str(), "uhsfs", flags, options.c_str()) ==
                   0
               ? 0
               : errno;
}

int Disk::unmount() const { return ::umount2(mount_point_.c_str(), 0) == 0 ? 0 : errno; }

Tree Disk::walk(const Tree &also) const {
    std::set<std::string> paths;

    for (const auto &[path, node] : tree_)
        paths.insert(path);
    for (const auto &[path, node] : also)
        paths.insert(path);
    return damage::walk(mount_point_, paths);
}

std::string Disk::sysfs(const std::string &file) const {
    std::ifstream stream(fmt::format("/sys/fs/uhsfs/{}/{}", name(), file));
    std::string value;

    std::getline(stream, value);
    return value;
}

std::vector<std::unique_ptr<Disk>> all_disks(const std::string &work, const std::string &large,
                                             const std::string &small) {
    const std::string source = work + "/source";
    const auto for_device = std::make_shared<Disk::Device>(large);
    const auto for_shadow = std::make_shared<Disk::Device>(small);
    std::vector<std::unique_ptr<Disk>> disks;

    // The same keys each time, so that names fall into the same buckets.
    ::setenv("SOURCE_DATE_EPOCH", "4102444800", 1);
    ::mkdir(source.c_str(), 0755);
    make_tree(source);
    for (const bool shadow : {false, true})
        for (const unsigned slot_size : {1024U, 4096U})
            disks.push_back(std::make_unique<Disk>(work, source, shadow ? for_shadow : for_device,
                                                   shadow, slot_size));
    return disks;
}

void clear_log() {
    constexpr int syslog_clear = 5;
    ::klogctl(syslog_clear, nullptr, 0);
}

std::vector<std::string> read_log() {
    constexpr int syslog_read_all = 3;
    std::vector<char> buffer(1U << 20);
    const int size = ::klogctl(syslog_read_all, buffer.data(), static_cast<int>(buffer.size()));
    std::vector<std::string> lines;
    std::string line;

    for (int i = 0; i < size; i++) {
        const char byte = buffer[static_cast<std::size_t>(i)];
        if (byte != '\n') {
            line += byte;
            continue;
        }
        // "<3>[   12.345678] text"
        const std::size_t text = line.find("] ");
        lines.push_back(text == std::string::npos ? line : line.substr(text + 2));
        line.clear();
    }
    return lines;
}

}  // namespace uhsfs::damage
