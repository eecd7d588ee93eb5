#include "cli/runs/event_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "cli/runs/event_records.h"
#include "cli/runs/read_again.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn::cli {
namespace {

constexpr std::string_view kInName = "tfevents";
constexpr std::size_t kMostFoldersBelow = 20;

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string_view> dotted_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

// "events.out.tfevents.SECOND.HOST.PID.COUNT.ANYTHING"
struct NameParts {
  std::int64_t second = 0;
  std::string_view process = {};  // HOST.PID; empty if the name has another form
  std::uint64_t count = 0;        // of the files that the process opened before
};

NameParts name_parts_of(std::string_view name) {
  NameParts parts;
  const std::size_t begin = name.find(kInName);
  if (begin == std::string_view::npos) return parts;
  name.remove_prefix(std::min(name.size(), begin + kInName.size() + 1));
  const std::vector<std::string_view> all = dotted_parts(name);
  std::from_chars(name.data(), name.data() + name.size(), parts.second);
  // A host may be called "10.0.0.1", so the last two numbers are meant.
  for (std::size_t i = all.size(); i-- > 3;) {
    if (!is_digits(all[i]) || !is_digits(all[i - 1])) continue;
    std::from_chars(all[i].data(), all[i].data() + all[i].size(), parts.count);
    parts.process = name.substr(all[0].size() + 1);
    parts.process =
        parts.process.substr(0, static_cast<std::size_t>(all[i].data() - parts.process.data()) - 1);
    break;
  }
  return parts;
}

// Whether one process opened `later` after `earlier`: such files are no two starts of the run.
bool is_of_one_process(std::string_view earlier, std::string_view later) {
  const NameParts a = name_parts_of(earlier);
  const NameParts b = name_parts_of(later);
  return !a.process.empty() && a.process == b.process && a.count < b.count;
}

// "0" of "events.out.tfevents.1700000000.host.1.0.rank0"; empty: all ranks wrote it, or one.
std::string_view rank_in(std::string_view name) {
  constexpr std::string_view kRank = ".rank";
  const std::size_t at = name.rfind(kRank);
  if (at == std::string_view::npos) return {};
  const std::string_view rank = name.substr(at + kRank.size());
  return is_digits(rank) ? rank : std::string_view();
}

bool has_event_files(const std::vector<ListedName>& names) {
  return std::ranges::any_of(
      names, [](const ListedName& listed) { return is_event_file_name(listed.name); });
}

// A folder that may not be looked into has no logs for this user.
bool has_event_files(ObjectStore& store, const std::string& folder) {
  try {
    return has_event_files(list_all_if_any(store, folder));
  } catch (const StorageError& error) {
    if (error.retryable()) throw;
    return false;
  }
}

std::optional<LogTime> time_of(double since_1970) {
  constexpr double kYear2255 = 9e9;  // a time_point of nanoseconds ends soon after
  if (!(since_1970 > 0 && since_1970 < kYear2255)) return std::nullopt;
  return LogTime(std::chrono::milliseconds(std::llround(since_1970 * 1000)));
}

}  // namespace

bool is_event_file_name(std::string_view name) {
  return name.find(kInName) != std::string_view::npos;
}

std::optional<ObjectInfo> file_info(ObjectStore& store, const std::string& folder,
                                    const ListedName& listed) {
  auto info = info_of(store, folder, listed);
  if (info && info->type == ObjectInfo::Type::kPointer)
    info = store.stat(join_path(folder, listed.name));
  if (!info || info->type != ObjectInfo::Type::kObject) return std::nullopt;
  return info;
}

