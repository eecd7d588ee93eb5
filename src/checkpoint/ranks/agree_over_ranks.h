// The checkpoints that all ranks can go on from, also where each sees other parts of them.
// agree_over_ranks.cpp opens with the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/ranks/roll_call.h"

namespace cairn {

// One that a rank sees, or parts of it.
struct SeenCheckpoint {
  struct File {
    std::string name = {};  // in the checkpoint's folder; empty: it is one file
    std::uint64_t bytes = 0;
    std::string machine = {};  // on which it was written, where that is known
  };

  std::string name = {};  // the same on all ranks: "ep1-ba20"
  // What says which is the furthest: batch, epoch. Compared in their order; of equal length.
  std::vector<std::int64_t> order = {};
  // What tells two of one name apart: the attempt, a hash. The same on all ranks that have the same
  // checkpoint, or parts of it.
  std::string identity = {};
  // Whether this rank sees what makes it one, `.metadata`; false for a machine that has parts
  // alone. What nobody sees that of was never published.
  bool is_published = true;
  // Where ranks read what others have (joint_store.h): all files that it is made of, as who sees it
  // published knows them. Empty: who sees it has all that he needs.
  std::vector<File> files = {};
  std::vector<std::string> has = {};  // those that this rank can read, by name
  // Of parts: that they are of one that was published all the same, and on which machine.
  bool was_published = false;
  std::string publisher = {};
  // Why the disk does not give what says which one it is, and StorageError::status(): then only
  // name and order are known, this rank has nothing of it, and it counts as published.
  std::string problem = {};
  int status = 0;
};

struct AgreedCheckpoint {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t rank = 0;  // the first one that has it
  };

  std::string name;
  std::vector<std::int64_t> order;
  std::string identity;
  std::vector<File> files;  // as SeenCheckpoint's
  std::string lacks;        // why nobody can go on from it; empty for one that all can
  int status = 0;           // where that is a disk's fault: SeenCheckpoint's
};

struct AgreeJob {
  std::string what = "resuming";  // for messages
  // What this rank sees. May take long: it calls `move_on` at least every second meanwhile. Gives a
  // bounded number (the furthest, or those that retention keeps). Errors are those of all.
  std::function<std::vector<SeenCheckpoint>(const std::function<void()>& move_on)> look = nullptr;
  // There is elsewhere to look when all that were published lack something: then that is no error,
  // and the caller has why_none_is_whole() for when nothing is there, either. Rank 0's counts.
  bool may_lack_all = false;
};

// What was published, as far as any rank sees it, the furthest first: those that all ranks can go
// on from, since all see them or each file of theirs is on some rank; and, before and between them,
// those that they would have gone on from if nothing were lacking. Empty when no rank sees any
// published: the run begins anew. On all ranks the same, or the same error: RankFailure for a rank
// that does not come; what `look` throws; why_none_is_whole() when there are some and all of them
// lack something, unless may_lack_all. Works for any number of ranks, whatever number saved.
std::vector<AgreedCheckpoint> agree_over_ranks(RankTable& table, const AgreeJob& job);

// The furthest that lacks nothing; nullptr when there is none.
const AgreedCheckpoint* find_furthest(const std::vector<AgreedCheckpoint>& agreed);

// Where there are some and all lack something: why nobody may begin anew, and what to do; good
// otherwise. A fault of a disk's, which may be gone soon, when one of them has one; else the
// caller's.
Verdict why_none_is_whole(const std::vector<AgreedCheckpoint>& agreed);

}  // namespace cairn
