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
//               written, and the manifest, which needs them, comes last.
//  4. commit    The store makes it durable, then visible (in a folder: io/atomic_file.h). Then
//               the `latest` pointer is moved in the same way (storage/links.h): it must never
//               name what a power cut could take back.
//  5. retain    Only now are the files that this one makes superfluous removed: at every moment the
//               newest complete checkpoint has its name, and is durable. What `latest` points at
//               and the file just written are kept even when the request lists them: with a
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
std::exception_ptr retain(ObjectStore& store, const SaveRequest& request, SaveReport& report) {
  std::vector<std::string> kept = {normal_path(request.path)};
  if (!request.latest.empty()) {
    if (const auto pointer = store.read_pointer(request.latest)) {
      kept.push_back(normal_path(pointer->target));
    }
  }
  std::exception_ptr error;
  for (const std::string& path : request.remove_afterwards) {
    if (std::find(kept.begin(), kept.end(), normal_path(path)) != kept.end()) continue;
    try {
      if (store.remove(path)) report.removed.push_back(path);
    } catch (Error& e) {
      e.add_context("saved " + request.path + ", but cannot remove an older checkpoint");
      if (error == nullptr) error = std::current_exception();
    }
  }
  return error;
}

// Steps 2 to 6. `image`: step 1's; nullptr when the request has the live tensors.
void write_and_publish(ObjectStore& store, const SaveRequest& request, FileImage* image) {
  SaveReport report{.path = request.path};
  const WriteCheckpointOptions options{.overwrite = request.overwrite, .info = request.info};
  report.bytes = image != nullptr ? write_checkpoint(store, *image, request.path, options)
                                  : write_checkpoint(store, request.value, request.path, options);
  if (!request.latest.empty()) move_latest(store, request.path, request.latest);
  const std::exception_ptr error = retain(store, request, report);
  if (request.report) request.report(report);
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace

struct SavePipeline::Impl {
  struct Job {
    SaveRequest request;
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
      std::optional<Job> job = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      std::exception_ptr failure;
      try {
        write_and_publish(*store, job->request, &job->image);
      } catch (...) {
        failure = std::current_exception();
      }
      job.reset();  // gives the snapshot's memory back before the next save asks for some
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
  std::deque<Job> queue;
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

void SavePipeline::submit(SaveRequest request) {
  if (!impl_->options.async) return write_and_publish(*impl_->store, request, nullptr);
  impl_->start_worker();
  impl_->wait_until_pending_below(impl_->options.max_pending);
  FileImage image(std::exchange(request.value, {}), impl_->snapshotter, impl_->layout);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->queue.push_back({std::move(request), std::move(image)});
    ++impl_->pending;
  }
  impl_->changed.notify_all();
}

void SavePipeline::wait() { impl_->wait_until_pending_below(1); }

}  // namespace cairn
