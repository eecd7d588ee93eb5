// Parses the arguments of a dist_program, and prints its answers.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "io/file_descriptor.h"

// Parses arguments of the form KEY=VALUE.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      const std::size_t at = text.find('=');
      values_[text.substr(0, at)] = text.substr(at + 1);
    }
  }
  std::string text(const std::string& key, const std::string& otherwise = "") const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : found->second;
  }
  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    return has(key) ? std::stoll(text(key)) : otherwise;
  }
  bool has(const std::string& key) const { return values_.contains(key); }

 private:
  std::map<std::string, std::string> values_;
};

inline void print_line(const std::string& text) { std::cout << text << std::endl; }

// Waits until a Gate of job.h is opened. `path` is the Gate's file.
inline void wait_at_gate(const std::string& path) {
  const cairn::FileDescriptor gate(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!gate.is_open() || flock(gate.get(), LOCK_SH) != 0) {
    throw std::runtime_error("no gate at " + path);
  }
}

// Waits until the test that started this program writes a line.
inline void wait_for_line() {
  print_line("waits");
  std::string line;
  std::getline(std::cin, line);
}

inline void demand(bool holds, const std::string& what) {
  if (!holds) throw cairn::UsageError("not so: " + what);
}

// Does nothing when called again.
inline void initialize(const Arguments& arguments) {
  if (cairn::dist::is_initialized()) return;
  print_line("comes");
  if (arguments.has("gate")) wait_at_gate(arguments.text("gate"));
  cairn::dist::initialize(
      {.timeout = std::chrono::milliseconds(arguments.number("timeout_ms", 60000))});
  print_line(cairn::dist::describe());
}
