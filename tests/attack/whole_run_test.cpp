// A whole training run with its saves, retention and resuming. The run is killed at a file call, or
// the call fails: at some of the calls, evenly spread, or at each (testing/cases.h).
//
//  1. If the run is killed at any call, the same command started again ends with the bits of an
//     undisturbed run. Only calls that change something count: a kill at another call leaves the
//     same state as a kill at the next call that changes something.
//  2. Whatever call fails, with whatever errno, the run succeeds or ends with an error. The same
//     command started again ends with the same bits. No saved checkpoint is lost.
//  3. Whatever call fails while a run is resumed, the run resumes from the newest checkpoint, or
//     stops with an error and leaves the folder unchanged. The run starts from an older checkpoint
//     only if the disk does not deliver the newest one (EIO, ESTALE), and then the run says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "cairn/callbacks/checkpoint_saver.h"

#include "attacked_run.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "io/files/lock_file.h"
#include "testing/cases.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"

namespace cairn::attack {
namespace {

namespace fs = std::filesystem;
using cairn::testing::chosen_cases;
using cairn::testing::TempFolder;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The calls of each variant that are attacked, about.
constexpr std::uint64_t kSome = 40;

// One of the errors, in no order, and the same in each run of the test.
template <std::size_t N>
int error_at(const int (&errors)[N], std::uint64_t at) {
  return errors[((at * 0x9E3779B97F4A7C15U) >> 32U) % N];
}

const Variant kVariants[] = {
    {"waiting", [](TrainerOptions& o) { o.save_async = false; }},
    {"background", [](TrainerOptions&) {}},
    {"compressed", [](TrainerOptions& o) { o.save_filename = "ep{epoch}-ba{batch}.pt.gz"; }},
    {"nested", [](TrainerOptions& o) { o.save_filename = "ep{epoch}/ba{batch}.pt"; }},
    {"two_savers",
     [](TrainerOptions& o) {
       o.callbacks.push_back(CheckpointSaver({.folder = *o.save_folder,
                                              .save_interval = "2ba",
                                              .num_checkpoints_to_keep = 2,
                                              .save_async = false}));
       o.callbacks.push_back(CheckpointSaver({.folder = *o.save_folder + "/weights",
                                              .save_interval = "3ba",
                                              .weights_only = true,
                                              .save_async = false}));
     }},
};

// Names and contents of all files below a folder, except locks and files being written.
std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (is_temporary_name(name) || is_lock_name(name)) continue;
    std::string& content = files[entry.path().lexically_relative(folder)];
    if (entry.is_symlink()) {
      content = fs::read_symlink(entry.path());
    } else if (entry.is_regular_file()) {
      content = as_text(testing::file_bytes(posix_file_system(), entry.path()).view);
    }
  }
  return files;
}

void copy_folder(const TempFolder& from, const TempFolder& to) {
  fs::copy(from.path(), to.path(),
           fs::copy_options::recursive | fs::copy_options::copy_symlinks |
               fs::copy_options::overwrite_existing);
}

std::string leftovers_in(const std::string& folder) {
  std::string names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (is_temporary_name(entry.path().filename().string())) names += entry.path().string() + "\n";
  }
  return names;
}

class WholeRun : public ::testing::TestWithParam<Variant> {
 protected:
  static Plan plan(const TempFolder& folder, AttackKind deed, std::uint64_t at, int error = 0) {
    return {.folder = folder.path(), .at = at, .deed = deed, .error = error};
  }
  static Outcome undisturbed(const TempFolder& folder) {
    return run(folder.path(), GetParam(), plan(folder, AttackKind::kNothing, 0));
  }

