// SPDX-License-Identifier: GPL-2.0
/*
 * Devices in memory, device mapper and tracefs.
 */
#include "stage.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace uhsfs::replay {

namespace {

constexpr const char *target_name = "uhsfs-replay";
// Sparse; entries that were read have no memory.
constexpr std::uint64_t log_bytes = 1ULL << 36U;
constexpr unsigned retry_us = 10000;
constexpr unsigned retries = 1000;

std::string read_file(const std::string &path) {
    std::ifstream stream(path);
    std::ostringstream text;

    if (!stream)
        failed(path);
    text << stream.rdbuf();
    return text.str();
}

// ---- device mapper: one ioctl, whose argument is followed by what belongs to it -----------------

struct Mapper {
    struct dm_ioctl head;
    std::array<char, 1024> rest;
};

Mapper mapper_request() {
    Mapper mapper = {};

    mapper.head.version[0] = DM_VERSION_MAJOR;
    mapper.head.data_size = sizeof(mapper);
    mapper.head.data_start = offsetof(Mapper, rest);
    std::strncpy(mapper.head.name, target_name, sizeof(mapper.head.name) - 1);
    return mapper;
}

int mapper_call(unsigned long request, Mapper &mapper) {
    const unique_fd control(::open("/dev/mapper/control", O_RDWR | O_CLOEXEC));

    if (!control)
        failed("/dev/mapper/control");
    return ::ioctl(control.get(), request, &mapper);
}

void must_call(unsigned long request, Mapper &mapper, const char *what) {
    if (mapper_call(request, mapper) != 0)
        failed(fmt::format("device mapper: {}", what));
}

}  // namespace

void failed(const std::string &what) {
    throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void write_file(const std::string &path, const std::string &text) {
    const unique_fd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));

    if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        failed(path);
}

