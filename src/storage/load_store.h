// A store as a load sees it: it says what was read, and asks for no more at a time than it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cairn/storage/object_store.h"

namespace cairn {

struct LoadStoreOptions {
  // The most that one request asks for; several are under way at once. 0: as the store likes.
  std::uint64_t chunk_bytes = 0;
  // Called when something is read for the first time, with its size, and for all bytes that were
  // read, with how many these are. From any thread; several at once.
  std::function<void(std::uint64_t size)> on_first_read = nullptr;
  std::function<void(std::uint64_t bytes)> on_read = nullptr;
};

std::shared_ptr<ObjectStore> load_store(std::shared_ptr<ObjectStore> under,
                                        LoadStoreOptions options);

}  // namespace cairn
