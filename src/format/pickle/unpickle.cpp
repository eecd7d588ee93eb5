#include "format/pickle/unpickle.h"

#include "format/pickle/graph_to_value.h"
#include "format/pickle/machine.h"

namespace cairn::pickle {

namespace {

// Real pickles repeat names and small parts, which makes the tree a few times larger than the file.
constexpr std::uint64_t kFreeBytes = 64 << 20;
constexpr std::uint64_t kBytesPerByte = 64;

}  // namespace

Value unpickle(ByteView pickle, StorageLoader& storages, std::span<const Global> more) {
  const std::uint64_t budget = kFreeBytes + kBytesPerByte * pickle.size();
  Graph graph(budget);
  const Ref root = Machine(pickle, graph, storages, more).run();
  return to_value(graph, root, budget, storages);
}

}  // namespace cairn::pickle
