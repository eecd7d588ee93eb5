// Checks of options that are numbers of bytes or other numbers.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cairn::cli {

// A number of bytes such as "5GB": at least one.
CLI::Validator size_above_zero();

// A number that is at least 0. The error shows `example`: "--keep-last 3".
CLI::Validator zero_or_more(const std::string& example);

}  // namespace cairn::cli
