// A job in a child process whose file calls are attacked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "interpose.h"

namespace cairn::attack {

// Sends lines from the job to the parent: a word and a text.
class Report {
 public:
  explicit Report(int pipe) : pipe_(pipe) {}
  // Newlines become blanks.
  void tell(const std::string& word, const std::string& text = {}) const;

 private:
  int pipe_;
};

struct ChildResult {
  int signal = 0;          // the signal that ended the process, or 0
  int exit_code = -1;      // what the job returned; 2 if it threw
  std::string error = {};  // message of the exception that the job threw
  std::uint64_t calls = 0;
  std::vector<std::pair<std::string, std::string>> told = {};

  // The texts that the job sent with this word, one per line.
  std::string lines(const std::string& word) const;
  // For the messages of failing tests.
  std::string text() const;
};

// Calls `job` in a child process under `plan`. No other thread may run during this call.
ChildResult run_child(const Plan& plan, const std::function<int(const Report&)>& job);

}  // namespace cairn::attack
