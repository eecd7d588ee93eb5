// A Databricks workspace: its address, and the credentials of its clients.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/dbfs.h"

#include "storage/remote/config.h"
#include "storage/trackers/rest/rest.h"
#include "storage/trackers/tree/tree.h"

namespace cairn::dbfs {

// Finds the workspace as Databricks' own tools do. Empty options come from the environment
// (DATABRICKS_HOST, DATABRICKS_TOKEN, DATABRICKS_CLIENT_ID, DATABRICKS_CLIENT_SECRET), then from
// the profile in ~/.databrickscfg. Throws UsageError if a setting is missing or invalid.
RestServer find_workspace(const DbfsOptions& options, const Outside& outside = {});

// A volume of Unity Catalog as a Tree. `volume` is "catalog/schema/volume".
std::shared_ptr<Tree> volume_tree(const RestServer& workspace, const std::string& volume);

}  // namespace cairn::dbfs
