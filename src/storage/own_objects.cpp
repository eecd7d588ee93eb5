#include "storage/own_objects.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn {

void OwnObjects::know(const std::string& name, const std::string& version) {
  set(name, {.version = version});
}

void OwnObjects::forget(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  known_.erase(normal_path(name));
}

void OwnObjects::forget_if(const std::function<bool(const std::string& name)>& has_passed) {
  constexpr std::size_t kFew = 16;
  const std::scoped_lock lock(mutex_);
  if (known_.size() < std::max(ask_at_, kFew)) return;
  std::erase_if(known_, [&](const auto& known) { return has_passed(known.first); });
  ask_at_ = 2 * known_.size();
}

std::size_t OwnObjects::size() const {
  const std::scoped_lock lock(mutex_);
  return known_.size();
}

void OwnObjects::failed(const std::string& name) { set(name, {.is_sure = false}); }

WriteCondition OwnObjects::condition(const std::string& name, const RetryPolicy& retry) const {
  const auto known = find(name);
  if (!known) return WriteCondition::absent();
  const bool is_checked = store_->features().versioned_writes;
  if (known->is_sure && is_checked) return WriteCondition::of_version(known->version);
  const auto there = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
  if (!there) return WriteCondition::absent();
  if (known->is_sure && there->version != known->version) {
    throw AlreadyExistsError(store_->describe(name) + " is of version " + there->version +
                             ", and this job knows version " + known->version +
                             ": another job writes it, too. It was not written over. Stop one of " +
                             "the two jobs, or give them run names of their own");
  }
  return is_checked ? WriteCondition::of_version(there->version) : WriteCondition{};
}

void OwnObjects::set(const std::string& name, Known known) {
  const std::scoped_lock lock(mutex_);
  known_.insert_or_assign(normal_path(name), std::move(known));
}

std::optional<OwnObjects::Known> OwnObjects::find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(normal_path(name));
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

}  // namespace cairn
