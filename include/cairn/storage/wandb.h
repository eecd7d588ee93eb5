// Checkpoints that are artifacts of Weights & Biases:
//
//   load("wandb://entity/project/ep1-ba10-rank0.pt:latest");        // all from the environment
//   auto store = wandb_store({.entity = "entity", .api_key = key});
//   load("project/ep1-ba10-rank0.pt:v3", {.store = store});
//   save(value, "project/run/ep1-ba20-rank0.pt", {.store = store});  // a new version
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

// What is empty comes from the environment, as W&B's tools take it.
struct WandbOptions {
  std::string entity = {};    // required: a user or a team
  std::string api_key = {};   // WANDB_API_KEY; else ~/.netrc (NETRC)
  std::string base_url = {};  // WANDB_BASE_URL; else https://api.wandb.ai. With https, unless it is
                              // this machine
  std::string run_id = {};    // WANDB_RUN_ID: the run that artifacts are written by, in every
                              // project; else a new one for each project that is written to
};

// A name is PROJECT/ARTIFACT:ALIAS, which is the artifact's one file, or
// PROJECT/ARTIFACT:ALIAS/FILE; without an alias it is "latest". In the artifact's name each
// character but letters, digits, '-',
// '_' and '.' is taken for a '.', as Composer's logger writes it. Nothing is asked of the server
// yet. UsageError for options that cannot be; UnsupportedError where cairn was built without
// network stores.
//
// What is written is a new version of the artifact, with one file of at most 5 GiB and Composer's
// aliases: `latest`, and ep1-ba20 when the name says so. The versions before stay, until remove()
// removes the artifact with all of them, or the one that is named by its alias. Names are flat
// (features()): list("project/run") gives what begins with "run."; a checkpoint that is a folder is
// an artifact for each file, and nothing else is removed as a folder. There are no conditions in
// the same instant.
std::shared_ptr<ObjectStore> wandb_store(const WandbOptions& options);

}  // namespace cairn
