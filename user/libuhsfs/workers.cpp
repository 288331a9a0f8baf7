// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/workers.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace uhsfs {

namespace {

class Job {
public:
    Job(std::uint64_t items, const std::function<void(unsigned, std::uint64_t)> &work,
        const std::function<bool()> &stop)
        : items_(items), work_(work), stop_(stop) {}

    void run(unsigned worker) noexcept {
        try {
            for (std::uint64_t item = next_++; item < items_ && !failed_ && !(stop_ && stop_());
                 item = next_++)
                work_(worker, item);
        } catch (...) {
            const std::scoped_lock guard(lock_);
            failed_ = true;
            if (!first_)
                first_ = std::current_exception();
        }
    }

    void rethrow() const {
        if (first_)
            std::rethrow_exception(first_);
    }

private:
    const std::uint64_t items_;
    const std::function<void(unsigned, std::uint64_t)> &work_;
    const std::function<bool()> &stop_;
    std::atomic<std::uint64_t> next_ = 0;
    std::atomic<bool> failed_ = false;
    std::mutex lock_;
    std::exception_ptr first_;
};

void start(std::vector<std::jthread> &workers, unsigned threads, Job &job) {
    try {
        workers.reserve(threads);
        for (unsigned i = 1; i < threads; i++)
            workers.emplace_back([&job, i] { job.run(i); });
    } catch (const std::system_error &) {
        // Those that run do all of it.
    } catch (const std::bad_alloc &) {
    }
}

}  // namespace

void for_each_item(unsigned threads, std::uint64_t items,
                   const std::function<void(unsigned, std::uint64_t)> &work,
                   const std::function<bool()> &stop) {
    Job job(items, work, stop);

    {
        std::vector<std::jthread> workers;
        start(workers, static_cast<unsigned>(std::min<std::uint64_t>(threads, items)), job);
        job.run(0);
    }
    job.rethrow();
}

}  // namespace uhsfs
