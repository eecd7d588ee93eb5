// A container of a server as an ObjectStore.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/remote/container.h"

namespace cairn {

// All names are below `prefix`: with the prefix "runs" the name "a.pt" is the object "runs/a.pt".
std::shared_ptr<ObjectStore> remote_store(std::shared_ptr<RemoteContainer> container,
                                          const std::string& prefix);

}  // namespace cairn
