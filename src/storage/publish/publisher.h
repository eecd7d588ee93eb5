// The steps that make something appear in a store, implemented once for all callers:
// CheckpointSaver, save(), save_checkpoint(), convert() and uploads. All steps run on the caller's
// thread.
//
//  1. check   The pointer must still have the target that this job last saw (pointer_fence.h).
//  2. write   The object becomes durable, then visible, if it may have the name (replace.h). Then
//     the store is asked for the object. The object is written again if that can help (publish.h).
//  3. point   Only after step 2 is the pointer moved to the object: the pointer must never name an
//     object that a power cut could take back.
//  4. remove  Only after step 3 are superfluous objects removed, as many as possible. A missing
//     object is no error. An object that may be another job's is left (own_objects.h).
//
// If no other job can write meanwhile (a local store, under the run's lock), nothing is checked or
// looked for, and each step is done once. The callers decide the order of jobs: SavePipeline is
// first in, first out; UploadQueue takes the newest of each name.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"
#include "storage/publish/own_objects.h"
#include "storage/publish/pointer_fence.h"
#include "storage/publish/publish.h"
#include "storage/publish/replace.h"

namespace cairn {

struct PublisherOptions {
  bool is_shared = true;  // whether other jobs may write to the store, too
  RetryPolicy retry = {};
  const char* doing = "saving";  // in messages
  const char* done = "saved";
};

struct PublishJob {
  std::string name;
  Replace replace = Replace::kNever;
  std::string pointer = {};    // the pointer to move to `name`; empty: none
  bool checks_pointer = true;  // false: `write` does step 1, with check_pointer()
  // If a PublishJob with a higher number has moved the pointer, the pointer stays.
  std::uint64_t number = 0;
};

struct Removal {
  std::vector<std::string> keeps = {};  // names that stay, in any spelling
  // Called before the removal. Empty: every name may be removed.
  std::function<bool(ObjectStore& store, const std::string& name)> may_remove = nullptr;
  // True: the ranks wrote the checkpoint together, as a folder or as a file. A folder that contains
  // a foreign file stays.
  bool over_ranks = false;
  std::string context = {};  // added to errors
};

struct RemovalReport {
  std::vector<std::string> removed = {};  // names that existed
  std::vector<std::string> refused =
      {};                              // may_remove() said no, or a foreign file is in the folder
  std::exception_ptr error = nullptr;  // the first error
};

// The error's message; "" if there is no error.
std::string text_of(const std::exception_ptr& error);

// Thread-safe.
class Publisher {
 public:
  Publisher(std::shared_ptr<ObjectStore> store, PublisherOptions options);

  ObjectStore& store() const { return *store_; }
  bool is_shared() const { return options_.is_shared; }
  const RetryPolicy& retry() const { return options_.retry; }
  OwnObjects& own() { return own_; }

  // Steps 1 to 3. `write` does step 2, with write_object() or as the ranks of a job do it, and
  // returns the number of bytes. `write` may call `point` to do step 3 itself, if it must know the
  // outcome of step 3.
  using Write = std::function<std::uint64_t(const std::function<void()>& point)>;
  std::uint64_t publish(const PublishJob& job, const Write& write);
  // Writes one object, for the `write` that was given to publish(). Sets the object's `own`.
  void write_object(ObjectToPublish object);
  // Step 4 for one name. Adds the outcome to `report`, including an error.
  void remove(const std::string& name, const Removal& removal, RemovalReport& report);

  // Reads the pointer; from now on the pointer must stay as this job found it. Does nothing if no
  // other job may write to the store. `retry` is the policy of a caller that waits for the answer.
  void look_at_pointer(const std::string& pointer, const RetryPolicy& retry = {});
  // The pointer as it was last read; nullopt if it has not been read.
  std::optional<Pointer> seen_pointer(const std::string& pointer);
  // Whether the pointer is at `name`. If other jobs may write to the store: as far as this job
  // knows.
  bool points_at(const std::string& pointer, const std::string& name);
  // Step 1 alone, with one attempt. Call it only if other jobs may write to the store.
  void check_pointer(const std::string& pointer);
  // Step 3 alone.
  void move_pointer(const std::string& pointer, const std::string& name, std::uint64_t number = 0);

 private:
  std::uint64_t check_and_write(const PublishJob& job, const Write& write,
                                const std::function<void()>& point);
  void try_to_remove(const std::string& name, const Removal& removal, RemovalReport& report);

  const std::shared_ptr<ObjectStore> store_;
  PublisherOptions options_;
  OwnObjects own_;
  PointerFences fences_;
};

}  // namespace cairn
