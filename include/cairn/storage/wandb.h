// Checkpoints that are artifacts of Weights & Biases, for loading:
//
//   load("wandb://entity/project/ep1-ba10-rank0.pt:latest");        // all from the environment
//   auto store = wandb_store({.entity = "entity", .api_key = key});
//   load("project/ep1-ba10-rank0.pt:v3", {.store = store});
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
};

// A store to read from. A name is PROJECT/ARTIFACT:ALIAS, which is the artifact's one file, or
// PROJECT/ARTIFACT:ALIAS/FILE; without an alias it is "latest". In the artifact's name each
// character but letters, digits, '-', '_' and '.' is taken for a '.', as Composer's logger writes
// it. Nothing is asked of the server yet. UsageError for options that cannot be; UnsupportedError
// where cairn was built without network stores.
//
// All that writes, lists or removes is an UnsupportedError: W&B says in no document what its server
// does then.
std::shared_ptr<ObjectStore> wandb_store(const WandbOptions& options);

}  // namespace cairn
