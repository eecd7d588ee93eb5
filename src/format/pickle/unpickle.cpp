#include "format/pickle/unpickle.h"

#include "cairn/node_arena.h"

#include "format/pickle/graph_to_value.h"
#include "format/pickle/machine.h"

namespace cairn::pickle {

Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more) {
  MemoryBudget budget(pickle.size());
  return unpickle(pickle, storages, budget, more);
}

Value unpickle(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
               std::span<const Global> more) {
  const NodeArena arena;
  Graph graph(budget);
  const auto run = [&] {  // frees the machine's memory before the Value is made
    return Machine(pickle, graph, storages, more).run();
  };
  const Ref root = run();
  return to_value(graph, root, pickle.size(), storages);
}

}  // namespace cairn::pickle
