// Uploads files into a store in the background.
//
// clang-format off
//  1. submit() takes an open file that does not change any more. Renaming or removing the file no
//     longer matters. At most `most_waiting` uploads wait; the next submit() blocks until one of
//     them starts. Memory: one block of 8 MiB per thread, plus what the store itself needs.
//  2. Each name has at most one transfer under way and one upload that waits: the newest. A newer
//     upload replaces the waiting one, and takes over the names that the waiting one made
//     superfluous. With kNever the newer upload is refused instead.
//  3. A thread calls `check`, makes sure that no other job has moved the pointer, and publishes the
//     file: under the condition, verified, with retries (publisher.h).
//  4. Only then is the pointer moved to the file, unless it already points at a later upload.
//  5. Then superfluous objects are removed, as many as possible; a missing object is no error. An
//     object that is itself being uploaded is removed after its upload has succeeded or failed. An
//     object that was submitted again stays. An object that is another job's always stays, and so
//     does one that may be another job's after a failure (own_objects.h).
//  6. `on_done` is called. An error in steps 3 to 5 is kept for throw_error() instead, and the
//     thread continues with the next file.
//  7. stop() waits until all is done or the deadline has passed. After the deadline, uploads under
//     way are given up: their requests and pauses end (io/threads/cancellation.h), and they leave
//     nothing. stop() returns the names that were not uploaded.
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
  // kOwn: may replace an object that the queue uploaded with kOwn, or that Publisher::own() knows.
  Replace replace = Replace::kNever;
  // Called before anything is sent, on a thread of the queue. An exception ends the upload.
  std::function<void()> check = nullptr;
  // Whether, as far as is known now, neither this upload nor a later one has the name. For such
  // names the queue keeps only hashes (OwnObjects::shorten_retired()). Called on a thread of the
  // queue. Empty: no name.
  std::function<bool(const std::string& name)> is_retired = nullptr;
  std::string pointer = {};  // the pointer to move to `name`; empty: none
  // Names that this upload makes superfluous; `name` itself is ignored.
  std::vector<std::string> remove_afterwards = {};
  // Called on a thread of the queue when the object is durable and verified, the pointer is moved,
  // and the superfluous names are removed. Must not call the queue.
  std::function<void(const std::vector<std::string>& removed)> on_done = nullptr;
};

struct UploadQueueOptions {
  int threads = 1;
  std::size_t most_waiting = 16;
  RetryPolicy retry = {};
};

// Thread-safe.
class UploadQueue {
 public:
  using Clock = std::chrono::steady_clock;

  UploadQueue(std::shared_ptr<ObjectStore> store, const UploadQueueOptions& options);
  // Gives up what is under way; call stop() first.
  ~UploadQueue();
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;

  // The Publisher that does steps 3 to 5. It knows what this job may replace, and where the
  // pointers are.
  Publisher& publisher();
  // Throws AlreadyExistsError for kNever if the name is already waiting or under way, and
  // UsageError after stop().
  void submit(Upload upload);
  // Throws the first error that has not been thrown yet. Its text includes all other errors.
  void throw_error();
  // Waits until nothing waits or is under way. Returns false if the deadline passed first.
  bool wait(Clock::time_point deadline);
  // Step 7. Returns, sorted, the names that were given up or failed.
  std::vector<std::string> stop(Clock::time_point deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
