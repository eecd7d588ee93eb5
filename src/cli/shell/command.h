// One command of the tool: a file with a function that describes it to CLI11 and gives what runs
// it. commands.cpp has one row per command; help, shell completion and man pages follow from what
// CLI11 was told.
#pragma once

#include <functional>
#include <span>

#include <CLI/CLI.hpp>

#include "cairn/exit_code.h"

#include "cli/view/console.h"

namespace cairn::cli {

// Does the work, with the options that were parsed, and returns an exit code. Throws cairn::Error.
using Run = std::function<int(Console&)>;

struct Command {
  const char* name;
  const char* summary;  // one line, no full stop
  Run (*define)(CLI::App& app);
};

std::span<const Command> commands();

// In files of their names.
Run define_completion(CLI::App& app);
Run define_convert(CLI::App& app);
Run define_copy(CLI::App& app);
Run define_diff(CLI::App& app);
Run define_doctor(CLI::App& app);
Run define_dump(CLI::App& app);
Run define_extract(CLI::App& app);
Run define_inspect(CLI::App& app);
Run define_lock(CLI::App& app);
Run define_ls(CLI::App& app);
Run define_man(CLI::App& app);
Run define_prune(CLI::App& app);
Run define_resume(CLI::App& app);
Run define_verify(CLI::App& app);

}  // namespace cairn::cli