std::vector<std::string> event_folders(ObjectStore& store, const std::string& folder,
                                       const std::vector<ListedName>& entries) {
  if (has_event_files(entries)) return {folder};
  std::vector<std::string> found;
  std::size_t looked_at = 0;
  for (const ListedName& listed : entries) {
    if (has_checkpoint_name(listed.name)) continue;
    const auto info = info_of(store, folder, listed);
    if (!info || info->type != ObjectInfo::Type::kFolder) continue;
    if (looked_at++ == kMostFoldersBelow) break;
    const std::string below = join_path(folder, listed.name);
    if (has_event_files(store, below)) found.push_back(below);
  }
  return found;
}

void HidingStarts::add(std::int64_t step) {
  while (!starts_.empty() && starts_.back().step >= step)
    starts_.pop_back();
  starts_.push_back({++count_, step});
}

std::optional<std::int64_t> HidingStarts::first_hidden(std::uint64_t seen) const {
  const auto next = std::ranges::upper_bound(starts_, seen, {}, &Start::number);
  if (next == starts_.end()) return std::nullopt;
  return next->step;
}

EventFiles::EventFiles(std::shared_ptr<ObjectStore> store, std::string folder, std::string name)
    : store_(std::move(store)), folder_(std::move(folder)), name_(std::move(name)) {}

bool EventFiles::update(RunLog& log) {
  const Found found = find();
  if (is_anew(found)) {
    EventFiles fresh(store_, folder_, name_);
    RunLog read = begun_anew(log);
    fresh.has_news_ = true;
    fresh.read_new(found, read);
    // The points keep their places in memory, so `series_` stays valid.
    log = std::move(read);
    *this = std::move(fresh);
  } else {
    read_new(found, log);
  }
  if (has_news_) sum_up(log);
  return std::exchange(has_news_, false);
}

void EventFiles::read_new(const Found& found, RunLog& log) {
  for (const auto& [key, info] : found) {
    modified_ = std::max(modified_, info.modified);
    Progress& progress = files_[key];
    if (info.size > progress.size) read(key, progress, log);
  }
}

EventFiles::Found EventFiles::find() const {
  Found found;
  if (!name_.empty()) {
    const auto info = store_->stat(join_path(folder_, name_));
    if (!info) throw NotFoundError("there is no file " + join_path(folder_, name_));
    found[{0, name_}] = *info;
    return found;
  }
  const std::vector<ListedName> entries = list_all(*store_, folder_);
  const bool has_ranks = std::ranges::any_of(
      entries, [](const ListedName& listed) { return rank_in(listed.name) == "0"; });
  for (const ListedName& listed : entries) {
    const std::string_view rank = rank_in(listed.name);
    if (!is_event_file_name(listed.name) || (has_ranks && !rank.empty() && rank != "0")) continue;
    if (const auto info = file_info(*store_, folder_, listed))
      found[{name_parts_of(listed.name).second, listed.name}] = *info;
  }
  return found;
}

bool EventFiles::is_anew(const Found& found) const {
  return std::ranges::any_of(files_, [&](const auto& file) {
    const auto now = found.find(file.first);
    return now == found.end() || now->second.size < file.second.size;
  });
}

void EventFiles::read(const Key& key, Progress& progress, RunLog& log) {
  read_again(progress.offset, [&] { read_added(key, progress, log); });
}

// Notes after each record that it was read, so that no error makes it be read twice.
void EventFiles::read_added(const Key& key, Progress& progress, RunLog& log) {
  std::shared_ptr<const ByteSource> source;
  try {
    source = store_->open(join_path(folder_, key.second));
  } catch (const NotFoundError&) {
    return;  // removed since it was listed
  }
  newest_ = std::max(newest_, key);
  EventRecords records(*source, progress.offset);
  EventRecords::Found found = records.next();
  for (; found == EventRecords::Found::kRecord; found = records.next()) {
    progress.offset = records.offset();
    has_news_ = true;
    if (const auto event = event_of(records.data())) {
      ++log.entries;
      add(key, progress, *event, log);
    } else if (progress.passed_over++ == 0) {
      progress.problem = key.second + ": the record before byte " +
                         std::to_string(records.offset()) + " is no event of TensorBoard";
    }
  }
  const bool is_damaged = found == EventRecords::Found::kDamaged;
  if (is_damaged != std::exchange(progress.is_damaged, is_damaged)) has_news_ = true;
  progress.size = source->size();
}

