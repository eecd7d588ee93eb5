#include "cli/view/progress_bar.h"

#include "terminal/progress_line.h"
#include "terminal/terminal.h"

namespace cairn::cli {
namespace {

constexpr double kFirst = 0.5;  // seconds
constexpr double kRedraw = 0.1;
constexpr double kLogLine = 10;

}  // namespace

ProgressBar::ProgressBar(const Console& console, ProgressBarOptions options)
    : err_(console.err), options_(std::move(options)), is_shown_(console.progress) {
  if (!options_.is_terminal) options_.is_terminal = is_terminal(err_);
  if (!options_.now) options_.now = steady_seconds;
  begin_ = options_.now();
  next_drawing_ = begin_ + (*options_.is_terminal ? kFirst : kLogLine);
}

ProgressBar::~ProgressBar() {
  if (is_on_line_) erase_progress(err_);
}

void ProgressBar::add(std::uint64_t amount) {
  if (!is_shown_) return;
  const std::lock_guard lock(mutex_);
  done_ += amount;
  const double now = options_.now();
  if (now >= next_drawing_) draw(now);
}

void ProgressBar::draw(double now) {
  const cairn::Progress progress = {
      .description = options_.what + ": ",
      .unit = options_.unit,
      .n = static_cast<std::int64_t>(done_),
      .total = options_.total > 0
                   ? std::optional<std::int64_t>(static_cast<std::int64_t>(options_.total))
                   : std::nullopt,
      .seconds = now - begin_};
  draw_progress(err_, progress, {.is_terminal = *options_.is_terminal});
  is_on_line_ = *options_.is_terminal;
  next_drawing_ = now + (*options_.is_terminal ? kRedraw : kLogLine);
}

}  // namespace cairn::cli
