// Fresh memory for tensors that are about to be read.
#pragma once

#include <functional>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/value.h"

namespace cairn {

// The tree with its storages replaced by memory of libtorch's own that nobody else has and that
// stands there unfilled: `reads` gets what has to be read into it before anybody looks. Storages
// that `is_wanted` refuses stay as they are. std::bad_alloc.
Value staged(const Value& tree, const std::function<bool(const Storage&)>& is_wanted,
             std::vector<StorageRead>& reads);

}  // namespace cairn
