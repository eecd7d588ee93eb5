// Tests with the S3 server of the environment, whose bucket "bucket" is the test's own
// (tests/net/with_radosgw, or with_swift, which refuses conditions and sets
// CAIRN_S3_WITHOUT_CONDITIONS). Defines the server for real_store_test.cpp, and tests what only S3
// has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "cairn/error.h"
#include "cairn/storage/s3.h"

#include "io/bytes/source_part.h"
#include "real_store.h"
#include "storage/listing.h"
#include "testing/child_process.h"
#include "testing/message_of.h"
#include "testing/pattern.h"

namespace cairn {

const std::shared_ptr<ObjectStore>& real_store() {
  static const auto store = s3_store({.bucket = "bucket", .part_bytes = 5 << 20});
  return store;
}

std::shared_ptr<ObjectStore> another_real_store() { return s3_store({.bucket = "bucket"}); }

std::string real_place() { return "s3://bucket"; }

namespace {

using ::testing::HasSubstr;

bool takes_conditions() { return std::getenv("CAIRN_S3_WITHOUT_CONDITIONS") == nullptr; }

// The conformance suite relies on the first result of the probe. The last result, fenced_writes,
// depends on the server's version.
TEST(RealS3Test, WhichConditionsHoldIsFoundOutWithoutATrace) {
  const StoreFeatures features = s3_store({.bucket = "bucket", .prefix = "probed"})->features();
  EXPECT_EQ(features.versioned_writes, takes_conditions());
  EXPECT_EQ(features.fenced_pointers, takes_conditions());
  EXPECT_TRUE(takes_conditions() || !features.fenced_writes);
  RecordProperty("fenced_writes", features.fenced_writes ? "yes" : "no");
  EXPECT_THROW(list_names(*real_store(), "probed"), NotFoundError);
}

// The server is killed with SIGKILL and started again, while objects are written and read.
// Acknowledged objects must be whole, and no other object may be partial.
TEST(RealS3Test, TheServerMayDieInTheMiddle) {
  const char* const restart = std::getenv("CAIRN_S3_RESTART");
  if (restart == nullptr) GTEST_SKIP() << "CAIRN_S3_RESTART does not say how to restart it";
  std::atomic<int> restarts = 0;
  std::thread killer([&] {
    for (; restarts < 5; ++restarts) {
      testing::ChildProcess program({restart});
      EXPECT_EQ(program.wait().exit_code, 0) << program.output();
    }
  });
  const std::string bytes = testing::pattern(12'000'000);
  std::map<std::string, std::string> acknowledged;
  int refused = 0;
  for (int i = 0; i < 100 && (restarts < 5 || i < 3); ++i) {
    const std::string name = "killed/" + std::to_string(i % 4);
    const std::string text = std::to_string(i) + bytes;
    try {
      const auto object = real_store()->begin(name);
      object->write(as_bytes(text));
      object->commit();
      acknowledged[name] = text;
    } catch (const StorageError& e) {
      EXPECT_TRUE(e.retryable()) << e.what();
      ++refused;
      acknowledged.erase(name);  // the old object or the new one
    }
    for (const auto& [known, expected] : acknowledged) {
      EXPECT_TRUE(as_text(read_all(*real_store()->open(known)).view) == expected) << known;
    }
  }
  killer.join();
  EXPECT_LE(refused, 2) << "most requests outlast a restart";
}

TEST(RealS3Test, WrongKeysAreNamed) {
  const auto store = s3_store(
      {.bucket = "bucket", .access_key_id = "AKIDTEST", .secret_access_key = "canary-wrong"});
  EXPECT_THAT(
      testing::message_of<StorageError>([&] { store->open("a"); }),
      ::testing::AllOf(HasSubstr("SignatureDoesNotMatch"), ::testing::Not(HasSubstr("canary"))));
  EXPECT_THAT(
      testing::message_of<NotFoundError>([] { s3_store({.bucket = "no-such-bucket"})->list("a"); }),
      HasSubstr("NoSuchBucket"));
}

}  // namespace
}  // namespace cairn
