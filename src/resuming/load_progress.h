// The progress bar and the read sizes of a load from a far store: load_progress_bar and
// load_chunk_size. Both have no effect on this machine's files.
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
  std::uint64_t chunk_bytes = 0;                   // Per request; 0: as the store prefers.
  std::ostream* stream = nullptr;                  // Null: stderr.
  std::optional<bool> is_terminal = std::nullopt;  // nullopt: whether the stream is one.
  std::function<double()> now = nullptr;           // Seconds; null: a steady clock.
};

// To be used by one thread. Other threads may read from the stores.
class LoadProgress {
 public:
  explicit LoadProgress(LoadProgressOptions options);

  // Returns the store from which a load reads instead of `store`. The same `store` gives the same
  // result.
  std::shared_ptr<ObjectStore> watch(const std::shared_ptr<ObjectStore>& store);
  // While the returned object lives, reads from the stores move a bar that shows `path`.
  std::shared_ptr<ProgressBar> show(const std::string& path);

 private:
  struct Watched;

  const LoadProgressOptions options_;
  const std::shared_ptr<Watched> watched_;
  std::map<std::shared_ptr<ObjectStore>, std::shared_ptr<ObjectStore>> stores_;
};

}  // namespace cairn
