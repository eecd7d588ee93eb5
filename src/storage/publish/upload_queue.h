// Files on their way into a store, in the background.
//
// clang-format off
//  1. submit() takes a file that is open, and that nobody changes any more: what it is called, and
//     whether it still has a name, does not matter from then on. At most `most_waiting` wait; the
//     next submit() waits until one is on its way. Memory: one block of 8 MiB a thread, and what
//     the store itself takes.
//  2. Of one name there is one transfer at a time, and one that waits: the newest. What it replaces
//     is dropped, but for what it made superfluous; with kNever the newer is refused
//     instead.
//  3. A thread asks `check`, makes sure that no other job has moved the pointer, and publishes the
//     file: under the condition, verified, with retries (publisher.h).
//  4. Then, and only then, the pointer is moved to it, unless it stands already at what was
//     submitted later.
//  5. Then what became superfluous is removed, all that can be; what is not there is no error. What
//     is itself on its way yet is removed when it has arrived, or failed; what was submitted once
//     more is not, and what is, or after a failure may be, another job's never is (own_objects.h).
//  6. `on_done` is called. An error of 3 to 5 is kept for throw_error() instead; the thread goes on
//     with the next file.
//  7. stop() waits until all is done, or the deadline has passed; what is under way then is given
//     up: its requests and pauses end (io/threads/cancellation.h), and it leaves nothing behind.
//     What waited is named.
// clang-format on
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/storage/object_store.h"

#include "storage/publish/publisher.h"

namespace cairn {

struct Upload {
  std::string name;
  std::shared_ptr<const ByteSource> file;
  // kOwn: what the queue uploaded so under that name, or was told of (Publisher::own()).
  Replace replace = Replace::kNever;
  // Called before anything is sent, on a thread of the queue. What it throws ends the upload.
  std::function<void()> check = nullptr;
  // Whether neither this upload nor a later one has that name, as far as can be said now: what the
  // queue knows of it for Replace::kOwn is shortened. Asked by a thread of the queue. Empty:
  // nothing is.
  std::function<bool(const std::string& name)> has_passed = nullptr;
  std::string pointer = {};  // to be moved to `name`; empty: none
  // Names that this makes superfluous; `name` is passed over.
  std::vector<std::string> remove_afterwards = {};
  // Called when it is durable and found so, the pointer moved, and the others removed: on a thread
  // of the queue. Must not call the queue.
  std::function<void(const std::vector<std::string>& removed)> on_done = nullptr;
};

struct UploadQueueOptions {
  int threads = 1;
  std::size_t most_waiting = 16;
  RetryPolicy retry = {};
};

// Safe from several threads.
class UploadQueue {
 public:
  using Clock = std::chrono::steady_clock;

  UploadQueue(std::shared_ptr<ObjectStore> store, const UploadQueueOptions& options);
  // Gives up what is under way: stop() first.
  ~UploadQueue();
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;

  // What does steps 3 to 5, and knows what this job may replace and where its pointers are.
  Publisher& publisher();
  // AlreadyExistsError for kNever when the name is on its way; UsageError after stop().
  void submit(Upload upload);
  // Throws the first error that nobody was thrown yet. All others are then in its text, too.
  void throw_error();
  // Waits until nothing is on its way. False when the deadline passed before.
  bool wait(Clock::time_point deadline);
  // Step 7. The names of what was not uploaded, sorted: given up, or failed.
  std::vector<std::string> stop(Clock::time_point deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
