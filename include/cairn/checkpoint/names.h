// Names of checkpoints: Python format strings such as "ep{epoch:05d}-ba{batch}-rank{rank}.pt".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cairn/time.h"

namespace cairn {

// Variables in order, each an int, a float or a text, as Python's str.format sees them.
using FormatValue = std::variant<std::int64_t, double, std::string>;
struct FormatVariables : std::vector<std::pair<std::string, FormatValue>> {
  using vector::vector;
  friend FormatVariables operator+(FormatVariables a, const FormatVariables& b);
};

// A format: text with {variables}. A name that was made from a format is a std::string, another
// type. The name may hold braces (from a run's name), and formatting it again would take them for
// variables. So formatting a std::string does not compile. A literal is a format; NameFormat(text)
// says that `text` is one.
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

// Who is saving: {run_name} {rank} {local_rank} {world_size} {local_world_size} {node_rank}. Ranks
// come from what the launcher put into the environment (RANK, LOCAL_RANK, ...; Slurm's and Open
// MPI's variables), or from dist::initialize(). Without a launcher the process is the only one:
// ranks 0, sizes 1. With one, a variable that it did not set has no value and is left in a name as
// it stands. UsageError for one that is no number.
using ReadEnvironment = std::function<const char*(const char* name)>;
FormatVariables dist_variables(const std::string& run_name,
                               const ReadEnvironment& read = nullptr);  // std::getenv when null

// {epoch} {batch} {batch_in_epoch} {sample} {sample_in_epoch} {token} {token_in_epoch} as ints and
// {total_wct} {epoch_wct} {batch_wct} as float seconds.
FormatVariables time_variables(const Timestamp& timestamp);

// Replaces the variables that have a value, and leaves "{other}", "{other:05d}" and "{}" as they
// are. The result is a format that makes the same names. So "{{" and "}}" stay, and braces in a
// value are doubled. UsageError for a text that is no format string, a spec that does not fit the
// value ("{run_name:d}"), and Python's "{a.b}", "{a[0]}", "{a!r}" and "{a:{b}}".
NameFormat partial_format(const NameFormat& format, const FormatVariables& variables);

// Makes the name: every variable is replaced by its value, and "{{" and "}}" become single braces.
// Throws as partial_format() does. A variable without a value is a UsageError that names it and the
// variables that exist.
std::string strict_format(const NameFormat& format, const FormatVariables& variables);

// --- Recognising names -------------------------------------------------------------------------

// The counters that a name gives away ({"epoch": 3, "batch": 120}), in the format's order, or
// nullopt when `name` was not made from `format`. Format specs and the {*_wct} variables are
// understood; what is in `dist` must have its value there, anything else must stand as in `format`.
// A variable that occurs twice must have one value. Where variables touch ("{epoch}{batch}") the
// first takes as much as it can.
std::optional<std::vector<std::pair<std::string, std::int64_t>>> parse_name(
    const NameFormat& format, const std::string& name, const FormatVariables& dist);

}  // namespace cairn
