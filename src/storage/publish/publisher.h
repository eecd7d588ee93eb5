// The steps of making something appear in a store, once for all who do: saves, save(),
// save_checkpoint(), convert(), uploads. All of them on the caller's thread.
//
//  1. check   The pointer must be where this job knows it (pointer_fence.h).
//  2. write   The object becomes durable, then visible, if it may have the name (replace.h). Then
//             the store is asked for it; it is written again where that can help (publish.h).
//  3. point   Only now the pointer is moved to it: it must never name what a power cut could take
//             back.
//  4. remove  Only now what became superfluous is removed, all that can be. What is not there is no
//             error. What may be another job's is left (own_objects.h).
//
// Where no other job can write meanwhile (a local store, under the run's lock) nothing is checked
// or looked for, and each step is done once. The order of jobs is its callers': SavePipeline's is
// first in, first out; UploadQueue's is the newest of a name.
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
  bool is_shared = true;  // whether other jobs may write there, too
  RetryPolicy retry = {};
  const char* doing = "saving";  // in messages
  const char* done = "saved";
};

struct PublishJob {
  std::string name;
  Replace replace = Replace::kNever;
  std::string pointer = {};    // to be moved to `name`; empty: none
  bool checks_pointer = true;  // false: `write` does step 1, by check_pointer()
  // A pointer that a job with a higher number has moved stays there.
  std::uint64_t number = 0;
};

struct Removal {
  std::vector<std::string> keeps = {};  // names of what stays, however they are written
  // Asked before. Empty: it may be removed.
  std::function<bool(ObjectStore& store, const std::string& name)> may_remove = nullptr;
  // The name is one of ranks that write together: of a folder, which stays when a foreign file
  // would be lost, or of a file.
  bool over_ranks = false;
  std::string context = {};  // of an error
};

struct RemovalReport {
  std::vector<std::string> removed = {};  // those that were there
  std::vector<std::string> refused =
      {};                              // may_remove() said no, or a foreign file is in the folder
  std::exception_ptr error = nullptr;  // the first
};

// The text of an error; "" if there is none.
std::string text_of(const std::exception_ptr& error);

// Safe from several threads.
class Publisher {
 public:
  Publisher(std::shared_ptr<ObjectStore> store, PublisherOptions options);

  ObjectStore& store() const { return *store_; }
  bool is_shared() const { return options_.is_shared; }
  const RetryPolicy& retry() const { return options_.retry; }
  OwnObjects& own() { return own_; }

  // Steps 1 to 3. `write` does step 2, by write_object() below or as the ranks of a job do it, and
  // returns the number of bytes. It may call `point`, step 3, if it must know how that went.
  using Write = std::function<std::uint64_t(const std::function<void()>& point)>;
  std::uint64_t publish(const PublishJob& job, const Write& write);
  // Writes one object: for the `write` that publish() was given. `own` of the object is set here.
  void write_object(ObjectToPublish object);
  // Step 4, of one name. Adds to `report`, also an error.
  void remove(const std::string& name, const Removal& removal, RemovalReport& report);

  // Reads the pointer: this job knows it so from now on. Does nothing where nobody else writes.
  // `retry`: of a caller who waits for it.
  void look_at_pointer(const std::string& pointer, const RetryPolicy& retry = {});
  // As it was last looked at; nullopt where nobody has.
  std::optional<Pointer> seen_pointer(const std::string& pointer);
  // Whether it is at `name`: where others write, as far as this job knows.
  bool points_at(const std::string& pointer, const std::string& name);
  // Step 1 alone, where others write: one attempt.
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
