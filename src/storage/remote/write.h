// Writing an object to a server.
#pragma once

#include <memory>

#include "cairn/storage/object_store.h"

#include "storage/remote/container.h"

namespace cairn {

std::unique_ptr<ObjectWrite> write_object(std::shared_ptr<RemoteContainer> container,
                                          std::string key, const BeginOptions& options);

}  // namespace cairn
