// The exit codes of cairn's programs, for yours to share: what a script or a scheduler can act on
// without reading the message.
#pragma once

#include <exception>

namespace cairn {

// Besides these, 75: training stopped early, its state is saved, run me again (see
// TrainerOptions::interrupted_exit_code).
enum ExitCode : int {
  kDone = 0,
  kNegativeAnswer = 1,  // "they differ", "it is damaged"
  kFailed = 2,          // wrong usage, or could not do what was asked
  kNotFound = 3,
  kDamaged = 4,
  kIncompatible = 5,  // a checkpoint of another model, a file that is no checkpoint
  kDenied = 6,
  kStorage = 7,  // a disk or a store does not answer, or answers with an error: try again later
  kNoSpace = 8,
  kBusy = 9,  // the run is training already, in another process: do not start it again
};

// The code with which a program should end that this error ends: by its class, kFailed for those
// that are not cairn's.
ExitCode exit_code_of(const std::exception& error);

}  // namespace cairn
