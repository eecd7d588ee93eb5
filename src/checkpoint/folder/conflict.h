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
  // It is the name that a save would have at this moment, and may have again later: a constant one,
  // or one with {epoch} alone. Harmless when it is this run's file that training goes on from.
  bool is_present = false;
};

// Returns those of `names` that training could write in the future, in their order. `names` are
// paths relative to the save folder; `format` makes them. Such a name has a counter beyond that of
// `now`, or it is the name of `now` itself and may come again. Counters within an epoch are
// compared when the epoch is the current one. Names of another form, and those that training has
// passed, are no conflict. UsageError for a format with {*_in_epoch} and no {epoch}: such names
// repeat in every epoch.
std::vector<Conflict> find_conflicts(const NameFormat& format,
                                     const std::vector<std::string>& names,
                                     const FormatVariables& dist, const Timestamp& now);
// The first of them.
std::optional<Conflict> find_conflict(const NameFormat& format,
                                      const std::vector<std::string>& names,
                                      const FormatVariables& dist, const Timestamp& now);

// Whether `name` is one that `format` made before `now`, and that no save at `now` or later has.
bool has_passed(const NameFormat& format, const std::string& name, const FormatVariables& dist,
                const Timestamp& now);

}  // namespace cairn
