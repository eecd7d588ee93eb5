// autoresume: whatever the run and its files are called, a restart does not begin anew beside its
// own checkpoints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/killed_run.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::read_file;
using testing::run_until;
using testing::write_file;

struct AutoresumeNames : ::testing::Test {
  TrainerOptions options(const std::string& where = "ckpt") {
    TrainerOptions made = testing::tiny_options();
    made.train_dataloader =
        testing::tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = "3ep";
    made.run_name = "run";
    made.save_folder = folder / where;
    made.save_interval = "1ba";
    made.autoresume = true;
    return made;
  }

  testing::TempFolder folder;
};

TEST_F(AutoresumeNames, ARunNameMayHaveBraces) {
  for (const std::string run : {"lr{{0.1}}", "{rank}", "x{y}", "a}b{", "{run_name}", "{batch}"}) {
    for (const std::string where : {"{run_name}", "all"}) {
      const auto start = [&](const char* duration) {
        TrainerOptions made = options(where);
        made.run_name = run;
        made.save_filename = "{run_name}-ba{batch}.pt";
        made.save_num_checkpoints_to_keep = 2;
        made.max_duration = duration;
        return made;
      };
      Trainer(start("4ba")).fit();
      Trainer again(start("6ba"));
      EXPECT_EQ(again.state().timestamp.batch, 4) << run << " in " << where;
      again.fit();
      const std::string folder_name = where == "all" ? where : run;
      EXPECT_TRUE(std::filesystem::exists(folder / (folder_name + "/" + run + "-ba6.pt"))) << run;
      EXPECT_FALSE(std::filesystem::exists(folder / (folder_name + "/" + run + "-ba4.pt"))) << run;
    }
  }
}

// The link leads to the checkpoint, whatever the checkpoint's name is. Without the link, a
// checkpoint is found only by its name.
TEST_F(AutoresumeNames, AWholeCheckpointOfAnotherNameIsNotLeftBehind) {
  const auto start = [&](bool may_begin_anew) {
    TrainerOptions made = options();
    made.save_filename = "another-ba{batch}.pt";
    made.autoresume_may_begin_anew = may_begin_anew;
    return std::make_unique<Trainer>(std::move(made));
  };
  run_until(options(), 7);
  EXPECT_EQ(start(false)->state().timestamp.batch, 7);
  std::filesystem::remove(folder / "ckpt/latest-rank0.pt");
  try {
    start(false);
    FAIL() << "began anew";
  } catch (const UsageError& e) {
    EXPECT_THAT(
        e.what(),
        AllOf(HasSubstr("ep1-ba7-rank0.pt is a whole checkpoint of the run \"run\""),
              HasSubstr("its name was made from none of"), HasSubstr("autoresume_may_begin_anew")));
  }
  EXPECT_EQ(start(true)->state().timestamp.batch, 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "ckpt")) {
    std::string bytes = read_file(entry.path());
    bytes[bytes.size() / 2] ^= 1;
    write_file(entry.path(), bytes);
  }
  EXPECT_EQ(start(false)->state().timestamp.batch, 0) << "damaged, all of them";
}

}  // namespace
}  // namespace cairn
