// Writes one checkpoint from several ranks: a folder with files of each. The checkpoint exists when
// all files are durable, or not at all. commit_over_ranks.cpp opens with the protocol.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/ranks/roll_call.h"
#include "storage/publish/attempt_folder.h"

namespace cairn {

// The place for a rank's files. Only the thread that gets it may use it, and only during that call.
class PartPlace {
 public:
  PartPlace(AttemptFolder& folder, RollCall& call) : folder_(folder), call_(call) {}

  // The name that the file will have in the folder; `.metadata` needs this name.
  std::string stored_name(const std::string& name) const { return folder_.stored_name(name); }
  // Writes a file like AttemptFolder::write(). Between blocks, write() gives signs of life for this
  // rank. Throws an exception that is not an Error if the other ranks have given up; the caller
  // must let this exception pass.
  void write(const FileOfAttempt& file);
  // For long work that writes no block: call keep_alive() at least every second.
  void keep_alive() { call_.keep_alive(); }

 private:
  AttemptFolder& folder_;
  RollCall& call_;
};

// The files that a rank has written.
struct WrittenPart {
  WrittenPart() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): for a part without a note
  WrittenPart(std::vector<ManifestFile> f) : files(std::move(f)) {}
  std::vector<ManifestFile> files = {};  // by their stored names
  std::string note = {};                 // for the rank that makes `.metadata`
};

struct RankPart : WrittenPart {
  std::int64_t rank = 0;
};

// `.metadata`, written piece by piece: with ten million chunks it is a gigabyte.
struct RankMetadata {
  RankMetadata() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a small one is only a text
  RankMetadata(std::convertible_to<std::string> auto small) {
    fill = [text = std::string(std::move(small))](ByteSink& out) { out.write(as_bytes(text)); };
  }
  std::uint64_t expected_bytes = 0;  // a hint; 0 if not known
  // Writes all of `.metadata`, with the same bytes each time.
  std::function<void(ByteSink& out)> fill = nullptr;
};

// All ranks give the same job, except for what each of them writes.
struct RankCommitJob {
  std::string path = {};  // of the folder; each rank resolves a relative path itself
  // Whether an existing checkpoint may be replaced. If the parts are on several machines, none can
  // be replaced: then an existing checkpoint on rank 0's machine is an error.
  bool overwrite = false;
  // Whether another machine may put aside whatever already has the name on that machine, even if
  // this may be a part of a whole checkpoint (name_on_machine.h). For a run that has resumed from
  // an earlier checkpoint. False: the existing thing is an AlreadyExistsError, or the disk's error.
  // Only rank 0's value counts.
  bool puts_aside = false;
  // Writes this rank's files, and returns their names, sizes and hashes. Called on every rank.
  std::function<WrittenPart(PartPlace& place)> write_part = nullptr;
  // Returns `.metadata` for the parts of all ranks, in their order. Called on rank 0.
  std::function<RankMetadata(const std::vector<RankPart>& parts)> metadata = nullptr;
  // Moves the pointer. Called on rank 0 after the folder is published, before any rank is told.
  std::function<void()> point = nullptr;
  RetryPolicy retry = {};  // for a store that may_be_far()
};

struct RankCommitReport {
  std::string id = {};      // of the attempt
  std::uint64_t bytes = 0;  // of this rank's files; on rank 0, of all files
};

// Writes this rank's part, and returns when the whole checkpoint is durable and published. All
// ranks must call it equally often and in the same order, on the thread that saves. Throws the same
// error on all ranks, which names the rank at fault: RankFailure, or AlreadyExistsError, UsageError
// or CancelledError for faults that only the caller can fix. After an error nothing new is visible,
// and the next commit may succeed, except if the message says that the outcome is not known.
RankCommitReport commit_over_ranks(RankTable& table, ObjectStore& store, const RankCommitJob& job);

}  // namespace cairn
