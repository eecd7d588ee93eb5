// The exit codes of cairn's programs. Your programs may use them, too. A script or a scheduler can
// act on them without reading the message.
#pragma once

#include <exception>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// One more code, 75: training stopped early and saved its state; run the program again (see
// TrainerOptions::interrupted_exit_code).
enum ExitCode : int {
  kDone = 0,
  kNegativeAnswer = 1,  // "they differ", "it is damaged"
  kFailed = 2,          // wrong usage, or could not do what was asked
  kNotFound = 3,
  kDamaged = 4,
  kIncompatible = 5,  // a checkpoint of another model, a file that is not a checkpoint
  kDenied = 6,
  kStorage = 7,  // a disk or a store does not answer, or answers with an error: try again later
  kNoSpace = 8,
  kBusy = 9,  // another process is training the run: do not start it again
};

// The exit code for a program that this error ends, by the error's class. kFailed for errors that
// are not cairn's.
ExitCode exit_code_of(const std::exception& error);

}  // namespace cairn
