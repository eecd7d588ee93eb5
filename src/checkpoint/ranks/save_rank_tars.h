// Saves a checkpoint that consists of one file of every rank (checkpoint/plan/rank_tar.h), in any
// place. save_rank_tars.cpp opens with the protocol.
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

// All ranks give the same job, except for `path` and `checkpoint`.
struct RankTarsJob {
  std::string path = {};  // of this rank's file; no other rank has this path
  Replace replace = Replace::kNever;
  Value checkpoint = {};  // this rank's state, for deepspeed::split(); must not change meanwhile
  deepspeed::ModelNames names = {};
  std::int64_t stage = 0;
  CheckpointInfo info = {};
  FarWrite far = {};
  // Moves this rank's pointer. Called when all files have their names.
  std::function<void()> point = nullptr;
};

struct RankTarsReport {
  std::string attempt = {};  // the id that all files of this save have
  std::uint64_t bytes = 0;   // of this rank's file
};

// The number of roll calls of one save, for a caller that numbers them.
inline constexpr std::int64_t kRollCallsOfTars = 3;

// Returns on all ranks when the files of all ranks are durable and have their names. Throws the
// same error on all ranks, which names the rank at fault: RankFailure, or UsageError,
// AlreadyExistsError or CancelledError for faults that only the caller can fix. After an error no
// file has its name, except if the message says that some may.
RankTarsReport save_rank_tars(RankTable& table, ObjectStore& store, const RankTarsJob& job);

}  // namespace cairn
