// Writing a file to a server.
#pragma once

#include <memory>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/sftp/connection.h"

namespace cairn::sftp {

// Makes the folders above `path`. Throws AlreadyExistsError if the condition does not hold, now or
// in commit(), and UsageError if a folder has the name. `name` is for messages.
std::unique_ptr<ObjectWrite> write_file(std::shared_ptr<Connection> connection,
                                        const std::string& path, const std::string& name,
                                        const BeginOptions& options);

}  // namespace cairn::sftp
