// Real processes write checkpoints together into a real folder. One process or all processes are
// killed at any call of their file systems. Then the job starts again, with another number of
// ranks. A torn checkpoint never appears. A checkpoint that a rank was told of is found. All ranks
// resume from the same checkpoint.
//
// CAIRN_RANK_KILLS=500 sets the number of kills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "cairn/error.h"

#include "checkpoint/ranks/agree_over_ranks.h"
#include "sim_parts.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/file_meeting.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::Le;
using testing::SavedAs;
using ::testing::SizeIs;
using testing::TempFolder;

// A message of a rank to the test, through a pipe.
struct RankMessage {
  enum Kind : std::int64_t { kGoesOn, kTold, kFailed } kind = kGoesOn;
  std::int64_t rank = 0;
  std::int64_t batch = 0;
  std::array<char, 1000> error = {};  // The beginning of the error's text.
};

struct Round {
  int number = 0;
  std::int64_t ranks = 2;
  std::int64_t victim = 0;    // The rank that gets SIGKILL.
  std::uint64_t kill_at = 0;  // The number of the call at which it gets SIGKILL.
  bool takes_all = false;     // Kills the other ranks, too.
};

std::string name_of(std::int64_t batch) { return "ba" + std::to_string(batch); }

std::int64_t batch_of(const std::string& name) {
  return name.starts_with("ba") ? std::stoll(name.substr(2)) : 0;
}

class RanksKillTest : public ::testing::Test {
 protected:
  std::string run_folder() const { return folder_ / "run"; }

  // --- In a rank ---------------------------------------------------------------------------------

  RankTable table_of(const Round& round, std::int64_t rank, const std::string& place) const {
    RankTable table;
    table.meeting = std::make_shared<testing::FileMeeting>(place);
    table.me = {.rank = rank, .world_size = round.ranks};
    table.patience = {.silence = milliseconds(300),
                      .beat = milliseconds(40),
                      .look = milliseconds(20),
                      .longest_poll = milliseconds(5),
                      .reach = milliseconds(200),
                      .farewell = milliseconds(200)};
    return table;
  }

  static std::vector<SeenCheckpoint> look(ObjectStore& store, const std::string& folder) {
    std::vector<SeenCheckpoint> seen;
    if (!store.stat(folder)) return seen;
    for (const std::string& name : list_names(store, folder)) {
      if (batch_of(name) > 0) seen.push_back({.name = name, .order = {batch_of(name)}});
    }
    return seen;
  }

  void live(const Round& round, RankTable table, ObjectStore& store, int pipe) const {
    const std::int64_t rank = table.me.rank;
    const auto say = [&](RankMessage word) {
      word.rank = rank;
      if (write(pipe, &word, sizeof word) != sizeof word) _exit(3);
    };
    try {
      const auto found =
          agree_over_ranks(table, {.look = [&](const auto&) { return look(store, run_folder()); }});
      const AgreedCheckpoint* const furthest = find_furthest(found);
      const std::int64_t begin = furthest != nullptr ? furthest->order[0] : 0;
      say({.kind = RankMessage::kGoesOn, .batch = begin});
      for (std::int64_t batch = begin + 1; batch <= begin + 4; ++batch) {
        const SavedAs as = {.start = round.number, .batch = batch, .world_size = round.ranks};
        commit_over_ranks(
            table, store,
            {.path = run_folder() + "/" + name_of(batch),
             .write_part =
                 [&](PartPlace& place) { return testing::write_sample_part(place, as, rank); },
             .metadata = [&](const auto& parts) { return testing::sample_metadata(as, parts); }});
        say({.kind = RankMessage::kTold, .batch = batch});
        if (rank == 0) store.remove_folder(run_folder() + "/" + name_of(batch - 1));
      }
    } catch (const RankFailure& e) {
      RankMessage word{.kind = RankMessage::kFailed};
      std::string_view(e.what())
          .substr(0, word.error.size() - 1)
          .copy(word.error.data(), word.error.size());
      say(word);
    }
  }

  // --- In the test -------------------------------------------------------------------------------

