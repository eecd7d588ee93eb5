// An object of a server as a source of bytes.
#pragma once

#include <memory>

#include "cairn/byte_source.h"

#include "storage/remote/remote.h"

namespace cairn {

// With one request (two where there are no suffix ranges), which brings the object's last bytes
// along; what is read later is of the same version, or an error. nullptr when there is none of that
// key. StorageError.
std::shared_ptr<const ByteSource> open_object(std::shared_ptr<Remote> remote,
                                              const std::string& key);

}  // namespace cairn
