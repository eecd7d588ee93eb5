#include "cairn/checkpoint/names.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cairn/error.h"

#include "checkpoint/names/format_string.h"
#include "value/timestamp_fields.h"

namespace cairn {
namespace {

struct DistVariable {
  const char* name;
  const char* environment;
  std::int64_t alone;  // its value in a process that no launcher started
};
constexpr DistVariable kDistVariables[] = {
    {"rank", "RANK", 0},
    {"local_rank", "LOCAL_RANK", 0},
    {"world_size", "WORLD_SIZE", 1},
    {"local_world_size", "LOCAL_WORLD_SIZE", 1},
    {"node_rank", "NODE_RANK", 0},
};

// In the order of Composer's list, which messages show.
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

// Composer's of MLflow: they stay, and the store of dbfs:/ fills them in.
bool is_of_store(const std::string& name) {
  return name == "mlflow_experiment_id" || name == "mlflow_run_id";
}

}  // namespace

FormatVariables dist_variables(const std::string& run_name, const ReadEnvironment& read) {
  const auto get = [&](const char* name) { return read ? read(name) : std::getenv(name); };
  const bool launched = get("RANK") != nullptr || get("WORLD_SIZE") != nullptr;
  FormatVariables variables = {{"run_name", run_name}};
  for (const auto& [name, environment, alone] : kDistVariables) {
    if (const char* text = get(environment)) {
      variables.emplace_back(name, parse_number(environment, text));
    } else if (!launched) {
      variables.emplace_back(name, alone);
    }
  }
  return variables;
}

FormatVariables time_variables(const Timestamp& timestamp) {
  FormatVariables variables;
  for (const auto field : kNamedCounters) {
    variables.emplace_back(timestamp_counter(field).name, timestamp.*field);
  }
  for (const TimestampClock& clock : kTimestampClocks) {
    if (clock.field == &Timestamp::iteration_wct) continue;  // no variable of Composer's
    variables.emplace_back(clock.name, (timestamp.*clock.field).total_seconds());
  }
  return variables;
}

FormatVariables operator+(FormatVariables a, const FormatVariables& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string partial_format(const std::string& format, const FormatVariables& variables) {
  std::string result;
  for (const FormatPiece& piece : split_format(format)) {
    const FormatValue* value = piece.is_field ? find_variable(variables, piece.name) : nullptr;
    result += value != nullptr ? format_field(piece, *value) : piece.text;
  }
  return result;
}

std::string strict_format(const std::string& format, const FormatVariables& variables) {
  for (const FormatPiece& piece : split_format(format)) {
    const bool is_known = !piece.is_field || find_variable(variables, piece.name) != nullptr;
    if (!is_known && !is_of_store(piece.name)) {
      throw UsageError("format \"" + format + "\": unknown variable " + piece.text +
                       "; there are: " + names_of(variables));
    }
  }
  return partial_format(format, variables);
}

}  // namespace cairn
