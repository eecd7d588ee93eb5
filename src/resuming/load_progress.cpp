#include "resuming/load_progress.h"

#include <iostream>
#include <mutex>
#include <utility>

#include "core/text/printable.h"
#include "storage/load_store.h"
#include "terminal/progress_bar.h"

namespace cairn {
namespace {

// Shortens a long path as Composer does: to its beginning and its end.
std::string shortened(const std::string& path) {
  constexpr std::size_t kLongest = 60;
  constexpr std::size_t kBeginning = 42;
  constexpr std::size_t kEnd = 15;
  if (path.size() <= kLongest) return path;
  return path.substr(0, kBeginning) + "..." + path.substr(path.size() - kEnd);
}

}  // namespace

// Shared by the stores, which may live longer than the bar.
struct LoadProgress::Watched {
  std::mutex mutex;
  std::weak_ptr<ProgressBar> bar;

  std::shared_ptr<ProgressBar> current() {
    const std::scoped_lock lock(mutex);
    return bar.lock();
  }
};

LoadProgress::LoadProgress(LoadProgressOptions options)
    : options_(std::move(options)), watched_(std::make_shared<Watched>()) {}

std::shared_ptr<ObjectStore> LoadProgress::watch(const std::shared_ptr<ObjectStore>& store) {
  if (!store->may_be_far() || (!options_.is_shown && options_.chunk_bytes == 0)) return store;
  auto& watching = stores_[store];
  if (watching != nullptr) return watching;
  LoadStoreOptions load{.chunk_bytes = options_.chunk_bytes};
  if (options_.is_shown) {
    load.on_first_read = [watched = watched_](std::uint64_t size) {
      if (const auto bar = watched->current()) bar->expect(size);
    };
    load.on_read = [watched = watched_](std::uint64_t bytes) {
      if (const auto bar = watched->current()) bar->add(bytes);
    };
  }
  watching = load_store(store, std::move(load));
  return watching;
}

std::shared_ptr<ProgressBar> LoadProgress::show(const std::string& path) {
  if (!options_.is_shown) return nullptr;
  const auto bar = std::make_shared<ProgressBar>(
      options_.stream != nullptr ? *options_.stream : std::cerr,
      ProgressBarOptions{.what = "Downloading " + shortened(printable_line(path)),
                         .is_terminal = options_.is_terminal,
                         .now = options_.now});
  const std::scoped_lock lock(watched_->mutex);
  watched_->bar = bar;
  return bar;
}

}  // namespace cairn
