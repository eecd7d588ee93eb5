#include "cli/runs/log_choice.h"

#include <algorithm>

#include "cairn/error.h"

#include "cli/runs/event_files.h"
#include "cli/view/joined.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kRankWord = "rank";
// This much of a file shows whether it is a log.
constexpr std::uint64_t kBegin = std::uint64_t{64} << 10;
// If a folder has more files with names of logs, all of them count as logs.
constexpr std::size_t kMostCandidates = 16;

bool is_of_rank_0(const std::string& name) { return name.find("rank0.") != std::string::npos; }

bool is_of_other_rank(const std::string& name) {
  const std::size_t at = name.rfind(kRankWord);
  if (at == std::string::npos || is_of_rank_0(name)) return false;
  const std::size_t number = at + kRankWord.size();
  return number < name.size() && name[number] >= '0' && name[number] <= '9';
}

// A log of which nothing was written yet begins like a log.
bool begins_like_log(std::string_view text) {
  if (text.empty()) return true;
  if (!RunLogLines::may_begin(text.substr(0, text.find('\n')))) return false;
  RunLog log;
  RunLogLines lines;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.read(log, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return log.entries > 0 || log.passed_over == 0;
}

// A file that cannot be read now may be a log.
bool may_be_log(ObjectStore& store, const std::string& path) {
  try {
    const SharedBytes text = read_start(*store.open(path), kBegin);
    return begins_like_log(as_text(text.view));
  } catch (const NotFoundError&) {
    return false;
  } catch (const StorageError&) {
    return true;
  }
}

// The names of files in `folder` that are logs of FileLogger.
std::vector<std::string> log_names(ObjectStore& store, const std::string& folder,
                                   const std::vector<ListedName>& entries) {
  std::vector<std::string> names;
  for (const ListedName& listed : entries) {
    if (is_log_name(listed.name) && file_info(store, folder, listed)) names.push_back(listed.name);
  }
  std::ranges::sort(names);
  if (const auto first = std::ranges::find_if(names, is_of_rank_0); first != names.end())
    return {*first};
  if (names.size() <= kMostCandidates) {
    std::erase_if(names, [&](const std::string& name) {
      return !may_be_log(store, join_path(folder, name));
    });
  }
  if (std::ranges::all_of(names, is_of_other_rank) && names.size() > 1) names.resize(1);
  return names;
}

// Logs are files in the folder that was given.
std::vector<std::string> shown_names(const std::vector<LogPlace>& places) {
  std::vector<std::string> names;
  for (const LogPlace& place : places)
    names.push_back(place.kind == LogKind::kLines ? base_name(place.path) : place.path);
  return names;
}

[[noreturn]] void throw_several(const std::string& folder, const std::vector<LogPlace>& places) {
  const std::string which = printable_line(joined(shown_names(places))) + ". Name one of them";
  if (places.front().kind == LogKind::kLines)
    throw UsageError("the folder " + folder + " has several logs: " + which);
  throw UsageError("there is no log of FileLogger in the folder " + folder +
                   ", and several folders in it have event files for TensorBoard: " + which);
}

}  // namespace

bool is_log_name(std::string_view name) {
  return name.ends_with(".jsonl") || name.ends_with(".csv");
}

std::vector<LogPlace> find_logs(ObjectStore& store, const std::string& folder) {
  const std::vector<ListedName> entries = list_all(store, folder);
  std::vector<LogPlace> places;
  for (const std::string& name : log_names(store, folder, entries)) {
    places.push_back({.path = join_path(folder, name), .may_be_surpassed = is_of_other_rank(name)});
  }
  if (!places.empty()) return places;
  for (const std::string& path : event_folders(store, folder, entries))
    places.push_back({.path = path, .kind = LogKind::kEventFiles, .may_be_surpassed = true});
  return places;
}

LogPlace find_log(ObjectStore& store, const std::string& folder) {
  const std::vector<LogPlace> places = find_logs(store, folder);
  if (places.empty()) {
    throw NotFoundError("there is no log in the folder " + folder +
                        ": FileLogger writes {run_name}/logs-rank{rank}.jsonl, or the file that "
                        "its option `filename` names. Nor are there event files for TensorBoard");
  }
  if (places.size() > 1) throw_several(folder, places);
  return places.front();
}

}  // namespace cairn::cli
