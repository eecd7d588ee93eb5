// Checkpoints: a loop without the Trainer saves and resumes.

#include "cairn/checkpoints.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/schedulers/torch_schedulers.h"
#include "cairn/train/logger.h"

#include "checkpoint/folder/run_lock.h"
#include "io/file.h"
#include "testing/message_of.h"
#include "testing/other_process.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

// Two networks that are trained in turns, and all that their next step depends on.
struct Gan {
  explicit Gan(const std::string& folder, CheckpointsOptions given = {}) : options(given) {
    torch::manual_seed(3);
    options.folder = folder;
    if (!options.now) options.now = [] { return 0.0; };
    generator = torch::nn::Linear(4, 2);
    critic = std::make_shared<torch::nn::LinearImpl>(2, 1);
    of_generator = std::make_unique<torch::optim::Adam>(generator->parameters(), 1e-2);
    of_critic = std::make_unique<torch::optim::Adam>(critic->parameters(), 1e-2);
    schedule = StepLR({.step_size = 3}).attach(*of_critic, 1);
    pool = torch::zeros({8, 2});
    noise = at::detail::createCPUGenerator(7);
  }
  void add_to(Checkpoints& ck) {
    ck.add("generator", generator)
        .add("critic", critic)
        .add("opt_g", *of_generator, generator)
        .add("opt_c", *of_critic, critic)
        .add("schedule", *schedule)
        .add("pool", pool)
        .add("noise", noise)
        .add("loss", loss)
        .add("step", step);
  }
  void train() {
    const auto fake = generator->forward(at::randn({8, 4}, noise));
    of_critic->zero_grad();
    const auto of_batch =
        critic->forward(fake.detach()).mean() - critic->forward(torch::randn({8, 2})).mean();
    of_batch.backward();
    of_critic->step();
    schedule->step();
    of_generator->zero_grad();
    (-critic->forward(fake + pool).mean()).backward();
    of_generator->step();
    pool.mul_(0.5).add_(fake.detach());
    loss = of_batch.item<double>();
    ++step;
  }
  // Returns finish()'s result. Stops as a kill would at step `killed`.
  int run(std::int64_t steps, std::int64_t killed = -1) {
    Checkpoints ck(options);
    add_to(ck);
    resumed = ck.resume();
    while (step < steps && !ck.stops()) {
      train();
      if (step == killed) return -1;
      if (ck.due()) ck.save(step);
    }
    return ck.finish();
  }

  CheckpointsOptions options;
  torch::nn::Linear generator{nullptr};
  std::shared_ptr<torch::nn::LinearImpl> critic;
  std::unique_ptr<torch::optim::Adam> of_generator, of_critic;
  std::unique_ptr<RunningScheduler> schedule;
  at::Tensor pool;
  at::Generator noise;
  double loss = 0;
  std::int64_t step = 0;
  bool resumed = false;
};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.front() != '.') names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

TEST(Checkpoints, AKilledRunEndsWithTheSameBits) {
  const TempFolder whole, killed;
  Gan straight(whole.path(), {.save_interval = "4ba"});
  EXPECT_EQ(straight.run(12), 0);
  EXPECT_FALSE(straight.resumed);
  EXPECT_EQ(Gan(killed.path(), {.save_interval = "4ba"}).run(12, /*killed=*/10), -1);
  Gan again(killed.path(), {.save_interval = "4ba"});
  EXPECT_EQ(again.run(12), 0);
  EXPECT_TRUE(again.resumed);
  EXPECT_EQ(names_in(killed.path()),
            (std::vector<std::string>{"latest.pt", "step12.pt", "step4.pt", "step8.pt"}));
  const Value expected = load(whole / "step12.pt");
  const Value found = load(killed / "step12.pt");
  for (const char* name : {"generator", "critic", "opt_g", "opt_c", "schedule", "pool", "noise",
                           "loss", "step", "rng"}) {
    EXPECT_TRUE(found.at(name) == expected.at(name)) << name;
  }
  EXPECT_EQ(found.at("step").as_int(), 12);
}

TEST(Checkpoints, ANewerOneThatIsDamagedIsPassedOver) {
  const TempFolder folder;
  Gan(folder.path(), {.save_interval = "4ba"}).run(8);
  fs::resize_file(folder / "step8.pt", fs::file_size(folder / "step8.pt") / 2);
  std::string lines;
  const auto before = set_message_sink([&](const std::string& line) { lines += line + "\n"; });
  Gan again(folder.path(), {.save_interval = "4ba"});
  EXPECT_EQ(again.run(4), 0);
  set_message_sink(before);
  EXPECT_EQ(again.step, 4);
  EXPECT_THAT(lines, HasSubstr("step8.pt: "));
  EXPECT_THAT(lines, HasSubstr("resumed from " + folder.path() + "/step4.pt (step 4)"));
}

TEST(Checkpoints, WhatDoesNotFitChangesNothing) {
  const TempFolder folder;
  Gan(folder.path(), {.save_interval = "4ba"}).run(4);
  Gan other(folder.path());
  other.pool = torch::zeros({9, 2});
  other.critic = std::make_shared<torch::nn::LinearImpl>(2, 3);
  other.of_critic = std::make_unique<torch::optim::Adam>(other.critic->parameters(), 1e-2);
  other.schedule = StepLR({.step_size = 3}).attach(*other.of_critic, 1);
  const at::Tensor weight = other.generator->weight.detach().clone();
  const std::string message = message_of<MismatchError>([&] { other.run(8); });
  EXPECT_THAT(message, HasSubstr("step4.pt does not fit this program, nothing was changed"));
  EXPECT_THAT(message, HasSubstr("pool: shape [8, 2] in the checkpoint, [9, 2] here"));
  EXPECT_THAT(message, HasSubstr("critic: "));
  EXPECT_THAT(message, HasSubstr("opt_c: "));
  EXPECT_TRUE(other.generator->weight.equal(weight));
  EXPECT_EQ(other.step, 0);
}

