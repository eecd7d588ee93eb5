// What describe_bytes() knows, of a file that need not be in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/byte_source.h"

namespace cairn {

// "a safetensors file"; nullopt for what is no format (empty, zeros) or none that cairn knows.
// Looks at its first KiB, and at the directory of a zip. StorageError.
std::optional<std::string> find_format(const std::shared_ptr<const ByteSource>& file);

// The same as describe_bytes(). StorageError.
std::string describe_file(const std::shared_ptr<const ByteSource>& file);

}  // namespace cairn
