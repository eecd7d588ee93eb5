// A container of a server as a store.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/remote/container.h"

namespace cairn {

// All names are below `prefix`: "runs" makes the object "runs/a.pt" of the name "a.pt".
std::shared_ptr<ObjectStore> remote_store(std::shared_ptr<RemoteContainer> container,
                                          const std::string& prefix);

}  // namespace cairn
