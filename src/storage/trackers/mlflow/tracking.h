// A logger's requests to MLflow: to a tracking server, or to a folder of files (mlruns).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/bytes.h"

namespace cairn::mlflow {

using Texts = std::vector<std::pair<std::string, std::string>>;  // by key, in order

struct NewRun {
  std::string experiment_name;
  std::string run_name;
  std::int64_t start_ms = 0;  // since 1970
  Texts tags = {};
};

struct Metric {
  std::string key;
  double value = 0;
  std::int64_t timestamp_ms = 0;
  std::int64_t step = 0;
};

// At most kMostMetrics and kMostParams: the limits of a request.
struct Batch {
  std::vector<Metric> metrics = {};
  Texts params = {};
};
inline constexpr std::size_t kMostMetrics = 1000;
inline constexpr std::size_t kMostParams = 100;

enum class RunStatus : std::uint8_t { kRunning = 1, kFinished = 3, kFailed = 4 };

// Used by one thread. Throws StorageError, retryable() if the same call may succeed later.
class Tracking {
 public:
  virtual ~Tracking() = default;

  // Makes a run, and its experiment if there is none of that name. Returns the run's id.
  virtual std::string make_run(const NewRun& run) = 0;
  virtual void log_batch(const std::string& run_id, const Batch& batch) = 0;
  virtual void set_status(const std::string& run_id, RunStatus status, std::int64_t now_ms) = 0;
  // `path`: names with slashes, below the run's artifacts.
  virtual void put_artifact(const std::string& run_id, const std::string& path,
                            const SharedBytes& bytes) = 0;
};

// A server: "databricks", "databricks://PROFILE", or an URL. Sends nothing yet. Throws UsageError
// for other URIs, and UnsupportedError without network stores.
std::unique_ptr<Tracking> tracking_server(const std::string& tracking_uri);
// A folder, which may be missing. A run can also be continued there by its id.
std::unique_ptr<Tracking> tracking_folder(const std::string& folder);

// A key as MLflow allows it: other characters become "_".
std::string valid_key(const std::string& key);

}  // namespace cairn::mlflow
