// Remembers the objects that this job may overwrite, with their versions: those that it wrote
// itself, or found when it began.
//
// A name that is written again and again ("ckpt.pt") does not tell which job wrote its content. A
// pointer to the name does not change when another job writes the object. So an object is
// overwritten only if its version is the one that this job knows. Otherwise another job is at work,
// and this job stops: it throws AlreadyExistsError and changes nothing. In a store without
// features().versioned_writes this job looks at the object first, and notices only what was done
// before the look. If this job knows nothing about a name, no object may have the name.
//
// A failed write may have been done all the same, if only its answer was lost. So this job keeps a
// hash of the bytes that it sent. The next write of the name reads the object once: the object is
// this job's if the hash agrees, and another job's otherwise. A write that a deadline ended leaves
// no hash. An object that is found after such a write is not replaced, and the error names both
// possibilities.
//
// Superfluous objects are removed without a condition, since no store offers conditional removals.
// So if the newest write of a name did not complete, the name is removed only if a look finds that
// the object is this job's.
//
// For a name that will not be written again, two hashes replace the name and the version. So even a
// long job keeps few names. The job still recognizes what it wrote if training starts again from an
// earlier time (fit(reset_time)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

// Identifies bytes that are not kept.
struct BytesFingerprint {
  std::uint64_t size = 0;
  std::string hash = {};
  bool operator==(const BytesFingerprint&) const = default;
};

// The condition under which a name may be overwritten.
struct OwnCondition {
  WriteCondition condition = {};
  // The version that the object has now. Set only if the object exists and the store cannot check
  // versions itself.
  std::string replaces = {};
};

// Thread-safe.
class OwnObjects {
 public:
  explicit OwnObjects(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}

  // Notes the version of an object that this job wrote, or found and may overwrite.
  void know(const std::string& name, const std::string& version);
  // Forgets an object that this job removed, or may not write.
  void forget(const std::string& name);
  // Replaces by hashes all names that will not be written again, as far as is known now: those for
  // which `is_retired` returns true. Works only now and then, so that a call makes a small,
  // constant number of `is_retired` calls on average. If such a name is written again, the object
  // is looked at first.
  void shorten_retired(const std::function<bool(const std::string& name)>& is_retired);
  // Notes a write of these bytes that failed, or after which the name had an object of another
  // version. The bytes may have been written all the same.
  void note_sent(const std::string& name, BytesFingerprint sent);
  // Like note_sent(), when there was no time to hash the bytes.
  void note_cancelled(const std::string& name);

  // Notes that a write of the name failed that had a condition, or that was refused. Until
  // note_finished() the object may be another job's.
  void note_unfinished(const std::string& name);
  void note_finished(const std::string& name);
  // Whether the object is this job's and may be removed. If the name's last write did not complete,
  // looks at the object. If the look fails, returns false: one object too many is better than one
  // too few.
  bool may_remove(const std::string& name, const RetryPolicy& retry) const;

  // Returns the condition for the next write: the object must be as this job knows it. Throws
  // AlreadyExistsError and StorageError.
  OwnCondition condition(const std::string& name, const RetryPolicy& retry) const;

  // knows(): whether this job knows anything about the name. size(): the number of names kept in
  // full.
  bool knows(const std::string& name) const;
  std::size_t size() const;

 private:
  struct Known {
    std::string version = {};                     // empty: see retired_, or none is known
    std::vector<BytesFingerprint> attempts = {};  // failed writes since that version
    bool was_cancelled = false;  // whether a write since that version was cancelled
  };
  std::optional<Known> find(const std::string& name) const;
  bool is_own(const std::string& name, const ObjectInfo& there, const Known& known,
              const RetryPolicy& retry) const;
  bool is_as_shortened(const std::string& name, const std::string& version) const;
  bool is_of_attempt(const std::string& name, const ObjectInfo& there,
                     const std::vector<BytesFingerprint>& attempts, const RetryPolicy& retry) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& there,
                           const Known& known) const;

  const std::shared_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;
  std::set<std::string> unfinished_;
  // Filled by shorten_retired(): the hash of a name -> the hash of its version.
  std::unordered_map<std::uint64_t, std::uint64_t> retired_;
  std::size_t shorten_at_ = 0;  // Size of known_ at which shorten_retired() works again.
};

}  // namespace cairn
