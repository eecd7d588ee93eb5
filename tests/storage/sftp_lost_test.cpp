// Answers that are lost: answers of a connection that dies after the server has acted, and answers
// to cancelled callers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "cairn/error.h"

#include "io/file.h"
#include "io/threads/cancellation.h"
#include "sftp_fixture.h"
#include "storage/listing.h"
#include "storage/sftp/connection.h"
#include "storage/sftp/files.h"
#include "testing/message_of.h"
#include "testing/pattern.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::TempFolder;

// Includes names that no store lists.
std::vector<std::string> names_in_folder(const std::string& folder) {
  return posix_file_system().list(folder);
}

class SftpLostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (sftp_server().empty()) GTEST_SKIP() << "OpenSSH's sftp-server is not installed";
  }

  // Does `act` twice, each time after `before` has filled the folder. The first time records the
  // server's answers. The second time the connection ends inside one of the answers. `from_end`
  // counts that answer from the end; 1 is the last. If an answer comes, its request has been done.
  // Later connections are not cut.
  using Act = std::function<void(ObjectStore&)>;
  void lose_answer(std::size_t from_end, const Act& before, const Act& act) {
    const std::string log = logs_ / "log";
    before(*served_.store());
    // `tee` writes to the log first, and is killed after the last answer.
    act(*served_.store_of_script("\"$1\" -d \"$2\" | tee /dev/fd/3 3>&1 > '" + log + "'"));
    const std::vector<std::size_t> packets = packet_ends(testing::read_file(log));
    ASSERT_GT(packets.size(), from_end);
    const std::size_t cut = packets[packets.size() - from_end - 1] + 1;
    ASSERT_EQ(std::system(("rm -rf '" + served_.folder.path() + "'/*").c_str()), 0);
    before(*served_.store());
    const std::string was_cut = logs_ / "was_cut";
    // Only `head` holds the end of the pipe that the store reads from: the store notices when
    // `head` ends.
    store_ = served_.store_of_script(
        "if [ -e '" + was_cut + "' ]; then exec \"$1\" -d \"$2\"; fi; touch '" + was_cut + "'; " +
        "exec 4<&0; \"$1\" -d \"$2\" <&4 2>/dev/null | stdbuf -o0 head -c " + std::to_string(cut) +
        " 2>/dev/null & exec >&- 2>&- 4<&-; wait");
    act(*store_);
    EXPECT_EQ(testing::read_file(was_cut), "") << "it was cut";
  }

  static std::vector<std::size_t> packet_ends(const std::string& bytes) {
    std::vector<std::size_t> ends;
    for (std::size_t at = 0; at + 4 <= bytes.size();) {
      std::size_t size = 0;
      for (std::size_t i = 0; i < 4; ++i)
        size = size << 8 | static_cast<unsigned char>(bytes[at + i]);
      at += 4 + size;
      ends.push_back(at);
    }
    return ends;
  }

  SftpServed served_;
  TempFolder logs_;
  std::shared_ptr<ObjectStore> store_;  // the store whose connection was cut
};

const auto kNothing = [](ObjectStore&) {};
const auto kTwoFiles = [](ObjectStore& store) {
  put_text(store, "run/a", "old");
  put_text(store, "run/b", "other");
};

TEST_F(SftpLostTest, AnObjectThatReplacesAnother) {
  lose_answer(2, kTwoFiles, [](ObjectStore& store) { put_text(store, "run/a", "new one"); });
  EXPECT_EQ(text_of(*store_, "run/a"), "new one");
  EXPECT_THAT(names_in_folder(served_.folder / "run"), ElementsAre("a", "b")) << "nothing is left";
}

TEST_F(SftpLostTest, ANewObject) {
  const auto put = [](ObjectStore& store) {
    put_text(store, "run/a", "new one", WriteCondition::absent());
  };
  lose_answer(3, kNothing, put);  // the second name was given
  EXPECT_EQ(text_of(*store_, "run/a"), "new one");
  EXPECT_THAT(names_in_folder(served_.folder / "run"), ElementsAre("a"));
}

