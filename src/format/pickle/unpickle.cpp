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
  const MemoryBudget before = budget;
  try {
    Graph graph(budget);
    Machine machine(pickle, graph, storages, more);
    machine.leave_out_parts();
    return to_value(graph, machine.run(), pickle.size(), storages);
  } catch (const PartsWanted&) {
    budget = before;
  }
  Graph graph(budget);
  const Ref root = Machine(pickle, graph, storages, more).run();
  return to_value(graph, root, pickle.size(), storages);
}

}  // namespace cairn::pickle
