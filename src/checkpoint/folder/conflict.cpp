#include "checkpoint/folder/conflict.h"

#include <algorithm>

#include "cairn/error.h"

#include "checkpoint/names/format_string.h"

namespace cairn {
namespace {

using Counters = std::vector<std::pair<std::string, std::int64_t>>;

bool is_in_epoch(const std::string& variable) { return variable.ends_with("_in_epoch"); }

// The variables that a format has.
class Fields {
 public:
  explicit Fields(const NameFormat& format) : pieces_(split_format(format)) {}

  bool has(const std::string& name) const {
    return any([&](const std::string& field) { return field == name; });
  }
  bool has_in_epoch() const { return any(is_in_epoch); }
  // Whether every batch gets a different name. Tokens do not count, since they need not grow.
  bool is_new_with_every_batch() const {
    return has("batch") || has("sample") || has("total_wct") || has("batch_in_epoch") ||
           has("sample_in_epoch");
  }

 private:
  template <class Predicate>
  bool any(const Predicate& predicate) const {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const FormatPiece& piece) {
      return piece.is_field && predicate(piece.name);
    });
  }

  std::vector<FormatPiece> pieces_;
};

// The reason why a file with these counters may be overwritten; empty if it will not be.
std::string reason(const Counters& counters, const Timestamp& now) {
  const FormatVariables current = time_variables(now);
  const bool same_epoch = std::any_of(counters.begin(), counters.end(), [&](const auto& counter) {
    return counter.first == "epoch" && counter.second == now.epoch;
  });
  for (const auto& [variable, value] : counters) {
    if (is_in_epoch(variable) && !same_epoch) continue;
    const auto here = std::get<std::int64_t>(*find_variable(current, variable));
    if (value > here) {
      return "its " + variable + " is " + std::to_string(value) + ", and training is at " +
             std::to_string(here);
    }
  }
  return "";
}

}  // namespace

bool repeats_in_every_epoch(const NameFormat& format) {
  const Fields fields(format);
  return fields.has_in_epoch() && !fields.has("epoch");
}

std::vector<Conflict> find_conflicts(const NameFormat& format,
                                     const std::vector<std::string>& names,
                                     const FormatVariables& dist, const Timestamp& now) {
  if (repeats_in_every_epoch(format)) {
    throw UsageError("save_filename \"" + format.text() +
                     "\": names repeat in every epoch; add {epoch} to it");
  }
  const NameFormat present = partial_format(format, dist + time_variables(now));
  const bool may_come_again = !Fields(format).is_new_with_every_batch();
  std::vector<Conflict> conflicts;
  for (const std::string& name : names) {
    if (may_come_again && parse_name(present, name, {})) {
      conflicts.push_back({.name = name,
                           .why = "this run saves under that name, but does not resume from it",
                           .is_present = true});
      continue;
    }
    const auto counters = parse_name(format, name, dist);
    if (!counters) continue;
    std::string why = reason(*counters, now);
    if (!why.empty()) conflicts.push_back({.name = name, .why = std::move(why)});
  }
  return conflicts;
}

std::optional<Conflict> find_conflict(const NameFormat& format,
                                      const std::vector<std::string>& names,
                                      const FormatVariables& dist, const Timestamp& now) {
  const std::vector<Conflict> all = find_conflicts(format, names, dist, now);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

bool is_retired(const NameFormat& format, const std::string& name, const FormatVariables& dist,
                const Timestamp& now) {
  if (repeats_in_every_epoch(format)) return false;
  return !parse_name(partial_format(format, dist + time_variables(now)), name, {}) &&
         parse_name(format, name, dist) && !find_conflict(format, {name}, dist, now);
}

}  // namespace cairn
