#include "cli/runs/run_log.h"

#include <algorithm>

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
// A file that is written to while it is open is opened again, so often without having read more.
constexpr int kMostAttempts = 20;

// The logs of FileLogger in a folder with these entries.
std::vector<std::string> logs_of(const std::vector<ListedName>& entries) {
  std::vector<std::string> names;
  for (const ListedName& listed : entries) {
    if (is_log_name(listed.name)) names.push_back(listed.name);
  }
  std::ranges::sort(names);
  return names;
}

// One of the logs `names`, which are not empty.
std::string log_in(const std::string& folder, const std::vector<std::string>& names) {
  const auto of_first = std::ranges::find_if(
      names, [](const std::string& name) { return name.find("rank0.") != std::string::npos; });
  if (names.size() > 1 && of_first == names.end()) {
    throw UsageError("the folder " + folder +
                     " has several logs: " + printable_line(joined(names)) + ". Name one of them");
  }
  return join_path(folder, of_first == names.end() ? names.front() : *of_first);
}

std::string event_folder_in(ObjectStore& store, const std::string& folder,
                            const std::vector<ListedName>& entries) {
  const std::vector<std::string> folders = event_folders(store, folder, entries);
  if (folders.empty()) {
    throw NotFoundError("there is no log in the folder " + folder +
                        ": FileLogger writes {run_name}/logs-rank{rank}.jsonl, or the file that "
                        "its option `filename` names. Nor are there event files for TensorBoard");
  }
  if (folders.size() > 1) {
    throw NotFoundError("there is no log of FileLogger in the folder " + folder +
                        ", and several folders in it have event files for TensorBoard: " +
                        printable_line(joined(folders)) + ". Name one of them");
  }
  return folders.front();
}

bool is_same(const ObjectInfo& a, const ObjectInfo& b) {
  return a.size == b.size && a.modified == b.modified && a.version == b.version;
}

}  // namespace

RunLogReader::RunLogReader(const std::string& place)
    : store_(store_of(place, nullptr)), given_(shown_place(place)) {}

void RunLogReader::find() {
  event_files_.reset();
  path_ = given_;
  if (!is_folder(*store_, given_)) {
    if (!is_event_file_name(base_name(given_))) return;
    (void)store_->open(given_);  // throws if there is no such file
    event_files_.emplace(store_, parent_path(given_), base_name(given_));
    return;
  }
  const std::vector<ListedName> entries = list_all(*store_, given_);
  if (const std::vector<std::string> names = logs_of(entries); !names.empty()) {
    path_ = log_in(given_, names);
    return;
  }
  path_ = event_folder_in(*store_, given_, entries);
  event_files_.emplace(store_, path_);
}

bool RunLogReader::update() {
  if (!has_log()) find();
  if (event_files_) log_.path = path_;
  bool has_more = false;
  for (int attempt = 1;; ++attempt) {
    const std::uint64_t before = next_;
    try {
      const bool has_read = event_files_ ? event_files_->update(log_) : read_added();
      return has_more || has_read;
    } catch (const UnreadableError&) {
      // Most likely the run has logged something since the file was opened.
      if (next_ != before) {
        has_more = true;
        attempt = 0;
      }
      if (attempt == kMostAttempts) throw;
    }
  }
}

bool RunLogReader::read_added() {
  const auto info = store_->stat(path_);
  if (info && seen_ && is_same(*info, *seen_)) return false;
  const auto source = store_->open(path_);
  log_.path = path_;
  const bool is_anew = !is_continued(*source);
  if (is_anew) begin_anew();
  const bool has_more = read_from(*source);
  seen_ = info;  // taken first, so that lines added meanwhile are not missed
  return is_anew || has_more;
}

LogTime RunLogReader::modified() const {
  if (event_files_) return event_files_->modified();
  return seen_ ? seen_->modified : LogTime();
}

// The begin of a log changes with its columns, or with another run that overwrites it.
bool RunLogReader::is_continued(const ByteSource& source) const {
  const auto has = [&source](std::uint64_t offset, const std::string& text) {
    return as_text(source.view(offset, text.size()).view) == text;
  };
  return source.size() >= next_ && has(0, head_) && has(next_ - tail_.size(), tail_);
}

bool RunLogReader::read_from(const ByteSource& source) {
  const std::uint64_t before = next_;
  std::uint64_t most = kPiece;
  while (next_ < source.size()) {
    const std::uint64_t size = std::min(most, source.size() - next_);
    const SharedBytes piece = source.view(next_, size);
    const bool has_line = take_lines(as_text(piece.view)) > 0;
    if (!has_line && next_ == 0) RunLogLines::check_first(log_, as_text(piece.view));
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
  const auto store = store_of(folder, nullptr);
  const std::vector<ListedName> entries = list_all(*store, shown_place(folder));
  return !logs_of(entries).empty() ||
         event_folders(*store, shown_place(folder), entries).size() == 1;
}

void tell_passed_over(const RunLog& log, const Console& console) {
  if (log.passed_over == 0) return;
  if (!log.problem.empty()) {
    console.err << "cairn: passed over " << log.passed_over << " records in the event files of "
                << printable_line(log.path) << ", the first in " << printable_line(log.problem)
                << "\n";
    return;
  }
  console.err << "cairn: passed over " << log.passed_over << " lines of "
              << printable_line(log.path) << " that are not FileLogger's, the first is line "
              << log.first_passed_over << "\n";
}

}  // namespace cairn::cli
