// A job in a child process whose file calls are attacked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "interpose.h"

namespace cairn::attack {

// What the job told, line by line: a word and the rest.
class Report {
 public:
  explicit Report(int pipe) : pipe_(pipe) {}
  // Newlines become blanks.
  void tell(const std::string& word, const std::string& text = {}) const;

 private:
  int pipe_;
};

struct Ended {
  int signal = 0;          // that ended the process
  int exit_code = -1;      // what the job returned; 2 when it threw
  std::string error = {};  // what it threw
  std::uint64_t calls = 0;
  std::vector<std::pair<std::string, std::string>> told = {};

  // What was told with this word, a line each.
  std::string lines(const std::string& word) const;
  // For the messages of failing tests.
  std::string text() const;
};

// Calls `job` under `plan`. Call it where no other thread runs.
Ended run_child(const Plan& plan, const std::function<int(const Report&)>& job);

}  // namespace cairn::attack
