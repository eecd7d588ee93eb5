#include "format/pickle/read/unpickle.h"

#include "cairn/detail/node_arena.h"

#include "format/pickle/read/graph_to_value.h"
#include "format/pickle/read/machine.h"

namespace cairn::pickle {

Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more) {
  MemoryBudget budget(pickle.size());
  return unpickle(pickle, storages, budget, more);
}

Value unpickle(ByteView pickle, StorageLoader& storages, MemoryBudget& budget,
               std::span<const Global> more) {
  const detail::NodeArena arena;
  const auto read = [&](bool leaves_out_parts) {
    Graph graph(budget);
    const auto run = [&] {  // frees the memory of the machine before the Value is made
      Machine machine(pickle, graph, storages, more);
      if (leaves_out_parts) machine.leave_out_parts();
      return machine.run();
    };
    const Ref root = run();
    return to_value(graph, root, pickle.size(), storages);
  };
  const MemoryBudget before = budget;
  try {
    return read(true);
  } catch (const PartsWanted&) {
    budget = before;
  }
  return read(false);
}

}  // namespace cairn::pickle
