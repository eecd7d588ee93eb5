#include "checkpoint/open/read_storages.h"

#include <algorithm>
#include <unordered_map>

#include "io/parallel.h"

namespace cairn {
namespace {

// What is in memory, or has to be made.
void fill_place(const StorageRead& read) {
  const std::optional<SharedBytes> bytes = read.storage->try_view();
  if (!bytes) return read.storage->read_into(0, read.into);
  std::copy(bytes->view.begin(), bytes->view.end(), read.into.begin());
  bytes->release(bytes->view);
}

}  // namespace

void read_storages(const std::vector<StorageRead>& reads) {
  std::unordered_map<const ByteSource*, std::vector<ByteSource::Range>> by_source;
  std::vector<const StorageRead*> others;
  std::uint64_t bytes = 0;
  for (const StorageRead& read : reads) {
    if (read.into.empty()) continue;
    const ByteSource* source = read.storage->source();
    if (source != nullptr && !source->in_memory()) {
      by_source[source].push_back({read.storage->source_offset(), read.into});
    } else {
      others.push_back(&read);
      bytes += read.into.size();
    }
  }
  for (const auto& [source, ranges] : by_source) {
    source->read(ranges);
  }
  for_each_parallel(
      others.size(), [&](std::size_t i) { fill_place(*others[i]); }, bytes);
}

void read_others(const std::vector<StorageRead>& reads,
                 const std::function<bool(const StorageRead& read)>& place) {
  std::vector<StorageRead> others;
  for (const StorageRead& read : reads) {
    if (!read.into.empty() && !place(read)) others.push_back(read);
  }
  read_storages(others);
}

}  // namespace cairn
