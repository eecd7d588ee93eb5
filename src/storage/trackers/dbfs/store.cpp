#include "storage/trackers/dbfs/store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "net/digest.h"
#include "storage/trackers/dbfs/runs.h"
#include "storage/trackers/tree/tree_store.h"

namespace cairn::dbfs {
namespace {

constexpr std::size_t kPartsOfVolume = 4;  // Volumes/catalog/schema/volume
constexpr std::size_t kPartsOfRun = 5;     // databricks/mlflow-tracking/experiment/run/artifacts

std::vector<std::string> parts_of(const std::string& name) {
  const std::string path = normal_path("/" + name);
  std::vector<std::string> parts;
  for (std::size_t begin = 1; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i)
    text += (i == begin ? "" : "/") + parts[i];
  return text;
}

[[noreturn]] void refuse_name(const std::string& name) {
  throw UsageError("dbfs:/" + printable_line(name) +
                   " is neither in a volume (dbfs:/Volumes/CATALOG/SCHEMA/VOLUME/...) nor an "
                   "artifact of a run (dbfs:/databricks/mlflow-tracking/EXPERIMENT/RUN/artifacts/"
                   "...)");
}

// Finds the tree of a name. Looks only for what the name needs: volumes need no MLflow.
// Thread-safe.
class Router {
 public:
  Router(DbfsOptions options, Outside outside)
      : options_(std::move(options)), outside_(std::move(outside)) {}

  TreePlace place_of(const std::string& name) {
    const std::vector<std::string> parts = parts_of(name);
    const bool is_clean = std::find(parts.begin(), parts.end(), "..") == parts.end();
    if (is_clean && parts.size() >= kPartsOfVolume && parts[0] == "Volumes") {
      const std::string volume = joined(parts, 1, kPartsOfVolume);
      return {.tree = tree_of(volume),
              .root = "Volumes/" + volume + "/",
              .path = joined(parts, kPartsOfVolume, parts.size())};
    }
    if (is_clean && parts.size() >= kPartsOfRun && parts[0] == "databricks" &&
        parts[1] == "mlflow-tracking" && parts[4] == "artifacts") {
      Runs& runs = this->runs();
      const Run run = runs.find(parts[2], parts[3]);
      return {.tree = runs.artifacts(run),
              .root = run.root(),
              .path = joined(parts, kPartsOfRun, parts.size())};
    }
    refuse_name(name);
  }

 private:
  std::shared_ptr<Tree> tree_of(const std::string& volume) {
    const std::scoped_lock lock(mutex_);
    auto& tree = volumes_[volume];
    if (tree == nullptr) {
      if (!workspace_) workspace_ = find_workspace(options_, outside_);
      tree = volume_tree(*workspace_, volume);
    }
    return tree;
  }

  Runs& runs() {
    const std::scoped_lock lock(mutex_);
    if (!runs_) runs_ = std::make_unique<Runs>(options_, outside_);
    return *runs_;
  }

  const DbfsOptions options_;
  const Outside outside_;
  std::mutex mutex_;
  std::optional<RestServer> workspace_;
  std::map<std::string, std::shared_ptr<Tree>> volumes_;
  std::unique_ptr<Runs> runs_;
};

std::string identity_of_environment() {
  std::string text;
  for (const char* name :
       {"DATABRICKS_HOST", "DATABRICKS_TOKEN", "DATABRICKS_CLIENT_ID", "DATABRICKS_CLIENT_SECRET",
        "DATABRICKS_CONFIG_PROFILE", "DATABRICKS_CONFIG_FILE", "DATABRICKS_AUTH_TYPE",
        "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_PASSWORD", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME", "SSL_CERT_FILE",
        "HOME"}) {
    text += environment(name) + "\n";
  }
  return hex(sha256(text));
}

}  // namespace

std::shared_ptr<ObjectStore> make_dbfs_store(const DbfsOptions& options, const Outside& outside) {
  const auto router = std::make_shared<Router>(options, outside);
  return tree_store([router](const std::string& name) { return router->place_of(name); }, "dbfs:/");
}

std::shared_ptr<ObjectStore> kept_dbfs_store(const std::string& root) {
  if (root != "dbfs:" && root != "dbfs://") {
    throw UsageError(root + "/...: a dbfs place has one slash: dbfs:/Volumes/...");
  }
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<ObjectStore>> stores;
  const std::scoped_lock lock(mutex);
  auto& store = stores[identity_of_environment()];
  if (store == nullptr) store = make_dbfs_store({}, {});
  return store;
}

}  // namespace cairn::dbfs

namespace cairn {

std::shared_ptr<ObjectStore> dbfs_store(const DbfsOptions& options) {
  return dbfs::make_dbfs_store(options, {});
}

}  // namespace cairn
