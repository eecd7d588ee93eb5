// find_latest() with what only cairn itself asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct SearchOptions {
  FindOptions find = {};
  // More names that candidates may have, beside those of find.filename.
  std::vector<NameFormat> other_filenames = {};
  // Pass over what is no Trainer's whole state.
  bool only_run_states = false;
};

// As find_latest(), but silent without find.on_skip.
std::optional<FoundCheckpoint> search_folder(const std::string& folder,
                                             const SearchOptions& options);

}  // namespace cairn
