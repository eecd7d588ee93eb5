// What the example programs share: errors become one line on stderr and a documented exit code.
#pragma once

#include <exception>
#include <functional>

namespace CLI {
class App;
}

namespace examples {

// Exit codes of cairn's programs besides 0 (done) and 75 (training stopped early, run me again).
enum ExitCode : int {
  kNegativeAnswer = 1,  // "they differ"
  kFailed = 2,          // wrong usage, or could not do what was asked
  kNotFound = 3,
  kDamaged = 4,
  kIncompatible = 5,  // a checkpoint of another model, a file that is no checkpoint
  kDenied = 6,
  kNoSpace = 8,
};

int exit_code(const std::exception& error);

// Parses the command line, runs `body` and returns its value. An error of either is printed as
// "NAME: error: MESSAGE".
int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace examples
