#include "format/pickle/unpickle.h"

#include "format/pickle/graph_to_value.h"
#include "format/pickle/machine.h"

namespace cairn::pickle {

Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more) {
  MemoryBudget budget(pickle.size());
  return unpickle(pickle, storages, budget, more);
}

Value unpickle(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
               std::span<const Global> more) {
  Graph graph(budget);
  const Ref root = Machine(pickle, graph, storages, more).run();
  return to_value(graph, root, pickle.size(), storages);
}

}  // namespace cairn::pickle
