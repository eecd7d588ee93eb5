// That looking at every element of what a checkpoint holds is work in proportion to its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cairn/value.h"

#include "checkpoint/open/source.h"

namespace cairn {

// UnsupportedError when `part`, which was read from `source`, shows (value/shown_bytes.h) more than
// 256 MiB and `most_repetition` bytes for each one of its files. nullopt: anything goes. `path`:
// for the message. Each who goes through the elements of what a file holds asks first.
void check_shown(const Value& part, const CheckpointSource& source, const std::string& path,
                 std::optional<std::uint64_t> most_repetition);

}  // namespace cairn
