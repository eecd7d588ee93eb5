#include "train/data/prefetcher.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <new>
#include <string>
#include <system_error>

#include "cairn/error.h"

#include "core/blas.h"

namespace cairn {

Prefetcher::Prefetcher(int workers, int capacity)
    : slots_(static_cast<std::size_t>(std::max(workers, capacity))) {
  workers_.reserve(static_cast<std::size_t>(workers));
  try {
    for (int i = 0; i < workers; ++i)
      workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    const std::size_t started = workers_.size();
    stop();
    throw StorageError("cannot start the " + std::to_string(workers) +
                           " threads that load data, of which " + std::to_string(started) +
                           " were started: " + e.what() +
                           ". Set num_workers lower, or allow the process more threads (ulimit -u)",
                       e.code().value(), true);
  } catch (const std::bad_alloc&) {
    stop();
    throw;
  }
}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  claimable_.notify_all();
  for (std::thread& worker : workers_)
    worker.join();
}

void Prefetcher::start(Fetch fetch, std::int64_t begin, std::int64_t end) {
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    fetch_ = std::make_shared<const Fetch>(std::move(fetch));
    next_to_claim_ = next_to_deliver_ = begin;
    end_ = end;
    for (Slot& slot : slots_)
      slot = Slot();
  }
  claimable_.notify_all();
}

bool Prefetcher::can_claim() const {
  return next_to_claim_ < end_ &&
         next_to_claim_ < next_to_deliver_ + static_cast<std::int64_t>(slots_.size());
}

void Prefetcher::work() {
  at::get_num_threads();  // Sets the number of this thread, which is then changed.
  compute_on_this_thread_only();
  std::unique_lock lock(mutex_);
  while (true) {
    claimable_.wait(lock, [this] { return stopping_ || can_claim(); });
    if (stopping_) return;
    const std::int64_t number = next_to_claim_++;
    const std::uint64_t generation = generation_;
    const std::shared_ptr<const Fetch> fetch = fetch_;
    const bool more = can_claim();
    lock.unlock();
    if (more) claimable_.notify_one();
    Slot result{.done = true, .batch = {}, .error = nullptr};
    try {
      result.batch = (*fetch)(number);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    if (generation != generation_) continue;
    slots_[static_cast<std::size_t>(number) % slots_.size()] = std::move(result);
    if (number == next_to_deliver_) delivered_.notify_one();
  }
}

std::optional<Batch> Prefetcher::next() {
  std::unique_lock lock(mutex_);
  if (next_to_deliver_ >= end_) return std::nullopt;
  Slot& slot = slots_[static_cast<std::size_t>(next_to_deliver_) % slots_.size()];
  delivered_.wait(lock, [&] { return slot.done; });
  Slot taken = std::move(slot);
  slot = Slot();
  ++next_to_deliver_;
  const auto ahead = static_cast<std::size_t>(next_to_claim_ - next_to_deliver_);
  const bool wake = can_claim() && ahead <= slots_.size() / 2;
  lock.unlock();
  if (wake) claimable_.notify_one();
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(taken.batch);
}

}  // namespace cairn
