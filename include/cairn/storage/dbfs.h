// Checkpoints in Databricks' volumes, and as artifacts of MLflow's runs:
//
//   save(value, "dbfs:/Volumes/catalog/schema/volume/run/ep1.pt");    // all from the environment
//   save(value, "dbfs:/databricks/mlflow-tracking/EXPERIMENT/RUN/artifacts/ep1.pt");
//   auto store = dbfs_store({.host = "https://adb-1.2.azuredatabricks.net", .profile = "work"});
//   save(value, "Volumes/catalog/schema/volume/run/ep1.pt", {.store = store});
#pragma once

#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Empty options come from the environment and from ~/.databrickscfg, as for Databricks' tools.
struct DbfsOptions {
  // DATABRICKS_HOST, or the profile's; must be https, except for this machine
  std::string host = {};
  std::string token = {};  // a personal token: DATABRICKS_TOKEN, or the profile's
  // A service principal, in place of a token: DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET, or
  // the profile's. Tokens of the service principal are fetched, and renewed before they expire.
  std::string client_id = {};
  std::string client_secret = {};
  std::string profile = {};  // DATABRICKS_CONFIG_PROFILE, or else DEFAULT
  // The server of MLflow's runs: "databricks", or the URL of an MLflow server. MLFLOW_TRACKING_URI,
  // or else "databricks".
  std::string tracking_uri = {};
};

// Makes a store for volumes and artifacts; a name is the text after "dbfs:/". Contacts no server
// yet. Throws UsageError for invalid options; UnsupportedError if cairn was built without network
// stores.
//
// An object is sent with one request when it is committed. Until then its bytes are in memory, or
// in a file of $TMPDIR if they are more than 8 MiB. A pointer is an object NAME.symlink whose text
// is the name of another object, as in Composer. docs/storage.md says what each server guarantees.
std::shared_ptr<ObjectStore> dbfs_store(const DbfsOptions& options = {});

}  // namespace cairn
