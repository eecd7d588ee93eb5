#include "cairn/callbacks/memory_monitor.h"

#include <gmock/gmock.h>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/sim_device.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using ::testing::SizeIs;
using testing::tiny_options;

std::shared_ptr<LogRecorder> run_with_monitor(MemoryMonitorOptions options) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "4ba";
  made.callbacks = MemoryMonitor(std::move(options));
  made.loggers = {log};
  Trainer trainer(std::move(made));
  trainer.fit();
  return log;
}

TEST(MemoryMonitorTest, LogsTheHostsMemoryOnACpu) {
  const auto log = run_with_monitor({});
  const std::vector<double> now = log->values("memory/current_resident_mem");
  const std::vector<double> peak = log->values("memory/peak_resident_mem");
  ASSERT_THAT(now, SizeIs(4));
  ASSERT_THAT(peak, SizeIs(4));
  EXPECT_THAT(now, Each(Gt(0.001)));  // libtorch alone has more than a megabyte.
  EXPECT_GE(peak.back(), now.back());
  EXPECT_THAT(log->values("memory/current_allocated_mem"), IsEmpty());
  EXPECT_THAT(log->values("memory/current_resident_mem_avg"), IsEmpty());
}

TEST(MemoryMonitorTest, LogsOnlyWhatItIsAskedForUnderItsNames) {
  const auto log = run_with_monitor({.memory_keys = {{{"resident_bytes.host.peak", "most"}}}});
  EXPECT_THAT(log->values("memory/most"), SizeIs(4));
  EXPECT_THAT(log->values("memory/current_resident_mem"), IsEmpty());
}

TEST(MemoryMonitorTest, AggregatesOverRanksAtTheInterval) {
  const auto log = run_with_monitor({.dist_aggregate_batch_interval = 2});
  const std::vector<double> now = log->values("memory/current_resident_mem");
  const std::vector<double> mean = log->values("memory/current_resident_mem_avg");
  EXPECT_THAT(mean, ElementsAre(now.at(0), now.at(2)));
  EXPECT_EQ(log->values("memory/current_resident_mem_min"), mean);
  EXPECT_EQ(log->values("memory/current_resident_mem_max"), mean);
}

TEST(MemoryMonitorTest, SaysThatADeviceHasNoFigures) {
  auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  testing::let_sim_device_compute();
  for (at::Tensor& parameter : made.model->module().parameters())
    testing::move_to_sim_device(parameter);
  made.callbacks = MemoryMonitor();
  made.loggers = {log};
  const Trainer trainer(std::move(made));
  EXPECT_THAT(log->messages, ::testing::Contains(HasSubstr("gives no figures of the memory of")));
}

TEST(MemoryMonitorTest, RefusesFiguresThatThereAreNot) {
  EXPECT_THAT(message_of<UsageError>([] {
                MemoryMonitor({.memory_keys = {{{"rss", "rss"}}}});
              }),
              HasSubstr("\"rss\""));
  EXPECT_NO_THROW(MemoryMonitor({.memory_keys = {{{"segment.large_pool.freed", "freed"}}}}));
  EXPECT_THROW(MemoryMonitor({.dist_aggregate_batch_interval = 0}), UsageError);
}

}  // namespace
}  // namespace cairn
