// Turns what a pickle built into a Value.
#pragma once

#include "format/pickle/graph.h"

namespace cairn::pickle {

// Sharing is kept: a node that is referred to twice becomes one shared object. CorruptError for a
// cycle, for nesting deeper than 1000, for an unhashable dict key, and when the tree, with shared
// parts counted each time they occur, takes more than `budget` items and bytes (a "billion laughs"
// file). UnsupportedError for a node that no Value stands for.
Value to_value(const Graph& graph, const Ref& root, std::uint64_t budget);

}  // namespace cairn::pickle
