// Fresh memory for tensors that are about to be read.
//
// The memory comes in slabs with huge pages, which a process gets and touches far faster than small
// pieces. Each large storage has its own slab. Small storages share a slab, which lives as long as
// any of them.
#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "cairn/value.h"

#include "train/state/device/staged_reads.h"

namespace cairn {

class DeviceTargets;
class Mirror;

// A part of a mirror to be copied out once the mirror is filled, since libtorch's memory must be
// aligned.
struct MirrorCopy {
  c10::Storage from;
  c10::Storage to;
};

// Where staged() puts storages other than in fresh memory of the host.
struct StageMemory {
  // On these devices. Null: on none.
  const DeviceTargets* targets = nullptr;
  // In the mirror, which the caller fills: the ranges of this file. Null: none.
  const ByteSource* file = nullptr;
  Mirror* mirror = nullptr;                   // As long as the file.
  std::vector<MirrorCopy>* copies = nullptr;  // Gets the parts that are not aligned to 64.
};

// Returns the tree with its storages replaced by unfilled memory without another owner. `reads`
// gets the reads that must fill this memory before use. libtorch may use and resize the memory as
// its own. Storages that `is_wanted` refuses stay unchanged. Parts of the tree without another
// owner are changed in place, so move it in. Throws std::bad_alloc.
Value staged(Value tree, const std::function<bool(const Storage&)>& is_wanted, StagedReads& reads,
             const StageMemory& memory = {});

// Whether a storage's memory comes from libtorch's allocator for its device, or from staged().
// Other memory of this kind may replace it.
bool is_replaceable(const c10::Storage& storage) noexcept;

}  // namespace cairn
