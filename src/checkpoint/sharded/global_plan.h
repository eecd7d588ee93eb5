// Plans which rank writes which parts of a checkpoint that all ranks write together, and makes the
// checkpoint's `.metadata`.
//
//  1. Every rank describes its parts (rank_state.h). One rank, usually 0, makes a GlobalPlan from
//     the descriptions.
//  2. Among equal parts, one rank writes the part. The writer is a rank of the first replica that
//     has the part. Of these ranks it is the one with the fewest bytes to write so far; if several
//     have equally few, the lowest. Whole tensors and objects are written by the lowest rank of the
//     first replica. The reason is that buffers, such as those of BatchNorm, differ between ranks,
//     and the buffers of rank 0 shall be saved. Overlapping or missing parts are an error.
//  3. plan_of() tells each rank which of its parts it writes.
//  4. Each rank writes its files (rank_files.h) and reports where each part is in them.
//  5. content() gives the content of `.metadata` for all files. The publishing rank writes
//     `.metadata` last.
//
// Nothing here communicates: the callers carry descriptions, plans and reports, which are texts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/plan/folder_manifest.h"

namespace cairn::dcp {
class MetadataContent;
}

namespace cairn::sharded {

// `__{rank}_{number}.distcp`
std::string data_file_name(std::uint32_t rank, std::size_t number);

struct MetadataOptions {
  // By rank, the names of its files in `.metadata`; empty: data_file_name().
  std::vector<std::vector<std::string>> file_names = {};
  std::string save_id = {};  // a unique id of this save, in storage_meta; may be empty
};

// The ranks' reports (RankFiles::report()), in any order.
using Reports = std::vector<std::string_view>;

// The plan of one save. State of a single rank, such as its random state, comes as ("rng", rank,
// ...) from RankState::add_own().
//
// Memory: the descriptions, three bits for each part of each rank, and the parts of one tensor at a
// time. Immutable and thread-safe.
class GlobalPlan {
 public:
  // `names`: all different Description::names, in any order. `parts`: the Description::parts of
  // every rank, in any order. Throws CorruptError for texts that are not descriptions,
  // UnsupportedError for those of another version of cairn, and UsageError, naming the item and the
  // ranks, if the descriptions do not form one state.
  GlobalPlan(const std::vector<std::string>& names, std::vector<std::string> parts);
  ~GlobalPlan();
  GlobalPlan(GlobalPlan&&) noexcept;

  std::uint32_t world_size() const;
  std::size_t items() const;
  std::uint64_t chunks() const;  // the number of chunks that are written, of all tensors
  std::uint64_t bytes_of(std::uint32_t rank) const;  // of the tensor parts that the rank writes
  // The rank's Description::parts.
  const std::string& text_of(std::uint32_t rank) const;
  // The approximate memory that the plan takes.
  std::uint64_t memory() const;

  // The text for the rank's RankFiles. Throws UsageError if there is no such rank.
  std::string plan_of(std::uint32_t rank) const;

  // The files that all ranks wrote, from their reports. Throws CorruptError, naming the rank, for a
  // report that does not fit the plan, and UsageError if a report is missing.
  std::vector<ManifestFile> files(const std::vector<std::string>& reports) const;
  // The content of `.metadata` for these files (dcp::write_metadata()). The result takes 24 bytes
  // for each chunk and keeps none of the arguments; the plan must outlive the result. Throws what
  // files() throws.
  std::unique_ptr<const dcp::MetadataContent> content(const Reports& reports,
                                                      const MetadataOptions& options = {}) const;
  // The whole text of `.metadata`. For few chunks.
  std::string metadata(const std::vector<std::string>& reports,
                       const MetadataOptions& options = {}) const;

 private:
  class Content;
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace cairn::sharded
