// Profiler: the batches that it records, the content of a trace, and the files that it keeps.
#include "cairn/callbacks/profiler.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <set>

#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/train/trainer.h"

#include "core/text/json.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;
using testing::read_file;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;

// The actions in the batches of an epoch: "." skip, "w" warm-up, "a" active, "S" and save.
std::string actions(const CyclicScheduleOptions& options, std::int64_t resumed_at = 0) {
  const ProfilerSchedule schedule = cyclic_schedule(options);
  State state;
  state.dataloader_len = 10;
  std::string text;
  for (std::int64_t batch = resumed_at; batch < 10; ++batch) {
    state.timestamp.batch_in_epoch = batch;
    text += ".waS"[static_cast<int>(schedule(state, resumed_at))];
  }
  return text;
}

TEST(CyclicSchedule, RepeatsItsCycleInEachEpoch) {
  EXPECT_EQ(actions({}), "waaaS.....");
  EXPECT_EQ(actions({.skip_first = 1, .wait = 1, .warmup = 1, .active = 2}), "..waS.....");
  EXPECT_EQ(actions({.wait = 1, .warmup = 0, .active = 2, .repeat = 2}), ".aS.aS....");
  EXPECT_EQ(actions({.wait = 1, .warmup = 1, .active = 2, .repeat = 0}), ".waS.waS.w");
  EXPECT_EQ(actions({.warmup = 1, .active = 5, .repeat = 0}), "waaaaSwaaS") << "the epoch's end";
  EXPECT_EQ(actions({.skip_first = 1, .active = 2}, 4), ".waS..") << "after a resume";
  EXPECT_THROW(cyclic_schedule({.active = 0}), UsageError);
  EXPECT_THROW(cyclic_schedule({.wait = -1}), UsageError);
}

struct ProfilerTest : ::testing::Test {
  // 5 batches in an epoch.
  TrainerOptions options(ProfilerOptions given) {
    given.folder = folder / "traces";
    profiler = std::make_shared<Profiler>(std::move(given));
    TrainerOptions made = tiny_options();
    made.run_name = "run";
    made.max_duration = "1ep";
    made.profiler = profiler;
    return made;
  }
  Json trace(std::size_t index = 0) const {
    return Json::parse(read_file(profiler->saved_traces().at(index))).at("traceEvents");
  }
  static std::map<std::string, int> count_names(const Json& events, const std::string& category) {
    std::map<std::string, int> counts;
    for (const Json& event : events) {
      if (event.value("cat", "") == category) ++counts[event.at("name").get<std::string>()];
    }
    return counts;
  }

  TempFolder folder;
  std::shared_ptr<Profiler> profiler;
};

TEST_F(ProfilerTest, ATraceHasPhasesBatchesMarkersAndOperators) {
  TrainerOptions made = options(
      {.schedule = cyclic_schedule({.wait = 1, .active = 2}), .torch_prof_record_shapes = true});
  made.callbacks.push_back(
      CallAt(Event::kBatchStart, [this](State&) { const auto span = profiler->marker("mine"); }));
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(profiler->saved_traces(), ElementsAre(folder / "traces/ep0-ba4-rank0.json"));
  const Json events = trace();
  const auto spans = count_names(events, "trainer");
  for (const char* name : {"data", "forward", "backward", "step", "mine"})
    EXPECT_EQ(spans.at(name), 3) << name;
  EXPECT_THAT(spans, Not(Contains(::testing::Key("batch 1"))));
  for (const char* name : {"batch 2", "batch 3", "batch 4"})
    EXPECT_EQ(spans.at(name), 1) << name;
  // Two layers in each of two batches.
  EXPECT_EQ(count_names(events, "operator").at("aten::addmm"), 4);
  EXPECT_THAT(count_names(events, "operator"), Contains(::testing::Key("[memory]")));
}

