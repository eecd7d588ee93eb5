// What a run does, line by line. golden_trace.h compares it with a golden file.
#pragma once

#include <mutex>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing {

// Collects lines. Thread-safe.
class Trace {
 public:
  // `folder` is left out of all paths, and of names in stores that were made of paths: it has
  // another name in each run.
  explicit Trace(std::string folder = "") : folder_(std::move(folder)) {}

  // Of equal lines in a row that begin with "write" only one is kept: how many pieces an object
  // takes is no part of a trace. Random digits become a star.
  void add(const std::string& line) {
    static const std::regex random("[0-9a-f]{16}");
    std::string plain = std::regex_replace(line, random, "*");
    if (!folder_.empty()) {
      leave_out(folder_, plain);
      leave_out(folder_.substr(1), plain);
    }
    const bool is_piece = plain.starts_with("write ");
    const std::scoped_lock lock(mutex_);
    if (is_piece && !lines_.empty() && lines_.back() == plain) return;
    lines_.push_back(std::move(plain));
  }
  // Begins a part of the trace: "== a second start".
  void begin(const std::string& title) {
    const std::scoped_lock lock(mutex_);
    if (!lines_.empty()) lines_.emplace_back();
    lines_.push_back("== " + title);
  }
  std::vector<std::string> lines() const {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }

 private:
  static void leave_out(const std::string& part, std::string& text) {
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
      text.erase(at, part.size());
  }

  const std::string folder_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace cairn::testing
