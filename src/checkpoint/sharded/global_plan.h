// Who writes what of a checkpoint that all ranks write together, and what its `.metadata` says.
//
//  1. Every rank describes what it has (rank_state.h). One rank, mostly 0, makes a GlobalPlan.
//  2. Of equal parts one rank writes each: of the first replica that has it, the rank that has the
//     fewest bytes to write so far, of those the lowest. Whole tensors and objects are the lowest
//     rank's of the first replica: buffers, as those of BatchNorm, are not the same on all, and
//     rank 0's count. Parts that overlap, or are missing, are an error.
//  3. plan_of(): what a rank is told: which of its parts it writes.
//  4. Each rank writes its files (rank_files.h) and reports where in them what stands.
//  5. content(): what `.metadata` says of all of them. Whoever publishes writes it last.
//
// Nothing here communicates: descriptions, plans and reports are texts that others carry.
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
  // What the files of each rank are called there; empty: data_file_name().
  std::vector<std::vector<std::string>> file_names = {};
  std::string save_id = {};  // what tells this save from others, in storage_meta; may be empty
};

// What ranks report (RankFiles::report()), in any order.
using Reports = std::vector<std::string_view>;

// The random state and others of a rank's own come as ("rng", rank, ...) of RankState::add_own().
//
// Memory: the descriptions, three bits for each part of each rank, and what a tensor's parts take,
// of one at a time. Immutable; safe from several threads.
class GlobalPlan {
 public:
  // `names`: all that differ, in any order (Description::names). `parts`: of every rank, in any
  // order (Description::parts). CorruptError for bytes that are none; UnsupportedError for those of
  // another version of cairn; UsageError naming the item and the ranks, where they do not make one
  // state together.
  GlobalPlan(const std::vector<std::string>& names, std::vector<std::string> parts);
  ~GlobalPlan();
  GlobalPlan(GlobalPlan&&) noexcept;

  std::uint32_t world_size() const;
  std::size_t items() const;
  std::uint64_t chunks() const;                      // that are written, of all tensors
  std::uint64_t bytes_of(std::uint32_t rank) const;  // of the tensors' parts that it writes
  // The rank's Description::parts.
  const std::string& text_of(std::uint32_t rank) const;
  // What it takes, about.
  std::uint64_t memory() const;

  // For the rank's RankFiles. UsageError when there is no such rank.
  std::string plan_of(std::uint32_t rank) const;

  // The files that all ranks wrote, as they report it. CorruptError, naming the rank, for a report
  // that is none of what was planned; UsageError when one is missing.
  std::vector<ManifestFile> files(const std::vector<std::string>& reports) const;
  // What `.metadata` over them says (dcp::write_metadata()). It takes 24 bytes for each chunk, and
  // keeps none of the arguments; the plan must outlive it. Errors as files().
  std::unique_ptr<const dcp::MetadataContent> content(const Reports& reports,
                                                      const MetadataOptions& options = {}) const;
  // The whole text: for few chunks.
  std::string metadata(const std::vector<std::string>& reports,
                       const MetadataOptions& options = {}) const;

 private:
  class Content;
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace cairn::sharded