void run(const std::vector<std::string> &command) {
    std::vector<std::string> words = command;
    std::vector<char *> argv;
    std::array<int, 2> ends = {};
    std::array<char, 4096> buffer = {};
    std::string output;
    int status = 0;
    ssize_t got = 0;

    argv.reserve(words.size() + 1);
    for (std::string &word : words)
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
        output.append(buffer.data(), static_cast<std::size_t>(got));
    if (::waitpid(child, &status, 0) != child)
        failed("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw std::runtime_error(fmt::format("{}: {}", command.front(), output));
}

// ---- images -------------------------------------------------------------------------------------

Image::Image(std::uint64_t size) : bytes(size), used(size / block_size) {}

void Image::write(std::uint64_t at, const std::uint8_t *data, std::size_t size) {
    std::memcpy(bytes.data() + at, data, size);
    for (std::uint64_t block = at / block_size; block <= (at + size - 1) / block_size; block++)
        used[block] = true;
}

// ---- devices
// --------------------------------------------------------------------------------------

namespace {

constexpr const char *null_blocks = "/sys/kernel/config/nullb";
constexpr std::uint64_t run_blocks = 256;  // that are copied at once

std::string number_of(int fd) {
    struct stat st = {};

    if (::fstat(fd, &st) != 0)
        failed("fstat");
    return fmt::format("{}:{}", major(st.st_rdev), minor(st.st_rdev));
}

// udev makes nodes in its own time.
void open_node(unique_fd &fd, const std::string &path, int flags) {
    for (unsigned i = 0; i < retries && !fd; i++) {
        fd.reset(::open(path.c_str(), flags | O_CLOEXEC));
        if (!fd)
            ::usleep(retry_us);
    }
    if (!fd)
        failed(path);
}

}  // namespace

Disk::Disk(const std::string &name, std::uint64_t bytes, unsigned lba)
    : folder_(fmt::format("{}/{}", null_blocks, name)),
      size_(bytes),
      buffer_(run_blocks * block_size) {
    if (::access(null_blocks, F_OK) != 0)
        replay::run({"mount", "-t", "configfs", "none", "/sys/kernel/config"});
    if (::mkdir(folder_.c_str(), 0755) != 0)
        failed(folder_);
    for (const auto &[key, value] :
         {std::pair("size", std::to_string(bytes >> 20U)),
          std::pair("blocksize", std::to_string(lba)), std::pair("memory_backed", std::string("1")),
          std::pair("discard", std::string("1")), std::pair("irqmode", std::string("0")),
          std::pair("power", std::string("1"))})
        write_file(folder_ + "/" + key, value);
    path_ = "/dev/nullb" + read_file(folder_ + "/index");
    path_.resize(path_.find_last_not_of('\n') + 1);
    // Since 6.12 they are called by their name.
    if (::access(("/sys/block/" + name).c_str(), F_OK) == 0)
        path_ = "/dev/" + name;
    open_node(fd_, path_, O_RDWR | O_DIRECT);
}

Disk::~Disk() {
    fd_.reset();
    ::rmdir(folder_.c_str());
}

void Disk::transfer(bool write, std::uint64_t block, std::uint64_t count) {
    const std::size_t size = count * block_size;
    const auto at = static_cast<off_t>(block * block_size);
    const ssize_t done = write ? ::pwrite(fd_.get(), buffer_.data(), size, at)
                               : ::pread(fd_.get(), buffer_.data(), size, at);

    if (done != static_cast<ssize_t>(size))
        failed(path_);
}

void Disk::load(const Image &image) {
    std::array<std::uint64_t, 2> all = {0, size_};

    if (::ioctl(fd_.get(), BLKDISCARD, all.data()) != 0)
        failed(path_ + ": discard");
    for (std::uint64_t block = 0; block < image.used.size();) {
        std::uint64_t end = block;
        while (end < image.used.size() && image.used[end] && end - block < run_blocks)
            end++;
        if (end == block) {
            block++;
            continue;
        }
        std::memcpy(buffer_.data(), image.bytes.data() + block * block_size,
                    (end - block) * block_size);
        transfer(true, block, end - block);
        block = end;
    }
}

Image Disk::image() {
    static const std::vector<std::uint8_t> zeros(block_size);
    Image image(size_);

    for (std::uint64_t block = 0; block < image.used.size(); block += run_blocks) {
        const std::uint64_t count = std::min<std::uint64_t>(run_blocks, image.used.size() - block);
        transfer(false, block, count);
        for (std::uint64_t i = 0; i < count; i++) {
            const std::uint8_t *data = buffer_.data() + i * block_size;
            if (std::memcmp(data, zeros.data(), block_size) != 0)
                image.write((block + i) * block_size, data, block_size);
        }
    }
    return image;
}

void Disk::edit(std::uint64_t at, const std::function<void(std::uint8_t *)> &change) {
    transfer(false, at / block_size, 1);
    change(buffer_.data() + at % block_size);
    transfer(true, at / block_size, 1);
}

std::string Disk::number() const { return number_of(fd_.get()); }

LogFile::LogFile(const std::string &path, unsigned lba)
    : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    struct loop_config config = {};
    const unique_fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));

    if (!file_ || ::ftruncate(file_.get(), static_cast<off_t>(log_bytes)) != 0)
        failed(path);
    config.fd = static_cast<unsigned>(file_.get());
    config.block_size = lba;
    const int free = control ? ::ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
    if (free < 0)
        failed("/dev/loop-control");
    const std::string device = fmt::format("/dev/loop{}", free);
    open_node(loop_, device, O_RDWR);
    if (::ioctl(loop_.get(), LOOP_CONFIGURE, &config) != 0)
        failed(device);
    void *map = ::mmap(nullptr, log_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
    if (map == MAP_FAILED)
        failed(path);
    map_ = static_cast<const std::uint8_t *>(map);
}

LogFile::~LogFile() {
    ::munmap(const_cast<std::uint8_t *>(map_), log_bytes);
    ::ioctl(loop_.get(), LOOP_CLR_FD);
    ::unlink(path_.c_str());
}

void LogFile::release(std::uint64_t from, std::uint64_t end) const {
    if (end > from && ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  static_cast<off_t>(from), static_cast<off_t>(end - from)) != 0)
        failed(path_);
}

std::string LogFile::number() const { return number_of(loop_.get()); }

// ---- the recorded device
// --------------------------------------------------------------------------

Stage::Stage(const std::string &work, std::uint64_t bytes, unsigned lba)
    : lba_(lba),
      data_("uhsfs-data", bytes, lba),
      crash_("uhsfs-crash", bytes, lba),
      log_(fmt::format("{}/log-{}", work, lba), lba),
      mount_point_(work + "/mnt"),
      tracing_(fmt::format("/sys/kernel/tracing/instances/{}", target_name)) {
    ::mkdir(mount_point_.c_str(), 0755);
    make_target();
}

Stage::~Stage() {
    if (mounted_)
        ::umount2(mount_point_.c_str(), 0);
    target_.reset();
    marker_.reset();
    remove_target();
    ::rmdir(tracing_.c_str());
}