  // Runs the same command again, undisturbed. The run must reach its end with the right bits, and
  // without leftovers.
  static void expect_goes_on(const TempFolder& folder, const Outcome& before,
                             const Outcome& straight) {
    const Outcome again = undisturbed(folder);
    ASSERT_EQ(again.exit_code, 0) << again.text();
    EXPECT_EQ(again.weights, straight.weights) << again.text();
    // The checkpoint of three batches before exists in any case, however the run saves.
    EXPECT_GE(*again.began, std::min<std::int64_t>(before.reached, kBatches) - 4)
        << before.text() << again.text();
    EXPECT_EQ(leftovers_in(folder.path()), "");
    for (const auto& [name, content] : contents_of(folder.path())) {
      EXPECT_THAT(name, Not(HasSubstr(".damaged")));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Savers, WholeRun, ::testing::ValuesIn(kVariants),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(WholeRun, KilledAtEveryFileCallEndsWithTheSameBits) {
  const TempFolder straight_folder;
  const Outcome straight = undisturbed(straight_folder);
  ASSERT_EQ(straight.exit_code, 0) << straight.text();
  ASSERT_GT(straight.calls, 100U);
  const TempFolder counted_folder;
  Plan counting = plan(counted_folder, AttackKind::kNothing, 0);
  counting.calls = Calls::kChanging;
  const Outcome counted = run(counted_folder.path(), GetParam(), counting);
  const std::vector<std::uint64_t> cases = chosen_cases(counted.calls, kSome);
  std::size_t kills = 0;
  for (const std::uint64_t at : cases) {
    SCOPED_TRACE("killed at call " + std::to_string(at));
    const TempFolder folder;
    Plan kill = plan(folder, AttackKind::kKill, at);
    kill.calls = Calls::kChanging;
    const Outcome first = run(folder.path(), GetParam(), kill);
    // How many calls a save in the background makes varies by a few.
    ASSERT_TRUE(first.signal == SIGKILL || first.exit_code == 0) << first.text();
    kills += first.signal == SIGKILL ? 1 : 0;
    expect_goes_on(folder, first, straight);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counted.calls, 100U);
  EXPECT_GE(kills, cases.size() * 9 / 10);
}

TEST_P(WholeRun, FailedAtEveryFileCallStopsOrGoesOnAndLosesNothing) {
  const TempFolder straight_folder;
  const Outcome straight = undisturbed(straight_folder);
  constexpr int kErrors[] = {EIO, ENOSPC, EACCES, EMFILE, ENOMEM};
  for (const std::uint64_t at : chosen_cases(straight.calls, kSome)) {
    const int error = error_at(kErrors, at);
    SCOPED_TRACE("call " + std::to_string(at) + ": " + std::strerror(error));
    const TempFolder folder;
    const Outcome first =
        run(folder.path(), GetParam(), plan(folder, AttackKind::kFail, at, error));
    ASSERT_EQ(first.signal, 0) << first.text();
    ASSERT_THAT(first.exit_code, AnyOf(0, 2)) << first.text();
    if (first.exit_code == 0) {
      EXPECT_EQ(first.weights, straight.weights) << first.text();
    } else {
      EXPECT_NE(first.error, "");
    }
    expect_goes_on(folder, first, straight);
    if (HasFatalFailure()) return;
  }
}

class ResumedRun : public WholeRun {};

INSTANTIATE_TEST_SUITE_P(Savers, ResumedRun, ::testing::ValuesIn(kVariants),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(ResumedRun, FailedReadingNeverGoesBackOrTouchesAnything) {
  // The folder of a run that stopped in the middle.
  const TempFolder stopped;
  Variant half = GetParam();
  half.change = [change = half.change](TrainerOptions& options) {
    change(options);
    options.max_duration = "5ba";
  };
  ASSERT_EQ(run(stopped.path(), half, plan(stopped, AttackKind::kNothing, 0)).exit_code, 0);
  const TempFolder good_folder;
  copy_folder(stopped, good_folder);
  Plan reading = plan(good_folder, AttackKind::kNothing, 0);
  reading.calls = Calls::kReading;
  const Outcome good = run(good_folder.path(), GetParam(), reading);
  ASSERT_EQ(good.exit_code, 0) << good.text();
  ASSERT_GT(*good.began, 0);

  constexpr int kErrors[] = {EACCES, EMFILE, ENOMEM, EIO, ESTALE};
  for (const AttackKind deed : {AttackKind::kFail, AttackKind::kFailForever}) {
    for (const std::uint64_t at : chosen_cases(good.calls, kSome)) {
      const int error = error_at(kErrors, at + (deed == AttackKind::kFail ? 0 : 1));
      SCOPED_TRACE("call " + std::to_string(at) +
                   (deed == AttackKind::kFail ? ": " : " and all after: ") + std::strerror(error));
      const TempFolder folder;
      copy_folder(stopped, folder);
      const auto before = contents_of(folder.path());
      Plan failing = plan(folder, deed, at, error);
      failing.calls = Calls::kReading;
      const Outcome again = run(folder.path(), GetParam(), failing);
      ASSERT_EQ(again.signal, 0) << again.text();
      if (again.began) {
        const bool is_lost = (error == EIO || error == ESTALE) &&
                             again.text().find("does not deliver") != std::string::npos;
        if (!is_lost) {
          EXPECT_EQ(*again.began, *good.began) << again.text();
        }
        EXPECT_GT(*again.began, 0) << again.text();
      } else {
        EXPECT_EQ(again.exit_code, 2);
        EXPECT_NE(again.error, "");
        EXPECT_EQ(contents_of(folder.path()), before) << again.text();
      }
      if (again.exit_code == 0) {
        EXPECT_EQ(again.weights, good.weights);
      }
      if (HasFailure()) return;  // one failure is enough to read
    }
  }
}

}  // namespace
}  // namespace cairn::attack
