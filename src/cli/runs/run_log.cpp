#include "cli/runs/run_log.h"

#include <algorithm>
#include <array>

#include "cairn/error.h"

#include "cli/view/joined.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

// Read at once. A line that is longer is read whole.
constexpr std::uint64_t kPiece = std::uint64_t{4} << 20;
// Compared to find out whether a log was only continued: this much of its begin, and before the end
// of what was read.
constexpr std::size_t kCompared = 1024;

std::vector<std::string> logs_in(ObjectStore& store, const std::string& folder) {
  std::vector<std::string> names;
  for (const ListedName& listed : list_all(store, folder)) {
    if (is_log_name(listed.name)) names.push_back(listed.name);
  }
  std::ranges::sort(names);
  return names;
}

std::string log_in(ObjectStore& store, const std::string& folder) {
  const std::vector<std::string> names = logs_in(store, folder);
  if (names.empty()) {
    throw NotFoundError("there is no log in the folder " + folder +
                        ": FileLogger writes {run_name}/logs-rank{rank}.jsonl, or the file that "
                        "its option `filename` names");
  }
  const auto of_first = std::ranges::find_if(
      names, [](const std::string& name) { return name.find("rank0.") != std::string::npos; });
  if (names.size() > 1 && of_first == names.end()) {
    throw UsageError("the folder " + folder +
                     " has several logs: " + printable_line(joined(names)) + ". Name one of them");
  }
  return join_path(folder, of_first == names.end() ? names.front() : *of_first);
}

bool is_same(const ObjectInfo& a, const ObjectInfo& b) {
  return a.size == b.size && a.modified == b.modified && a.version == b.version;
}

}  // namespace

RunLogReader::RunLogReader(const std::string& place)
    : store_(store_of(place, nullptr)), given_(shown_place(place)) {}

std::string RunLogReader::path() const {
  if (has_log()) return log_.path;
  return is_folder(*store_, given_) ? log_in(*store_, given_) : given_;
}

bool RunLogReader::update() {
  const std::string path = this->path();
  const auto info = store_->stat(path);
  if (info && seen_ && is_same(*info, *seen_)) return false;
  const auto source = store_->open(path);
  log_.path = path;
  const bool is_anew = !is_continued(*source);
  if (is_anew) begin_anew();
  const bool has_more = read_from(*source);
  seen_ = info;  // taken first, so that lines added meanwhile are not missed
  return is_anew || has_more;
}

// The begin of a log changes with its columns, or with another run that overwrites it.
bool RunLogReader::is_continued(const ByteSource& source) const {
  if (source.size() < next_) return false;
  std::string head(head_.size(), '\0');
  std::string tail(tail_.size(), '\0');
  const std::array<ByteSource::Range, 2> ranges = {
      {{0, std::as_writable_bytes(std::span(head))},
       {next_ - tail.size(), std::as_writable_bytes(std::span(tail))}}};
  source.read(ranges);
  return head == head_ && tail == tail_;
}

bool RunLogReader::read_from(const ByteSource& source) {
  const std::uint64_t before = next_;
  std::uint64_t most = kPiece;
  while (next_ < source.size()) {
    const std::uint64_t size = std::min(most, source.size() - next_);
    const SharedBytes piece = source.view(next_, size);
    const bool has_line = take_lines(as_text(piece.view)) > 0;
    if (!has_line && size < most) break;  // the last line has no end yet
    most = has_line ? kPiece : 2 * most;
  }
  return next_ != before;
}

// Reads the lines that have an end, and returns their bytes.
std::size_t RunLogReader::take_lines(std::string_view text) {
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', begin)) {
    lines_.read(log_, text.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::string_view taken = text.substr(0, begin);
  next_ += begin;
  head_ += taken.substr(0, kCompared - head_.size());
  tail_ += taken.substr(begin - std::min(begin, kCompared));
  tail_.erase(0, tail_.size() - std::min(tail_.size(), kCompared));
  return begin;
}

void RunLogReader::begin_anew() {
  log_ = {.path = log_.path};
  lines_ = {};
  next_ = 0;
  head_.clear();
  tail_.clear();
}

RunLog read_run_log(const std::string& place) {
  RunLogReader reader(place);
  reader.update();
  return reader.log();
}

bool is_log_name(std::string_view name) {
  return name.ends_with(".jsonl") || name.ends_with(".csv");
}

bool has_run_log(const std::string& folder) {
  return !logs_in(*store_of(folder, nullptr), shown_place(folder)).empty();
}

void tell_passed_over(const RunLog& log, const Console& console) {
  if (log.passed_over == 0) return;
  console.err << "cairn: passed over " << log.passed_over << " lines of "
              << printable_line(log.path) << " that are not FileLogger's, the first is line "
              << log.first_passed_over << "\n";
}

}  // namespace cairn::cli
