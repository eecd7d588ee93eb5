// A debug trace of what a save or an upload does, mostly in the background. With CAIRN_TRACE=saves
// in the environment, each step prints a line to stderr when it ends:
//
//     cairn saves: write run/ep1.pt  0.132 s
#pragma once

#include <chrono>
#include <string>

namespace cairn {

// One step, from here to the end of the scope. If an exception ends the step, the line says
// "failed".
class TracedStep {
 public:
  // `what` is the step and `name` is its object. Both must outlive the TracedStep.
  TracedStep(const char* what, const std::string& name);
  ~TracedStep();
  TracedStep(const TracedStep&) = delete;
  TracedStep& operator=(const TracedStep&) = delete;

 private:
  const char* const what_;
  const std::string* const name_;  // null: tracing is off
  const int exceptions_;
  const std::chrono::steady_clock::time_point begin_;
};

}  // namespace cairn
