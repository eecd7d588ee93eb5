// What this job knows of the objects that it may write over: that it wrote them itself, or found
// them when it began, and their versions.
//
// A name that is written again and again ("ckpt.pt") says nothing about whose content it has, and a
// pointer at it says the same when another job moved it. So what is written over must be of the
// version that this job knows; otherwise another job is at work, and this one stops:
// AlreadyExistsError, nothing is changed. A store without features().versioned_writes is looked
// into first: that holds against what was done before. What it knows nothing of must not be there.
//
// Of what will not be written again it keeps two hashes instead of a name and a version: a job of
// any length knows few names, and still recognises what it wrote when training begins once more
// from before that (fit(reset_time)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "cairn/storage/object_store.h"

#include "io/retry.h"

namespace cairn {

// Safe from several threads.
class OwnObjects {
 public:
  explicit OwnObjects(std::shared_ptr<ObjectStore> store) : store_(std::move(store)) {}

  // It has that version: this job wrote it, or found it and may write over it.
  void know(const std::string& name, const std::string& version);
  // This job removed it, or may not write it: it knows nothing of it.
  void forget(const std::string& name);
  // What is not to be written again, as far as can be said now: all names for which `has_passed` is
  // true. Asks only now and then, so that a call costs a small, constant number of questions on
  // average. Who writes such a name after all looks at the object first.
  void shorten(const std::function<bool(const std::string& name)>& has_passed);
  // A write failed. What is there may be its own: whose answer was lost, say.
  void failed(const std::string& name);

  // Of the next write: that the name is as this job knows it. AlreadyExistsError; StorageError.
  WriteCondition condition(const std::string& name, const RetryPolicy& retry) const;

  // Whether it knows something of the name, and how many names it holds.
  bool knows(const std::string& name) const;
  std::size_t size() const;

 private:
  struct Known {
    bool is_sure = true;
    std::string version = {};
  };
  void set(const std::string& name, Known known);
  std::optional<Known> find(const std::string& name) const;
  bool is_as_shortened(const std::string& name, const std::string& version) const;
  WriteCondition condition_of_passed(const std::string& name, const RetryPolicy& retry) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& there,
                           const std::string& known) const;

  const std::shared_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;
  // Of shorten(): hashes of names to those of their versions.
  std::unordered_map<std::uint64_t, std::uint64_t> passed_;
  std::size_t ask_at_ = 0;  // shorten() does when there are so many
};

}  // namespace cairn
