// What this job knows of the objects that it may write over: that it wrote them itself, or found
// them when it began, and their versions.
//
// A name that is written again and again ("ckpt.pt") says nothing about whose content it has, and a
// pointer at it says the same when another job moved it. So what is written over must be of the
// version that this job knows; otherwise another job is at work, and this one stops:
// AlreadyExistsError, nothing is changed. A store without features().versioned_writes is looked
// into first: that holds against what was done before. What it knows nothing of must not be there.
//
// A write that failed may have been done all the same: its answer was lost. What is there then is
// this job's when its bytes are those that were sent, of which a hash is kept; they are read once,
// by the next write of the name. Anything else is another job's. Of a write that a deadline ended
// there is no hash: what is there then is not replaced, and the error says both that it may be.
//
// What is superfluous is removed without a condition: no store has one for that. So a name whose
// newest write did not arrive is removed only when a look finds this job's object there.
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
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/storage/object_store.h"

#include "io/threads/retry.h"

namespace cairn {

// What is left of bytes that nobody keeps: enough to know them again.
struct BytesPrint {
  std::uint64_t size = 0;
  std::string hash = {};
  bool operator==(const BytesPrint&) const = default;
};

// What a name may be written over by.
struct OwnCondition {
  WriteCondition condition = {};
  // The version that is there, where the store does not check it; empty: nothing.
  std::string replaces = {};
};

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
  // A write of such bytes may have been done: it failed, or another write's object is there.
  void note_sent(const std::string& name, BytesPrint sent);
  // The same, but nobody had the time to know its bytes.
  void note_cancelled(const std::string& name);

  // A write of it, conditional or refused, did not come to its end: what has the name may be
  // another job's. Until note_finished().
  void note_unfinished(const std::string& name);
  void note_finished(const std::string& name);
  // Whether what has the name may be removed as this job's. One that is missed is looked at, and
  // stays when that fails: one object too many is better than one too few.
  bool may_remove(const std::string& name, const RetryPolicy& retry) const;

  // Of the next write: that the name is as this job knows it. AlreadyExistsError; StorageError.
  OwnCondition condition(const std::string& name, const RetryPolicy& retry) const;

  // Whether it knows something of the name, and how many names it holds.
  bool knows(const std::string& name) const;
  std::size_t size() const;

 private:
  struct Known {
    std::string version = {};               // empty: of passed_, or none
    std::vector<BytesPrint> attempts = {};  // since, that failed
    bool has_ended = false;                 // one, since
  };
  std::optional<Known> find(const std::string& name) const;
  bool is_own(const std::string& name, const ObjectInfo& there, const Known& known,
              const RetryPolicy& retry) const;
  bool is_as_shortened(const std::string& name, const std::string& version) const;
  bool is_of_attempt(const std::string& name, const ObjectInfo& there,
                     const std::vector<BytesPrint>& attempts, const RetryPolicy& retry) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& there,
                           const Known& known) const;

  const std::shared_ptr<ObjectStore> store_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_;
  std::set<std::string> missed_;
  // Of shorten(): hashes of names to those of their versions.
  std::unordered_map<std::uint64_t, std::uint64_t> passed_;
  std::size_t ask_at_ = 0;  // shorten() does when there are so many
};

}  // namespace cairn
