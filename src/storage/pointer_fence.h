// One job's hold on a pointer that others may move, too: `latest` of a run.
//
//  1. What the pointer says when the job begins is what it knows.
//  2. Before each move, and before what it is to be moved to is written, the pointer is read. It
//     must say what the job knows: what it said in the beginning, or what the job itself made it
//     say. Otherwise another job has moved it, and this one stops: AlreadyExistsError, nothing is
//     changed.
//  3. It is moved under the condition that it is still of the version just read, so that of two
//     jobs in the same instant only one moves it (where the store has fenced_pointers; elsewhere
//     the gap between reading and moving remains).
//  4. When the answer is lost, the pointer is read again: it says the new target when the move was
//     done.
//  5. Behind a move its version is read: of a run whose checkpoints all have one name the target
//     says nothing. In a bucket the version neither does (it is that of the text): there the
//     objects' own versions tell two jobs apart (own_objects.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

#include "io/retry.h"

namespace cairn {

// One thread at a time.
class PointerFence {
 public:
  PointerFence(std::shared_ptr<ObjectStore> store, std::string name);

  // Step 1; move() does it when nobody did. StorageError.
  void look(const RetryPolicy& retry);
  // Step 2, before something is written that the pointer is to be moved to. StorageError.
  void check(const RetryPolicy& retry);
  // Steps 2 to 5. StorageError.
  void move(const std::string& target, const RetryPolicy& retry);

  const std::string& name() const { return name_; }

 private:
  std::string version_of_own(const std::string& target, const RetryPolicy& retry);
  [[noreturn]] void refuse(const std::optional<Pointer>& now, const std::string& target) const;

  const std::shared_ptr<ObjectStore> store_;
  const std::string name_;
  bool has_looked_ = false;
  std::optional<Pointer> known_;  // its version is empty where there is none, or it is not known
};

}  // namespace cairn
