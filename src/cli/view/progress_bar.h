// The bar of terminal/progress_bar.h on stderr, while a command works. --quiet hides it.
//
//   ProgressBar bar(console, {.what = "verify ep3.pt", .total = bytes});
#pragma once

#include <optional>
#include <utility>

#include "cli/view/console.h"
#include "terminal/progress_bar.h"

namespace cairn::cli {

using cairn::ProgressBarOptions;

class ProgressBar {
 public:
  ProgressBar(const Console& console, ProgressBarOptions options) {
    if (!console.quiet) bar_.emplace(console.err, std::move(options));
  }

  // Adds to the work that is done. Thread-safe.
  void add(std::uint64_t amount) {
    if (bar_) bar_->add(amount);
  }
  // Adds to the total work. Thread-safe.
  void expect(std::uint64_t amount) {
    if (bar_) bar_->expect(amount);
  }

 private:
  std::optional<cairn::ProgressBar> bar_;
};

}  // namespace cairn::cli