void EventFiles::add(const Key& key, Progress& progress, const LoggedEvent& event, RunLog& log) {
  if (!progress.begin && time_of(event.seconds)) progress.begin = event.seconds;
  // An older file that still grows replaces no point of a newer one.
  const bool is_late = key < newest_;
  if (event.is_start && !is_late) add_start(event.step, log);
  for (const auto& [tag, number] : event.scalars)
    add_scalar(tag, {event.step, number}, is_late, log);
  for (const auto& [tag, text] : event.texts) {
    keep_message(log, {.batch = event.step,
                       .text = std::string(tag) + ": " + std::string(text),
                       .time = time_of(event.seconds)});
  }
  for (const auto& [name, value] : event.hyperparameters)
    log.hyperparameters[name] = value;
  if (!event.scalars.empty()) add_time(key, progress, event, log);
}

void EventFiles::add_scalar(std::string_view tag, const MetricPoint& point, bool is_late,
                            RunLog& log) {
  const auto [place, is_new] = series_.try_emplace(std::string(tag));
  Series& series = place->second;
  if (is_new) {
    series.points = &log.metrics[place->first];
    series.seen_starts = starts_.count();
  }
  hide(series);
  const bool replaces = !series.points->empty() && series.points->back().batch >= point.batch;
  if (!is_late || !replaces) add_point(*series.points, point);
}

void EventFiles::add_start(std::int64_t step, RunLog& log) {
  starts_.add(step);
  while (!log.messages.empty() && log.messages.back().batch >= step)
    log.messages.pop_back();
}

// Only scalars have the batch as their step.
void EventFiles::add_time(const Key& key, Progress& progress, const LoggedEvent& event,
                          RunLog& log) {
  const auto time = time_of(event.seconds);
  if (!time) return;
  if (!progress.span) progress.span = span_of(key, event, *progress.begin, log);
  RunSpan& span = log.spans[*progress.span];
  span.last = std::max(span.last, *time);
  span.last_batch = std::max(span.last_batch, event.step);
}

// A file is a start of the run, unless the process of the file before it opened it.
std::size_t EventFiles::span_of(const Key& key, const LoggedEvent& event, double begin,
                                RunLog& log) const {
  const auto file = files_.find(key);
  if (file != files_.begin() && is_of_one_process(std::prev(file)->first.second, key.second)) {
    if (const auto span = std::prev(file)->second.span) return *span;
  }
  const auto time = *time_of(begin);
  log.spans.push_back(
      {.begin = time, .last = time, .first_batch = event.step, .last_batch = event.step});
  return log.spans.size() - 1;
}

void EventFiles::hide(Series& series) const {
  if (series.seen_starts == starts_.count()) return;
  if (const auto first = starts_.first_hidden(series.seen_starts))
    remove_points(*series.points, *first);
  series.seen_starts = starts_.count();
}

void EventFiles::sum_up(RunLog& log) {
  for (auto& [tag, series] : series_)
    hide(series);
  // A metric of which all points are hidden is no metric of the run.
  std::erase_if(series_, [&](const auto& entry) {
    return entry.second.points->empty() && log.metrics.erase(entry.first) > 0;
  });
  log.passed_over = 0;
  log.problem.clear();
  for (const auto& [key, progress] : files_) {
    log.passed_over += progress.passed_over + (progress.is_damaged ? 1 : 0);
    if (!log.problem.empty()) continue;
    log.problem = progress.problem;
    if (progress.problem.empty() && progress.is_damaged) {
      log.problem = key.second + ": a checksum is wrong after byte " +
                    std::to_string(progress.offset) + ", so what follows is not read";
    }
  }
}

}  // namespace cairn::cli
