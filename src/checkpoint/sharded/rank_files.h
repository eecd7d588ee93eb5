// The files that one rank writes of a checkpoint of all ranks.
//
//  1. The plan says which parts are this rank's to write.
//  2. They become data files, `__{rank}_{n}.distcp`: the objects one after the other, the tensors,
//     largest first, each to the file that has the fewest bytes so far. In a file the objects come
//     after the tensors: their sizes change from save to save, and no tensor moves while the plan
//     is the same. Every offset is known now.
//  3. Each file is a CheckpointPlan, which any executor writes: write() streams it from the
//     tensors' own memory, several files at a time. Nothing is copied aside.
//  4. The report says where everything stands, and what the files' checksums are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/storage/object_store.h"

#include "checkpoint/sharded/rank_plan.h"
#include "checkpoint/sharded/rank_state.h"
#include "format/dcp/data_plan.h"

namespace cairn::sharded {

struct RankFilesOptions {
  // Into how many files at most. One is what Composer expects of a rank, and as fast where the
  // disk is what takes the time; several where one stream or one thread does not fill it.
  std::size_t files = 1;
  std::string scratch_folder = {};  // see dcp::as_chunk()
};

// Keeps the tensors' memory. Immutable.
class RankFiles {
 public:
  // Begins to write an object of the checkpoint's folder by its plain name.
  using Begin =
      std::function<std::unique_ptr<ObjectWrite>(const std::string& name, std::uint64_t bytes)>;

  // `plan`: GlobalPlan::plan_of(). CorruptError for bytes that are none; UsageError for one that
  // was made for another state than this; UnsupportedError for what a folder cannot hold.
  RankFiles(const RankState& state, std::string_view plan, const RankFilesOptions& options = {});

  // May be none: others write all that this rank has.
  std::size_t count() const { return files_.size(); }
  std::string name(std::size_t index) const;
  const dcp::DataPlan& plan(std::size_t index) const { return files_[index]; }
  std::uint64_t bytes() const;

  // For GlobalPlan::metadata(). `xxh3_128`: of each file, all of its bytes, in 32 hex digits.
  std::string report(const std::vector<std::string>& xxh3_128) const;

  // Writes and commits every file, and returns the report. `begin` may be called from several
  // threads. StorageError, and what `begin` throws: then some files may be there.
  std::string write(const Begin& begin) const;

 private:
  std::uint32_t rank_ = 0;
  std::uint64_t plan_hash_ = 0;
  std::vector<dcp::DataPlan> files_;
  std::vector<RankReport::Place> places_;  // of what the plan says, in order
};

}  // namespace cairn::sharded
