#include "cli/runs/run_log.h"

#include <utility>

#include "cairn/error.h"

#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {

RunLogReader::RunLogReader(const std::string& place)
    : store_(store_of(place, nullptr)), given_(shown_place(place)) {}

LogPlace RunLogReader::find() const {
  const auto info = store_->stat(given_);
  if (!info) throw NotFoundError("there is nothing at " + given_);
  if (info->type == ObjectInfo::Type::kFolder) return find_log(*store_, given_);
  const bool is_event_file = is_event_file_name(base_name(given_));
  return {.path = given_,
          .kind = is_event_file ? LogKind::kEventFiles : LogKind::kLines,
          .is_one_event_file = is_event_file};
}

// nullopt: the log that is read is the best one, or there is no better one just now.
std::optional<LogPlace> RunLogReader::better_place() const {
  if (!has_log()) return find();
  if (!place_.may_be_surpassed) return std::nullopt;
  try {
    LogPlace place = find();
    if (place.path == place_.path && place.kind == place_.kind) return std::nullopt;
    return place;
  } catch (const NotFoundError&) {
    return std::nullopt;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// Begins to read another log. After an error it goes on with its log.
void RunLogReader::begin(const LogPlace& place) {
  RunLog log = begun_anew(log_);
  log.path = place.path;
  log.kind = place.kind;
  std::optional<RunLogFile> file;
  std::optional<EventFiles> event_files;
  if (place.kind == LogKind::kLines) {
    file.emplace(store_, place.path).update(log);
  } else {
    const bool is_one = place.is_one_event_file;
    event_files.emplace(store_, is_one ? parent_path(place.path) : place.path,
                        is_one ? base_name(place.path) : "");
    event_files->update(log);
  }
  place_ = place;
  file_ = std::move(file);
  event_files_ = std::move(event_files);
  log_ = std::move(log);
}

bool RunLogReader::update() {
  if (const auto place = better_place()) {
    begin(*place);
    return true;
  }
  return file_ ? file_->update(log_) : event_files_->update(log_);
}

LogTime RunLogReader::modified() const {
  if (event_files_) return event_files_->modified();
  return file_ ? file_->modified() : LogTime();
}

RunLog read_run_log(const std::string& place) {
  RunLogReader reader(place);
  reader.update();
  return reader.log();
}

bool has_run_log(const std::string& folder) {
  const std::vector<LogPlace> places = find_logs(*store_of(folder, nullptr), shown_place(folder));
  return places.size() == 1 || (!places.empty() && places.front().kind == LogKind::kLines);
}

void tell_passed_over(const RunLog& log, const Console& console) {
  if (log.passed_over == 0) return;
  if (log.kind == LogKind::kEventFiles) {
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
