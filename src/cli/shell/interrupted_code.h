#pragma once

namespace cairn::cli {

// The exit code of a program whose training was asked to stop and has saved, unless it chose
// another one (TrainerOptions::interrupted_exit_code).
inline constexpr int kInterruptedCode = 75;

}  // namespace cairn::cli
