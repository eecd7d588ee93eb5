// How a checkpoint gets to disk.
//
//  1. snapshot  The bytes of all tensors are copied, while the caller waits, to where they will
//               stand in the file, in memory that is used again and again (file_image.h); from then
//               on training may change them. Not needed when the caller waits (async = false).
//  2. plan      The tree becomes a plan of the file: what stands where, exactly. With that the
//               live tensors are let go of.
//  3. write     The plan is written into an object that the store begins (in a folder: a file
//               under a temporary name): the snapshot's blocks as they lie, or the live tensors
//               through a ring of blocks; CRCs are computed while the block before is being
//               written, and the manifest, which needs them, comes last. What convert() writes
//               in other formats is written by their plans, from live tensors (write_plan.h).
//  4. commit    The store makes it durable, then visible (in a folder: io/atomic_file.h). A store
//               that is far away is then asked for it: it must have every byte that was sent
//               (storage/publish.h, which also says when all of this is done again). Then
//               the `latest` pointer is moved in the same way (storage/links.h): it must never
//               name what a power cut could take back. In a store that is far away it is fenced:
//               when another job moves it, too, the save fails (storage/pointer_fence.h).
//  5. retain    Only now are the files that this one makes superfluous removed: at every moment the
//               newest complete checkpoint has its name, and is durable. What `latest` points at
//               and the file just written are kept even when the job lists them: with a
//               constant file name they are the same file. What was reported as removed stays so,
//               also after a power cut. A save that waited behind one that failed counted that
//               one, and removes nothing. What an earlier one failed to write is removed only as
//               this job's own (storage/own_objects.h).
//  6. report    The caller's callback.
//
// An error in 2 to 4 leaves the checkpoints and the link of before. Errors on the background thread
// are kept and thrown by the next submit() or wait().
#include "checkpoint/plan/save_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "cairn/error.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "core/out_of_memory.h"
#include "io/cancellation.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/own_files.h"
#include "storage/own_objects.h"
#include "storage/place.h"
#include "storage/pointer_fence.h"

namespace cairn {
namespace {

// A store, and what is done about its being far away.
struct Place {
  explicit Place(std::shared_ptr<ObjectStore> where, const RetryPolicy& policy)
      : store(std::move(where)),
        is_far(store->may_be_far()),
        retry(policy),
        own(store),
        fences(store) {
    if (!is_far) retry.attempts = 1;
  }

  // Calls `use` with the fence of a pointer.
  template <class Use>
  void fenced(const std::string& pointer, const Use& use) {
    const auto held = fences.find(pointer);
    const std::scoped_lock lock(held->mutex);
    use(held->fence);
  }

