// One job's hold on a pointer that others may move, too: `latest` of a run.
//
//  1. What the pointer says when the job begins is what it knows.
//     A pointer that names nothing counts, too: it is replaced under its version.
//  2. Before what it is to be moved to is written, the pointer is read. It must say what the job
//     knows: what it said in the beginning, or what the job itself made it say. Otherwise another
//     job has moved it, and this one stops: AlreadyExistsError, nothing is changed.
//  3. It is moved under the condition that it is still of the version that the job knows. Where the
//     store has fenced_pointers, only one of two jobs in the same instant moves it; elsewhere the
//     gap between the store's own look and the move remains. Where the version is not known the
//     pointer is read again first.
//  4. When the answer is lost, the pointer is read again: it says the new target when the move was
//     done. If a move ends with an error all the same, the next one may find either.
//  5. The answer to a move says the pointer's version, or the pointer is read after it: of a run
//     whose checkpoints all have one name the target says nothing. In a bucket the version neither
//     does (it is that of the text): there the objects' own versions tell two jobs apart
//     (own_objects.h).
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

// Safe from several threads.
class PointerFence {
 public:
  PointerFence(std::shared_ptr<ObjectStore> store, std::string name);

  // Step 1; move() does it when nobody did. StorageError.
  void look(const RetryPolicy& retry);
  // Step 2, before something is written that the pointer is to be moved to. StorageError.
  void check(const RetryPolicy& retry);
  // Whether the pointer was at `target` when it was last looked at, which this does if nobody did.
  bool was_at(const std::string& target, const RetryPolicy& retry);
  // Steps 2 to 5, unless a job of a higher `number` has moved it. StorageError.
  void move(const std::string& target, const RetryPolicy& retry, std::uint64_t number = 0);

  // As it was last looked at, or moved; nullopt when there was none, or nobody has looked.
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
  std::optional<Pointer> known_;  // its version is empty where there is none, or it is not known
  std::optional<std::string> unsure_;  // step 4: what an unfinished move may have pointed it at
};

// The fences of a job, by name. Of a run whose every save has a pointer of its own the oldest are
// forgotten, which nobody moves any more: so many of those used last are kept. Any thread.
class PointerFences {
 public:
  static constexpr std::size_t kMost = 16;

  explicit PointerFences(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}
  std::shared_ptr<PointerFence> find(const std::string& name);
  std::size_t size() const;

 private:
  struct Used {
    std::shared_ptr<PointerFence> fence;
    std::uint64_t at = 0;  // which use it was
  };

  const std::shared_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;
  std::map<std::string, Used> used_;
  std::uint64_t uses_ = 0;
};

}  // namespace cairn
