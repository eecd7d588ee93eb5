// Turns the graph of a pickle into a Value.
#pragma once

#include "format/pickle/globals/globals.h"
#include "format/pickle/read/graph.h"

namespace cairn::pickle {

// Keeps sharing: a node that is referred to twice becomes one shared object. Objects and classes
// that no table has become Foreign, and a cycle through one of them ends in a
// Foreign::Made::kBackReference. Storages that are values by themselves are loaded from `storages`.
// The graph cannot be used afterwards.
//
// Throws CorruptError for any other cycle, for nesting deeper than 1000, and for an unhashable dict
// key. Also throws it for a "billion laughs" file: a tree that is out of proportion to
// `pickle_bytes`, with shared parts counted at each place. What counts are the values of the tree,
// the bytes of its texts, and the names of its tensors. Throws UnsupportedError for a node that no
// Value can represent, and if the graph's budget is used up.
Value to_value(Graph& graph, const Ref& root, std::uint64_t pickle_bytes, StorageLoader& storages);

}  // namespace cairn::pickle
