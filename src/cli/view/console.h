// Where a command's answers go, and how they look.
//
// Answers go to `out`, progress and warnings to `err`. With `json`, a command writes only one JSON
// object to `out`.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "core/text/json_fwd.h"

namespace cairn::cli {

class Screen;

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool json = false;
  bool color = false;  // for `out`
  bool quiet = false;  // no ProgressBar; reports show only problems
  bool exact_bytes = false;
  Screen* screen = nullptr;  // the terminal that `out` writes to; nullptr: it is none

  // The text in the colour, if colour is on.
  std::string red(const std::string& text) const;
  std::string green(const std::string& text) const;
  std::string dim(const std::string& text) const;

  // "362 KiB", or "370688" with exact_bytes.
  std::string bytes(std::uint64_t count) const;

  // Prints the answer of a command that has --json, as the text that json_text() makes.
  void print_json(const Json& object) const;
};

}  // namespace cairn::cli
