// Keeps the work of looking at every element of a checkpoint in proportion to the size of its
// files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cairn/value.h"

#include "checkpoint/open/source.h"

namespace cairn {

// Throws UnsupportedError if `part` shows too many bytes (value/shown_bytes.h). The limit is 256
// MiB, plus `most_repetition` bytes for each byte of the files of `source`, from which `part` was
// read. nullopt: no limit. `path` is for the message. Must be called before going through the
// elements of `part`, if `part` is from a file.
void check_shown(const Value& part, const CheckpointSource& source, const std::string& path,
                 std::optional<std::uint64_t> most_repetition);

}  // namespace cairn
