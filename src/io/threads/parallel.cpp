#include "io/threads/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "io/memory/mapped_file.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBytesWorthThreads = std::uint64_t{32} << 20;

// The number of lanes that share the threads; this thread runs one lane.
thread_local unsigned lanes_here = 1;

class InLane {
 public:
  explicit InLane(unsigned lanes) : before_(std::exchange(lanes_here, lanes)) {}
  ~InLane() { lanes_here = before_; }
  InLane(const InLane&) = delete;
  InLane& operator=(const InLane&) = delete;

 private:
  unsigned before_;
};

void run(std::size_t count, const std::function<void(std::size_t)>& work, std::size_t threads) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  Cancellation* const cancellation = cancellation_here();
  const bool is_guarded = reads_are_guarded();
  const auto do_some = [&] {
    const CancelScope scope(cancellation);
    std::optional<GuardedReads> guard;
    if (is_guarded) guard.emplace();
    try {
      for (std::size_t i = next++; i < count; i = next++) {
        work(i);
      }
    } catch (...) {
      next = count;  // a few increments past `count` do no harm
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(threads, count)) {
        others.emplace_back(do_some);
      }
    } catch (const std::exception&) {  // no thread, or no memory for one
      // The threads that started do all the work, or this thread does it alone.
    }
    do_some();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::uint64_t bytes, unsigned least_threads) {
  const unsigned most = std::max(least_threads, std::thread::hardware_concurrency()) / lanes_here;
  run(count, work, bytes < kBytesWorthThreads ? 1 : std::max(most, 1u));
}

void for_each_in_lanes(unsigned lanes, std::size_t count,
                       const std::function<void(std::size_t)>& work) {
  const auto work_in_lane = [&](std::size_t i) {
    const InLane lane(lanes);
    work(i);
  };
  run(count, work_in_lane, lanes);
}

}  // namespace cairn