  const std::shared_ptr<ObjectStore> store;
  const bool is_far;
  RetryPolicy retry;
  OwnObjects own;  // its conditions: of a far one
  std::function<void()> check_given_up = nullptr;
  PointerFences fences;
  pickle::EncodeMemory* encoded = nullptr;  // of the saves before
};

void move_latest(Place& place, const std::string& path, const std::string& latest) {
  try {
    if (place.is_far) {
      place.fenced(latest, [&](PointerFence& fence) { fence.move(path, place.retry); });
    } else {
      place.store->move_pointer(latest, path);
    }
  } catch (Error& e) {
    e.add_context("saved " + path + ", but cannot point " + latest + " at it");
    throw;
  }
}

// "" of none.
std::string text_of(const std::exception_ptr& error) {
  if (error == nullptr) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

enum class RemovalResult : std::uint8_t { kRemoved, kStays, kNotThere };

// The ranks of a job write a folder together; what they wrote before may be a file. A folder stays
// if other files in it would be lost.
RemovalResult remove_checkpoint(ObjectStore& store, const std::string& path, bool over_ranks) {
  const bool is_of_ranks = over_ranks && is_folder(store, path);
  if (is_of_ranks && foreign_file_in(store, path)) return RemovalResult::kStays;
  const bool is_removed = is_of_ranks ? store.remove_folder(path) : store.remove(path);
  return is_removed ? RemovalResult::kRemoved : RemovalResult::kNotThere;
}

// Removes a file that the job makes superfluous, unless it must stay.
void remove_superfluous(Place& place, const SaveJob& job, bool over_ranks, const std::string& path,
                        SaveReport& report) try {
  if (!over_ranks && !place.own.may_remove(path, place.retry)) return;
  const auto remove = [&] {
    if (job.may_remove && !job.may_remove(*place.store, path)) return RemovalResult::kStays;
    return remove_checkpoint(*place.store, path, over_ranks);
  };
  const RemovalResult removal = with_retries(place.retry, remove);
  if (removal == RemovalResult::kStays) report.refused.push_back(path);
  if (removal != RemovalResult::kRemoved) return;
  report.removed.push_back(path);
  if (place.is_far) place.own.forget(path);
} catch (const std::bad_alloc&) {
  throw_out_of_memory();
}

// Removes what the request makes superfluous; gives the first error after having tried all. Nothing
// is removed when it cannot be known what `latest` points at.
std::exception_ptr retain_over(Place& place, const SaveJob& job, bool over_ranks,
                               SaveReport& report) {
  std::vector<std::string> kept = {job.path};
  try {
    if (!job.latest.empty() && !place.is_far) {  // a fenced one is at job.path
      const auto pointer = place.store->read_pointer(job.latest);
      if (pointer && !pointer->is_broken()) kept.push_back(pointer->target);
    }
  } catch (Error& e) {
    e.add_context("saved " + job.path + ", but no older checkpoint is removed");
    return std::current_exception();
  }
  std::exception_ptr error;
  report.removed.reserve(job.remove_afterwards.size());  // so that each removal can be reported
  for (const std::string& path : job.remove_afterwards) {
    try {
      const bool is_kept = std::any_of(kept.begin(), kept.end(), [&](const std::string& name) {
        return is_same_name(*place.store, name, path);
      });
      if (!is_kept) remove_superfluous(place, job, over_ranks, path, report);
    } catch (Error& e) {
      e.add_context("saved " + job.path + ", but cannot remove an older checkpoint");
      if (error == nullptr) error = std::current_exception();
    }
  }
  return error;
}

// Steps 2 to 4, but for the pointer, of a file in a store that is far away. Returns the bytes.
std::uint64_t write_far(Place& place, const SaveJob& job, FileImage* image) {
  const bool is_followed = job.replace == Replace::kOwn || place.own.knows(job.path);
  const Published done = write_checkpoint(*place.store, job,
                                          {.image = image,
                                           .encoded = place.encoded,
                                           .retry = &place.retry,
                                           .own = is_followed ? &place.own : nullptr,
                                           .check_given_up = place.check_given_up});
  if (job.has_passed) place.own.shorten(job.has_passed);
  return done.bytes;
}

// Steps 2 to 4. Returns the number of bytes.
std::uint64_t write_object(Place& place, const SaveJob& job, FileImage* image,
                           const std::function<void()>& point) try {
  if (place.check_given_up) place.check_given_up();  // the job may have waited for long
  if (place.is_far && !job.latest.empty()) {
    place.fenced(job.latest, [&](PointerFence& fence) { fence.check(place.retry); });
  }
  if (job.write) return job.write(*place.store, job, point);
  if (place.is_far) return write_far(place, job, image);
  return write_checkpoint(*place.store, job, {.image = image, .encoded = place.encoded}).bytes;
} catch (const std::bad_alloc&) {
  throw_out_of_memory();
}

// Steps 2 to 6. `image`: step 1's; nullptr when the job has the live tensors.
SaveReport write_and_publish(Place& place, const SaveJob& job, FileImage* image) try {
  SaveReport report{.path = job.path};
  bool is_published = false;
  const auto point = [&] {
    is_published = true;
    place.own.arrived(job.path);
    if (!job.latest.empty()) move_latest(place, job.path, job.latest);
  };
  try {
    report.bytes = write_object(place, job, image, point);
  } catch (Error& e) {
    if (is_published) throw;
    const bool is_refused = dynamic_cast<const AlreadyExistsError*>(&e) != nullptr;
    if (is_refused || job.replace != Replace::kAll) place.own.missed(job.path);
    e.add_context("saving " + job.path);
    throw;
  }
  if (!is_published) point();
  std::exception_ptr error = retain_over(place, job, job.write != nullptr, report);
  if (job.write) report.warning = text_of(std::exchange(error, nullptr));
  if (job.report) job.report(report);
  if (error != nullptr) std::rethrow_exception(error);
  return report;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("saving", job.path);
}

}  // namespace

SaveReport save_now(const std::shared_ptr<ObjectStore>& store, const SaveJob& job) {
  Place place(store, {});
  return write_and_publish(place, job, nullptr);
}

void save(const Value& value, const std::string& path, const SaveOptions& options) try {
  const auto store = store_of(path, options.store);
  remove_leftovers_of(*store, path);
  save_now(store, {.value = value,
                   .path = options.store ? path : shown_place(path),
                   .info = options.info,
                   .replace = replace_if(options.overwrite),
                   .checks_reads = true});
} catch (const std::bad_alloc&) {
  throw_out_of_memory("saving a checkpoint");
}

struct SavePipeline::Impl {
  struct Queued {
    SaveJob job;
    std::optional<FileImage> image;  // of what is written as it lies
    std::uint64_t failures = 0;      // before it was submitted
  };

