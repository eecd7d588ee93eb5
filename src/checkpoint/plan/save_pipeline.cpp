// How a checkpoint gets to disk.
//
//  1. snapshot  The bytes of all tensors are copied, on the caller's thread, to where they will
//               stand in the file, in memory that is used again and again (file_image.h); from then
//               on training may change them. Not needed when the caller waits (async = false).
//  2. plan      The tree becomes a plan of the file: what stands where, exactly. With that the
//               live tensors are let go of.
//  3. write     The plan is written into an object that the store begins (in a folder: a file
//               under a temporary name): the snapshot's blocks as they lie, or the live tensors
//               through a ring of blocks; CRCs are computed while the block before is being
//               written, and the manifest, which needs them, comes last. What convert() writes
//               in other formats is written by their plans, from live tensors (write_plan.h).
//  4. commit    The store makes it durable, then visible (in a folder: io/atomic_file.h). Then
//               the `latest` pointer is moved in the same way (storage/links.h): it must never
//               name what a power cut could take back.
//  5. retain    Only now are the files that this one makes superfluous removed: at every moment the
//               newest complete checkpoint has its name, and is durable. What `latest` points at
//               and the file just written are kept even when the job lists them: with a
//               constant file name they are the same file. What was reported as removed stays so,
//               also after a power cut.
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
#include <optional>
#include <system_error>
#include <thread>

#include "cairn/error.h"

#include "checkpoint/plan/file_image.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn {
namespace {

void move_latest(ObjectStore& store, const std::string& path, const std::string& latest) {
  try {
    store.move_pointer(latest, path);
  } catch (Error& e) {
    e.add_context("saved " + path + ", but cannot point " + latest + " at it");
    throw;
  }
}

// Removes what the request makes superfluous; gives the first error after having tried all.
std::exception_ptr retain(ObjectStore& store, const SaveJob& job, SaveReport& report) {
  std::vector<std::string> kept = {normal_path(job.path)};
  if (!job.latest.empty()) {
    if (const auto pointer = store.read_pointer(job.latest)) {
      kept.push_back(normal_path(pointer->target));
    }
  }
  std::exception_ptr error;
  for (const std::string& path : job.remove_afterwards) {
    if (std::find(kept.begin(), kept.end(), normal_path(path)) != kept.end()) continue;
    try {
      if (store.remove(path)) report.removed.push_back(path);
    } catch (Error& e) {
      e.add_context("saved " + job.path + ", but cannot remove an older checkpoint");
      if (error == nullptr) error = std::current_exception();
    }
  }
  return error;
}

// Steps 2 to 6. `image`: step 1's; nullptr when the job has the live tensors.
SaveReport write_and_publish(ObjectStore& store, const SaveJob& job, FileImage* image) {
  SaveReport report{.path = job.path};
  try {
    report.bytes = job.write ? job.write(store, job) : write_checkpoint(store, job, image);
  } catch (Error& e) {
    e.add_context("saving " + job.path);
    throw;
  }
  if (!job.latest.empty()) move_latest(store, job.path, job.latest);
  const std::exception_ptr error = retain(store, job, report);
  if (job.report) job.report(report);
  if (error != nullptr) std::rethrow_exception(error);
  return report;
}

}  // namespace

SaveReport save_now(ObjectStore& store, const SaveJob& job) {
  return write_and_publish(store, job, nullptr);
}

void save(const Value& value, const std::string& path, const SaveOptions& options) {
  const auto store = store_of(path, options.store);
  remove_leftovers_of(*store, path);
  save_now(*store,
           {.value = value, .path = path, .info = options.info, .overwrite = options.overwrite});
}

struct SavePipeline::Impl {
  struct Queued {
    SaveJob job;
    FileImage image;
  };

  explicit Impl(const SavePipelineOptions& o)
      : options(o), store(o.store != nullptr ? o.store : local_store()) {}

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
      lock.unlock();
      std::exception_ptr failure;
      try {
        write_and_publish(*store, next->job, &next->image);
      } catch (...) {
        failure = std::current_exception();
      }
      next.reset();  // gives the snapshot's memory back before the next save asks for some
      lock.lock();
      if (error == nullptr) error = failure;
      --pending;
      changed.notify_all();
    }
  }

  // With the lock held.
  void throw_kept_error() {
    if (error != nullptr) std::rethrow_exception(std::exchange(error, nullptr));
  }

  void wait_until_pending_below(std::size_t limit) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return pending < limit; });
    throw_kept_error();
  }

  const SavePipelineOptions options;
  const std::shared_ptr<ObjectStore> store;
  Snapshotter snapshotter;
  std::mutex mutex;
  std::condition_variable changed;
  const std::shared_ptr<FileImage::Layout> layout = std::make_shared<FileImage::Layout>();
  std::deque<Queued> queue;
  std::size_t pending = 0;  // in the queue or under way
  std::exception_ptr error;
  bool stop = false;
  std::thread worker;
};

SavePipeline::SavePipeline(const SavePipelineOptions& options)
    : impl_(std::make_unique<Impl>(options)) {
  if (options.max_pending < 1) throw UsageError("max_pending must be at least 1");
}

SavePipeline::~SavePipeline() = default;

void SavePipeline::submit(SaveJob job) {
  if (!impl_->options.async) {
    save_now(*impl_->store, job);
    return;
  }
  impl_->start_worker();
  impl_->wait_until_pending_below(impl_->options.max_pending);
  FileImage image(std::exchange(job.value, {}), impl_->snapshotter, impl_->layout);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->queue.push_back({std::move(job), std::move(image)});
    ++impl_->pending;
  }
  impl_->changed.notify_all();
}

void SavePipeline::wait() { impl_->wait_until_pending_below(1); }

}  // namespace cairn
