// Whether files of an earlier run stand where this run will save: save_overwrite = false.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/time.h"

namespace cairn {

struct Conflict {
  std::string name;  // one of those given
  std::string why;   // "its batch is 9, and training is at 7"
};

// The first of `names` (paths relative to the save folder, which `format` makes) that training
// could write in the future: one that has a counter beyond that of `now`. Counters within an epoch
// are compared when the epoch is the current one. Names of another form, and those that training
// has passed, are no conflict.
// UsageError for a format with {*_in_epoch} and no {epoch}: such names repeat in every epoch.
std::optional<Conflict> find_conflict(const std::string& format,
                                      const std::vector<std::string>& names,
                                      const FormatVariables& dist, const Timestamp& now);

}  // namespace cairn
