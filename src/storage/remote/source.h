// An object of a server as a source of bytes.
#pragma once

#include <cstdint>
#include <memory>

#include "cairn/byte_source.h"

#include "storage/remote/remote.h"

namespace cairn {

// Number of last bytes that are requested when an object is opened.
constexpr std::uint64_t kTailRead = std::uint64_t{256} << 10;

// Opens an object with one request (two if there are no suffix ranges), which also brings its last
// bytes. Later reads get the same version, or throw. Returns nullptr if there is no object of that
// key. Throws StorageError.
std::shared_ptr<const ByteSource> open_object(std::shared_ptr<Remote> remote,
                                              const std::string& key);

}  // namespace cairn
