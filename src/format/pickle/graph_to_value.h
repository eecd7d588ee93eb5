// Turns what a pickle built into a Value.
#pragma once

#include "format/pickle/globals.h"
#include "format/pickle/graph.h"

namespace cairn::pickle {

// Sharing is kept: a node that is referred to twice becomes one shared object. Objects and classes
// that no table has become Foreign; a cycle through one of them ends in a Foreign::Made::kBack.
// Storages that stand by themselves are asked of `storages`. CorruptError for another
// cycle, for nesting deeper than 1000, for an unhashable dict key, and when the tree, with shared
// parts counted each time they occur, takes more than `budget` items and bytes (a "billion laughs"
// file). UnsupportedError for a node that no Value stands for.
Value to_value(const Graph& graph, const Ref& root, std::uint64_t budget, StorageLoader& storages);

}  // namespace cairn::pickle
