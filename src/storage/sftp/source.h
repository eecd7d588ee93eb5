// A file of a server as a source of bytes.
#pragma once

#include <memory>
#include <string>

#include "cairn/byte_source.h"

#include "storage/sftp/connection.h"

namespace cairn::sftp {

// What is read later is of the same file, or an error. nullptr when there is no regular file of
// that path. `name` is for messages. StorageError.
std::shared_ptr<const ByteSource> open_file(std::shared_ptr<Connection> connection,
                                            const std::string& path, const std::string& name);

}  // namespace cairn::sftp
