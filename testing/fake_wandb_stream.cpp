// The part of W&B's fake that keeps the rows of runs.
#include "storage/trackers/rest/rest.h"
#include "testing/fake_trackers.h"

namespace cairn::testing {
namespace {

// Lines replace those from the offset on. Returns the problem, or "".
std::string add_lines(Json& run, const std::string& file, const Json& sent) {
  if (!sent.contains("offset") || array_of(sent, "content").empty()) return "lines of ";
  Json lines = Json::array();
  for (const Json& line : sent["content"]) {
    lines.push_back(line.is_string() ? Json::parse(std::string(line), nullptr, false) : Json());
    if (!lines.back().is_object()) return "lines that are JSON in ";
  }
  const std::size_t offset = sent["offset"];
  if (file == "wandb-summary.json") {
    if (offset != 0 || lines.size() != 1) return "one line of ";
    run["summary"] = lines.front();
    return {};
  }
  if (file != "wandb-history.jsonl") return "a known file, not ";
  Json& history = run["history"];
  if (offset > history.size()) return "a hole in ";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (offset + i < history.size()) {
      history[offset + i] = lines[i];
    } else {
      history.push_back(lines[i]);
    }
  }
  return {};
}

}  // namespace

Json FakeTrackers::streamed_to(const std::string& run) {
  const std::scoped_lock lock(mutex_);
  const auto found = wandb_runs_.find(run);
  return found == wandb_runs_.end() ? Json() : found->second;
}

void FakeTrackers::lose_runs_of_wandb() {
  const std::scoped_lock lock(mutex_);
  wandb_runs_.clear();
}

// A run's rows and summary, and its end.
HttpReply FakeTrackers::file_stream(const Asked& asked, const std::string& path) {
  const Json body = Json::parse(asked.body, nullptr, /*allow_exceptions=*/false);
  const bool is_right = asked.method == "POST" && path.ends_with("/file_stream") &&
                        body.is_object() && (body.contains("files") || body.contains("complete"));
  if (!is_right) return violation("a stream of files");
  const auto run = wandb_runs_.find(path.substr(0, path.rfind('/')));
  if (run == wandb_runs_.end()) return {.status = 404, .body = R"({"error": "run not found"})"};
  if (body.contains("complete")) run->second["exitcode"] = body.value("exitcode", -1);
  const Json files = object_of(body, "files");
  for (const auto& [file, sent] : files.items()) {
    const std::string problem = add_lines(run->second, file, sent);
    if (!problem.empty()) return violation(problem + file);
  }
  return {.headers = {{"Content-Type", "application/json"}},
          .body = R"({"exitcode": null, "limits": {}})"};
}

}  // namespace cairn::testing