  // `group`: the first rank's process. All ranks are in the process group of that process, and the
  // test is not.
  pid_t start(const Round& round, const RankTable& table, pid_t group, int pipe) const {
    const pid_t own_group = getpgrp();
    const pid_t child = fork();
    if (child != 0) return child;
    if (setpgid(0, group) != 0 || getpgrp() == own_group) _exit(4);
    const std::int64_t rank = table.me.rank;
    FaultyFileSystem files(posix_file_system());
    files.before_each([&](FileCall, std::uint64_t number) {
      if (rank != round.victim || number != round.kill_at) return;
      if (round.takes_all) kill(0, SIGKILL);  // Kills the process group: all ranks.
      raise(SIGKILL);
    });
    try {
      live(round, table, *local_store(files), pipe);
    } catch (...) {
      _exit(2);
    }
    _exit(0);
  }

  // Returns the messages of all ranks, until the last rank has ended.
  std::vector<RankMessage> run(const Round& round) {
    const std::string place = folder_ / ("place" + std::to_string(round.number));
    std::filesystem::create_directory(place);
    testing::FileMeeting meeting(place);
    open_table(meeting);
    int ends[2] = {};
    EXPECT_EQ(pipe(ends), 0);
    std::vector<pid_t> children;
    for (std::int64_t rank = 0; rank < round.ranks; ++rank) {
      const pid_t group = children.empty() ? 0 : children.front();
      children.push_back(start(round, table_of(round, rank, place), group, ends[1]));
      if (rank == 0) setpgid(children[0], children[0]);  // Before another rank joins the group.
    }
    close(ends[1]);
    std::vector<RankMessage> said;
    for (RankMessage word; ::read(ends[0], &word, sizeof word) == sizeof word;) {
      said.push_back(word);
    }
    close(ends[0]);
    for (const pid_t child : children) {
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (is_killed) ++kills_;
      EXPECT_TRUE(is_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
    }
    return said;
  }

  // Checks that each checkpoint is whole. Returns the batch of the latest one.
  std::int64_t check_all() const {
    FileSystem& files = posix_file_system();
    if (!files.stat(run_folder())) return 0;
    std::int64_t furthest = 0;
    for (const std::string& name : files.list(run_folder())) {
      if (batch_of(name) == 0) continue;
      const std::string problem = testing::problem_of(
          [&](const std::string& file) -> std::optional<std::string> {
            const std::string path = run_folder() + "/" + name + "/" + file;
            if (!files.stat(path)) return std::nullopt;
            return std::string(as_text(testing::file_bytes(files, path).view));
          },
          batch_of(name));
      EXPECT_EQ(problem, "") << name;
      furthest = std::max(furthest, batch_of(name));
    }
    return furthest;
  }

  const TempFolder folder_;
  int kills_ = 0;
};

TEST_F(RanksKillTest, KilledAgainAndAgainNothingIsTornLostOrDisagreedOn) {
  const char* const wanted = std::getenv("CAIRN_RANK_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 20;
  std::mt19937 random(20261123);
  std::int64_t told = 0;
  Round round;
  for (; kills_ < kills && round.number < 3 * kills + 20; ++round.number) {
    round.ranks = 2 + static_cast<std::int64_t>(random() % 3);
    round.victim = static_cast<std::int64_t>(random() % static_cast<unsigned>(round.ranks));
    round.kill_at = 1 + random() % 110;
    round.takes_all = random() % 4 == 0;
    local_store()->remove_leftovers(run_folder());
    const auto said = run(round);
    std::set<std::int64_t> begins;
    std::set<std::string> errors;
    for (const RankMessage& word : said) {
      if (word.kind == RankMessage::kGoesOn) begins.insert(word.batch);
      if (word.kind == RankMessage::kTold) told = std::max(told, word.batch);
      if (word.kind == RankMessage::kFailed) errors.insert(word.error.data());
    }
    EXPECT_LE(begins.size(), 1U) << "round " << round.number;
    EXPECT_THAT(errors, SizeIs(Le(1U))) << "round " << round.number;
    const std::int64_t furthest = check_all();
    ASSERT_GE(furthest, told) << "round " << round.number;
    ASSERT_FALSE(HasFailure()) << "round " << round.number;
    told = furthest;
  }
  EXPECT_GE(kills_, kills);
  EXPECT_GT(told, kills / 4);
  RecordProperty("rounds", round.number);
}

}  // namespace
}  // namespace cairn
