#include "storage/own_objects.h"

#include <utility>

#include "cairn/error.h"

#include "io/file.h"

namespace cairn {

void OwnObjects::know(const std::string& name, const std::string& version) {
  set(name, {.version = version});
}

void OwnObjects::removed(const std::string& name) { set(name, {.state = State::kRemoved}); }

void OwnObjects::failed(const std::string& name) { set(name, {.state = State::kUnsure}); }

WriteCondition OwnObjects::condition(const std::string& name, const WriteCondition& otherwise,
                                     const RetryPolicy& retry) const {
  const auto known = find(name);
  if (!known) return otherwise;
  if (known->state == State::kRemoved) return WriteCondition::absent();
  const bool is_checked = store_->features().versioned_writes;
  if (known->state == State::kThere && is_checked) {
    return WriteCondition::of_version(known->version);
  }
  const auto there = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
  if (!there) return WriteCondition::absent();
  if (known->state == State::kThere && there->version != known->version) {
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
