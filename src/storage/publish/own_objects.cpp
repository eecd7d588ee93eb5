#include "storage/publish/own_objects.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "core/hash/xxh3.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

std::uint64_t hash_of(const std::string& text) { return xxh3_64(as_bytes(text)); }

}  // namespace

void OwnObjects::know(const std::string& name, const std::string& version) {
  const std::string normal = normal_path(name);
  const std::scoped_lock lock(mutex_);
  retired_.erase(hash_of(normal));
  known_.insert_or_assign(normal, Known{.version = version});
}

void OwnObjects::forget(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  known_.erase(normal_path(name));
  retired_.erase(hash_of(normal_path(name)));
}

void OwnObjects::shorten_retired(const std::function<bool(const std::string& name)>& is_retired) {
  constexpr std::size_t kFew = 16;
  const std::scoped_lock lock(mutex_);
  if (known_.size() < std::max(shorten_at_, kFew)) return;
  std::erase_if(known_, [&](const auto& known) {
    if (!is_retired(known.first)) return false;
    const std::string& version = known.second.version;
    if (!version.empty()) retired_[hash_of(known.first)] = hash_of(version);
    return true;
  });
  shorten_at_ = 2 * known_.size();
}

std::size_t OwnObjects::size() const {
  const std::scoped_lock lock(mutex_);
  return known_.size();
}

void OwnObjects::note_sent(const std::string& name, BytesFingerprint sent) {
  const std::scoped_lock lock(mutex_);
  std::vector<BytesFingerprint>& attempts = known_[normal_path(name)].attempts;
  if (std::ranges::find(attempts, sent) == attempts.end()) attempts.push_back(std::move(sent));
}

void OwnObjects::note_unfinished(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  unfinished_.insert(normal_path(name));
}

void OwnObjects::note_finished(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  unfinished_.erase(normal_path(name));
}

bool OwnObjects::may_remove(const std::string& name, const RetryPolicy& retry) const {
  {
    const std::scoped_lock lock(mutex_);
    if (!unfinished_.contains(normal_path(name))) return true;
  }
  if (!knows(name)) return false;
  try {
    const auto there = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
    return there && is_own(name, *there, find(name).value_or(Known()), retry);
  } catch (const Error&) {
    return false;  // The caller reports the error of the write itself.
  }
}

void OwnObjects::note_cancelled(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  known_[normal_path(name)].was_cancelled = true;
}

OwnCondition OwnObjects::condition(const std::string& name, const RetryPolicy& retry) const {
  if (!knows(name)) return {.condition = WriteCondition::absent()};
  const bool is_checked = with_retries(retry, [&] { return store_->features().versioned_writes; });
  const Known known = find(name).value_or(Known());
  if (is_checked && !known.version.empty() && known.attempts.empty() && !known.was_cancelled) {
    return {.condition = WriteCondition::of_version(known.version)};
  }
  const auto there = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
  if (!there) return {.condition = WriteCondition::absent()};
  const std::string& version = there->version;
  if (!is_own(name, *there, known, retry)) {
    refuse(name, version, known);
  }
  if (!is_checked) return {.replaces = version};
  return {.condition = WriteCondition::of_version(version)};
}

bool OwnObjects::is_own(const std::string& name, const ObjectInfo& there, const Known& known,
                        const RetryPolicy& retry) const {
  const bool is_known =
      known.version.empty() ? is_as_shortened(name, there.version) : there.version == known.version;
  return is_known || is_of_attempt(name, there, known.attempts, retry);
}

// Whether the object is what a failed write sent. If the sizes agree the object is read: a store
// offers no other way to compare.
bool OwnObjects::is_of_attempt(const std::string& name, const ObjectInfo& there,
                               const std::vector<BytesFingerprint>& attempts,
                               const RetryPolicy& retry) const {
  const bool may_be = std::ranges::any_of(
      attempts, [&](const BytesFingerprint& sent) { return sent.size == there.size; });
  if (!may_be || there.type != ObjectInfo::Type::kObject) return false;
  const std::string hash = with_retries(retry, [&] {
    Xxh3 hashed;
    read_in_blocks(*store_->open(name), [&](ByteView block) {
      check_cancelled_here();
      hashed.write(block);
    });
    return hashed.digest128();
  });
  // The bytes just read are those of `there` only if its version is still the current one.
  const auto now = with_retries(retry, [&] { return store_->stat(name, /*follow=*/false); });
  return now && now->version == there.version &&
         std::ranges::find(attempts, BytesFingerprint{there.size, hash}) != attempts.end();
}

void OwnObjects::refuse(const std::string& name, const std::string& there,
                        const Known& known) const {
  std::string knows = "another version, which it wrote or found there earlier";
  if (!known.attempts.empty()) knows = "only what it sent itself, which is other bytes";
  if (known.attempts.empty() && known.was_cancelled) knows = "no version of it";
  if (!known.version.empty()) knows = "version " + known.version;
  throw AlreadyExistsError(
      store_->describe(name) + " is of version " + there + ", but this job knows " + knows +
      (known.was_cancelled
           ? ": another job writes it, too, or a write of this job was given up (a deadline "
             "passed) before its answer came. The object was not overwritten.\nIf there is no "
             "other job, remove the object, or start again with autoresume; otherwise stop"
           : ": another job writes it, too. The object was not overwritten. Stop") +
      " one of the two jobs, or give them run names of their own");
}

bool OwnObjects::knows(const std::string& name) const {
  const std::string normal = normal_path(name);
  const std::scoped_lock lock(mutex_);
  return known_.contains(normal) || retired_.contains(hash_of(normal));
}

bool OwnObjects::is_as_shortened(const std::string& name, const std::string& version) const {
  const std::scoped_lock lock(mutex_);
  const auto found = retired_.find(hash_of(normal_path(name)));
  return found != retired_.end() && found->second == hash_of(version);
}

std::optional<OwnObjects::Known> OwnObjects::find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(normal_path(name));
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

}  // namespace cairn
