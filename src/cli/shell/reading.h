// How commands read checkpoints whose tensors they look at, and the options that change it.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cairn/value.h"

#include "checkpoint/open/source.h"
#include "cli/view/console.h"

namespace cairn::cli {

struct Reading {
  bool raw = false;    // --raw: without verifying what is read
  bool force = false;  // --force: however much the tensors show
};

void add_raw(CLI::App& app, Reading& reading);
void add_force(CLI::App& app, Reading& reading);

// Says on `err` that nothing is verified, where that was asked for. `place`: as the user named it.
void tell_raw(const std::string& place, const Console& console);
std::unique_ptr<CheckpointSource> open_to_read(const std::string& place, const Reading& reading,
                                               const Console& console);
// check_shown(), of what a command is to go through.
void check_work(const Value& part, const CheckpointSource& source, const std::string& place,
                const Reading& reading);

}  // namespace cairn::cli
