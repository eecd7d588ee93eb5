// Names of checkpoints: Python format strings such as "ep{epoch:05d}-ba{batch}-rank{rank}.pt".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"

namespace CAIRN_PUBLIC cairn {

// Variables in order. Each is an int, a float or a text, as in Python's str.format.
using FormatValue = std::variant<std::int64_t, double, std::string>;
struct FormatVariables : std::vector<std::pair<std::string, FormatValue>> {
  using vector::vector;
  friend FormatVariables operator+(FormatVariables a, const FormatVariables& b);
};

// A format: text with {variables}. A name made from a format is a std::string. Such a name may hold
// braces, from a run's name, and formatting the name again would take the braces for variables. So
// formatting a std::string does not compile. A literal is a format; NameFormat(text) makes a format
// of `text`.
class NameFormat {
 public:
  NameFormat() = default;  // empty
  NameFormat(const char* text) : text_(text) {}
  explicit NameFormat(std::string text) : text_(std::move(text)) {}
  // Returns the format that makes only `name`: the braces in the name are doubled.
  static NameFormat of_name(const std::string& name);

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  friend bool operator==(const NameFormat&, const NameFormat&) = default;

 private:
  std::string text_;
};

// Variables of the process that saves: {run_name} {rank} {local_rank} {world_size}
// {local_world_size} {node_rank}. Ranks come from the launcher's environment variables (RANK,
// LOCAL_RANK, ...; Slurm's and Open MPI's), or from dist::initialize(). Without a launcher the
// process is alone: ranks 0, sizes 1. With a launcher, a variable that it did not set has no value,
// and stays in a name as it is. Throws UsageError for a variable that is not a number.
using ReadEnvironment = std::function<const char*(const char* name)>;
FormatVariables dist_variables(const std::string& run_name,
                               const ReadEnvironment& read = nullptr);  // std::getenv when null

// {epoch} {batch} {batch_in_epoch} {sample} {sample_in_epoch} {token} {token_in_epoch} as ints and
// {total_wct} {epoch_wct} {batch_wct} as float seconds.
FormatVariables time_variables(const Timestamp& timestamp);

// Replaces the variables that have a value, and leaves "{other}", "{other:05d}" and "{}" as they
// are. The result is a format that makes the same names, so "{{" and "}}" stay, and braces in a
// value are doubled. Throws UsageError for text that is not a format string, for a spec that does
// not fit the value ("{run_name:d}"), and for Python's "{a.b}", "{a[0]}", "{a!r}" and "{a:{b}}".
NameFormat partial_format(const NameFormat& format, const FormatVariables& variables);

// Makes the name: replaces every variable by its value, and "{{" and "}}" by single braces. Throws
// as partial_format() does. A variable without a value is a UsageError that names it and the
// variables that exist.
std::string strict_format(const NameFormat& format, const FormatVariables& variables);

// --- Recognising names -------------------------------------------------------------------------

// Returns the counters that `name` holds ({"epoch": 3, "batch": 120}), in the format's order, or
// nullopt if `name` was not made from `format`. Understands format specs and the {*_wct} variables.
// A variable in `dist` must appear in `name` with its value from `dist`; all other text must match
// `format`. A variable that occurs twice must have one value. Where variables touch
// ("{epoch}{batch}"), the first takes as much as it can.
std::optional<std::vector<std::pair<std::string, std::int64_t>>> parse_name(
    const NameFormat& format, const std::string& name, const FormatVariables& dist);

}  // namespace cairn
