// Finds files of an earlier run that this run would overwrite, for save_overwrite = false.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/time.h"

namespace cairn {

struct Conflict {
  std::string name;  // one of the given names
  std::string why;   // "its batch is 9, and training is at 7"
  // True if a save at this moment would have this name, and a later save may have it again: the
  // name is constant, or has only {epoch}. It is harmless if it is this run's file from which
  // training resumes.
  bool is_present = false;
};

// Whether the names of `format` repeat in every epoch: it has {*_in_epoch} and no {epoch}.
bool repeats_in_every_epoch(const NameFormat& format);

// Returns the `names` that training could write in the future, in their order. `names` are paths
// relative to the save folder; `format` makes them. Such a name has a counter beyond that of `now`,
// or is the name of `now` itself and may be used again. Counters within an epoch are compared only
// in the current epoch. Names of another form, and names that training has passed, are no conflict.
// Throws UsageError for a format that repeats_in_every_epoch().
std::vector<Conflict> find_conflicts(const NameFormat& format,
                                     const std::vector<std::string>& names,
                                     const FormatVariables& dist, const Timestamp& now);
// Returns the first conflict.
std::optional<Conflict> find_conflict(const NameFormat& format,
                                      const std::vector<std::string>& names,
                                      const FormatVariables& dist, const Timestamp& now);

// Whether `format` made `name` before `now`, and no save at `now` or later will have it.
bool is_retired(const NameFormat& format, const std::string& name, const FormatVariables& dist,
                const Timestamp& now);

}  // namespace cairn
