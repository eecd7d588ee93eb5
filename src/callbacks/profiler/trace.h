// A trace in Chrome's JSON format: the spans of the training thread, and libtorch's operators.
//
// Only the two files of this class know libtorch's profiler, whose names differ between versions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/text/json.h"

namespace cairn {

struct OperatorOptions {
  bool record_shapes = false;
  bool profile_memory = false;
  bool with_flops = false;
  bool on_gpu = false;
};

class ProfilerTrace {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins an empty trace. Its times are those of the system's clock, as libtorch's are.
  explicit ProfilerTrace(std::int64_t rank);
  ~ProfilerTrace();  // Stops libtorch's profiler.
  ProfilerTrace(const ProfilerTrace&) = delete;
  ProfilerTrace& operator=(const ProfilerTrace&) = delete;

  void add(const std::string& name, Clock::time_point begin, Clock::time_point end);

  // Begins to record the operators that this thread runs. Throws UsageError if another profiler of
  // libtorch runs in this thread. Does nothing if it records already.
  void begin_operators(const OperatorOptions& options);
  void end_operators();

  std::string text() const;

 private:
  double microseconds(Clock::time_point time) const;
  void add_event(OrderedJson event);

  std::int64_t rank_;
  Clock::time_point steady_begin_ = Clock::now();
  std::chrono::system_clock::time_point system_begin_ = std::chrono::system_clock::now();
  OrderedJson events_ = OrderedJson::array();
  bool has_operators_ = false;
};

}  // namespace cairn
