// A Databricks workspace: where it is, and who asks it.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/dbfs.h"

#include "storage/remote/config.h"
#include "storage/trackers/rest/rest.h"
#include "storage/trackers/tree/tree.h"

namespace cairn::dbfs {

// As Databricks' own tools find it: what is empty in the options from the environment
// (DATABRICKS_HOST, DATABRICKS_TOKEN, DATABRICKS_CLIENT_ID, DATABRICKS_CLIENT_SECRET), then from
// the profile in ~/.databrickscfg. UsageError when there is none, or it cannot be.
RestServer find_workspace(const DbfsOptions& options, const Outside& outside = {});

// A volume of Unity Catalog is a Tree: `volume` as "catalog/schema/volume".
std::shared_ptr<Tree> volume_tree(const RestServer& workspace, const std::string& volume);

}  // namespace cairn::dbfs
