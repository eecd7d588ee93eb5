// A debug trace of what a save or an upload does, mostly in the background: with CAIRN_TRACE=saves
// in the environment each step prints a line to stderr when it ends:
//
//     cairn saves: write run/ep1.pt  0.132 s
#pragma once

#include <chrono>
#include <string>

namespace cairn {

// One step, from here to the end of the scope. An exception that ends it is printed as "failed".
class TracedStep {
 public:
  // Both must outlive it: what is done, and the name of what it is done to.
  TracedStep(const char* what, const std::string& name);
  ~TracedStep();
  TracedStep(const TracedStep&) = delete;
  TracedStep& operator=(const TracedStep&) = delete;

 private:
  const char* const what_;
  const std::string* const name_;  // null: nothing is traced
  const int exceptions_;
  const std::chrono::steady_clock::time_point begin_;
};

}  // namespace cairn
