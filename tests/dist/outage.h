// Stores of rank 0 that fail for a time, in dist_program.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/options.h"
#include "cairn/train/state.h"

#include "testing/tiny_model.h"
#include "testing/watched_store.h"

// The checkpoint of the first batch cannot be written.
class BrokenOnce {
 public:
  std::shared_ptr<cairn::ObjectStore> store() {
    return std::make_shared<cairn::testing::WatchedStore>(
        cairn::local_store(),
        cairn::testing::StoreHooks{
            .before = [this](cairn::testing::StoreCall call, const std::string& name) {
              const bool is_write = call == cairn::testing::StoreCall::kBegin;
              if (!is_write || name.find("ba1-") == std::string::npos) return;
              has_failed_ = true;
              has_failed_.notify_all();
              throw cairn::StorageError("broken", 0);
            }});
  }
  void wait() const { has_failed_.wait(false); }

 private:
  std::atomic<bool> has_failed_ = false;
};

// All calls fail after batch `from`, until batch `to` is trained. No save is under way when the
// outage begins or ends. The save of batch `from` + 1 fails. Training waits until that save is
// tried again, because only then the saver knows that the store cannot be reached.
class Outage {
 public:
  Outage(std::int64_t from, std::int64_t to) : from_(from), to_(to) {}

  // Call it with the options of rank 0's Trainer.
  void change(cairn::TrainerOptions& options) {
    options.save_object_store = std::make_shared<cairn::testing::WatchedStore>(
        cairn::local_store(),
        cairn::testing::StoreHooks{.before = [this](auto /*call*/, const auto& /*name*/) {
          if (!is_away_) return;
          ++refused_;
          refused_.notify_all();
          throw cairn::StorageError("no connection", 0, true);
        }});
    options.callbacks.push_back(cairn::testing::CallAt(
        cairn::Event::kBatchStart, [this](cairn::State& state) { begin_batch(state); }));
  }

 private:
  void begin_batch(cairn::State& state) {
    const std::int64_t batch = state.timestamp.batch;
    if (batch == from_) wait_for_saves(state);
    if (batch == from_) is_away_ = true;
    for (int count = refused_; batch == from_ + 1 && count < 2; count = refused_)
      refused_.wait(count);
    if (batch != to_) return;
    is_away_ = false;
    wait_for_saves(state);
  }

  static void wait_for_saves(cairn::State& state) {
    for (const auto& callback : state.callbacks) {
      auto* const saver = dynamic_cast<cairn::CheckpointSaver*>(callback.get());
      if (saver != nullptr) saver->wait();
    }
  }

  const std::int64_t from_;
  const std::int64_t to_;
  std::atomic<bool> is_away_ = false;
  std::atomic<int> refused_ = 0;  // The number of refused calls.
};
