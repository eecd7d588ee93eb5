// Checkpoints as artifacts of Weights & Biases:
//
//   load("wandb://entity/project/ep1-ba10-rank0.pt:latest");  // key from the environment
//   auto store = wandb_store({.entity = "entity", .api_key = key});
//   load("project/ep1-ba10-rank0.pt:v3", {.store = store});
//   save(value, "project/run/ep1-ba20-rank0.pt", {.store = store});  // a new version
#pragma once

#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Empty options, except `entity`, come from the environment, as for W&B's tools.
struct WandbOptions {
  std::string entity = {};   // required: a user or a team
  std::string api_key = {};  // WANDB_API_KEY, or else ~/.netrc (NETRC)
  // WANDB_BASE_URL, or else https://api.wandb.ai; must be https, except for this machine
  std::string base_url = {};
  // WANDB_RUN_ID: the run that writes artifacts, in every project; otherwise a new run for each
  // project
  std::string run_id = {};
};

// A name is PROJECT/ARTIFACT:ALIAS, which is the artifact's one file, or
// PROJECT/ARTIFACT:ALIAS/FILE. A name without an alias means the alias "latest". In the artifact's
// name each character except letters, digits, '-', '_' and '.' becomes a '.', as in Composer's
// logger. wandb_store() itself contacts no server. Throws UsageError for invalid options, and
// UnsupportedError if cairn was built without network stores.
//
// A write makes a new version of the artifact, with one file of at most 5 GiB. The version gets
// Composer's aliases: `latest`, and ep1-ba20 if the name says so. Earlier versions stay until
// remove(), which removes the artifact with all versions, or the version that an alias names. Names
// are flat (features()): list("project/run") gives the names that begin with "run.". A checkpoint
// that is a folder has an artifact for each file, and remove_folder() removes only these artifacts.
// A write's condition does not exclude another process that writes at the same instant.
std::shared_ptr<ObjectStore> wandb_store(const WandbOptions& options);

}  // namespace cairn
