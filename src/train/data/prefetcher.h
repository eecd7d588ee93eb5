// Prefetcher: threads that fetch numbered batches ahead and deliver them in order.
//
//  1. A worker claims the lowest unclaimed batch, if it is less than `capacity` ahead of the next
//     one to be delivered. That bounds memory.
//  2. The worker fetches without holding the lock, and puts the result or the exception into the
//     slot (number modulo capacity), which is free by step 1.
//  3. next() takes slots strictly in order, so the order never depends on which worker was faster.
//  4. next() wakes a worker when half of the slots are free, not for each one: waking costs more
//     than fetching a small batch. A worker that finds more to claim wakes the next.
//  5. A worker computes on one thread. Otherwise OpenMP would start a team of threads for each
//     worker, and the teams would compete for the processors.
//  6. start() begins a new generation. Results of the old generation are discarded.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cairn/train/batch.h"

namespace cairn {

class Prefetcher {
 public:
  // Called on several threads at once.
  using Fetch = std::function<Batch(std::int64_t number)>;

  // Throws StorageError if a thread cannot be started; no thread is left then.
  Prefetcher(int workers, int capacity);
  ~Prefetcher();  // Waits for fetches under way.
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Discards fetches under way, and fetches the batches [begin, end).
  void start(Fetch fetch, std::int64_t begin, std::int64_t end);

  // Returns the next batch; nullopt after the last. Throws what the fetch of that batch threw.
  std::optional<Batch> next();

 private:
  struct Slot {
    bool done = false;
    Batch batch;
    std::exception_ptr error;
  };

  void stop();
  void work();
  bool can_claim() const;

  std::mutex mutex_;
  std::condition_variable claimable_;
  std::condition_variable delivered_;
  std::shared_ptr<const Fetch> fetch_;
  std::uint64_t generation_ = 0;
  std::int64_t next_to_claim_ = 0;
  std::int64_t next_to_deliver_ = 0;
  std::int64_t end_ = 0;
  bool stopping_ = false;
  std::vector<Slot> slots_;
  std::vector<std::thread> workers_;
};

}  // namespace cairn