TEST_F(SftpLostTest, ANewObjectWhoseFirstNameIsGone) {
  const auto put = [](ObjectStore& store) {
    put_text(store, "run/a", "new one", WriteCondition::absent());
  };
  lose_answer(2, kNothing, put);
  EXPECT_EQ(text_of(*store_, "run/a"), "new one");
  EXPECT_THAT(names_in_folder(served_.folder / "run"), ElementsAre("a"));
}

TEST_F(SftpLostTest, ARename) {
  lose_answer(1, kTwoFiles, [](ObjectStore& store) { store.rename("run/a", "run/b"); });
  EXPECT_EQ(text_of(*store_, "run/b"), "old");
  EXPECT_THAT(list_names(*store_, "run"), ElementsAre("b"));
}

TEST_F(SftpLostTest, ARemoval) {
  // A pointer of the same name is another file, and stays.
  const auto before = [](ObjectStore& store) {
    kTwoFiles(store);
    store.move_pointer("run/a", "run/b");
  };
  lose_answer(1, before, [](ObjectStore& store) { EXPECT_TRUE(store.remove("run/a")); });
  EXPECT_THAT(names_in_folder(served_.folder / "run"), ElementsAre("a.symlink", "b"));
}

TEST_F(SftpLostTest, TheRemovalOfAFolder) {
  const auto remove = [](ObjectStore& store) { EXPECT_TRUE(store.remove_folder("run")); };
  lose_answer(1, kTwoFiles, remove);  // all of it is gone
  EXPECT_THAT(names_in_folder(served_.folder.path()), IsEmpty());
}

TEST_F(SftpLostTest, TheHiddenNameOfAFolderThatIsRemoved) {
  const auto remove = [](ObjectStore& store) { EXPECT_TRUE(store.remove_folder("run")); };
  lose_answer(8, kTwoFiles, remove);  // followed by: open, two lists, close, two files, the folder
  EXPECT_THAT(names_in_folder(served_.folder.path()), IsEmpty());
}

// --- Cancelled callers ---------------------------------------------------------------------------

class SftpSharedTest : public SftpLostTest {
 protected:
  void SetUp() override {
    SftpLostTest::SetUp();
    if (IsSkipped()) return;
    store_ = served_.store_of_script("echo $$ >> '" + pids() + "'; exec \"$1\" -d \"$2\"");
  }
  std::string pids() const { return logs_ / "pids"; }
  // The process id of the only server.
  pid_t pid() const { return std::stoi(testing::read_file(pids())); }
  std::string message_when_cancelled(const std::function<void()>& act) {
    Cancellation cancellation("the save was given up");
    std::string message;
    std::thread cancelled([&] {
      const CancelScope scope(&cancellation);
      message = message_of<CancelledError>(act);
    });
    cancellation.cancel();
    cancelled.join();
    return message;
  }
};

TEST_F(SftpSharedTest, OneThatIsCancelledEndsNobodyElsesWork) {
  const std::string bytes = testing::pattern(3'000'000);
  put_text(*store_, "old", bytes);
  const auto source = store_->open("old");
  const auto write = store_->begin("new");
  write->write(as_bytes(bytes));
  ASSERT_EQ(kill(pid(), SIGSTOP), 0);  // no answer comes
  EXPECT_THAT(message_when_cancelled([&] { store_->stat("old"); }),
              HasSubstr("the save was given up"));
  EXPECT_THAT(message_when_cancelled([&] { read_all(*source); }),
              HasSubstr("the save was given up"));
  ASSERT_EQ(kill(pid(), SIGCONT), 0);
  write->commit();
  EXPECT_TRUE(text_of(*store_, "new") == bytes);
  EXPECT_TRUE(std::string(as_text(read_all(*source).view)) == bytes);
  EXPECT_EQ(testing::read_file(pids()), std::to_string(pid()) + "\n")
      << "one server, from the first on";
}

// How often this process's wakeup descriptors were made ready without being read.
std::uint64_t waiting_wakeups() {
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string word; info >> word;) {
      std::uint64_t more = 0;
      if (word == "eventfd-count:" && info >> std::hex >> more) count += more;
    }
  }
  return count;
}

