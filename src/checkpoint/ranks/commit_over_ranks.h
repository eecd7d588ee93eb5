// One checkpoint that several ranks write: a folder with files of each. It is there when all of
// them are durable, or not at all. commit_over_ranks.cpp opens with the protocol.
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

// Where a rank puts its files. For the thread that was given it, while its call lasts.
class PartPlace {
 public:
  PartPlace(AttemptFolder& folder, RollCall& call) : folder_(folder), call_(call) {}

  // What the file will be called there: for `.metadata`, which names it.
  std::string stored_name(const std::string& name) const { return folder_.stored_name(name); }
  // Writes a file, as AttemptFolder::write(). Says between any two blocks that this rank lives, and
  // ends with an exception that is no Error when the others have given up: let it pass.
  void write(const FileOfAttempt& file);
  // For long work without a block written: call it at least every second.
  void move_on() { call_.move_on(); }

 private:
  AttemptFolder& folder_;
  RollCall& call_;
};

// What a rank has written.
struct WrittenPart {
  WrittenPart() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): of a part of which there is nothing else to say
  WrittenPart(std::vector<ManifestFile> f) : files(std::move(f)) {}
  std::vector<ManifestFile> files = {};  // by their stored names
  std::string note = {};                 // for whoever makes `.metadata`
};

struct RankPart : WrittenPart {
  std::int64_t rank = 0;
};

// `.metadata`, which is written piece by piece: with ten million chunks it has a gigabyte.
struct RankMetadata {
  RankMetadata() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a small one is just a text
  RankMetadata(std::convertible_to<std::string> auto small) {
    fill = [text = std::string(std::move(small))](ByteSink& out) { out.write(as_bytes(text)); };
  }
  std::uint64_t expected_bytes = 0;  // a hint; 0 when not known
  // Writes all of it, the same bytes each time.
  std::function<void(ByteSink& out)> fill = nullptr;
};

// The same on all ranks, but for what each has in it.
struct RankCommitJob {
  std::string path = {};  // of the folder; relative ones are each rank's own
  // Whether what is there may be replaced. Where parts lie on several machines nothing is: on rank
  // 0's machine it is an error.
  bool overwrite = false;
  // Whether what another machine has under that name, and may be a part of a checkpoint that is
  // whole, may be put aside there (name_on_machine.h): of a run that goes on from before it.
  // Without it that is AlreadyExistsError, or what the disk says. Rank 0's counts.
  bool puts_aside = false;
  // Writes this rank's files, and says which, with sizes and hashes. On every rank.
  std::function<WrittenPart(PartPlace& place)> write_part = nullptr;
  // Gives `.metadata` for what all wrote, in the order of their ranks. On rank 0.
  std::function<RankMetadata(const std::vector<RankPart>& parts)> metadata = nullptr;
  // Called when the folder is published, before any rank is told: moves the pointer. On rank 0.
  std::function<void()> point = nullptr;
  RetryPolicy retry = {};  // of a store that may_be_far()
};

struct RankCommitReport {
  std::string id = {};      // of the attempt
  std::uint64_t bytes = 0;  // of the files of this rank; on rank 0, of all
};

// Writes this rank's part, and returns when the whole checkpoint is durable and published. On all
// ranks, as often and in the same order; on the thread that saves. Errors are the same on all of
// them: RankFailure, or for what only the caller can mend AlreadyExistsError, UsageError,
// CancelledError; each names the rank whose fault it is. Nothing is visible then that was not
// before, and the next commit may succeed, except where the message says that it is not known.
RankCommitReport commit_over_ranks(RankTable& table, ObjectStore& store, const RankCommitJob& job);

}  // namespace cairn
