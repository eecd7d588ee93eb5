#include "storage/own_objects.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "core/xxh3.h"
#include "io/file.h"

namespace cairn {
namespace {

std::uint64_t print_of(const std::string& text) { return xxh3_64(as_bytes(text)); }

}  // namespace

void OwnObjects::know(const std::string& name, const std::string& version) {
  set(name, {.version = version});
}

void OwnObjects::forget(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  known_.erase(normal_path(name));
  passed_.erase(print_of(normal_path(name)));
}

void OwnObjects::shorten(const std::function<bool(const std::string& name)>& has_passed) {
  constexpr std::size_t kFew = 16;
  const std::scoped_lock lock(mutex_);
  if (known_.size() < std::max(ask_at_, kFew)) return;
  std::erase_if(known_, [&](const auto& known) {
    if (!has_passed(known.first)) return false;
    if (known.second.is_sure) passed_[print_of(known.first)] = print_of(known.second.version);
    return true;
  });
  ask_at_ = 2 * known_.size();
}

std::size_t OwnObjects::size() const {
  const std::scoped_lock lock(mutex_);
  return known_.size();
}

void OwnObjects::failed(const std::string& name) { set(name, {.is_sure = false}); }

WriteCondition OwnObjects::condition(const std::string& name, const RetryPolicy& retry) const {
  const auto known = find(name);
  if (!known) return condition_of_passed(name, retry);
  const bool is_checked = store_->features().versioned_writes;
  if (known->is_sure && is_checked) return WriteCondition::of_version(known->version);
  const auto there = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
  if (!there) return WriteCondition::absent();
  if (known->is_sure && there->version != known->version) {
    refuse(name, there->version, "version " + known->version);
  }
  return is_checked ? WriteCondition::of_version(there->version) : WriteCondition{};
}

WriteCondition OwnObjects::condition_of_passed(const std::string& name,
                                               const RetryPolicy& retry) const {
  if (!knows(name)) return WriteCondition::absent();
  const auto there = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
  if (!there) return WriteCondition::absent();
  if (!is_as_shortened(name, there->version)) {
    refuse(name, there->version, "another one, which it wrote or found there earlier");
  }
  return store_->features().versioned_writes ? WriteCondition::of_version(there->version)
                                             : WriteCondition{};
}

void OwnObjects::refuse(const std::string& name, const std::string& there,
                        const std::string& known) const {
  throw AlreadyExistsError(store_->describe(name) + " is of version " + there +
                           ", and this job knows " + known +
                           ": another job writes it, too. It was not written over. Stop one of " +
                           "the two jobs, or give them run names of their own");
}

bool OwnObjects::knows(const std::string& name) const {
  const std::string normal = normal_path(name);
  const std::scoped_lock lock(mutex_);
  return known_.contains(normal) || passed_.contains(print_of(normal));
}

bool OwnObjects::is_as_shortened(const std::string& name, const std::string& version) const {
  const std::scoped_lock lock(mutex_);
  const auto found = passed_.find(print_of(normal_path(name)));
  return found != passed_.end() && found->second == print_of(version);
}

void OwnObjects::set(const std::string& name, Known known) {
  std::string normal = normal_path(name);
  const std::scoped_lock lock(mutex_);
  passed_.erase(print_of(normal));
  known_.insert_or_assign(std::move(normal), std::move(known));
}

std::optional<OwnObjects::Known> OwnObjects::find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(normal_path(name));
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

}  // namespace cairn
