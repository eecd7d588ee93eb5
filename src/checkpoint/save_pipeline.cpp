// How a checkpoint gets to disk.
//
//  1. snapshot  The bytes of all tensors are copied, on the caller's thread, to where they will
//               stand in the file, in memory that is used again and again (file_image.h); from then
//               on training may change them. Not needed when the caller waits (async = false).
//  2. plan      The tree becomes a plan of the file: what stands where, exactly. With that the
//               live tensors are let go of.
//  3. write     The plan is written into a temporary file beside the target: the snapshot's blocks
//               as they lie, or the live tensors through a ring of blocks; CRCs are computed while
//               the block before is being written, and the manifest, which needs them, comes last.
//  4. commit    The file is synced, renamed to its name, and its folder synced (atomic_file.h).
//  Then
//               the `latest` link is swapped in the same way (latest_link.h): it must never name a
//               file that a power cut could take back.
//  5. retain    Only now are the files that this one makes superfluous removed: at every moment the
//               newest complete checkpoint has its name, and is durable. What `latest` points at
//               and the file just written are kept even when the request lists them: with a
//               constant file name they are the same file. The removals are not synced: a power cut
//               may bring an old checkpoint back, which is whole, and which the next start counts
//               again.
//  6. report    The caller's callback.
//
// An error in 2 to 4 leaves the checkpoints and the link of before. Errors on the background thread
// are kept and thrown by the next submit() or wait().
#include "checkpoint/save_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "cairn/error.h"

#include "checkpoint/file_image.h"
#include "checkpoint/latest_link.h"
#include "checkpoint/write_checkpoint.h"

namespace cairn {
namespace {

void move_latest(FileSystem& files, const std::string& path, const std::string& latest) {
  try {
    point_link(files, path, latest);
  } catch (Error& e) {
    e.add_context("saved " + path + ", but cannot point " + latest + " at it");
    throw;
  }
}

// Removes what the request makes superfluous; gives the first error after having tried all.
std::exception_ptr retain(FileSystem& files, const SaveRequest& request, SaveReport& report) {
  std::vector<std::string> kept = {normal_path(request.path)};
  if (!request.latest.empty()) {
    if (const auto target = link_target(files, request.latest))
      kept.push_back(normal_path(*target));
  }
  std::exception_ptr error;
  for (const std::string& path : request.remove_afterwards) {
    if (std::find(kept.begin(), kept.end(), normal_path(path)) != kept.end()) continue;
    try {
      if (files.remove(path)) report.removed.push_back(path);
    } catch (Error& e) {
      e.add_context("saved " + request.path + ", but cannot remove an older checkpoint");
      if (error == nullptr) error = std::current_exception();
    }
  }
  return error;
}

// Steps 2 to 6. `image`: step 1's; nullptr when the request has the live tensors.
void write_and_publish(FileSystem& files, const SaveRequest& request, FileImage* image) {
  SaveReport report{.path = request.path};
  const WriteCheckpointOptions options{.overwrite = request.overwrite, .info = request.info};
  report.bytes = image != nullptr ? write_checkpoint(files, *image, request.path, options)
                                  : write_checkpoint(files, request.value, request.path, options);
  if (!request.latest.empty()) move_latest(files, request.path, request.latest);
  const std::exception_ptr error = retain(files, request, report);
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
      : options(o), files(o.files != nullptr ? *o.files : posix_file_system()) {}

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
        write_and_publish(files, job->request, &job->image);
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
  FileSystem& files;
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
  if (!impl_->options.async) return write_and_publish(impl_->files, request, nullptr);
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
