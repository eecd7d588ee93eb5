// Repeats tests of tests/storage/, which use an sftp-server alone, through ssh and a real sshd. The
// place of the environment is the test's own (tests/net/with_sshd).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/object_store_checks.h"
#include "cairn/storage/sftp.h"
#include "cairn/storage/stores.h"

#include "storage/sftp/config.h"
#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

std::string place(const std::string& name) {
  return std::string(std::getenv("SFTP_PLACE")) + "/" + name;  // NOLINT(concurrency-mt-unsafe)
}

class RealSftpConformance : public ::testing::Test {
 public:
  explicit RealSftpConformance(const ObjectStoreCheck& check) : check_(check) {}
  void TestBody() override {
    const std::string folder = place(std::string("conformance/") + check_.name);
    EXPECT_NO_THROW(check_.run(*object_store_of(folder), folder));
  }

 private:
  const ObjectStoreCheck& check_;
};

const bool kAllRegistered = [] {
  for (const ObjectStoreCheck& check : object_store_checks()) {
    ::testing::RegisterTest(
        "RealSftpStore", check.name, nullptr, nullptr, __FILE__, __LINE__,
        [&check]() -> RealSftpConformance* { return new RealSftpConformance(check); });
  }
  return true;
}();

// Kills this process's children: the ssh programs of its stores.
void kill_children() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;)
      kill(child, SIGKILL);
  }
}

TEST(RealSftpTest, CheckpointsGoThereAndBack) {
  const std::string name = place("run/ep0-ba1-rank0.pt");
  save(testing::sample_checkpoint(1), name, {.info = testing::sample_info(1)});
  EXPECT_EQ(testing::batch_of_sample(load(name)), 1);
  EXPECT_TRUE(verify(name).ok());
  const auto found = find_latest(place("run"));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, name);
}

TEST(RealSftpTest, ADeadConnectionIsMadeAnew) {
  const auto store = object_store_of(place(""));
  const std::string bytes = testing::pattern(20'000'000);
  const auto write = store->begin(place("large"));
  write->write(as_bytes(bytes));
  write->commit();
  const auto source = store->open(place("large"));
  std::string into(bytes.size(), ' ');
  for (std::size_t begin = 0; begin < into.size(); begin += 5'000'000) {
    kill_children();
    const ByteSource::Range range{
        begin, std::as_writable_bytes(std::span(into)).subspan(begin, 5'000'000)};
    source->read({&range, 1});
  }
  EXPECT_TRUE(into == bytes);
}

TEST(RealSftpTest, AHostThatIsNotKnownIsRefused) {
  const testing::EnvironmentVariable none("COMPOSER_SFTP_KNOWN_HOSTS_FILE", "/dev/null");
  SftpOptions options = sftp::options_of(place("").substr(0, place("").find("/%2F")));
  options.ssh_arguments = {"-o", "GlobalKnownHostsFile=/dev/null"};
  const auto store = sftp_store(options);
  EXPECT_THAT(testing::message_of<StorageError>([&] { store->stat("a"); }),
              HasSubstr("Host key verification failed"));
}

TEST(RealSftpTest, AKeyThatIsNotTakenIsTold) {
  const testing::EnvironmentVariable none("COMPOSER_SFTP_KEY_FILE", "/dev/null");
  SftpOptions options = sftp::options_of(place("").substr(0, place("").find("/%2F")));
  options.ssh_arguments = {"-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"};
  const auto store = sftp_store(options);
  EXPECT_THAT(testing::message_of<StorageError>([&] { store->stat("a"); }),
              HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace cairn