// Operators are within the span of their batch: both have the clock of the system.
TEST_F(ProfilerTest, TimesAreOfOneClock) {
  TrainerOptions made = options(
      {.schedule = cyclic_schedule({.warmup = 0, .active = 1}), .torch_prof_record_shapes = true});
  Trainer(std::move(made)).fit();
  const Json events = trace();
  const Json* batch = nullptr;
  for (const Json& event : events) {
    if (event.at("name") == "batch 1") batch = &event;
  }
  ASSERT_NE(batch, nullptr);
  const double begin = batch->at("ts").get<double>();
  const double end = begin + batch->at("dur").get<double>();
  constexpr double kSlack = 1000;  // microseconds
  int products = 0;
  for (const Json& event : events) {
    if (event.at("name") != "aten::addmm") continue;
    ++products;
    EXPECT_THAT(event.at("ts").get<double>(), Ge(begin - kSlack));
    EXPECT_LE(event.at("ts").get<double>() + event.at("dur").get<double>(), end + kSlack);
    EXPECT_EQ(event.at("args").at("shapes").at(1).at(0), 2) << "samples of a batch";
    EXPECT_EQ(event.at("pid"), 0);
  }
  EXPECT_EQ(products, 2);
}

TEST_F(ProfilerTest, KeepsTheNewestTracesAndUploadsAll) {
  const auto store = memory_store();
  TrainerOptions made =
      options({.schedule = cyclic_schedule({.warmup = 0, .active = 1, .repeat = 0}),
               .num_traces_to_keep = 2});
  made.loggers = {RemoteUploaderDownloader({.store = store})};
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.close();
  EXPECT_THAT(list_names(*local_store(), folder / "traces"),
              ElementsAre("ep0-ba4-rank0.json", "ep0-ba5-rank0.json"));
  EXPECT_THAT(list_names(*store, "run/traces"),
              ElementsAre("ep0-ba1-rank0.json", "ep0-ba2-rank0.json", "ep0-ba3-rank0.json",
                          "ep0-ba4-rank0.json", "ep0-ba5-rank0.json"));
}

TEST_F(ProfilerTest, ACycleThatIsNotFinishedLeavesNothing) {
  TrainerOptions made = options({.schedule = cyclic_schedule({.active = 3})});
  made.max_duration = "2ba";
  {
    Trainer trainer(std::move(made));
    trainer.fit();
    EXPECT_THAT(profiler->saved_traces(), IsEmpty());
    // libtorch's profiler is free again.
    trainer.fit({.duration = "1ba"});
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "traces"));
  // Also after an error in the middle of a cycle.
  TrainerOptions failing = options({.schedule = cyclic_schedule({.warmup = 0})});
  failing.callbacks.push_back(CallAt(Event::kBatchEnd, [](State&) { throw UsageError("stop"); }));
  EXPECT_THROW(Trainer(std::move(failing)).fit(), UsageError);
  Trainer(options({.schedule = cyclic_schedule({.warmup = 0, .active = 1})})).fit();
  EXPECT_EQ(profiler->saved_traces().size(), 1U);
}

TEST_F(ProfilerTest, TrainingHasTheSameBits) {
  const auto weights = [](TrainerOptions made) {
    made.seed = 3;
    Trainer trainer(std::move(made));
    trainer.fit();
    return testing::weights_of(*trainer.state().model).clone();
  };
  const at::Tensor profiled = weights(options({}));
  TrainerOptions plain = options({});
  plain.profiler = nullptr;
  EXPECT_TRUE(profiled.equal(weights(std::move(plain))));
}

TEST_F(ProfilerTest, MistakesAreRefused) {
  EXPECT_THROW(Profiler({.schedule = nullptr}), UsageError);
  EXPECT_THROW(Profiler({.num_traces_to_keep = -2}), UsageError);
  TrainerOptions two = options({});
  two.callbacks = Profiler();
  EXPECT_THAT(message_of<UsageError>([&] { Trainer(std::move(two)); }), HasSubstr("at most one"));
}

TEST_F(ProfilerTest, ATraceThatExistsIsKeptUnlessItMayBeOverwritten) {
  const auto train = [&](const ProfilerOptions& given) {
    Trainer trainer(options(given));
    trainer.fit();
    return profiler->saved_traces();
  };
  const std::vector<std::string> traces = train({});
  ASSERT_FALSE(traces.empty());
  testing::write_file(traces.front(), "{}");
  EXPECT_THAT(train({}), Not(Contains(traces.front())));
  EXPECT_EQ(read_file(traces.front()), "{}");
  EXPECT_EQ(train({.overwrite = true}), traces);
  EXPECT_NE(read_file(traces.front()), "{}");
}

}  // namespace
}  // namespace cairn
