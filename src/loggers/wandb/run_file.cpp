#include "loggers/wandb/run_file.h"

#include <cmath>
#include <ctime>

#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/file.h"

namespace cairn::wandb {
namespace {

// Fields of Record.
constexpr int kHistory = 2;
constexpr int kSummary = 3;
constexpr int kConfig = 5;
constexpr int kRun = 17;
constexpr int kExit = 18;

// HistoryItem, SummaryItem and ConfigItem.
ProtoMessage item(const std::string& key, const Value& value) {
  return ProtoMessage().text(1, key).text(16, json_text(json_of(value), -1));
}

// SummaryRecord and ConfigRecord.
ProtoMessage update(const Dict& values) {
  ProtoMessage record;
  for (const auto& [key, value] : values)
    record.message(1, item(key.as_str(), value));
  return record;
}

ProtoMessage timestamp(double seconds) {
  const double whole = std::floor(seconds);
  return ProtoMessage()
      .integer(1, static_cast<std::int64_t>(whole))
      .integer(2, static_cast<std::int64_t>((seconds - whole) * 1e9));
}

ProtoMessage record_of(const RunDescription& run, double now) {
  ProtoMessage record;
  const auto add = [&record](int field, const std::string& text) {
    if (!text.empty()) record.text(field, text);
  };
  add(1, run.id);
  add(2, run.entity);
  add(3, run.project);
  add(6, run.group);
  add(7, run.job_type);
  add(8, run.shown_name);
  add(9, run.notes);
  for (const std::string& tag : run.tags)
    add(10, tag);
  add(13, run.host);
  record.integer(14, run.first_step).message(17, timestamp(now)).integer(18, run.is_resumed);
  return record;
}

// "20261129_204500", in UTC.
std::string file_time(double now) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  std::string text(sizeof("20261129_204500"), '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &parts));
  return text;
}

// A folder that is not there yet: two processes may begin a run of one id in the same second.
std::string new_path(const std::string& all, const std::string& id, double now) {
  for (double time = now;; ++time) {
    const std::string folder = "offline-run-" + file_time(time) + "-" + id;
    if (!posix_file_system().stat(join_path(all, folder), /*follow=*/false)) {
      return path_of_run(all, folder, id);
    }
  }
}

}  // namespace

std::string path_of_run(const std::string& all, const std::string& folder, const std::string& id) {
  return join_path(join_path(all, folder), "run-" + id + ".wandb");
}

RunFile::RunFile(const std::string& all, const RunDescription& run, double now)
    : file_(new_path(all, run.id, now)) {
  posix_file_system().make_folders(join_path(parent_path(path()), "files"));
  file_.write(kRun, record_of(run, now));
}

RunFile::RunFile(const std::string& path, const RecordPosition& position) : file_(path, position) {}

void RunFile::write_config(const Dict& values) { file_.write(kConfig, update(values)); }

void RunFile::write_row(const HistoryRow& row) {
  ProtoMessage record;
  for (const auto& [key, value] : row.metrics)
    record.message(1, item(key.as_str(), value));
  record.message(1, item("_step", row.step))
      .message(1, item("_runtime", row.runtime))
      .message(1, item("_timestamp", row.time))
      .message(2, ProtoMessage().integer(1, row.step));
  file_.write(kHistory, record);
}

void RunFile::write_summary(const Dict& values) { file_.write(kSummary, update(values)); }

void RunFile::write_exit(int code, double runtime) {
  file_.write(kExit,
              ProtoMessage().integer(1, code).integer(2, static_cast<std::int64_t>(runtime)));
}

}  // namespace cairn::wandb
