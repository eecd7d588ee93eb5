// A bar on stderr while a command works for long:
//
//   ProgressBar bar(console, {.what = "verify ep3.pt", .total = bytes});
//   bar.add(piece.size());   // again and again; the bar is gone with its object
//
// On a terminal one line, drawn anew; elsewhere (a job's log) a line every ten seconds. Work that
// is done within half a second shows none, --quiet never does.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "cli/view/console.h"

namespace cairn::cli {

struct ProgressBarOptions {
  std::string what;
  std::uint64_t total = 0;  // 0: not known
  std::string unit = "B";   // "B" shows sizes; another ("file") is a count of that
  std::optional<bool> is_terminal = std::nullopt;  // as the stream is, when not given
  std::function<double()> now = nullptr;           // seconds; a steady clock when null
};

class ProgressBar {
 public:
  ProgressBar(const Console& console, ProgressBarOptions options);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // So much more is done. Safe from several threads.
  void add(std::uint64_t amount);

 private:
  void draw(double now);

  std::ostream& err_;
  ProgressBarOptions options_;
  bool is_shown_;
  double begin_;
  double next_drawing_;
  std::mutex mutex_;  // of what follows
  std::uint64_t done_ = 0;
  bool is_on_line_ = false;
};

}  // namespace cairn::cli
