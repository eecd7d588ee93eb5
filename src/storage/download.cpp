#include "storage/download.h"

#include <algorithm>
#include <vector>

#include "storage/publish/replace.h"

namespace cairn {

void download(ObjectStore& store, const std::string& name, const std::string& destination,
              const DownloadOptions& options) {
  const auto source = with_retries(options.retry, [&] { return store.open(name); });
  const std::uint64_t size = source->size();
  BeginOptions begin_options;
  begin_options.condition = condition_of(replace_if(options.overwrite));
  begin_options.expected_bytes = size;
  const auto file = local_store()->begin(destination, begin_options);
  std::vector<std::byte> block;
  for (std::uint64_t begin = 0; begin < size; begin += block.size()) {
    block.resize(std::min(options.block_bytes, size - begin));
    const ByteSource::Range range{begin, block};
    with_retries(options.retry, [&] { source->read({&range, 1}); });
    file->write(block);
    if (options.on_progress) options.on_progress(begin + block.size(), size);
  }
  file->commit();
}

}  // namespace cairn
