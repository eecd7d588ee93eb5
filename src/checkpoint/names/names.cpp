#include "cairn/checkpoint/names.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cairn/error.h"
#include "cairn/export.h"

#include "checkpoint/names/format_string.h"
#include "checkpoint/names/launch.h"
#include "value/timestamp_fields.h"

namespace cairn {
namespace {

struct DistVariable {
  const char* name;
  const char* environment;
};
constexpr std::string_view kNodeRank = "node_rank";
constexpr DistVariable kDistVariables[] = {
    {"rank", "RANK"},
    {"local_rank", "LOCAL_RANK"},
    {"world_size", "WORLD_SIZE"},
    {"local_world_size", "LOCAL_WORLD_SIZE"},
    {"node_rank", "NODE_RANK"},
};

// In the order of Composer's list; messages show them in this order.
constexpr std::array kNamedCounters = {
    &Timestamp::epoch,           &Timestamp::batch, &Timestamp::batch_in_epoch, &Timestamp::sample,
    &Timestamp::sample_in_epoch, &Timestamp::token, &Timestamp::token_in_epoch,
};

std::int64_t parse_number(const char* variable, const char* text) {
  std::int64_t number = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end) {
    throw UsageError("environment variable " + std::string(variable) +
                     ": expected a whole number, found \"" + text + "\"");
  }
  return number;
}

std::string names_of(const FormatVariables& variables) {
  std::string names;
  for (const auto& [name, value] : variables) {
    names += (names.empty() ? "{" : " {") + name + "}";
  }
  return names.empty() ? "none" : names;
}

// Whether the variable is one of Composer's for MLflow. The name keeps such a variable, and the
// store of dbfs:/ fills it in.
bool is_of_store(const std::string& name) {
  return name == "mlflow_experiment_id" || name == "mlflow_run_id";
}

}  // namespace

FormatVariables dist_variables(const std::string& run_name, const ReadEnvironment& read) {
  const auto get = [&](const char* name) { return read ? read(name) : std::getenv(name); };
  FormatVariables variables = {{"run_name", run_name}};
  const bool is_in_environment = get("RANK") != nullptr || get("WORLD_SIZE") != nullptr;
  if (is_in_environment && !is_launch_set(read)) {
    for (const auto& [name, environment] : kDistVariables) {
      const char* text = get(environment);
      // torchrun's name for the node's rank.
      if (text == nullptr && name == kNodeRank) text = get("GROUP_RANK");
      if (text != nullptr) {
        variables.emplace_back(name, parse_number(environment, text));
      }
    }
    return variables;
  }
  const Launch launch = launch_of(read);
  const std::optional<std::int64_t> values[] = {launch.rank, launch.local_rank, launch.world_size,
                                                launch.local_world_size, launch.node_rank};
  for (std::size_t i = 0; i < std::size(kDistVariables); ++i) {
    if (values[i]) variables.emplace_back(kDistVariables[i].name, *values[i]);
  }
  return variables;
}

FormatVariables time_variables(const Timestamp& timestamp) {
  FormatVariables variables;
  for (const auto field : kNamedCounters) {
    variables.emplace_back(timestamp_counter(field).name, timestamp.*field);
  }
  for (const TimestampClock& clock : kTimestampClocks) {
    if (clock.field == &Timestamp::iteration_wct) continue;  // Composer has no variable for it
    variables.emplace_back(clock.name, (timestamp.*clock.field).total_seconds());
  }
  return variables;
}

// Only a class declares it, so its namespace does not make it public.
CAIRN_PUBLIC FormatVariables operator+(FormatVariables a, const FormatVariables& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

NameFormat NameFormat::of_name(const std::string& name) {
  std::string text;
  for (const char c : name) {
    text.append(c == '{' || c == '}' ? 2 : 1, c);
  }
  return NameFormat(std::move(text));
}

NameFormat partial_format(const NameFormat& format, const FormatVariables& variables) {
  std::string result;
  for (const FormatPiece& piece : split_format(format)) {
    const FormatValue* value = piece.is_field ? find_variable(variables, piece.name) : nullptr;
    if (piece.is_field && value == nullptr) {
      result += piece.text;
    } else {
      result += NameFormat::of_name(value ? format_field(piece, *value) : piece.text).text();
    }
  }
  return NameFormat(std::move(result));
}

std::string strict_format(const NameFormat& format, const FormatVariables& variables) {
  std::string name;
  for (const FormatPiece& piece : split_format(format)) {
    const FormatValue* value = piece.is_field ? find_variable(variables, piece.name) : nullptr;
    if (piece.is_field && value == nullptr && !is_of_store(piece.name)) {
      throw UsageError("format \"" + format.text() + "\": unknown variable " + piece.text +
                       "; there are: " + names_of(variables));
    }
    name += value != nullptr ? format_field(piece, *value) : piece.text;
  }
  return name;
}

}  // namespace cairn