  explicit Impl(const SavePipelineOptions& o)
      : options(o), place(o.store != nullptr ? o.store : local_store(), noticed(o.retry)) {
    place.encoded = &layout->encoded;
    if (place.is_far) place.check_given_up = [this] { given_up.check(); };
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    if (worker.joinable()) worker.join();
  }

  void start_worker() {
    if (worker.joinable()) return;
    try {
      worker = std::thread([this] { run(); });
    } catch (const std::system_error& e) {
      throw StorageError(
          std::string("cannot start the thread that writes checkpoints: ") + e.what(),
          e.code().value(), true);
    }
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stop || !queue.empty(); });
      if (queue.empty()) return;  // stopped, and nothing left to do
      std::optional<Queued> next = std::move(queue.front());
      queue.pop_front();
      // It counted what failed meanwhile among those that stay: a later one removes in its place.
      if (failures != next->failures) next->job.remove_afterwards.clear();
      lock.unlock();
      std::exception_ptr failure;
      try {
        const CancelScope scope(place.is_far ? &given_up : nullptr);
        write_and_publish(place, next->job, next->image ? &*next->image : nullptr);
      } catch (...) {
        failure = std::current_exception();
      }
      next.reset();  // gives the snapshot's memory back before the next save asks for some
      lock.lock();
      if (failure != nullptr) ++failures;
      if (error == nullptr) error = failure;
      is_away = false;
      --pending;
      changed.notify_all();
    }
  }

  // With the lock held.
  void throw_kept_error() {
    if (error != nullptr) std::rethrow_exception(std::exchange(error, nullptr));
  }

  // Returns how many saves have failed: none that was not thrown.
  std::uint64_t wait_until_pending_below(std::size_t limit) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return pending < limit; });
    throw_kept_error();
    return failures;
  }

  // Waits for its turn, or takes the place of the save that waits (SavePipelineOptions). A job that
  // meets other ranks is never left out: they have it, too.
  std::uint64_t wait_for_turn() {
    std::unique_lock lock(mutex);
    const auto may_wait_beside = [&] {
      return is_away && (queue.empty() || queue.back().job.write == nullptr);
    };
    changed.wait(lock, [&] { return pending < options.max_pending || may_wait_beside(); });
    throw_kept_error();
    if (pending < std::max<std::size_t>(options.max_pending, 2) || queue.empty()) return failures;
    const SaveJob left_out = std::move(queue.back().job);
    queue.pop_back();
    --pending;
    const std::uint64_t counted = failures++;  // this one has counted it among those that stay
    lock.unlock();
    if (left_out.report) left_out.report({.path = left_out.path, .is_skipped = true});
    return counted;
  }

  // Tells also who waits for a turn.
  RetryPolicy noticed(RetryPolicy retry) {
    retry.on_retry = [this, told = std::move(retry.on_retry)](const StorageError& e, auto pause) {
      if (std::this_thread::get_id() == worker.get_id()) {
        const std::lock_guard lock(mutex);
        is_away = true;
        changed.notify_all();
      }
      if (told) told(e, pause);
    };
    return retry;
  }

  const SavePipelineOptions options;
  Place place;
  Snapshotter snapshotter;
  std::mutex mutex;
  std::condition_variable changed;
  const std::shared_ptr<FileImage::Layout> layout = std::make_shared<FileImage::Layout>();
  std::deque<Queued> queue;
  std::size_t pending = 0;     // in the queue or under way
  std::uint64_t failures = 0;  // of saves
  bool is_away = false;        // the store, for the save that is under way
  std::exception_ptr error;
  bool stop = false;
  Cancellation given_up{"the time for it has passed"};  // what is under way, and what waits
  std::thread worker;
};

