// A file of a server that is being written.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/sftp/connection.h"

namespace cairn::sftp {

// The folders above `path` are made. AlreadyExistsError when the condition does not hold, now or by
// commit(); UsageError when a folder has the name. `name` is for messages.
std::unique_ptr<ObjectWrite> write_file(std::shared_ptr<Connection> connection,
                                        const std::string& path, const std::string& name,
                                        const BeginOptions& options);

}  // namespace cairn::sftp
