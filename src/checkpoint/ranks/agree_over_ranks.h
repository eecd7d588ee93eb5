// Finds the checkpoints that all ranks can resume from, even if each rank sees different parts of
// them. agree_over_ranks.cpp opens with the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/ranks/roll_call.h"

namespace cairn {

// A checkpoint, or parts of one, that a rank sees.
struct SeenCheckpoint {
  struct File {
    std::string name = {};  // in the checkpoint's folder; empty if the checkpoint is one file
    std::uint64_t bytes = 0;
    std::string machine = {};  // the machine on which it was written, if known
  };

  std::string name = {};  // the same on all ranks: "ep1-ba20"
  // How far training was: batch, epoch. The lists have equal lengths and are compared
  // lexicographically.
  std::vector<std::int64_t> order = {};
  // Distinguishes two checkpoints of one name: the attempt, or a hash. The same on all ranks that
  // have the same checkpoint or parts of it.
  std::string identity = {};
  // Whether this rank sees `.metadata`, which makes the parts a checkpoint. False on a machine that
  // has only parts. If no rank sees `.metadata`, the checkpoint was never published.
  bool is_published = true;
  // If ranks read one another's files (joint_store.h): all files of the checkpoint, as listed where
  // it is published. Empty: a rank that sees the checkpoint has all that it needs.
  std::vector<File> files = {};
  std::vector<std::string> has = {};  // names of the files that this rank can read
  // For parts: whether they are marked as parts of a published checkpoint, and the machine that
  // published it.
  bool was_published = false;
  std::string publisher = {};
  // Set if the disk does not return what identifies the checkpoint: the reason, and
  // StorageError::status(). In this case only name and order are known, this rank has no file of
  // the checkpoint, and the checkpoint counts as published.
  std::string problem = {};
  int status = 0;
};

struct AgreedCheckpoint {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t rank = 0;  // the first rank that has the file
  };

  std::string name;
  std::vector<std::int64_t> order;
  std::string identity;
  std::vector<File> files;  // as in SeenCheckpoint
  std::string lacks;        // why no rank can resume from it; empty if all ranks can
  int status = 0;           // as in SeenCheckpoint, if a disk is the reason
};

struct AgreeJob {
  std::string what = "resuming";  // for messages
  // Returns what this rank sees: a bounded number of checkpoints (the furthest, or those that
  // retention keeps). `look` may take long, and calls `keep_alive` at least every second meanwhile.
  // An exception fails the call on all ranks.
  std::function<std::vector<SeenCheckpoint>(const std::function<void()>& keep_alive)> look =
      nullptr;
  // True if the caller has other places to search. Then it is no error if all published checkpoints
  // lack something. The caller throws why_none_is_whole() if the other places have nothing either.
  // Only rank 0's value counts.
  bool may_lack_all = false;
};

// Returns the published checkpoints that any rank sees, the furthest first. All ranks can resume
// from a checkpoint that lacks nothing: all ranks see it, or each of its files is on some rank. The
// result also has the checkpoints that lack something. It is empty if no rank sees a published
// checkpoint: then the run begins anew. The result, or the error, is the same on all ranks. Throws
// RankFailure if a rank does not come, and what `look` throws. Throws why_none_is_whole() if all of
// these checkpoints lack something, unless may_lack_all. Works for any number of ranks, whatever
// number of ranks saved.
std::vector<AgreedCheckpoint> agree_over_ranks(RankTable& table, const AgreeJob& job);

// The furthest checkpoint that lacks nothing; nullptr if there is none.
const AgreedCheckpoint* find_furthest(const std::vector<AgreedCheckpoint>& agreed);

// If there are checkpoints and all of them lack something, returns a bad verdict. It says why the
// run may not begin anew, and what to do. Its kind is kFailed if a disk is the reason for one of
// the checkpoints, since such a failure may be gone soon; else kUsage. Otherwise returns a good
// verdict.
Verdict why_none_is_whole(const std::vector<AgreedCheckpoint>& agreed);

}  // namespace cairn
