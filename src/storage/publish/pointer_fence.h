// Lets one job move a pointer only if no other job has moved it, such as `latest` of a run.
//
//  1. When the job begins it reads the pointer, and remembers its target. A pointer that names
//     nothing is remembered, too: it is replaced on condition that it still has its version.
//  2. The pointer is read before its next target is written. The pointer must have the target that
//     the job knows: the one that it had in the beginning, or the one that the job gave it.
//     Otherwise another job has moved the pointer, and this job stops: it throws AlreadyExistsError
//     and changes nothing.
//  3. The pointer is moved on condition that it still has the version that the job knows. If the
//     store has fenced_pointers, only one of two simultaneous jobs moves the pointer. In other
//     stores there is a gap between the store's own check and the move. If the version is not
//     known, the pointer is read again first.
//  4. If the answer is lost, the pointer is read again: it has the new target if the move was done.
//     If a move ends with an error all the same, the next move accepts the old and the new target.
//  5. The answer to a move contains the pointer's version; otherwise the pointer is read after the
//     move. The version matters if all checkpoints of a run have one name, since the target is then
//     always the same. In a bucket even the version does not help, as the version depends only on
//     the pointer's text. There, the versions of the objects tell two jobs apart (own_objects.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

// Thread-safe.
class PointerFence {
 public:
  PointerFence(std::shared_ptr<ObjectStore> store, std::string name);

  // Step 1. move() calls look() if that has not been done. Throws StorageError.
  void look(const RetryPolicy& retry);
  // Step 2, before a new target of the pointer is written. Throws AlreadyExistsError and
  // StorageError.
  void check(const RetryPolicy& retry);
  // Whether the pointer was at `target` at the last look. Calls look() if that has not been done.
  bool is_known_at(const std::string& target, const RetryPolicy& retry);
  // Steps 2 to 5. Does not move the pointer if a call with a higher `number` has moved the pointer.
  // Throws AlreadyExistsError and StorageError.
  void move(const std::string& target, const RetryPolicy& retry, std::uint64_t number = 0);

  // The pointer as it was last read or moved; nullopt if there was none, or it has not been read.
  std::optional<Pointer> known() const;

 private:
  std::optional<Pointer> read(const RetryPolicy& retry) const;
  bool is_own(const std::optional<Pointer>& now) const;
  std::string version_of_own(const std::string& target, const RetryPolicy& retry);
  [[noreturn]] void refuse(const std::optional<Pointer>& now, const std::string& target) const;

  const std::shared_ptr<ObjectStore> store_;
  const std::string name_;
  mutable std::recursive_mutex mutex_;
  bool has_looked_ = false;
  std::uint64_t number_ = 0;
  std::optional<Pointer> known_;       // its version is empty if there is none or it is not known
  std::optional<std::string> unsure_;  // step 4: the target of an unfinished move
};

// The fences of a job, by name. Keeps only the most recently used ones: in a run whose every save
// has its own pointer, the old pointers are not moved any more. Thread-safe.
class PointerFences {
 public:
  static constexpr std::size_t kMax = 16;

  explicit PointerFences(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}
  std::shared_ptr<PointerFence> find(const std::string& name);
  std::size_t size() const;

 private:
  struct Used {
    std::shared_ptr<PointerFence> fence;
    std::uint64_t at = 0;  // the number of its last use
  };

  const std::shared_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;
  std::map<std::string, Used> used_;
  std::uint64_t uses_ = 0;
};

}  // namespace cairn
