// A checkpoint of which every rank writes a file of its own (checkpoint/plan/rank_tar.h), where it
// likes. save_rank_tars.cpp opens with the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/plan/save_job.h"
#include "checkpoint/ranks/roll_call.h"
#include "format/deepspeed/rank_files.h"
#include "storage/publish/replace.h"

namespace cairn {

// The same on all ranks, but for `path` and `checkpoint`.
struct RankTarsJob {
  std::string path = {};  // of this rank's file, which no other rank has
  Replace replace = Replace::kNever;
  Value checkpoint = {};  // what this rank has: deepspeed::split()'s. Not to change meanwhile
  deepspeed::ModelNames names = {};
  std::int64_t stage = 0;
  CheckpointInfo info = {};
  FarWrite far = {};
  // Called when all files have their names: moves this rank's pointer.
  std::function<void()> point = nullptr;
};

struct RankTarsReport {
  std::string attempt = {};  // the id that all files of this save have
  std::uint64_t bytes = 0;   // of this rank's
};

// How many roll calls one save takes, for who numbers them.
inline constexpr std::int64_t kRollCallsOfTars = 3;

// Returns when the files of all ranks are durable and have their names, on all ranks. Errors are
// the same on all of them: RankFailure, or for what only the caller can mend UsageError,
// AlreadyExistsError, CancelledError; each names the rank whose fault it is. No file has its name
// then, but where the message says that some may.
RankTarsReport save_rank_tars(RankTable& table, ObjectStore& store, const RankTarsJob& job);

}  // namespace cairn
