// What was verified and is damaged is used by nobody.
#pragma once

#include <string>
#include <string_view>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

struct Refusal {
  std::string_view called = {};  // the file, in the message; empty: by its path
  std::string_view advice = "try an older checkpoint";
};

// CorruptError about the file `path`, at its first damage: "PATH is SUMMARY; ADVICE". Nothing when
// the report is ok().
void check_whole(const VerifyReport& report, const std::string& path, const Refusal& refusal = {});

}  // namespace cairn
