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

// Writes the whole file into `sink`. Of tensors in memory each byte is read once: a piece that fits
// the processor's cache goes through the checksum, then to the sink (twice where checksums come
// first). Memory: what stands between two parts and behind the last, 16 MiB for storages that are
// read, at most one that is made or large and elsewhere, and 32 MiB for elements that do not lie
// one after the other. UsageError, CorruptError as the plan and its tensors; StorageError.
// `on_written`, which may be null, is called behind each part with its bytes; with half of them
// behind each time that it is read, where checksums come first.
void stream_plan(const CheckpointPlan& plan, ByteSink& sink,
                 const std::function<void(std::uint64_t bytes)>& on_written = nullptr);

// XXH3-64 of every part, what Check::kXxh3First wants.
std::vector<std::uint64_t> xxh3_of_parts(const CheckpointPlan& plan);

// Replaces `text` by what stands before part `index` (after the last part, for parts().size()).
// UsageError when it does not have the length that the plan's offsets say: something gave other
// bytes than when the plan was made. After the last part any length is right.
void set_between(const CheckpointPlan& plan, std::size_t index,
                 std::span<const std::uint64_t> checks, std::string& text);

}  // namespace cairn
