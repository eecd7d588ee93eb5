// Names of checkpoints: Python format strings such as "ep{epoch:05d}-ba{batch}-rank{rank}.pt".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/time.h"

namespace cairn {

// Variables in order, each an int, a float or a text, as Python's str.format sees them.
using FormatValue = std::variant<std::int64_t, double, std::string>;
using FormatVariables = std::vector<std::pair<std::string, FormatValue>>;

// Who is saving. Ranks come from the environment (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// NODE_RANK); a variable that is not there has no value and is left in a name as it stands.
FormatVariables dist_variables(const std::string& run_name);

// {epoch} {batch} {batch_in_epoch} {sample} {sample_in_epoch} {token} {token_in_epoch} as ints and
// {total_wct} {epoch_wct} {batch_wct} as float seconds.
FormatVariables time_variables(const Timestamp& timestamp);

FormatVariables operator+(FormatVariables a, const FormatVariables& b);

// Replaces what has a value, and leaves "{other}" and "{other:05d}" as they are. "{{" and "}}" give
// single braces. UsageError for a text that is no format string or a spec that does not fit the
// value ("{run_name:d}").
std::string partial_format(const std::string& format, const FormatVariables& variables);

// As partial_format, but UsageError naming the variable and those that exist when one is left.
std::string strict_format(const std::string& format, const FormatVariables& variables);

// --- Recognising names -------------------------------------------------------------------------

// The counters that a name gives away ({"epoch": 3, "batch": 120}), or nullopt when `name` was not
// made from `format`. Format specs, {run_name} and the {*_wct} variables are understood; dist
// variables must have this process's value.
std::optional<std::vector<std::pair<std::string, std::int64_t>>> parse_name(
    const std::string& format, const std::string& name, const FormatVariables& dist);

}  // namespace cairn
