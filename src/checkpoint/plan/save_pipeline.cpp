// How a checkpoint gets to disk.
//
//  1. snapshot  Copies the bytes of all tensors while the caller waits, into memory that is reused
//               for each save and laid out like the file (file_image.h). After this step training
//               may change the tensors. Skipped if the caller waits for the whole save
//               (async = false).
//  2. plan      Turns the tree into a plan of the file, which has the exact offset of everything.
//               Releases the live tensors.
//  3. write     Writes the plan into an object that the store begins (in a folder: a file under a
//               temporary name): the snapshot's blocks as they are, or the live tensors through a
//               ring of blocks. CRCs are computed while the previous block is being written. The
//               manifest, which needs the CRCs, comes last. convert() writes other formats by their
//               own plans, from live tensors (write_plan.h).
//  4. commit    The store makes the object durable, then visible (a folder:
//               io/durable/atomic_file.h). A store that is far away is then asked whether it has
//               every byte that was sent. storage/publish/publish.h does all this, and says when
//               the write is repeated. Then the `latest` pointer is moved in the same way
//               (storage/local/links.h), so the pointer never names a file that a power cut could
//               take back. In a store that is far away the pointer is fenced: if another job also
//               moves the pointer, the save fails (storage/publish/pointer_fence.h).
//  5. retain    Removes the files that this save makes superfluous. The removal comes after the
//               commit, so that at every moment the newest complete checkpoint is durable under its
//               name. The target of `latest` and the file just written are kept even if the job
//               lists them: with a constant file name, such a listed file is the new file. A file
//               reported as removed stays removed after a power cut. If a save waited while another
//               save failed, it removes nothing, because its list counts the failed save as kept.
//               Files of failed saves are removed only if this job wrote them
//               (storage/publish/own_objects.h).
//  6. report    Calls the caller's callback.
//
// An error in steps 2 to 4 leaves the previous checkpoints and link in place. Errors on the
// background thread are kept; the next submit() or wait() throws them.
#include "checkpoint/plan/save_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "cairn/error.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "core/out_of_memory.h"
#include "io/threads/cancellation.h"
#include "storage/listing.h"
#include "storage/place.h"
#include "storage/publish/trace.h"

namespace cairn {
namespace {

// The place to save to, and what is known of earlier saves.
struct PipelineTarget {
  PipelineTarget(std::shared_ptr<ObjectStore> store, const RetryPolicy& retry)
      : publisher(store, {.is_shared = store->may_be_far(), .retry = retry}) {}

  Publisher publisher;
  pickle::EncodeMemory* encoded = nullptr;
  // New paths of failed saves. The checkpoints at these paths may be whole, but they do not count
  // among the checkpoints to keep.
  std::set<std::string> left;
};

// Removes nothing if it cannot read what `latest` points at. Asks only a local store; in other
// stores `latest` certainly points at job.path.
void retain(PipelineTarget& target, const SaveJob& job, SaveReport& report) {
  Publisher& publisher = target.publisher;
  Removal removal = {.keeps = {job.path},
                     .may_remove = job.may_remove,
                     .over_ranks = job.is_of_all_ranks,
                     .context = "saved " + job.path + ", but cannot remove an older checkpoint"};
  try {
    if (!job.latest.empty() && !publisher.is_shared()) {
      const auto pointer = publisher.store().read_pointer(job.latest);
      if (pointer && !pointer->is_broken()) removal.keeps.push_back(pointer->target);
    }
  } catch (Error& e) {
    e.add_context("saved " + job.path + ", but no older checkpoint is removed");
    report.error = std::current_exception();
    return;
  }
  for (const std::string& path : job.remove_afterwards) {
    publisher.remove(path, removal, report);
  }
  if (job.remove_afterwards.empty() || job.is_of_all_ranks) return;
  for (const std::string& path : std::exchange(target.left, {})) {
    publisher.remove(path, removal, report);
  }
}

// Does the steps "check" to "commit". Returns the number of bytes.
std::uint64_t publish_in(PipelineTarget& target, const SaveJob& job, FileImage* image) {
  Publisher& publisher = target.publisher;
  const bool is_new = job.replace == Replace::kOwn && !publisher.own().knows(job.path);
  if (is_new) target.left.insert(job.path);
  const std::uint64_t bytes = publisher.publish(
      {.name = job.path,
       .replace = job.replace,
       .pointer = job.latest,
       .checks_pointer = job.far.check == nullptr},
      [&](const auto& point) {
        return job.write ? job.write(publisher.store(), job, point)
                         : write_checkpoint(publisher, job, image, target.encoded);
      });
  target.left.erase(job.path);
  if (job.is_retired) publisher.own().shorten_retired(job.is_retired);
  return bytes;
}

// Does the steps "check" to "report". `image`: the snapshot; nullptr if the job has the live
// tensors.
SaveReport write_and_publish(PipelineTarget& target, const SaveJob& job, FileImage* image) try {
  SaveReport report;
  report.path = job.path;
  report.bytes = publish_in(target, job, image);
  retain(target, job, report);
  if (job.is_of_all_ranks) report.warning = text_of(std::exchange(report.error, nullptr));
  if (job.report) job.report(report);
  if (report.error != nullptr) std::rethrow_exception(report.error);
  return report;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("saving", job.path);
}

}  // namespace

SaveReport save_now(const std::shared_ptr<ObjectStore>& store, const SaveJob& job) {
  PipelineTarget target(store, {});
  return write_and_publish(target, job, nullptr);
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
    std::optional<FileImage> image;  // for a torch.save file
    std::uint64_t failures = 0;      // failed saves before this one was submitted
  };

