// The one path that every checkpoint takes: the saver's, save()'s, a Trainer's and what convert()
// writes for torch. save_pipeline.cpp opens with the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

struct SaveReport {
  std::string path = {};
  std::uint64_t bytes = 0;                // of the file
  std::vector<std::string> removed = {};  // of SaveJob::remove_afterwards, those that were there
};

// What to save, where, what it says of itself, and what becomes superfluous.
struct SaveJob {
  Value value = {};
  std::string path = {};
  std::string latest = {};  // path of the link to point at `path` afterwards; empty: none
  // Paths of files that this save makes superfluous. Removed when the new file and the link are
  // durable. Missing ones are no error; `path`, and what `latest` points at, are never removed.
  std::vector<std::string> remove_afterwards = {};
  CheckpointInfo info = {};
  bool overwrite = true;
  // Called when all is done, on the thread that did it. Must not call the pipeline.
  std::function<void(const SaveReport&)> report = nullptr;
};

struct SavePipelineOptions {
  // False: submit() returns when the checkpoint is durable, and needs no copy of it.
  bool async = true;
  // Saves under way before submit() waits for the oldest. Each holds a copy of its state.
  std::size_t max_pending = 1;
  std::shared_ptr<ObjectStore> store = nullptr;  // local_store() when null
};

// Does it on this thread, from the tensors' own memory. Throws what save() throws; an error of the
// link or of a removal says that the checkpoint itself is saved.
SaveReport save_now(ObjectStore& store, const SaveJob& job);

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

  // Waits until nothing is under way; throws the error of an earlier save, once.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
