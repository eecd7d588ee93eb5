#include "loggers/wandb/run_stream.h"

#include <utility>

#include "core/text/json_text.h"

namespace cairn::wandb {
namespace {

// The names of a run's files on the server.
constexpr const char* kHistoryFile = "wandb-history.jsonl";
constexpr const char* kSummaryFile = "wandb-summary.json";

constexpr std::size_t kMostLines = 1000;  // of an entry

Json json_object(const Dict& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values)
    object[key.as_str()] = json_of(value);
  return object;
}

Json file_of(std::int64_t first_number, Json lines) {
  return {{"offset", first_number}, {"content", std::move(lines)}};
}

}  // namespace

RunStream::RunStream(RunDescription run, const Dict& config, const std::string& folder,
                     std::function<void(const std::string& entry)> send)
    : run_(std::move(run)), spool_({.folder = folder, .send = std::move(send)}) {
  write_config(config);
}

void RunStream::write_config(const Dict& values) {
  for (const auto& [key, value] : values)
    config_[key.as_str()] = {{"value", json_of(value)}};
  describe();
}

void RunStream::write_row(const HistoryRow& row) {
  Json line = json_object(row.metrics);
  last_ = {{"_step", row.step}, {"_runtime", row.runtime}, {"_timestamp", row.time}};
  line.update(last_);
  if (lines_.empty()) first_number_ = row.number;
  lines_.push_back(json_text(line, -1));
  if (lines_.size() == kMostLines) send_lines(Json::object());
}

void RunStream::write_summary(const Dict& values) {
  Json summary = json_object(values);
  summary.update(last_);
  send_lines({{kSummaryFile, file_of(0, Json::array({json_text(summary, -1)}))}});
}

void RunStream::write_exit(int code, double /*runtime*/) {
  send("stream", {{"complete", true}, {"exitcode", code}});
}

void RunStream::describe() {
  Json fields = {{"displayName", run_.shown_name}, {"host", run_.host}};
  const auto add = [&fields](const char* name, const std::string& text) {
    if (!text.empty()) fields[name] = text;
  };
  add("groupName", run_.group);
  add("jobType", run_.job_type);
  add("notes", run_.notes);
  if (!run_.tags.empty()) fields["tags"] = run_.tags;
  if (!config_.empty()) fields["config"] = json_text(config_, -1);
  send("fields", fields);
}

void RunStream::send_lines(Json files) {
  if (!lines_.empty())
    files[kHistoryFile] = file_of(first_number_, std::exchange(lines_, Json::array()));
  send("stream", {{"files", std::move(files)}});
}

void RunStream::send(const char* kind, const Json& content) {
  const Json entry = {
      {"entity", run_.entity}, {"project", run_.project}, {"run", run_.id}, {kind, content}};
  spool_.add(json_text(entry, -1));
}

}  // namespace cairn::wandb
