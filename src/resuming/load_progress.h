// What a load from a store that is far away shows, and how it asks: load_progress_bar and
// load_chunk_size. Of this machine's files neither is asked.
//
//   LoadProgress progress({.is_shown = true});
//   const auto store = progress.watch(where);
//   {
//     const auto bar = progress.show("s3://bucket/run/ep1.pt");
//     ... open and read in `store` ...
//   }                                            // the bar is gone
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "cairn/storage/object_store.h"

namespace cairn {

class ProgressBar;

struct LoadProgressOptions {
  bool is_shown = true;
  std::uint64_t chunk_bytes = 0;                   // of one request; 0: as the store likes
  std::ostream* stream = nullptr;                  // stderr when null
  std::optional<bool> is_terminal = std::nullopt;  // as the stream is, when not given
  std::function<double()> now = nullptr;           // seconds; a steady clock when null
};

// One thread; what reads may be others.
class LoadProgress {
 public:
  explicit LoadProgress(LoadProgressOptions options);

  // The store that a load is to read from, in place of `store`: the same each time.
  std::shared_ptr<ObjectStore> watch(const std::shared_ptr<ObjectStore>& store);
  // While the result lives, what is read from the stores moves a bar with the name of `path`.
  std::shared_ptr<ProgressBar> show(const std::string& path);

 private:
  struct Watched;

  const LoadProgressOptions options_;
  const std::shared_ptr<Watched> watched_;
  std::map<std::shared_ptr<ObjectStore>, std::shared_ptr<ObjectStore>> stores_;
};

}  // namespace cairn
