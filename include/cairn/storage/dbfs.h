// Checkpoints in Databricks' volumes, and as artifacts of MLflow's runs:
//
//   save(value, "dbfs:/Volumes/catalog/schema/volume/run/ep1.pt");    // all from the environment
//   save(value, "dbfs:/databricks/mlflow-tracking/EXPERIMENT/RUN/artifacts/ep1.pt");
//   auto store = dbfs_store({.host = "https://adb-1.2.azuredatabricks.net", .profile = "work"});
//   save(value, "Volumes/catalog/schema/volume/run/ep1.pt", {.store = store});
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// What is empty comes from the environment and from ~/.databrickscfg, as Databricks' tools take it.
struct DbfsOptions {
  std::string host = {};   // DATABRICKS_HOST; the profile's. With https, unless it is this machine
  std::string token = {};  // a personal one: DATABRICKS_TOKEN; the profile's
  // A service principal, in place of a token: DATABRICKS_CLIENT_ID, DATABRICKS_CLIENT_SECRET; the
  // profile's. Its tokens are fetched, and renewed before they end.
  std::string client_id = {};
  std::string client_secret = {};
  std::string profile = {};  // DATABRICKS_CONFIG_PROFILE; else DEFAULT
  // Where MLflow's runs are: "databricks", or the URL of an MLflow server. MLFLOW_TRACKING_URI;
  // else "databricks".
  std::string tracking_uri = {};
};

// A store of both: names are what stands behind "dbfs:/". Nothing is asked of a server yet.
// UsageError for options that cannot be; UnsupportedError where cairn was built without network
// stores.
//
// An object goes with one request, when it is committed: until then it is kept in memory, or in a
// file of $TMPDIR when it has more than 8 MiB. Pointers are Composer's: an object NAME.symlink
// whose text is the name of another. docs/storage.md says what each server guarantees.
std::shared_ptr<ObjectStore> dbfs_store(const DbfsOptions& options = {});

}  // namespace cairn