void Stage::make_target() {
    struct stat st = {};
    Mapper mapper = mapper_request();

    must_call(DM_DEV_CREATE, mapper, "create");
    const dev_t device = mapper.head.dev;
    mapper = mapper_request();
    mapper.head.target_count = 1;
    auto *spec = reinterpret_cast<struct dm_target_spec *>(mapper.rest.data());
    spec->length = data_.size() / sector_size;
    std::strncpy(spec->target_type, "log-writes", sizeof(spec->target_type) - 1);
    const std::string words = data_.number() + " " + log_.number();
    std::strcpy(mapper.rest.data() + sizeof(*spec), words.c_str());
    must_call(DM_TABLE_LOAD, mapper, "load the table");
    mapper = mapper_request();
    must_call(DM_DEV_SUSPEND, mapper, "resume");
    place_ = lba_;

    mapped_ = fmt::format("/dev/dm-{}", minor(device));
    open_node(target_, mapped_, O_RDONLY);
    if (::fstat(target_.get(), &st) != 0)
        failed(mapped_);
    if (::mkdir(tracing_.c_str(), 0755) != 0 && errno != EEXIST)
        failed(tracing_);
    const std::string only =
        fmt::format("dev == {}", (major(st.st_rdev) << 20U) | minor(st.st_rdev));
    write_file(tracing_ + "/trace_clock", "counter");
    write_file(tracing_ + "/buffer_size_kb", "8192");
    for (const char *event : {"block_bio_queue", "block_bio_complete"}) {
        write_file(fmt::format("{}/events/block/{}/filter", tracing_, event), only);
        write_file(fmt::format("{}/events/block/{}/enable", tracing_, event), "1");
    }
    marker_.reset(::open((tracing_ + "/trace_marker").c_str(), O_WRONLY | O_CLOEXEC));
    if (!marker_)
        failed(tracing_ + "/trace_marker");
}

void Stage::remove_target() const {
    for (unsigned i = 0; i < retries; i++) {
        Mapper mapper = mapper_request();
        // udev may look at it just now.
        if (mapper_call(DM_DEV_REMOVE, mapper) == 0 || errno != EBUSY)
            return;
        ::usleep(retry_us);
    }
}

void Stage::begin(const Image &image, const std::string &options) {
    data_.load(image);
    write_file(tracing_ + "/trace", "");
    if (::mount(mapped_.c_str(), mount_point_.c_str(), "uhsfs", MS_NOATIME, options.c_str()) != 0)
        failed("mount");
    mounted_ = true;
}

void Stage::note(const std::string &text) const {
    if (::write(marker_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        failed("trace_marker");
}

void Stage::write_cache(bool on) const {
    // What was on its way is there, then the device changes.
    if (!on)
        note("off");
    write_file(fmt::format("/sys/block/{}/queue/write_cache", mapped_.substr(sizeof("/dev/") - 1)),
               on ? "write back" : "write through");
    if (on)
        note("on");
}

std::string Stage::trace() const {
    const std::string text = read_file(tracing_ + "/trace");
    unsigned long kept = 0;
    unsigned long written = 0;
    const std::size_t at = text.find("entries-in-buffer/entries-written: ");

    if (at == std::string::npos ||
        std::sscanf(text.c_str() + at, "entries-in-buffer/entries-written: %lu/%lu", &kept,
                    &written) != 2)
        throw std::runtime_error("the trace does not say how many entries it has");
    if (kept != written)
        throw std::runtime_error(fmt::format("the trace lost {} events", written - kept));
    return text;
}

Recording Stage::end() {
    if (::umount2(mount_point_.c_str(), 0) != 0)
        failed("umount");
    mounted_ = false;
    // Puts what nobody flushed into the log.
    if (::fsync(target_.get()) != 0)
        failed(mapped_);
    const std::string text = trace();
    Mapper mapper = mapper_request();
    auto *message = reinterpret_cast<struct dm_target_msg *>(mapper.rest.data());
    message->sector = 0;
    std::strcpy(message->message, "mark end");
    must_call(DM_TARGET_MSG, mapper, "mark");
    // The log is written by a thread, and its superblock now and then.
    std::uint64_t entries = 0;
    for (unsigned tries = 0; tries < retries; tries++) {
        entries = log_entries(log_.bytes());
        if (entries > entries_ && log_has_mark(log_.bytes(), lba_, entries - entries_, place_))
            break;
        ::usleep(retry_us / 10);
    }
    const std::uint64_t from = place_;
    Recording recording = read_recording(text, log_.bytes(), lba_, entries - entries_, place_);
    entries_ = entries;
    constexpr std::uint64_t page = 4096;
    log_.release((from + page - 1) / page * page, place_ / page * page);
    return recording;
}

}  // namespace uhsfs::replay
