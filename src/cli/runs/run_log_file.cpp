#include "cli/runs/run_log_file.h"

#include <algorithm>
#include <utility>

#include "cli/runs/read_again.h"

namespace cairn::cli {
namespace {

// Read at once, if a line is not longer.
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
// FileLogger writes no such line. A piece, doubled some times.
constexpr std::uint64_t kLongestLine = 16 * kPiece;
// Compared to find out whether a log was only continued: this much of its begin, and before the end
// of what was read.
constexpr std::size_t kCompared = 1024;

}  // namespace

bool RunLogFile::update(RunLog& log) {
  const std::uint64_t before = next_;
  const bool has_changed = read_again(next_, [&] { return read_added(log); });
  return has_changed || next_ != before;
}

bool RunLogFile::read_added(RunLog& log) {
  const auto info = store_->stat(path_);
  if (info && seen_ && is_unchanged(*seen_, *info)) return false;
  const auto source = store_->open(path_);
  if (!is_continued(*source)) {
    RunLogFile fresh(store_, path_);
    RunLog read = begun_anew(log);
    fresh.update(read);
    log = std::move(read);
    *this = std::move(fresh);
    return true;
  }
  const bool has_more = read_from(*source, log);
  seen_ = info;  // older than the source, so that lines added meanwhile are not missed
  return has_more;
}

// The begin of a log changes with its columns, or with another run that overwrites it.
bool RunLogFile::is_continued(const ByteSource& source) const {
  const auto has = [&source](std::uint64_t offset, const std::string& text) {
    return as_text(source.view(offset, text.size()).view) == text;
  };
  return source.size() >= next_ && has(0, head_) && has(next_ - tail_.size(), tail_);
}

bool RunLogFile::read_from(const ByteSource& source, RunLog& log) {
  const std::uint64_t before = next_;
  std::uint64_t most = kPiece;
  while (next_ < source.size()) {
    const std::uint64_t size = std::min(most, source.size() - next_);
    const SharedBytes piece = source.view(next_, size);
    const std::string_view text = as_text(piece.view);
    if (is_in_long_line_) {
      pass_long_line(text);
    } else if (take_lines(text, log)) {
      most = kPiece;
    } else {
      if (next_ == 0) RunLogLines::check_first(log, text);
      if (size < most) break;  // the last line has no end yet
      most *= 2;
      if (size < kLongestLine) continue;
      lines_.pass_over(log);
      pass_long_line(text);
      most = kPiece;
    }
  }
  return next_ != before;
}

// Reads the lines that have an end. Returns whether there are any.
bool RunLogFile::take_lines(std::string_view text, RunLog& log) {
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', begin)) {
    lines_.read(log, text.substr(begin, end - begin));
    begin = end + 1;
  }
  advance(text.substr(0, begin));
  return begin > 0;
}

void RunLogFile::pass_long_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  is_in_long_line_ = end == std::string_view::npos;
  advance(is_in_long_line_ ? text : text.substr(0, end + 1));
}

// Notes that `text`, which begins at `next_`, was read.
void RunLogFile::advance(std::string_view text) {
  next_ += text.size();
  head_ += text.substr(0, kCompared - head_.size());
  tail_ += text.substr(text.size() - std::min(text.size(), kCompared));
  tail_.erase(0, tail_.size() - std::min(tail_.size(), kCompared));
}

}  // namespace cairn::cli
