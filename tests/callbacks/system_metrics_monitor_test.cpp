#include "cairn/callbacks/system_metrics_monitor.h"

#include <gmock/gmock.h>

#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Le;
using testing::LogRecorder;
using ::testing::SizeIs;
using testing::tiny_loader;
using testing::tiny_options;

TEST(SystemMetricsMonitorTest, LogsTheMachineBeforeEveryBatch) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "4ba";
  made.eval_dataloader = Evaluator{.label = "val", .dataloader = tiny_loader(4)};
  made.eval_interval = "4ba";
  made.callbacks = SystemMetricsMonitor();
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();  // Four batches, and two of the evaluation.
  trainer.predict(tiny_loader(2));
  constexpr std::size_t kBatches = 4 + 2 + 1;
  EXPECT_THAT(log->values("cpu_percentage"), AllOf(SizeIs(kBatches), Each(AllOf(Ge(0), Le(100)))));
  EXPECT_EQ(log->values("cpu_percentage").front(), 0);
  for (const char* key : {"cpu_memory_total", "cpu_memory_available", "disk_memory_total"})
    EXPECT_THAT(log->values(key), AllOf(SizeIs(kBatches), Each(Gt(0)))) << key;
  for (const char* key : {"cpu_memory_percent", "disk_memory_percent"})
    EXPECT_THAT(log->values(key), AllOf(SizeIs(kBatches), Each(AllOf(Ge(0), Le(100))))) << key;
  EXPECT_THAT(log->values("network_bytes_recv"), AllOf(SizeIs(kBatches), Each(Ge(0))));
}

}  // namespace
}  // namespace cairn
