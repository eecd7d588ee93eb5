// The environment of a process that knows one Databricks workspace, MLflow server or W&B, and no
// other.
#pragma once

#include <list>
#include <string>

#include "testing/environment_variable.h"

namespace cairn::testing {

// Removes the variables that the machine's owner may have set, and hides the owner's
// ~/.databrickscfg.
class CleanTrackersEnvironment {
 public:
  CleanTrackersEnvironment() {
    for (const char* name : {"DATABRICKS_HOST",
                             "DATABRICKS_TOKEN",
                             "DATABRICKS_CLIENT_ID",
                             "DATABRICKS_CLIENT_SECRET",
                             "DATABRICKS_CONFIG_PROFILE",
                             "DATABRICKS_AUTH_TYPE",
                             "MLFLOW_TRACKING_URI",
                             "MLFLOW_TRACKING_TOKEN",
                             "MLFLOW_TRACKING_USERNAME",
                             "MLFLOW_TRACKING_PASSWORD",
                             "MLFLOW_RUN_ID",
                             "MLFLOW_EXPERIMENT_NAME",
                             "WANDB_API_KEY",
                             "WANDB_BASE_URL",
                             "WANDB_RUN_ID",
                             "WORLD_SIZE",
                             "SSL_CERT_FILE",
                             "http_proxy",
                             "https_proxy",
                             "HTTP_PROXY",
                             "HTTPS_PROXY",
                             "all_proxy",
                             "ALL_PROXY"}) {
      set(name, nullptr);
    }
    set("DATABRICKS_CONFIG_FILE", "/nonexistent/databrickscfg");
  }
  void set(const char* name, const std::string& value) { set(name, value.c_str()); }
  void set(const char* name, const char* value) { variables_.emplace_front(name, value); }

 private:
  std::list<EnvironmentVariable> variables_;  // Restored in reverse order.
};

}  // namespace cairn::testing
