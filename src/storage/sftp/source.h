// A file of a server as a source of bytes.
#pragma once

#include <memory>
#include <string>

#include "cairn/byte_source.h"

#include "storage/sftp/connection.h"

namespace cairn::sftp {

// Opens a file. Later reads get the same file, or throw. Returns nullptr if the path is no regular
// file. `name` is for messages. Throws StorageError.
std::shared_ptr<const ByteSource> open_file(std::shared_ptr<Connection> connection,
                                            const std::string& path, const std::string& name);

}  // namespace cairn::sftp
