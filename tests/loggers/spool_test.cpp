// Spool: entries arrive in order, whatever fails, and wait on the disk.

#include "loggers/spool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TempFolder;

constexpr std::chrono::seconds kLongEnough{60};

// A server that is away, or refuses, as often as it is told to.
class FakeReceiver {
 public:
  void receive(const std::string& entry) {
    const std::scoped_lock lock(mutex_);
    if (is_away_ || failures_ > 0) {
      failures_ -= is_away_ ? 0 : 1;
      ++attempts_;
      throw StorageError("the server is away", 503, /*retryable=*/true);
    }
    if (entry == refused_) throw UsageError("not " + entry);
    received_.push_back(entry);
  }
  void fail_next(int times) {
    set([&] { failures_ = times; });
  }
  void be_away(bool is_away) {
    set([&] { is_away_ = is_away; });
  }
  void refuse(const std::string& entry) {
    set([&] { refused_ = entry; });
  }
  std::vector<std::string> received() {
    const std::scoped_lock lock(mutex_);
    return received_;
  }

 private:
  template <class Change>
  void set(const Change& change) {
    const std::scoped_lock lock(mutex_);
    change();
  }
  std::mutex mutex_;
  bool is_away_ = false;
  int failures_ = 0;
  int attempts_ = 0;
  std::string refused_ = "none";
  std::vector<std::string> received_;
};

struct SpoolTest : ::testing::Test {
  std::unique_ptr<Spool> spool(std::uint64_t max_bytes = std::uint64_t{1} << 20) {
    return std::make_unique<Spool>(
        SpoolOptions{.folder = folder / "spool",
                     .send = [this](const std::string& entry) { server.receive(entry); },
                     .max_bytes = max_bytes,
                     .first_pause = std::chrono::milliseconds(1),
                     .longest_pause = std::chrono::milliseconds(2)});
  }
  std::vector<std::string> files() { return posix_file_system().list(folder / "spool"); }
  TempFolder folder;
  FakeReceiver server;
};

TEST_F(SpoolTest, EntriesArriveInOrderAndLeaveNothing) {
  const auto made = spool();
  for (const char* entry : {"a", "b", "c"})
    made->add(entry);
  EXPECT_TRUE(made->wait(kLongEnough));
  EXPECT_THAT(server.received(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(SpoolTest, TriesAgainWhileTheServerIsAway) {
  server.fail_next(5);
  const auto made = spool();
  made->add("a");
  made->add("b");
  EXPECT_TRUE(made->wait(kLongEnough));
  EXPECT_THAT(server.received(), ElementsAre("a", "b"));
  EXPECT_EQ(made->report().refused, 0U);
  EXPECT_EQ(made->report().last_error, "the server is away");
}

TEST_F(SpoolTest, ARefusedEntryDoesNotHoldUpTheOthers) {
  server.refuse("b");
  const auto made = spool();
  for (const char* entry : {"a", "b", "c"})
    made->add(entry);
  EXPECT_TRUE(made->wait(kLongEnough));
  EXPECT_THAT(server.received(), ElementsAre("a", "c"));
  EXPECT_EQ(made->report().refused, 1U);
  EXPECT_THAT(made->report().last_error, HasSubstr("not b"));
}

TEST_F(SpoolTest, WaitsForAnotherKeyAndForARunThatTheServerDoesNotKnow) {
  std::atomic<int> attempts = 0;
  Spool made({.folder = folder / "spool",
              .send =
                  [&attempts](const std::string&) {
                    const int attempt = ++attempts;
                    if (attempt == 1) throw StorageError("a wrong key", 401, /*retryable=*/false);
                    if (attempt == 2) throw NotFoundError("no such run");
                  },
              .first_pause = std::chrono::milliseconds(1)});
  made.add("a");
  EXPECT_TRUE(made.wait(kLongEnough));
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(made.report().refused, 0U);
  EXPECT_THAT(made.take_warning("Logger"), HasSubstr("warning: Logger: no such run; entries wait"));
  EXPECT_EQ(made.take_warning("Logger"), "") << "once";
}

TEST_F(SpoolTest, TheNextProcessSendsWhatWaits) {
  server.be_away(true);
  {
    const auto made = spool();
    made->add("a");
    made->add("b");
    EXPECT_FALSE(made->wait(std::chrono::milliseconds(1)));
    EXPECT_EQ(made->report().waiting, 2U);
  }
  testing::write_file(folder / "spool/000000000009.entry.new", "torn");  // killed inside add()
  server.be_away(false);
  const auto next = spool();
  next->add("c");
  EXPECT_TRUE(next->wait(kLongEnough));
  EXPECT_THAT(server.received(), ElementsAre("a", "b", "c"));
}

TEST_F(SpoolTest, BeyondItsLimitTheOldestGoesAndIsCounted) {
  server.be_away(true);
  const auto made = spool(3 * 4096);  // Each entry takes a block of the disk.
  for (const char* entry : {"first", "second", "3", "4"})
    made->add(entry);
  EXPECT_EQ(made->report().lost, 1U);
  EXPECT_THAT(files(), SizeIs(3));
  server.be_away(false);
  EXPECT_TRUE(made->wait(kLongEnough));
  EXPECT_THAT(server.received(), ElementsAre("second", "3", "4"));
}

TEST_F(SpoolTest, AnEntryThatCannotBeWrittenIsCounted) {
  const auto made = spool();
  remove_tree(posix_file_system(), folder / "spool");
  testing::write_file(folder / "spool", "a file in the folder's place");
  made->add("a");
  EXPECT_EQ(made->report().lost, 1U);
}

}  // namespace
}  // namespace cairn
