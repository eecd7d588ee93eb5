// MLflow's FileStore:
//
//   EXPERIMENT/meta.yaml             name, experiment_id, artifact_location, ...
//   EXPERIMENT/RUN/meta.yaml         run_id, run_name, status, times, artifact_uri, ...
//   EXPERIMENT/RUN/metrics/KEY       lines "timestamp value step"; a slash in KEY is a folder
//   EXPERIMENT/RUN/params/KEY, tags/KEY, artifacts/PATH
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "cairn/error.h"

#include "core/text/json.h"
#include "core/text/json_text.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "io/files/append_file.h"
#include "storage/trackers/mlflow/tracking.h"

namespace cairn::mlflow {
namespace {

constexpr int kLocalSource = 4;  // SourceType.LOCAL

// JSON's texts are YAML's, too.
std::string yaml_text(const std::string& text) { return json_text(Json(text), -1); }

void write_whole(const std::string& path, ByteView bytes) {
  posix_file_system().make_folders(parent_path(path));
  AtomicFile file(posix_file_system(), path, {});
  file.write(bytes);
  file.commit();
}

std::string read_whole(const std::string& path) {
  const auto source = posix_file_system().open(path);
  return std::string(as_text(source->view(0, source->size()).view));
}

// As Python prints a float.
std::string float_of_python(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value);
}

// Whether a line of a meta.yaml says that `field` is `text`, in one of YAML's quotes or in none.
bool has_text(const std::string& yaml, const std::string& field, const std::string& text) {
  for (const std::string& written : {text, yaml_text(text), "'" + text + "'"}) {
    if (("\n" + yaml).find("\n" + field + ": " + written + "\n") != std::string::npos) return true;
  }
  return false;
}

class TrackingFolder final : public Tracking {
 public:
  explicit TrackingFolder(const std::string& folder) : root_(absolute_path(folder)) {}

  std::string make_run(const NewRun& run) override {
    const std::string experiment = find_experiment(run);
    const std::string id = random_digits() + random_digits();
    runs_[id] = join_path(experiment, id);
    for (const char* name : {"metrics", "params", "tags", "artifacts"})
      posix_file_system().make_folders(join_path(runs_[id], name));
    write_meta(id, run);
    for (const auto& [key, value] : run.tags)
      write_whole(join_path(runs_[id], "tags/" + valid_key(key)), as_bytes(value));
    write_whole(join_path(runs_[id], "tags/mlflow.runName"), as_bytes(run.run_name));
    return id;
  }

  void log_batch(const std::string& run_id, const Batch& batch) override {
    const std::string run = find_run(run_id);
    for (const Metric& metric : batch.metrics) {
      AppendFile file(join_path(run, "metrics/" + valid_key(metric.key)));
      file.append(fmt::format("{} {} {}\n", metric.timestamp_ms, float_of_python(metric.value),
                              metric.step));
    }
    for (const auto& [key, value] : batch.params)
      write_whole(join_path(run, "params/" + valid_key(key)), as_bytes(value));
  }

  void set_status(const std::string& run_id, RunStatus status, std::int64_t now_ms) override {
    const std::string meta = join_path(find_run(run_id), "meta.yaml");
    const std::string before = read_whole(meta);
    std::string yaml;
    for (std::string_view rest = before; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end);
      if (line.starts_with("status: ")) {
        yaml += fmt::format("status: {}\n", static_cast<int>(status));
      } else if (line.starts_with("end_time: ")) {
        yaml += status == RunStatus::kRunning ? "end_time: null\n"
                                              : fmt::format("end_time: {}\n", now_ms);
      } else {
        yaml += line;
      }
    }
    write_whole(meta, as_bytes(yaml));
  }

  void put_artifact(const std::string& run_id, const std::string& path,
                    const SharedBytes& bytes) override {
    if (has_dot_component(path)) throw UsageError("an artifact may not be named " + path);
    write_whole(join_path(find_run(run_id), "artifacts/" + path), bytes.view);
  }

 private:
  // The folder of an experiment of that name, which is made if there is none.
  std::string find_experiment(const NewRun& run) {
    FileSystem& files = posix_file_system();
    files.make_folders(root_);
    for (const std::string& id : files.list(root_)) {
      const std::string meta = join_path(root_, id + "/meta.yaml");
      if (files.stat(meta) && has_text(read_whole(meta), "name", run.experiment_name)) {
        return join_path(root_, id);
      }
    }
    // Digits, as MLflow makes them: later experiments have larger numbers.
    const std::string id = fmt::format("{:018d}", run.start_ms);
    const std::string folder = join_path(root_, id);
    const std::string yaml = fmt::format(
        "artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\n"
        "lifecycle_stage: active\nname: {}\n",
        yaml_text("file://" + folder), run.start_ms, id, run.start_ms,
        yaml_text(run.experiment_name));
    write_whole(join_path(folder, "meta.yaml"), as_bytes(yaml));
    return folder;
  }

  std::string find_run(const std::string& run_id) {
    if (runs_.contains(run_id)) return runs_[run_id];
    FileSystem& files = posix_file_system();
    const bool is_name = run_id.find('/') == std::string::npos && !has_dot_component(run_id);
    for (const std::string& id :
         is_name&& files.stat(root_) ? files.list(root_) : std::vector<std::string>()) {
      const std::string folder = join_path(root_, join_path(id, run_id));
      if (files.stat(join_path(folder, "meta.yaml"))) return runs_[run_id] = folder;
    }
    throw NotFoundError("MLflow's folder " + root_ + " has no run " + run_id);
  }

  void write_meta(const std::string& id, const NewRun& run) {
    const std::string& folder = runs_[id];
    const std::string yaml = fmt::format(
        "artifact_uri: {}\nend_time: null\nentry_point_name: ''\nexperiment_id: '{}'\n"
        "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\n"
        "source_type: {}\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: ''\n",
        yaml_text("file://" + folder + "/artifacts"), base_name(parent_path(folder)), yaml_text(id),
        yaml_text(run.run_name), yaml_text(id), kLocalSource, run.start_ms,
        static_cast<int>(RunStatus::kRunning));
    write_whole(join_path(folder, "meta.yaml"), as_bytes(yaml));
  }

  const std::string root_;
  std::map<std::string, std::string> runs_;  // folders by id
};

}  // namespace

std::unique_ptr<Tracking> tracking_folder(const std::string& folder) {
  return std::make_unique<TrackingFolder>(folder);
}

// Letters, digits and "_-. /"; no component may be "." or "..".
std::string valid_key(const std::string& key) {
  std::string valid = key;
  for (char& c : valid) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("_-. /").find(c) != std::string_view::npos;
    if (!is_plain) c = '_';
  }
  if (valid.empty() || valid.front() == '/' || valid.back() == '/' ||
      valid.find("//") != std::string::npos || has_dot_component(valid)) {
    for (char& c : valid)
      c = c == '/' || c == '.' ? '_' : c;
  }
  return valid.empty() ? "_" : valid;
}

}  // namespace cairn::mlflow
