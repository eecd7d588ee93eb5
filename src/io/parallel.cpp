#include "io/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "io/cancellation.h"

namespace cairn {
namespace {

constexpr std::uint64_t kBytesWorthThreads = std::uint64_t{32} << 20;

}  // namespace

void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                       std::uint64_t bytes, unsigned least_threads) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  Cancellation* const cancellation = cancellation_here();
  const auto do_some = [&] {
    const CancelScope scope(cancellation);
    try {
      for (std::size_t i = next++; i < count; i = next++) {
        work(i);
      }
    } catch (...) {
      next = count;  // a few increments past it do no harm
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    const unsigned most = std::max(least_threads, std::thread::hardware_concurrency());
    const std::size_t threads = std::min<std::size_t>(count, bytes < kBytesWorthThreads ? 1 : most);
    try {
      while (others.size() + 1 < threads) {
        others.emplace_back(do_some);
      }
    } catch (const std::system_error&) {
      // Those that started, or this one alone, do it as well.
    }
    do_some();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace cairn
