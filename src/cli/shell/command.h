// One command of the tool: a file with a function that declares the command's options with CLI11,
// and returns the function that runs the command. commands.cpp has one row per command. Help, shell
// completion and man pages are made from what is declared with CLI11.
#pragma once

#include <functional>
#include <span>

#include <CLI/CLI.hpp>

#include "cairn/exit_code.h"

#include "cli/view/console.h"

namespace cairn::cli {

// Runs the command with the parsed options, and returns an exit code. Throws cairn::Error.
using Run = std::function<int(Console&)>;

struct Command {
  const char* name;
  const char* summary;  // one line, no full stop
  Run (*define)(CLI::App& app);
};

std::span<const Command> commands();

// Each of these functions is in the file of its command: src/cli/commands/ls.cpp has define_ls().
Run define_completion(CLI::App& app);
Run define_convert(CLI::App& app);
Run define_copy(CLI::App& app);
Run define_curves(CLI::App& app);
Run define_diff(CLI::App& app);
Run define_doctor(CLI::App& app);
Run define_dump(CLI::App& app);
Run define_extract(CLI::App& app);
Run define_inspect(CLI::App& app);
Run define_lock(CLI::App& app);
Run define_ls(CLI::App& app);
Run define_man(CLI::App& app);
Run define_metrics(CLI::App& app);
Run define_prune(CLI::App& app);
Run define_report(CLI::App& app);
Run define_resume(CLI::App& app);
Run define_serve(CLI::App& app);
Run define_verify(CLI::App& app);
Run define_watch(CLI::App& app);

}  // namespace cairn::cli
