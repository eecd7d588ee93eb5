#include "cairn/checkpoint/names.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cairn/error.h"

#include "checkpoint/names/format_string.h"

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
  return {{"epoch", timestamp.epoch},
          {"batch", timestamp.batch},
          {"batch_in_epoch", timestamp.batch_in_epoch},
          {"sample", timestamp.sample},
          {"sample_in_epoch", timestamp.sample_in_epoch},
          {"token", timestamp.token},
          {"token_in_epoch", timestamp.token_in_epoch},
          {"total_wct", timestamp.total_wct.total_seconds()},
          {"epoch_wct", timestamp.epoch_wct.total_seconds()},
          {"batch_wct", timestamp.batch_wct.total_seconds()}};
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
    if (piece.is_field && find_variable(variables, piece.name) == nullptr) {
      throw UsageError("format \"" + format + "\": unknown variable " + piece.text +
                       "; there are: " + names_of(variables));
    }
  }
  return partial_format(format, variables);
}

}  // namespace cairn
