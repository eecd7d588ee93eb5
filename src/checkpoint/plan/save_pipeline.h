// The one path that every checkpoint takes: the saver's, save()'s, a Trainer's and what convert()
// writes, of whatever format. save_pipeline.cpp opens with the protocol.
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
  // False: submit() returns when the checkpoint is durable, and needs no copy of it.
  bool async = true;
  // Saves under way before submit() waits for the oldest. Each holds a copy of its state. While the
  // store is away submit() does not wait: one save may wait there in any case, and the newest takes
  // the place of the one that waits, whose report says so.
  std::size_t max_pending = 1;
  std::shared_ptr<ObjectStore> store = nullptr;  // local_store() when null
  RetryPolicy retry = {};                        // of a store that may_be_far()
};

// Does it on this thread, from the tensors' own memory. Throws what save() throws; an error of the
// link or of a removal says that the checkpoint itself is saved.
SaveReport save_now(const std::shared_ptr<ObjectStore>& store, const SaveJob& job);

// Not thread-safe, except that everything behind submit() happens on one background thread.
class SavePipeline {
 public:
  explicit SavePipeline(const SavePipelineOptions& options = {});
  // Finishes what is under way. An error that nobody fetched by then is lost: wait() first.
  ~SavePipeline();
  SavePipeline(const SavePipeline&) = delete;
  SavePipeline& operator=(const SavePipeline&) = delete;

  // Saves. The tensors of the request may change when submit() returns. Throws the error of an
  // earlier save, once, and then has not saved this one; whatever save() throws when not async.
  // After an error the checkpoint and the link of before are still there, and the next save works.
  void submit(SaveJob request);

  // Whether the save that is under way waits for a store that is away.
  bool is_away() const;
  // Waits until nothing is under way; throws the error of an earlier save, once.
  void wait();
  // As wait(), with a deadline. After it, running and queued saves are cancelled: CancelledError
  // that names the first. An unfinished write is undone in one attempt of a few seconds. Earlier
  // files stay.
  void wait_until(std::chrono::steady_clock::time_point deadline);
  // Throws the error of an earlier save, once; does not wait.
  void throw_error();
  // Lets go of the tensors of earlier saves (StorageList::Parts).
  void let_go();

  // Does the step "retain" alone, on this thread, for a save that was made before: removes what
  // `job` lists. A failure becomes the report's warning. No save may be under way.
  SaveReport retain(const SaveJob& job);
  // Checks and moves the pointer, writes, removes, and knows which objects are this job's.
  Publisher& publisher() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
