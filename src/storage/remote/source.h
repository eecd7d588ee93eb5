// An object of a server as a source of bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/byte_source.h"

#include "storage/remote/remote.h"

namespace cairn {

// Number of last bytes that are requested when an object is opened.
constexpr std::uint64_t kTailRead = std::uint64_t{256} << 10;

// With one request (two where there are no suffix ranges), which brings the object's last bytes
// along; what is read later is of the same version, or an error. nullptr when there is none of that
// key. StorageError.
std::shared_ptr<const ByteSource> open_object(std::shared_ptr<Remote> remote,
                                              const std::string& key);

}  // namespace cairn
