// Turns what a pickle built into a Value.
#pragma once

#include "format/pickle/globals/globals.h"
#include "format/pickle/read/graph.h"

namespace cairn::pickle {

// Sharing is kept: a node that is referred to twice becomes one shared object. Objects and classes
// that no table has become Foreign; a cycle through one of them ends in a Foreign::Made::kBack.
// Storages that stand by themselves are asked of `storages`. The graph is used up.
//
// CorruptError for another cycle, for nesting deeper than 1000, for an unhashable dict key, and
// when the tree, with shared parts counted each time they occur, is out of proportion to
// `pickle_bytes` (a "billion laughs" file): its values and the bytes of its texts, or the names of
// its tensors. UnsupportedError for a node that no Value stands for, and of the graph's budget.
Value to_value(Graph& graph, const Ref& root, std::uint64_t pickle_bytes, StorageLoader& storages);

}  // namespace cairn::pickle
