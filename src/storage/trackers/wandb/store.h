// W&B's artifacts as a store.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/wandb.h"

#include "storage/trackers/rest/rest.h"

namespace cairn::wandb {

std::shared_ptr<ObjectStore> make_wandb_store(const WandbOptions& options,
                                              const RemoteSettings& settings);

// The store for "wandb://entity", with the settings of the environment.
std::shared_ptr<ObjectStore> wandb_store_of(const std::string& root);

}  // namespace cairn::wandb
