// A store that counts every call and can hinder it: the store may be far away, slow or failing.
// may_be_far() is true even if the store wraps local_store(), so that a test of far stores does not
// become a test of local files.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"
#include "cairn/storage/object_store.h"

namespace cairn::testing {

enum class StoreCall : std::uint8_t {
  kStat,
  kOpen,
  kRead,  // From an object that was opened.
  kList,  // One page.
  kBegin,
  kWrite,
  kCommit,
  kRemove,  // Objects and folders.
  kCopy,
  kRename,
  kReadPointer,
  kMovePointer,
};

struct StoreHooks {
  // Called with the call and the name. A hook may throw, and the caller gets that error.
  using Hook = std::function<void(StoreCall, const std::string&)>;
  Hook before = nullptr;  // Called before anything is done.
  // Called after the call is done: if it throws, only the answer is lost. Not called for kBegin and
  // kWrite.
  Hook after = nullptr;
};

// Thread-safe if the wrapped store and the hooks are.
class WatchedStore final : public ObjectStore {
 public:
  explicit WatchedStore(std::shared_ptr<ObjectStore> under, StoreHooks hooks = {})
      : state_(std::make_shared<State>(std::move(hooks))), under_(std::move(under)) {}

  std::uint64_t calls(StoreCall call) const {
    return state_->counts.at(static_cast<std::size_t>(call));
  }
  // Calls of any kind, except writing and reading parts of an object that was begun or opened.
  std::uint64_t requests() const {
    std::uint64_t all = 0;
    for (const auto& count : state_->counts) {
      all += count;
    }
    return all - calls(StoreCall::kWrite) - calls(StoreCall::kBegin) - calls(StoreCall::kRead);
  }
  std::uint64_t bytes_read() const { return state_->bytes_read; }
  void reset() {
    for (auto& count : state_->counts) {
      count = 0;
    }
    state_->bytes_read = 0;
  }

  StoreFeatures features() const override { return under_->features(); }
  bool may_be_far() const override { return true; }
  bool names_are_paths() const override { return false; }
  std::string describe(const std::string& name) const override { return under_->describe(name); }
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return state_->watch(StoreCall::kStat, name, [&] { return under_->stat(name, follow); });
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return state_->watch(StoreCall::kOpen, name, [&]() -> std::shared_ptr<const ByteSource> {
      return std::make_shared<Source>(under_->open(name), state_);
    });
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    return state_->watch(StoreCall::kList, folder, [&] { return under_->list(folder, page); });
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    state_->before(StoreCall::kBegin, name);
    return std::make_unique<Write>(under_->begin(name, options), state_, name);
  }
  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    state_->before(StoreCall::kBegin, name);
    return under_->begin_folder(name, overwrite);
  }
  bool remove(const std::string& name) override {
    return state_->watch(StoreCall::kRemove, name, [&] { return under_->remove(name); });
  }
  bool remove_folder(const std::string& name) override {
    return state_->watch(StoreCall::kRemove, name, [&] { return under_->remove_folder(name); });
  }
  void copy(const std::string& from, const std::string& to, const WriteCondition& condition,
            const std::string& from_version) override {
    state_->watch(StoreCall::kCopy, from, [&] {
      under_->copy(from, to, condition, from_version);
      return true;
    });
  }
  void rename(const std::string& from, const std::string& to) override {
    state_->watch(StoreCall::kRename, from, [&] {
      under_->rename(from, to);
      return true;
    });
  }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    return state_->watch(StoreCall::kReadPointer, name, [&] { return under_->read_pointer(name); });
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    state_->watch(StoreCall::kMovePointer, name, [&] {
      under_->move_pointer(name, target, expected);
      return true;
    });
  }
  void prepare(const std::string& folder) override { under_->prepare(folder); }
  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    return under_->remove_leftovers(folder, of);
  }
  bool restore(const std::string& name) override { return under_->restore(name); }
  bool is_being_written(const std::string& name) override { return under_->is_being_written(name); }

 private:
  struct State {
    explicit State(StoreHooks h) : hooks(std::move(h)) {}
    void before(StoreCall call, const std::string& name) {
      ++counts.at(static_cast<std::size_t>(call));
      if (hooks.before) hooks.before(call, name);
    }
    template <class Act>
    auto watch(StoreCall call, const std::string& name, const Act& act) -> decltype(act()) {
      before(call, name);
      auto result = act();
      if (hooks.after) hooks.after(call, name);
      return result;
    }
    const StoreHooks hooks;
    std::array<std::atomic<std::uint64_t>, 12> counts = {};
    std::atomic<std::uint64_t> bytes_read = 0;
  };

  class Source final : public ByteSource {
   public:
    Source(std::shared_ptr<const ByteSource> under, std::shared_ptr<State> state)
        : under_(std::move(under)), state_(std::move(state)) {}
    std::uint64_t size() const override { return under_->size(); }
    const std::string& name() const override { return under_->name(); }
    void read(std::span<const Range> ranges) const override {
      for (const Range& range : ranges) {
        state_->bytes_read += range.into.size();
      }
      state_->watch(StoreCall::kRead, name(), [&] {
        under_->read(ranges);
        return true;
      });
    }

   private:
    std::shared_ptr<const ByteSource> under_;
    std::shared_ptr<State> state_;
  };

  class Write final : public ObjectWrite {
   public:
    Write(std::unique_ptr<ObjectWrite> under, std::shared_ptr<State> state, std::string name)
        : under_(std::move(under)), state_(std::move(state)), name_(std::move(name)) {}
    void write(ByteView bytes) override {
      state_->before(StoreCall::kWrite, name_);
      under_->write(bytes);
    }
    void write_at(std::uint64_t offset, SharedBytes bytes) override {
      state_->before(StoreCall::kWrite, name_);
      under_->write_at(offset, std::move(bytes));
    }
    std::size_t piece_bytes() const override { return under_->piece_bytes(); }
    void make_durable() override { under_->make_durable(); }

   private:
    void publish() override {
      state_->watch(StoreCall::kCommit, name_, [&] {
        under_->commit();
        return true;
      });
    }
    std::unique_ptr<ObjectWrite> under_;
    std::shared_ptr<State> state_;
    std::string name_;
  };

  const std::shared_ptr<State> state_;  // Shared with opened objects; may outlive the store.
  const std::shared_ptr<ObjectStore> under_;
};

// Makes this share of all calls fail with a retryable StorageError. Half of the failed calls are
// not done; the other half are done, and the answer is lost. The same seed gives the same faults if
// only one thread makes calls.
inline StoreHooks random_faults(double rate, std::uint64_t seed) {
  struct Dice {
    std::mutex mutex;
    std::mt19937_64 random;
  };
  const auto dice = std::make_shared<Dice>();
  dice->random.seed(seed);
  const auto maybe_fail = [dice, rate](StoreCall call, const std::string& name) {
    const std::scoped_lock lock(dice->mutex);
    // An object takes many writes, but most of them are one request.
    const double odds = call == StoreCall::kWrite ? rate / 20 : rate / 2;
    if (std::uniform_real_distribution<>()(dice->random) < odds) {
      throw StorageError(name + ": 503 SlowDown", 503, /*retryable=*/true);
    }
  };
  return {.before = maybe_fail, .after = maybe_fail};
}

}  // namespace cairn::testing
