// The saver, save(), a Trainer and convert() write every checkpoint through this pipeline, in
// whatever format. save_pipeline.cpp opens with the protocol.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

#include "checkpoint/plan/save_job.h"
#include "io/threads/retry.h"

namespace cairn {

struct SavePipelineOptions {
  // False: submit() returns when the checkpoint is durable, and no copy of the tensors is made.
  bool async = true;
  // The number of saves under way at which submit() waits for the oldest. Each save holds a copy of
  // its state. While the store cannot be reached, submit() does not wait: one save may always be
  // queued, and a newer save replaces it. The report of the replaced save has is_skipped.
  std::size_t max_pending = 1;
  std::shared_ptr<ObjectStore> store = nullptr;  // local_store() when null
  RetryPolicy retry = {};                        // for a store that may_be_far()
};

// Saves on this thread, from the tensors' own memory. Throws what save() throws. If only the link
// or a removal fails, the message says that the checkpoint itself is saved.
SaveReport save_now(const std::shared_ptr<ObjectStore>& store, const SaveJob& job);

// Not thread-safe. After submit() has copied the tensors, one background thread does the rest.
class SavePipeline {
 public:
  explicit SavePipeline(const SavePipelineOptions& options = {});
  // Finishes the saves under way. Errors that no call has thrown by then are lost, so call wait()
  // first.
  ~SavePipeline();
  SavePipeline(const SavePipeline&) = delete;
  SavePipeline& operator=(const SavePipeline&) = delete;

  // Saves. The tensors of the request may change when submit() returns. If an earlier save failed,
  // throws its error, once, and does not save this one. If not async, throws what save() throws.
  // After an error, the previous checkpoint and link are still there, and the next save works.
  void submit(SaveJob request);

  // Whether the running save waits for a store that cannot be reached.
  bool is_store_unreachable() const;
  // Waits until no save is under way. Throws the error of an earlier save, once.
  void wait();
  // Like wait(), with a deadline. After the deadline, running and queued saves are cancelled. Then
  // wait_until() throws a CancelledError that names the first of these saves. An unfinished write
  // is undone in one attempt of a few seconds. Earlier files stay.
  void wait_until(std::chrono::steady_clock::time_point deadline);
  // Throws the error of an earlier save, once. Does not wait.
  void throw_error();
  // Releases the tensors of earlier saves (StorageList::Parts).
  void release_tensors();

  // Does only the step "retain", on this thread, for a finished save: removes the files that `job`
  // lists. A failure becomes the report's warning. No save may be under way.
  SaveReport retain(const SaveJob& job);
  // The publisher checks and moves the pointer, writes, removes, and knows which objects belong to
  // this job.
  Publisher& publisher() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
