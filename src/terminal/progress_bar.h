// A progress bar for long work:
//
//   ProgressBar bar(std::cerr, {.what = "verify ep3.pt", .total = bytes});
//   bar.add(piece.size());   // repeatedly; the bar disappears with its object
//
// On a terminal it is one line, which is redrawn. Elsewhere (a job's log) it is a line every ten
// seconds. Work that takes less than half a second shows no bar and no lines.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>

namespace cairn {

struct ProgressBarOptions {
  std::string what;
  std::uint64_t total = 0;  // 0: unknown
  std::string unit = "B";   // "B" shows sizes; any other unit ("file") is counted
  std::optional<bool> is_terminal = std::nullopt;  // by default detected from the stream
  std::function<double()> now = nullptr;           // seconds; null: a steady clock
};

// Thread-safe. The stream must outlive the bar.
class ProgressBar {
 public:
  ProgressBar(std::ostream& out, ProgressBarOptions options);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Adds to the work that is done.
  void add(std::uint64_t amount);
  // Adds to the total work.
  void expect(std::uint64_t amount);

 private:
  void draw(double now);

  std::ostream& out_;
  ProgressBarOptions options_;
  double begin_;
  double next_drawing_;
  std::mutex mutex_;  // guards the members below, and options_.total
  std::uint64_t done_ = 0;
  bool is_on_line_ = false;
};

}  // namespace cairn
