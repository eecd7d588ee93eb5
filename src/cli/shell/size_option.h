// Options that are numbers, of bytes or of other things.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cairn::cli {

// Bytes, as "5GB": at least one.
CLI::Validator size_above_zero();

// A number that is not below 0. The error names `example`: "--keep-last 3".
CLI::Validator zero_or_more(const std::string& example);

}  // namespace cairn::cli
