// find_latest() with options for cairn's own use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct SearchOptions {
  FindOptions find = {};
  // Further formats of candidates' names, besides find.filename.
  std::vector<NameFormat> other_filenames = {};
  // Skip every checkpoint except those of a Trainer's whole state.
  bool only_run_states = false;
  // The pointer find.latest_filename, if it was read already.
  std::optional<Pointer> latest = std::nullopt;
};

// Like find_latest(), but silent without find.on_skip.
std::optional<FoundCheckpoint> search_folder(const std::string& folder,
                                             const SearchOptions& options);

}  // namespace cairn
