// Refuses checkpoints that verification found damaged.
#pragma once

#include <string>
#include <string_view>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct Refusal {
  std::string_view called = {};  // the file's name in the message; empty: its path
  std::string_view advice = "try an older checkpoint";
};

// Throws CorruptError about the file `path`, at its first damage: "PATH is SUMMARY; ADVICE". Does
// nothing if the report is ok().
void check_whole(const VerifyReport& report, const std::string& path, const Refusal& refusal = {});

}  // namespace cairn
