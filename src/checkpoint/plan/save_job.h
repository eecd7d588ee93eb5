// What every way to save a checkpoint is translated into.
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
  // It was left out: the store was away, and a newer save took its place in the queue.
  bool is_skipped = false;
  // With SaveJob::is_of_all_ranks: why something superfluous could not be removed. Other jobs throw
  // that error.
  std::string warning = {};
};

// For SaveJob::write, in a store that may_be_far().
struct FarWrite {
  RetryPolicy retry = {};
  // If there is one, to be called first: whether `latest` is where this job knows it. One attempt.
  std::function<void()> check = nullptr;
};

// What to save, where, what it says of itself, and what becomes superfluous.
struct SaveJob {
  Value value = {};
  std::string path = {};
  std::string latest = {};  // path of the link to point at `path` afterwards; empty: none
  // Paths of files that this save makes superfluous. Removed when the new file and the link are
  // durable. Missing ones are no error; `path`, and what `latest` points at, are never removed.
  std::vector<std::string> remove_afterwards = {};
  // Asked of each of them before; empty: all may be removed.
  std::function<bool(ObjectStore& store, const std::string& path)> may_remove = nullptr;
  CheckpointInfo info = {};
  // kOwn: what this job wrote to `path` last, or was told of (OwnObjects). A path of which it knows
  // nothing must be free.
  Replace replace = Replace::kAll;
  // With `write`, of a folder: whether what nobody can go on from, and is in its way, may be
  // renamed.
  bool puts_aside = false;
  // Whether neither this save nor a later one has that path, so that OwnObjects may forget most of
  // it. Asked by the thread that writes. Empty: it forgets nothing.
  std::function<bool(const std::string& path)> has_passed = nullptr;
  // Writes it, where that is no torch.save file of `value`: begins, fills and commits what `path`
  // is to be, and returns the bytes written. `point` moves `latest`: for whoever must know how that
  // went, when `path` is published. It is done behind this otherwise.
  using Write = std::function<std::uint64_t(ObjectStore& store, const SaveJob& job,
                                            const std::function<void()>& point)>;
  Write write = nullptr;
  // All ranks write it together, each with a job of its own. Such a job is never left out of the
  // queue, and a failed removal is a warning.
  bool is_of_all_ranks = false;
  FarWrite far = {};  // for `write`; the pipeline sets it
  // Whether its tensors may be ranges of files: those are mapped, of whatever size, and behind the
  // last byte, before anything is published, it is asked whether they still are what they were
  // (check_mapped_reads()). Not of a saver, whose tensors are in memory.
  bool checks_reads = false;
  // Called by SavePipeline::submit() of an asynchronous save after it has copied the tensors.
  // `find` gives the copy of a storage of `value`. It is empty if the storage was not copied,
  // because it does not change. Not called for a job that has `write`.
  using FindCopy = std::function<SharedBytes(const Storage& storage)>;
  std::function<void(const FindCopy& find)> on_copied = nullptr;
  // Called while it is written from live tensors: `more` bytes of them are, of `total`.
  std::function<void(std::uint64_t more, std::uint64_t total)> on_progress = nullptr;
  // Called when all is done, on the thread that did it. Must not call the pipeline.
  std::function<void(const SaveReport&)> report = nullptr;
};

}  // namespace cairn
