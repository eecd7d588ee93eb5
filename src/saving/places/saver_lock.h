// The lock of the run in a save folder (checkpoint/folder/run_lock.h), as a saver holds it.
//
//  0. Before autoresume looks for checkpoints, look() notes the link's target if another job has
//     the lock. This run would overwrite the checkpoints that the other job saves after this look.
//     So step 1 ends with a BusyError if the link has another target by then, even if the lock is
//     free.
//  1. hold(), when a fit() begins, takes the lock before any file is examined. Rank 0 takes it
//     first. Then the first rank of each other machine that writes in the folder shares it. In a
//     shared folder that is one lock, because all ranks give the same text (`job`).
//  2. release(), after the last save.
//  3. Outside of a fit(), a saver may move the link (after a load) and remove checkpoints (of a
//     finished run). The saver takes the lock for that moment. If another process holds the lock,
//     the saver does neither.
//
// Only cairn's own stores of files have such a lock. In other stores this class does nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cairn/storage/object_store.h"

namespace cairn {

class SaverLock {
 public:
  SaverLock() = default;  // No folder yet: holds nothing.
  SaverLock(std::shared_ptr<ObjectStore> store, std::string folder, std::string run_name,
            std::string job)
      : store_(std::move(store)),
        folder_(std::move(folder)),
        run_name_(std::move(run_name)),
        job_(std::move(job)) {}

  // Step 0. `link`: the path of the link to the newest checkpoint. Empty if there is none.
  void look(const std::string& link);
  // Step 1. Returns false if a near store has no locks. Throws BusyError and StorageError.
  bool hold(const std::string& link);
  void share();
  // Step 2.
  void release() { held_.reset(); }
  // Step 3. nullopt: another process has the lock.
  std::optional<std::shared_ptr<void>> take_unless_busy() const;

 private:
  std::shared_ptr<void> take() const;
  std::string newest_by(const std::string& link) const;

  std::shared_ptr<ObjectStore> store_;
  std::string folder_;
  std::string run_name_;
  std::string job_;
  std::optional<std::string> newest_while_busy_;  // From step 0.
  std::shared_ptr<void> held_;
};

}  // namespace cairn
