// The calls that a run makes, line by line. golden_trace.h compares it with a golden file.
#pragma once

#include <mutex>
#include <regex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn::testing {

// Collects lines. Thread-safe.
class Trace {
 public:
  // Leaves `folder` out of all paths, and of names in stores that were made from paths, because the
  // folder differs from run to run.
  explicit Trace(std::string folder = "") : folder_(std::move(folder)) {}

  // Keeps one of several consecutive equal lines that begin with "write": a trace does not say how
  // many pieces an object takes. Replaces random digits by a star.
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
  // Calls `act` and adds the line `call`. Appends "-> nothing" if the result says that nothing was
  // done or found, and "-> refused" if `act` throws. Returns the result.
  template <class Act>
  auto note(const std::string& call, const Act& act) -> decltype(act()) {
    try {
      if constexpr (std::is_void_v<decltype(act())>) {
        act();
        add(call);
      } else {
        auto result = act();
        add(call + (is_nothing(result) ? " -> nothing" : ""));
        return result;
      }
    } catch (const Error&) {
      add(call + " -> refused");
      throw;
    }
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
  template <class T>
  static bool is_nothing(const T& result) {
    if constexpr (std::is_same_v<T, FileLock>) {
      return result.held == nullptr;
    } else if constexpr (std::is_constructible_v<bool, T>) {  // bool, optional, a pointer
      return !static_cast<bool>(result);
    } else {
      return false;
    }
  }
  static void leave_out(const std::string& part, std::string& text) {
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
      text.erase(at, part.size());
  }

  const std::string folder_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace cairn::testing