// Otherwise the parent would take the child's wakeups, or the child's wakeups would wake the
// parent.
TEST_F(SftpSharedTest, AForkedProcessWakesOnlyItself) {
  sftp::Connection connection(sftp::resolve_config(served_.options()));
  connection.once([](const sftp::Session&) {});
  const std::uint64_t before = waiting_wakeups();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // ends the child if it would wait for ever
    Cancellation cancellation("given up");
    const CancelScope scope(&cancellation);
    connection.once([&](const sftp::Session&) { cancellation.cancel(); });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(waiting_wakeups(), before);
  EXPECT_NO_THROW(connection.once([](const sftp::Session&) {}));
}

// A cancelled caller that waits for its turn gives up before the turn comes.
TEST_F(SftpSharedTest, WaitingForOnesTurnEndsWhenItIsCancelled) {
  put_text(*store_, "a", "bytes");
  ASSERT_EQ(kill(pid(), SIGSTOP), 0);
  // Has the connection, or will have it.
  std::thread other([&] { EXPECT_TRUE(store_->stat("a")); });
  EXPECT_THAT(message_when_cancelled([&] { store_->stat("a"); }),
              HasSubstr("the save was given up"));
  ASSERT_EQ(kill(pid(), SIGCONT), 0);
  other.join();
}

TEST_F(SftpSharedTest, AWriteThatIsCancelledLeavesNothing) {
  {
    const auto write = store_->begin("run/new");
    write->write(as_bytes(testing::pattern(100'000)));
    ASSERT_EQ(kill(pid(), SIGSTOP), 0);
    EXPECT_THAT(message_when_cancelled([&] { write->commit(); }),
                HasSubstr("the save was given up"));
    ASSERT_EQ(kill(pid(), SIGCONT), 0);
    EXPECT_THAT(message_of<StorageError>([&] { write->commit(); }), HasSubstr("failed before"))
        << "nobody knows of its first bytes whether they came";
    EXPECT_THROW(write->write(as_bytes(std::string("more"))), StorageError);
  }
  EXPECT_FALSE(store_->stat("run/new"));
  EXPECT_THAT(names_in_folder(served_.folder / "run"), IsEmpty());
  EXPECT_EQ(testing::read_file(pids()), std::to_string(pid()) + "\n");
}

// Another thread has the connection for longer than the cleanup waits.
TEST_F(SftpLostTest, WhatCouldNotGoAtOnceGoesLater) {
  sftp::Config config = sftp::resolve_config(served_.options());
  sftp::Connection connection(config);
  sftp::Cleanup cleanup = {.temporary = "left"};
  connection.once([&](sftp::Session& session) {
    cleanup.handle.text = sftp::create(session, "left");
    cleanup.handle.session = connection.session();
    cleanup.asked.push_back(session.send(sftp::Request(sftp::Packet::kStat).text("left")));
    std::thread other([&] { connection.clean_up(cleanup); });
    other.join();
    EXPECT_TRUE(sftp::stat(session, "left"));
  });
  EXPECT_FALSE(
      connection.once([&](sftp::Session& session) { return sftp::stat(session, "left"); }));
  EXPECT_THAT(message_of<StorageError>([&] {
                connection.once(
                    [&](sftp::Session& session) { return session.wait(cleanup.asked.front()); });
              }),
              HasSubstr("is not answered any more"));
}

TEST_F(SftpLostTest, WhatIsOpenedForNobodyIsClosed) {
  testing::write_file(served_.folder / "a", "bytes");
  sftp::Session session({"sh", "-c", "ulimit -n 32; exec \"$1\" -d \"$2\"", "sh", sftp_server(),
                         served_.folder.path()},
                        "sftp://host", std::chrono::seconds(30));
  for (int i = 0; i < 200; ++i) {
    const auto id =
        session.send(sftp::Request(sftp::Packet::kOpen).text("a").u32(sftp::kOpenRead).u32(0));
    session.forget(id);
    sftp::stat(session, "a");
  }
  EXPECT_TRUE(sftp::open_to_read(session, "a"));
  const auto given_up = session.send(sftp::Request(sftp::Packet::kStat).text("a"));
  session.forget(given_up);
  EXPECT_THAT(message_of<StorageError>([&] { session.wait(given_up); }),
              HasSubstr("is not answered any more"));
}

}  // namespace
}  // namespace cairn
