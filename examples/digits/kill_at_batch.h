// KillAtBatch simulates a power cut.
#pragma once

#include <csignal>
#include <cstdint>

#include "cairn/train/callback.h"
#include "cairn/train/state.h"

namespace digits {

// Kills the process with SIGKILL at the end of a batch. The process cannot handle that signal: no
// destructor runs and no buffer is flushed. It acts on the first event after the batch's checkpoint
// event. So a save that is due then has been handed to the background thread, and may be half done.
class KillAtBatch final : public cairn::Callback {
 public:
  explicit KillAtBatch(std::int64_t batch) : batch_(batch) {}
  std::string name() const override { return "KillAtBatch"; }

  void run_event(cairn::Event event, cairn::State& state, cairn::Logger& /*logger*/) override {
    if (batch_ended_ && event != cairn::Event::kBatchCheckpoint) std::raise(SIGKILL);
    batch_ended_ = event == cairn::Event::kBatchCheckpoint && state.timestamp.batch == batch_;
  }

 private:
  std::int64_t batch_;
  bool batch_ended_ = false;
};

}  // namespace digits
