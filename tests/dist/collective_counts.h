// Counts requests to Gloo, in programs that tests start.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

// Counts the collectives requested from Gloo since the previous take(), by kind. libtorch reports
// them to a profiler.
class Collectives {
 public:
  static void count() {
    at::addGlobalCallback(
        at::RecordFunctionCallback(&Collectives::note).scopes({at::RecordScope::USER_SCOPE}));
  }
  // The number of collectives of one kind, such as "broadcast".
  static int of(const std::string& kind) {
    const std::scoped_lock lock(mutex());
    return counts()[kind];
  }
  // Returns "all_reduce 1, broadcast 2", or "" if there were no collectives.
  static std::string take() {
    const std::scoped_lock lock(mutex());
    std::string text;
    for (const auto& [kind, times] : std::exchange(counts(), {}))
      text += (text.empty() ? "" : ", ") + kind + " " + std::to_string(times);
    return text;
  }

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& called) {
    const std::string name = called.name();
    const std::string gloo = "gloo:";
    if (!name.starts_with(gloo)) return nullptr;
    const std::scoped_lock lock(mutex());
    ++counts()[name.substr(gloo.size())];
    return nullptr;
  }
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::map<std::string, int>& counts() {
    static std::map<std::string, int> all;
    return all;
  }
};
