// An object of a bucket as a source of bytes.
#pragma once

#include <memory>

#include "cairn/byte_source.h"

#include "storage/s3/connection.h"

namespace cairn::s3 {

// With one request, which brings the object's last bytes along; what is read later is of the same
// version, or an error. nullptr when there is none of that key. StorageError.
std::shared_ptr<const ByteSource> open_object(std::shared_ptr<Connection> connection,
                                              const std::string& key);

}  // namespace cairn::s3
