// Options that are a number of bytes.
#pragma once

#include <CLI/CLI.hpp>

namespace cairn::cli {

// Bytes, as "5GB": at least one.
CLI::Validator size_above_zero();

}  // namespace cairn::cli
