#include "testing/killed_run.h"

#include <gtest/gtest.h>

#include <utility>

#include "cairn/error.h"

#include "testing/tiny_model.h"

namespace cairn::testing {

void run_until(TrainerOptions made, std::int64_t last) {
  made.callbacks.push_back(CallAt(Event::kBatchStart, [last](State& state) {
    if (state.timestamp.batch == last) throw CancelledError("killed");
  }));
  Trainer trainer(std::move(made));
  EXPECT_THROW(trainer.fit(), CancelledError);
  trainer.close();
}

FitResult run(TrainerOptions made) {
  Trainer trainer(std::move(made));
  return trainer.fit();
}

}  // namespace cairn::testing
