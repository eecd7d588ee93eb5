// The executor that writes a plan in file order, from the tensors' own memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cairn/bytes.h"

#include "format/checkpoint_plan.h"

namespace cairn {

// Writes the whole file into `sink`. Each byte of a tensor in memory is read once (twice if the
// checksums come first): a piece that fits the processor's cache goes through the checksum, then to
// the sink. Throws UsageError and CorruptError as the plan and its tensors do, and StorageError.
//
// Memory: the bytes between two parts or after the last, 16 MiB for storages that are read, and
// 32 MiB for elements that are not contiguous. Also at most one storage that is computed when it is
// asked for, or that is large and not in memory.
//
// `on_written` may be null. It is called after each part, with the part's number of bytes. If the
// checksums come first, each part is read twice, and `on_written` is called with half of the bytes
// each time.
void stream_plan(const CheckpointPlan& plan, ByteSink& sink,
                 const std::function<void(std::uint64_t bytes)>& on_written = nullptr);

// Returns the XXH3-64 of every part, as Check::kXxh3First needs them.
std::vector<std::uint64_t> xxh3_of_parts(const CheckpointPlan& plan);

// Replaces `text` by the bytes before part `index` (parts().size(): the bytes after the last part).
// Throws UsageError if they do not have the length that the plan's offsets say, because something
// gave other bytes than when the plan was made. The bytes after the last part may have any length.
void set_between(const CheckpointPlan& plan, std::size_t index,
                 std::span<const std::uint64_t> checks, std::string& text);

}  // namespace cairn
