// A store for one load: it reports what was read, and limits the size of each request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cairn/storage/object_store.h"

namespace cairn {

struct LoadStoreOptions {
  // The largest request; several may be under way at once. 0: the store decides.
  std::uint64_t chunk_bytes = 0;
  // on_first_read is called at the first read of an object, with its size. on_read is called for
  // all bytes read, with their number. Any thread may call these functions, and several threads at
  // once.
  std::function<void(std::uint64_t size)> on_first_read = nullptr;
  std::function<void(std::uint64_t bytes)> on_read = nullptr;
};

std::shared_ptr<ObjectStore> load_store(std::shared_ptr<ObjectStore> under,
                                        LoadStoreOptions options);

}  // namespace cairn
