#include "terminal/progress_bar.h"

#include <exception>
#include <utility>

#include "terminal/progress_line.h"
#include "terminal/terminal.h"

namespace cairn {
namespace {

constexpr double kFirst = 0.5;  // seconds
constexpr double kRedraw = 0.1;
constexpr double kLogLine = 10;

}  // namespace

ProgressBar::ProgressBar(std::ostream& out, ProgressBarOptions options)
    : out_(out), options_(std::move(options)) {
  if (!options_.is_terminal) options_.is_terminal = is_terminal(out_);
  if (!options_.now) options_.now = steady_seconds;
  begin_ = options_.now();
  next_drawing_ = begin_ + (*options_.is_terminal ? kFirst : kLogLine);
}

ProgressBar::~ProgressBar() {
  if (!is_on_line_) return;
  try {
    erase_progress(out_);
  } catch (const std::exception&) {  // a stream may throw its own exceptions
  }
}

void ProgressBar::add(std::uint64_t amount) {
  const std::lock_guard lock(mutex_);
  done_ += amount;
  const double now = options_.now();
  if (now >= next_drawing_) draw(now);
}

void ProgressBar::expect(std::uint64_t amount) {
  const std::lock_guard lock(mutex_);
  options_.total += amount;
}

void ProgressBar::draw(double now) {
  const Progress progress = {
      .description = options_.what + ": ",
      .unit = options_.unit,
      .n = static_cast<std::int64_t>(done_),
      .total = options_.total > 0
                   ? std::optional<std::int64_t>(static_cast<std::int64_t>(options_.total))
                   : std::nullopt,
      .seconds = now - begin_};
  draw_progress(out_, progress, {.is_terminal = *options_.is_terminal});
  is_on_line_ = *options_.is_terminal;
  next_drawing_ = now + (*options_.is_terminal ? kRedraw : kLogLine);
}

}  // namespace cairn
