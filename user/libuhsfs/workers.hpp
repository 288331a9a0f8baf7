/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Threads that share one job.
 */
#pragma once

#include <cstdint>
#include <functional>

namespace uhsfs {

// Calls work(worker, item) for each item below `items`, in about their order, from up to
// `threads` threads at once; worker < threads numbers the caller's per-thread state, and the
// calling thread is worker 0. Threads that cannot be started are done without. No new item is
// begun once stop() says true (it may be empty) or work() has thrown: then the first exception
// is thrown here, when all threads have ended.
void for_each_item(unsigned threads, std::uint64_t items,
                   const std::function<void(unsigned worker, std::uint64_t item)> &work,
                   const std::function<bool()> &stop = {});

}  // namespace uhsfs
