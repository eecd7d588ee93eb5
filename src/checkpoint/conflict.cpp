#include "checkpoint/conflict.h"

#include <algorithm>

#include "cairn/error.h"

#include "checkpoint/format_string.h"

namespace cairn {
namespace {

using Counters = std::vector<std::pair<std::string, std::int64_t>>;

bool is_in_epoch(const std::string& variable) { return variable.ends_with("_in_epoch"); }

void check_format(const std::string& format) {
  const auto pieces = split_format(format);
  const auto has = [&](auto&& predicate) {
    return std::any_of(pieces.begin(), pieces.end(), [&](const FormatPiece& piece) {
      return piece.is_field && predicate(piece.name);
    });
  };
  if (has(is_in_epoch) && !has([](const std::string& name) { return name == "epoch"; })) {
    throw UsageError("save_filename \"" + format +
                     "\": names repeat in every epoch; add {epoch} to it");
  }
}

// Why a file with these counters may be written again; empty when it will not be.
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

std::optional<Conflict> find_conflict(const std::string& format,
                                      const std::vector<std::string>& names,
                                      const FormatVariables& dist, const Timestamp& now) {
  check_format(format);
  for (const std::string& name : names) {
    const auto counters = parse_name(format, name, dist);
    if (!counters) continue;
    std::string why = reason(*counters, now);
    if (!why.empty()) return Conflict{.name = name, .why = std::move(why)};
  }
  return std::nullopt;
}

}  // namespace cairn
