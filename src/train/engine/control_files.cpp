#include "train/engine/control_files.h"

#include <exception>
#include <new>
#include <utility>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn {

ControlFiles::ControlFiles(std::shared_ptr<ObjectStore> store, std::string folder,
                           std::vector<std::string> names)
    : store_(std::move(store)), folder_(std::move(folder)), names_(std::move(names)) {}

ControlFiles::~ControlFiles() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  cancellation_.cancel();
  if (thread_.joinable()) thread_.join();
}

bool ControlFiles::look() {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {  // no thread, or no memory for one
      return false;
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_asked_, true)) return false;
  }
  changed_.notify_all();
  return true;
}

std::vector<std::string> ControlFiles::take() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> taken;
  for (const std::string& name : names_) {
    if (found_.erase(name) > 0) taken.push_back(name);
  }
  return taken;
}

void ControlFiles::run() {
  const CancelScope scope(&cancellation_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_asked_ || is_over_; });
    if (is_over_) return;
    lock.unlock();
    try {
      look_for_all();
    } catch (const std::bad_alloc&) {  // the next look may find the file
    }
    lock.lock();
    is_asked_ = false;
  }
}

void ControlFiles::look_for_all() {
  for (const std::string& name : names_) {
    if (!take_away(name)) continue;
    const std::scoped_lock lock(mutex_);
    found_.insert(name);
  }
}

// Does step 3. Returns true if the file existed and is now removed.
bool ControlFiles::take_away(const std::string& name) {
  const std::string path = join_path(folder_, name);
  try {
    if (store_->stat(path, /*follow=*/false)) {
      seen_.insert(name);
      store_->remove(path);
    }
  } catch (const CancelledError&) {
    return false;
  } catch (const StorageError& e) {
    // After a refused removal, a later absence of the file does not mean that this thread removed
    // it.
    if (!e.retryable()) seen_.erase(name);
    return false;
  } catch (const std::exception&) {
    seen_.erase(name);
    return false;
  }
  return seen_.erase(name) > 0;
}

}  // namespace cairn