SavePipeline::SavePipeline(const SavePipelineOptions& options) try
    : impl_(std::make_unique<Impl>(options)) {
  if (options.max_pending < 1) throw UsageError("max_pending must be at least 1");
} catch (const std::bad_alloc&) {
  throw_out_of_memory("beginning to save checkpoints");
}

SavePipeline::~SavePipeline() = default;

void SavePipeline::submit(SaveJob job) try {
  if (!impl_->options.async) {
    write_and_publish(impl_->place, job, nullptr);
    return;
  }
  impl_->start_worker();
  const std::uint64_t failures = impl_->wait_for_turn();
  std::optional<FileImage> image;
  if (job.write) {
    job.value = impl_->snapshotter.take(job.value);
  } else {
    image.emplace(std::exchange(job.value, {}), impl_->snapshotter, impl_->layout);
    // Releases on_copied now, since it may hold the live tensors.
    if (const auto look = std::exchange(job.on_copied, nullptr)) look(image->copies());
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->queue.push_back({std::move(job), std::move(image), failures});
    ++impl_->pending;
  }
  impl_->changed.notify_all();
} catch (const std::bad_alloc&) {
  throw_out_of_memory("saving a checkpoint");
}

void SavePipeline::let_go() {
  impl_->layout->known = {};
  impl_->layout->encoded.forget();
}

bool SavePipeline::is_away() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->is_away;
}

void SavePipeline::wait() { impl_->wait_until_pending_below(1); }

void SavePipeline::wait_until(std::chrono::steady_clock::time_point deadline) {
  {
    std::unique_lock lock(impl_->mutex);
    const auto is_idle = [&] { return impl_->pending == 0; };
    if (!impl_->changed.wait_until(lock, deadline, is_idle)) {
      impl_->given_up.cancel();
      impl_->changed.wait(lock, is_idle);
      impl_->given_up.renew();
    }
    impl_->throw_kept_error();
  }
}

void SavePipeline::throw_error() {
  const std::lock_guard lock(impl_->mutex);
  impl_->throw_kept_error();
}

void SavePipeline::look_at_pointer(const std::string& pointer) {
  Place& place = impl_->place;
  if (!place.is_far) return;
  place.fenced(pointer, [&](PointerFence& fence) { fence.look(place.retry); });
}

std::optional<Pointer> SavePipeline::seen_pointer(const std::string& pointer) const {
  Place& place = impl_->place;
  if (!place.is_far) return std::nullopt;
  std::optional<Pointer> seen;
  place.fenced(pointer, [&](const PointerFence& fence) { seen = fence.known(); });
  return seen;
}

void SavePipeline::may_replace(const std::string& path, const std::string& version) {
  impl_->place.own.know(path, version);
}

void SavePipeline::forget(const std::string& path) { impl_->place.own.forget(path); }

std::size_t SavePipeline::known_paths() const { return impl_->place.own.size(); }

SaveReport SavePipeline::retain(const SaveJob& job, bool over_ranks) {
  SaveReport report{.path = job.path};
  report.warning = text_of(retain_over(impl_->place, job, over_ranks, report));
  return report;
}

bool SavePipeline::points_at(const std::string& pointer, const std::string& path) const {
  Place& place = impl_->place;
  if (!place.is_far) {
    const auto there = place.store->read_pointer(pointer);
    return there && normal_path(there->target) == normal_path(path);
  }
  bool is_at = false;
  place.fenced(pointer, [&](PointerFence& fence) { is_at = fence.was_at(path, place.retry); });
  return is_at;
}

void SavePipeline::move_pointer(const std::string& pointer, const std::string& path) {
  move_latest(impl_->place, path, pointer);
}

}  // namespace cairn
