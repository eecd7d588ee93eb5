// Writes one rank's files of a checkpoint of all ranks.
//
//  1. The plan says which parts this rank writes.
//  2. The parts go into data files, `__{rank}_{n}.distcp`. Objects are dealt to the files in turn.
//     Tensors, the largest first, go to the file with the fewest bytes so far. In a file the
//     objects come after the tensors, because the sizes of objects change from save to save. So no
//     tensor moves as long as the plan stays the same. After this step every offset is known.
//  3. Each file is a CheckpointPlan, which any executor can write. write() streams it from the
//     tensors' own memory, several files at a time, without a copy.
//  4. The report says where each part is, and has the files' checksums.
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
  // The largest number of files. Composer expects one file of each rank, and one file is as fast as
  // several if the disk is the bottleneck. Use several files if one stream or one thread does not
  // saturate the disk.
  std::size_t files = 1;
  std::string scratch_folder = {};  // see dcp::as_chunk()
};

// Keeps the tensors' memory alive. Immutable.
class RankFiles {
 public:
  // Begins to write a file of the checkpoint's folder, by its plain name.
  using Begin =
      std::function<std::unique_ptr<ObjectWrite>(const std::string& name, std::uint64_t bytes)>;

  // `plan`: from GlobalPlan::plan_of(). Throws CorruptError if it is not a plan, UsageError if it
  // was made for another state, and UnsupportedError for values that a folder cannot hold.
  RankFiles(const RankState& state, std::string_view plan, const RankFilesOptions& options = {});

  // The number of files. The number is 0 if other ranks write everything that this rank has.
  std::size_t count() const { return files_.size(); }
  std::string name(std::size_t index) const;
  const dcp::DataPlan& plan(std::size_t index) const { return files_[index]; }
  std::uint64_t bytes() const;

  // The report for GlobalPlan::metadata(). `xxh3_128`: for each file, the hash of all its bytes in
  // 32 hex digits.
  std::string report(const std::vector<std::string>& xxh3_128) const;

  // Writes and commits every file, and returns the report. Several threads may call `begin`. Throws
  // StorageError and what `begin` throws; after an error some files may exist.
  std::string write(const Begin& begin) const;

 private:
  std::uint32_t rank_ = 0;
  std::uint64_t plan_hash_ = 0;
  std::vector<dcp::DataPlan> files_;
  std::vector<RankReport::Place> places_;  // of the parts in the plan, in order
};

}  // namespace cairn::sharded
