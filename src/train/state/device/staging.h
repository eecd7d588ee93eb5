// Fresh memory for tensors that are about to be read.
//
// It comes in slabs with huge pages, which a process gets and touches far faster than small pieces:
// large storages have one each, small ones share one, which lives as long as one of them.
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

// What is copied out of a mirror when that is filled, as libtorch's memory has to be aligned.
struct MirrorCopy {
  c10::Storage from;
  c10::Storage to;
};

// Where staged() has memory that is not fresh memory of the host.
struct StageMemory {
  // On these devices. Null: on none.
  const DeviceTargets* targets = nullptr;
  // In memory that somebody else fills: that of ranges of this file. Null: nowhere.
  const ByteSource* file = nullptr;
  Mirror* mirror = nullptr;                   // as long as the file
  std::vector<MirrorCopy>* copies = nullptr;  // gets what lies there at no multiple of 64
};

// The tree with its storages replaced by memory that nobody else has, and that stands there
// unfilled: `reads` gets what has to be read into it before anybody looks. libtorch may use and
// resize it as its own. Storages that `is_wanted` refuses stay as they are. What nobody else has of
// the tree is changed where it is: move it in. std::bad_alloc.
Value staged(Value tree, const std::function<bool(const Storage&)>& is_wanted, StagedReads& reads,
             const StageMemory& memory = {});

// Whether a storage's memory is of libtorch's allocator for its device, or of staged(), and may be
// replaced by other such.
bool is_replaceable(const c10::Storage& storage) noexcept;

}  // namespace cairn
