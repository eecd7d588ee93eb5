#include "storage/pointer_fence.h"

#include <algorithm>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn {
namespace {

bool is_at(const Pointer& pointer, const std::string& target) {
  return normal_path(pointer.target) == normal_path(target);
}

bool is_same(const std::optional<Pointer>& known, const std::optional<Pointer>& now) {
  if (!known || !now) return !known && !now;
  return is_at(*now, known->target) && (known->version.empty() || known->version == now->version);
}

}  // namespace

PointerFence::PointerFence(std::shared_ptr<ObjectStore> store, std::string name)
    : store_(std::move(store)), name_(std::move(name)) {}

void PointerFence::look(const RetryPolicy& retry) {
  known_ = with_retries(retry, [&] { return store_->read_pointer(name_); });
  has_looked_ = true;
}

void PointerFence::check(const RetryPolicy& retry) {
  if (!has_looked_) return look(retry);
  const auto now = with_retries(retry, [&] { return store_->read_pointer(name_); });
  if (!is_same(known_, now)) refuse(now, "what was to be written next");
  known_ = now;
}

bool PointerFence::was_at(const std::string& target, const RetryPolicy& retry) {
  if (!has_looked_) look(retry);
  return known_ && is_at(*known_, target);
}

void PointerFence::move(const std::string& target, const RetryPolicy& retry) {
  if (!has_looked_) look(retry);
  bool may_be_done = false;
  std::string version;
  with_retries(retry, [&] {
    const bool has_version = !known_ || !known_->version.empty();
    const auto now = has_version && !may_be_done ? known_ : store_->read_pointer(name_);
    if (may_be_done && now && is_at(*now, target)) return;
    if (!is_same(known_, now)) refuse(now, target);
    std::optional<std::string> expected;  // a pointer without a version: no conditions here
    if (!now || !now->version.empty()) expected = now ? now->version : "";
    try {
      version = store_->move_pointer_versioned(name_, target, expected);
    } catch (const StorageError&) {
      may_be_done = true;
      throw;
    } catch (const AlreadyExistsError&) {
      refuse(store_->read_pointer(name_), target);
    }
  });
  if (version.empty()) version = version_of_own(target, retry);
  known_ = Pointer{.target = target, .version = version};
}

// Step 5. Without an answer only the target is known.
std::string PointerFence::version_of_own(const std::string& target, const RetryPolicy& retry) {
  try {
    const auto now = with_retries(retry, [&] { return store_->read_pointer(name_); });
    return now && is_at(*now, target) ? now->version : "";
  } catch (const StorageError&) {
    return "";
  }
}

std::shared_ptr<PointerFences::Held> PointerFences::find(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  Used& used = used_[name];
  if (used.held == nullptr) used.held = std::make_shared<Held>(PointerFence(store_, name));
  used.at = ++uses_;
  const auto found = used.held;
  if (used_.size() > kMost) {
    used_.erase(std::ranges::min_element(used_, {}, [](const auto& one) { return one.second.at; }));
  }
  return found;
}

std::size_t PointerFences::size() const {
  const std::scoped_lock lock(mutex_);
  return used_.size();
}

void PointerFence::refuse(const std::optional<Pointer>& now, const std::string& target) const {
  const auto state = [](const std::optional<Pointer>& pointer) -> std::string {
    if (!pointer) return "missing";
    return pointer->is_broken() ? "broken" : "at " + pointer->target;
  };
  throw AlreadyExistsError("another job moves " + store_->describe(name_) +
                           ", too: this one last saw it " + state(known_) + ", and now it is " +
                           state(now) + ". It was not pointed at " + target +
                           ". Stop one of the two jobs, or give them run names of their own");
}

}  // namespace cairn