// An object that refuses its state comes after others that took theirs.
TEST(Checkpoints, ObjectsAreRestoredIfALaterOneRefuses) {
  const TempFolder folder;
  Gan(folder.path(), {.save_interval = "4ba"}).run(4);
  Gan other(folder.path());
  Checkpoints ck(other.options);
  other.add_to(ck);
  ck.add(
      "late", [] { return Value(1); }, [](const Value& /*saved*/) {});
  EXPECT_THAT(message_of<MismatchError>([&] { ck.resume(); }),
              HasSubstr("late: the checkpoint has none"));
  EXPECT_EQ(other.step, 0);
  EXPECT_EQ(other.loss, 0);
}

TEST(Checkpoints, KeepsTheNewestAlsoAcrossARestart) {
  const TempFolder folder;
  Gan(folder.path(), {.keep = 2, .save_interval = "2ba"}).run(12, /*killed=*/9);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"latest.pt", "step6.pt", "step8.pt"}));
  Gan(folder.path(), {.keep = 2, .save_interval = "2ba"}).run(10);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"latest.pt", "step10.pt", "step8.pt"}));
  EXPECT_EQ(fs::read_symlink(folder / "latest.pt"), "step10.pt");
}

TEST(Checkpoints, AreDueByTime) {
  const TempFolder folder;
  double now = 100;
  Gan gan(folder.path(), {.save_interval = std::chrono::minutes(10), .now = [&] { return now; }});
  Checkpoints ck(gan.options);
  gan.add_to(ck);
  EXPECT_FALSE(ck.resume());
  std::vector<bool> due;
  for (const double seconds : {300, 299, 2, 590, 20}) {
    now += seconds;
    due.push_back(ck.due());
  }
  EXPECT_THAT(due, ElementsAre(false, false, true, false, true));
  EXPECT_EQ(ck.finish(), 0);
}

TEST(Checkpoints, ASignalSavesAndStops) {
  const TempFolder folder;
  Gan gan(folder.path(), {.save_interval = "100ba"});
  Checkpoints ck(gan.options);
  gan.add_to(ck);
  ck.resume();
  gan.train();
  EXPECT_FALSE(ck.due());
  gan.train();
  std::raise(SIGUSR2);
  EXPECT_TRUE(ck.due());
  EXPECT_FALSE(ck.stops());
  ck.save(gan.step);
  gan.train();
  std::raise(SIGTERM);
  EXPECT_TRUE(ck.due());
  EXPECT_TRUE(ck.stops());
  EXPECT_EQ(ck.finish(), 75);  // which saves, as nothing has since
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"latest.pt", "step2.pt", "step3.pt"}));
}

TEST(Checkpoints, AStepIsSavedOnce) {
  const TempFolder folder;
  Gan gan(folder.path(), {.save_async = false});
  Checkpoints ck(gan.options);
  gan.add_to(ck);
  ck.resume();
  ck.save(5);
  const auto written = fs::last_write_time(folder / "step5.pt");
  ck.save(5);
  EXPECT_EQ(fs::last_write_time(folder / "step5.pt"), written);
  EXPECT_THAT(message_of<UsageError>([&] { ck.save(4); }),
              HasSubstr("save(4) comes after step 5; steps must grow"));
}

TEST(Checkpoints, RefuseWhatCannotBe) {
  const TempFolder folder;
  EXPECT_THROW(Checkpoints({}), UsageError);
  EXPECT_THROW(Checkpoints({.folder = folder.path(), .save_interval = "2ep"}), UsageError);
  Gan gan(folder.path());
  Checkpoints ck(gan.options);
  gan.add_to(ck);
  EXPECT_THROW(ck.add("pool", gan.pool), UsageError);
  EXPECT_THROW(ck.add("rng", gan.pool), UsageError);
  ck.resume();
  EXPECT_THROW(ck.add("more", gan.pool), UsageError);
  EXPECT_THROW(ck.resume(), UsageError);
}

TEST(Checkpoints, ASecondStartIsRefused) {
  const TempFolder folder;
  Gan(folder.path(), {.save_interval = "4ba"}).run(4);
  std::shared_ptr<void> held;
  testing::OtherProcess first([&] {
    held = take_run_lock(posix_file_system(),
                         {.folder = folder.path(), .run_name = "mine", .job = "first"});
  });
  EXPECT_THROW(Gan(folder.path(), {.run_name = "mine"}).run(8), BusyError);
}

TEST(Checkpoints, WithoutResumeNothingIsReplaced) {
  const TempFolder folder;
  Gan(folder.path(), {.save_interval = "4ba"}).run(4);
  Gan gan(folder.path());
  Checkpoints ck(gan.options);
  gan.add_to(ck);
  EXPECT_THAT(testing::message_of<AlreadyExistsError>([&] { ck.save(2); }),
              HasSubstr("call resume() before the first"));
}

}  // namespace
}  // namespace cairn
