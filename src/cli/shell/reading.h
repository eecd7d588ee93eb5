// Opens checkpoints for commands that look at tensors, and declares the options for it.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cairn/value.h"

#include "checkpoint/open/source.h"
#include "cli/view/console.h"

namespace cairn::cli {

struct Reading {
  bool raw = false;    // --raw: read without verifying
  bool force = false;  // --force: no limit for check_shown()
};

void add_raw(CLI::App& app, Reading& reading);
void add_force(CLI::App& app, Reading& reading);

// Says on `err` that nothing was verified, if --raw is given. `place` is as the user named it.
void tell_raw(const std::string& place, const Console& console);
std::unique_ptr<CheckpointSource> open_to_read(const std::string& place, const Reading& reading,
                                               const Console& console);
// Calls check_shown() for the part that a command will go through.
void check_work(const Value& part, const CheckpointSource& source, const std::string& place,
                const Reading& reading);

}  // namespace cairn::cli
