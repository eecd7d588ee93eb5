// What this job knows of the objects that it may write over: that it wrote them itself, or found
// them when it began, and their versions.
//
// A name that is written again and again ("ckpt.pt") says nothing about whose content it has, and a
// pointer at it says the same when another job moved it. So what is written over must be of the
// version that this job knows; otherwise another job is at work, and this one stops:
// AlreadyExistsError, nothing is changed. A store without features().versioned_writes is looked
// into first: that holds against what was done before.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

#include "io/retry.h"

namespace cairn {

// Safe from several threads.
class OwnObjects {
 public:
  explicit OwnObjects(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}

  // It has that version: this job wrote it, or found it and may write over it.
  void know(const std::string& name, const std::string& version);
  // This job removed it.
  void removed(const std::string& name);
  // A write failed. What is there may be its own: whose answer was lost, say.
  void failed(const std::string& name);

  // Of the next write: that the name is as this job knows it; `otherwise` when it knows nothing of
  // it. AlreadyExistsError; StorageError.
  WriteCondition condition(const std::string& name, const WriteCondition& otherwise,
                           const RetryPolicy& retry) const;

 private:
  enum class State : std::uint8_t { kThere, kRemoved, kUnsure };
  struct Known {
    State state = State::kThere;
    std::string version = {};
  };
  void set(const std::string& name, Known known);
  std::optional<Known> find(const std::string& name) const;

  const std::shared_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace cairn
