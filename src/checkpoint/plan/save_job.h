// A SaveJob describes one save. Every way to save a checkpoint builds one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "storage/publish/publisher.h"

namespace cairn {

struct SaveReport : RemovalReport {
  std::string path = {};
  std::uint64_t bytes = 0;  // of the file
  // The save was skipped: the store could not be reached, and a newer save took its place in the
  // queue.
  bool is_skipped = false;
  // With SaveJob::is_of_all_ranks: why a superfluous file could not be removed. Other jobs throw
  // that error.
  std::string warning = {};
};

// For SaveJob::write, if the store may_be_far().
struct FarWrite {
  RetryPolicy retry = {};
  // If set, SaveJob::write calls it first. The function checks, in one attempt, that `latest` still
  // points where this job left it.
  std::function<void()> check = nullptr;
};

// The value, its path, its description, and the files that it makes superfluous.
struct SaveJob {
  Value value = {};
  std::string path = {};
  std::string latest = {};  // path of the link that will point at `path` afterwards; empty: none
  // Paths of files that this save makes superfluous. They are removed after the new file and the
  // link are durable. A missing file is not an error. `path` and the target of `latest` are never
  // removed.
  std::vector<std::string> remove_afterwards = {};
  // Called for each file of remove_afterwards before its removal. Empty: all may be removed.
  std::function<bool(ObjectStore& store, const std::string& path)> may_remove = nullptr;
  CheckpointInfo info = {};
  // kOwn: replaces only the object that this job last wrote to `path`, or that it was told is at
  // `path` (OwnObjects). A path of which the job knows nothing must be free.
  Replace replace = Replace::kAll;
  // For a folder, with `write`: whether files in its way may be renamed if no run can resume from
  // them.
  bool puts_aside = false;
  // Returns true if neither this save nor a later one uses `path`. OwnObjects then forgets most of
  // what it knows of `path`. Called on the thread that writes. Empty: OwnObjects forgets nothing.
  std::function<bool(const std::string& path)> is_retired = nullptr;
  // Writes anything other than a torch.save file of `value`: begins, fills and commits the object
  // at `path`, and returns the number of bytes written. `write` may call `point` after `path` is
  // published, to move `latest` and see whether moving it fails. Otherwise `latest` is moved after
  // `write` returns.
  using Write = std::function<std::uint64_t(ObjectStore& store, const SaveJob& job,
                                            const std::function<void()>& point)>;
  Write write = nullptr;
  // True if all ranks write the checkpoint together, each with a job of its own. Such a job is
  // never dropped from the queue, and a failed removal is only a warning.
  bool is_of_all_ranks = false;
  FarWrite far = {};  // for `write`; the pipeline sets it
  // True if tensors may be ranges of files. These files are then mapped, whatever their size. After
  // the last byte, before anything is published, check_mapped_reads() checks that the files have
  // not changed. A saver leaves this false, because its tensors are in memory.
  bool checks_reads = false;
  // Called by SavePipeline::submit() of an asynchronous save after it has copied the tensors.
  // `find` gives the copy of a storage of `value`. The result is empty if the storage was not
  // copied, because it does not change. Not called for a job that has `write`.
  using FindCopy = std::function<SharedBytes(const Storage& storage)>;
  std::function<void(const FindCopy& find)> on_copied = nullptr;
  // Called while the checkpoint is written from live tensors: `more` further bytes of `total` have
  // been written.
  std::function<void(std::uint64_t more, std::uint64_t total)> on_progress = nullptr;
  // Called at the end, on the thread that did the work. Must not call the pipeline.
  std::function<void(const SaveReport&)> report = nullptr;
};

}  // namespace cairn