  explicit Impl(const SavePipelineOptions& o)
      : options(o), target(o.store != nullptr ? o.store : local_store(), with_notice(o.retry)) {
    target.encoded = &layout->encoded;
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
    worker_id = std::this_thread::get_id();
    for (;;) {
      changed.wait(lock, [this] { return stop || !queue.empty(); });
      if (queue.empty()) return;  // stopped, and nothing is left to do
      std::optional<Queued> next = std::move(queue.front());
      queue.pop_front();
      // The list of this job counts the saves that failed meanwhile as kept, so this job removes
      // nothing. A later job removes these files.
      if (failures != next->failures) next->job.remove_afterwards.clear();
      lock.unlock();
      std::exception_ptr failure;
      try {
        const CancelScope scope(target.publisher.is_shared() ? &given_up : nullptr);
        write_and_publish(target, next->job, next->image ? &*next->image : nullptr);
      } catch (...) {
        failure = std::current_exception();
      }
      next.reset();  // frees the snapshot's memory before the next save needs some
      lock.lock();
      if (failure != nullptr) ++failures;
      if (error == nullptr) error = failure;
      is_store_unreachable = false;
      --pending;
      changed.notify_all();
    }
  }

  // With the lock held.
  void throw_kept_error() {
    if (error != nullptr) std::rethrow_exception(std::exchange(error, nullptr));
  }

  // Returns the number of failed saves. The errors of all these saves have been thrown by then.
  std::uint64_t wait_until_pending_below(std::size_t limit) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return pending < limit; });
    throw_kept_error();
    return failures;
  }

  // Waits for its turn, or replaces the queued save (SavePipelineOptions::max_pending). A job of
  // all ranks is never replaced, because the other ranks have queued the same save.
  std::uint64_t wait_for_turn() {
    std::unique_lock lock(mutex);
    const auto may_wait_beside = [&] {
      return is_store_unreachable && (queue.empty() || !queue.back().job.is_of_all_ranks);
    };
    changed.wait(lock, [&] { return pending < options.max_pending || may_wait_beside(); });
    throw_kept_error();
    if (pending < std::max<std::size_t>(options.max_pending, 2) || queue.empty()) return failures;
    const SaveJob left_out = std::move(queue.back().job);
    queue.pop_back();
    --pending;
    const std::uint64_t counted = failures++;  // the new job's list counts the skipped save as kept
    lock.unlock();
    if (left_out.report) {
      SaveReport skipped;
      skipped.path = left_out.path;
      skipped.is_skipped = true;
      left_out.report(skipped);
    }
    return counted;
  }

  // Also sets is_store_unreachable and wakes the threads that wait for their turn.
  RetryPolicy with_notice(RetryPolicy retry) {
    retry.on_retry = [this, told = std::move(retry.on_retry)](const StorageError& e, auto pause) {
      {
        const std::lock_guard lock(mutex);
        if (std::this_thread::get_id() == worker_id) is_store_unreachable = true;
      }
      changed.notify_all();
      if (told) told(e, pause);
    };
    return retry;
  }

  const SavePipelineOptions options;
  PipelineTarget target;
  Snapshotter snapshotter;
  std::mutex mutex;
  std::condition_variable changed;
  const std::shared_ptr<FileImage::Layout> layout = std::make_shared<FileImage::Layout>();
  std::deque<Queued> queue;
  std::size_t pending = 0;            // queued or running
  std::uint64_t failures = 0;         // failed saves
  bool is_store_unreachable = false;  // the running save waits for the store
  std::exception_ptr error;
  bool stop = false;
  // cancels the running save and the queued ones
  Cancellation given_up{"the time for it has passed"};
  std::thread worker;
  std::thread::id worker_id;
};

SavePipeline::SavePipeline(const SavePipelineOptions& options) try
    : impl_(std::make_unique<Impl>(options)) {
  if (options.max_pending < 1) throw UsageError("max_pending must be at least 1");
} catch (const std::bad_alloc&) {
  throw_out_of_memory("beginning to save checkpoints");
}

SavePipeline::~SavePipeline() = default;

void SavePipeline::submit(SaveJob job) try {
  Publisher& publisher = impl_->target.publisher;
  job.far.retry = publisher.retry();
  if (job.is_of_all_ranks && publisher.is_shared() && !job.latest.empty())
    job.far.check = [&publisher, pointer = job.latest] { publisher.check_pointer(pointer); };
  if (!impl_->options.async) {
    write_and_publish(impl_->target, job, nullptr);
    return;
  }
  impl_->start_worker();
  const std::uint64_t failures = impl_->wait_for_turn();
  std::optional<FileImage> image;
  if (job.write) {
    const TracedStep step("snapshot", job.path);
    job.value = impl_->snapshotter.take(job.value);
  } else {
    const TracedStep step("snapshot", job.path);
    image.emplace(std::exchange(job.value, {}), impl_->snapshotter, impl_->layout);
    // Releases on_copied at once, since it may hold the live tensors.
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

void SavePipeline::release_tensors() {
  impl_->layout->known = {};
  impl_->layout->encoded.forget();
}

bool SavePipeline::is_store_unreachable() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->is_store_unreachable;
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

SaveReport SavePipeline::retain(const SaveJob& job) {
  SaveReport report;
  report.path = job.path;
  cairn::retain(impl_->target, job, report);
  report.warning = text_of(report.error);
  return report;
}

Publisher& SavePipeline::publisher() const { return impl_->target.publisher; }

}  // namespace cairn
