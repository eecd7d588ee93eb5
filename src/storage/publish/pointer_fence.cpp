#include "storage/publish/pointer_fence.h"

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

std::optional<Pointer> PointerFence::read(const RetryPolicy& retry) const {
  return with_retries(retry, [&] { return store_->read_pointer(name_); });
}

void PointerFence::look(const RetryPolicy& retry) {
  const std::scoped_lock lock(mutex_);
  known_ = read(retry);
  has_looked_ = true;
}

void PointerFence::check(const RetryPolicy& retry) {
  const std::scoped_lock lock(mutex_);
  if (!has_looked_) return look(retry);
  const auto now = read(retry);
  if (!is_own(now)) refuse(now, "the object that was to be written next");
  known_ = now;
}

bool PointerFence::is_known_at(const std::string& target, const RetryPolicy& retry) {
  const std::scoped_lock lock(mutex_);
  if (!has_looked_) look(retry);
  return known_ && is_at(*known_, target);
}

std::optional<Pointer> PointerFence::known() const {
  const std::scoped_lock lock(mutex_);
  return known_;
}

void PointerFence::move(const std::string& target, const RetryPolicy& retry, std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  if (number_ > number) return;
  if (!has_looked_) look(retry);
  bool may_be_done = false;
  std::string version;
  with_retries(retry, [&] {
    const bool is_known = (!known_ || !known_->version.empty()) && !unsure_;
    const auto now = is_known ? known_ : store_->read_pointer(name_);
    if (may_be_done && now && is_at(*now, target)) return;
    if (!is_own(now)) refuse(now, target);
    known_ = now;
    unsure_ = target;
    // A pointer without a version: the store has no conditions.
    std::optional<std::string> expected;
    if (!now || !now->version.empty()) expected = now ? now->version : "";
    try {
      version = store_->move_pointer_versioned(name_, target, expected);
    } catch (const StorageError&) {
      may_be_done = true;
      throw;
    } catch (const AlreadyExistsError&) {
      unsure_.reset();
      refuse(store_->read_pointer(name_), target);
    }
  });
  if (version.empty()) version = version_of_own(target, retry);
  known_ = Pointer{.target = target, .version = version};
  unsure_.reset();
  number_ = number;
}

bool PointerFence::is_own(const std::optional<Pointer>& now) const {
  return is_same(known_, now) || (now && unsure_ && is_at(*now, *unsure_));
}

// Step 5. If the read fails, only the target is known.
std::string PointerFence::version_of_own(const std::string& target, const RetryPolicy& retry) {
  try {
    const auto now = read(retry);
    return now && is_at(*now, target) ? now->version : "";
  } catch (const StorageError&) {
    return "";
  }
}

std::shared_ptr<PointerFence> PointerFences::find(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  Used& used = used_[name];
  if (used.fence == nullptr) used.fence = std::make_shared<PointerFence>(store_, name);
  used.at = ++uses_;
  const auto found = used.fence;
  if (used_.size() > kMax) {
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
