// A bar while something is done for long:
//
//   ProgressBar bar(std::cerr, {.what = "verify ep3.pt", .total = bytes});
//   bar.add(piece.size());   // again and again; the bar is gone with its object
//
// On a terminal one line, drawn anew; elsewhere (a job's log) a line every ten seconds. Work that
// is done within half a second shows none.
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
  std::uint64_t total = 0;  // 0: not known
  std::string unit = "B";   // "B" shows sizes; another ("file") is a count of that
  std::optional<bool> is_terminal = std::nullopt;  // as the stream is, when not given
  std::function<double()> now = nullptr;           // seconds; a steady clock when null
};

// Safe from several threads. The stream must outlive it.
class ProgressBar {
 public:
  ProgressBar(std::ostream& out, ProgressBarOptions options);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // So much more is done.
  void add(std::uint64_t amount);
  // So much more is to be done than was known.
  void expect(std::uint64_t amount);

 private:
  void draw(double now);

  std::ostream& out_;
  ProgressBarOptions options_;
  double begin_;
  double next_drawing_;
  std::mutex mutex_;  // of what follows, and the total
  std::uint64_t done_ = 0;
  bool is_on_line_ = false;
};

}  // namespace cairn
