// What tests/storage/ shows with a fake server, with a real one: the server of the environment,
// whose bucket "bucket" is the test's own (tests/net/with_radosgw; with_swift, which refuses
// conditions and says so in CAIRN_S3_WITHOUT_CONDITIONS).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/object_store_checks.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/stores.h"

#include "io/source_part.h"
#include "storage/listing.h"
#include "storage/pointer_fence.h"
#include "testing/child_process.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

const std::shared_ptr<ObjectStore>& real_store() {
  static const auto store = s3_store({.bucket = "bucket", .part_bytes = 5 << 20});
  return store;
}

bool takes_conditions() { return std::getenv("CAIRN_S3_WITHOUT_CONDITIONS") == nullptr; }

std::string random_bytes(std::size_t size) {
  std::mt19937_64 random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random());
  }
  return bytes;
}

class RealConformance : public ::testing::Test {
 public:
  explicit RealConformance(const ObjectStoreCheck& check) : check_(check) {}
  void TestBody() override {
    EXPECT_NO_THROW(check_.run(*real_store(), std::string("conformance/") + check_.name));
  }

 private:
  const ObjectStoreCheck& check_;
};

const bool kAllRegistered = [] {
  for (const ObjectStoreCheck& check : object_store_checks()) {
    ::testing::RegisterTest("RealS3Store", check.name, nullptr, nullptr, __FILE__, __LINE__,
                            [&check]() -> RealConformance* { return new RealConformance(check); });
  }
  return true;
}();

TEST(RealS3Test, LargeObjectsGoThereAndBack) {
  const std::string bytes = random_bytes(33'333'333);
  for (const WriteCondition& condition : {WriteCondition{}, WriteCondition::absent()}) {
    real_store()->remove("large");
    const auto object = real_store()->begin("large", {.condition = condition});
    object->write(as_bytes(bytes));
    object->commit();
    EXPECT_TRUE(as_text(read_all(*real_store()->open("large")).view) == bytes);
  }
  EXPECT_THROW(real_store()->begin("large", {.condition = WriteCondition::absent()})->commit(),
               AlreadyExistsError);
}

TEST(RealS3Test, WhatIsAbandonedIsNotThere) {
  {
    const auto object = real_store()->begin("abandoned");
    object->write(as_bytes(random_bytes(12'000'000)));
  }
  EXPECT_FALSE(real_store()->stat("abandoned"));
}

TEST(RealS3Test, NamesMayHoldAnything) {
  for (const std::string name : {"a b", "a+b", "a%20b", "ü=ö&?#", "a~'()*!b", "ep1:ba2.pt"}) {
    const auto object = real_store()->begin("names/" + name);
    object->write(as_bytes(name));
    object->commit();
    EXPECT_EQ(as_text(read_all(*real_store()->open("names/" + name)).view), name);
    EXPECT_THAT(list_names(*real_store(), "names"), ::testing::ElementsAre(name));
    EXPECT_TRUE(real_store()->remove("names/" + name));
  }
}

TEST(RealS3Test, CheckpointsAreSavedFoundVerifiedAndLoaded) {
  save(testing::sample_checkpoint(1), "s3://bucket/run/ep0-ba1-rank0.pt");
  save(testing::sample_checkpoint(2), "s3://bucket/run/ep0-ba2-rank0.pt");
  const auto found = find_latest("s3://bucket/run", {.full_state_only = false});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, "s3://bucket/run/ep0-ba2-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(found->checkpoint)), 2);
}

// Of what the probe finds the conformance suite relies on the first; the last differs by version.
TEST(RealS3Test, WhichConditionsHoldIsFoundOutWithoutATrace) {
  const StoreFeatures features = s3_store({.bucket = "bucket", .prefix = "probed"})->features();
  EXPECT_EQ(features.versioned_writes, takes_conditions());
  EXPECT_EQ(features.fenced_pointers, takes_conditions());
  EXPECT_TRUE(takes_conditions() || !features.fenced_writes);
  RecordProperty("fenced_writes", features.fenced_writes ? "yes" : "no");
  EXPECT_THROW(list_names(*real_store(), "probed"), NotFoundError);
}

// Swift gives 20 names a page (with_swift), Ceph a thousand.
TEST(RealS3Test, FoldersOfSeveralPagesAreListedWhole) {
  std::vector<std::string> expected;
  for (int i = 10; i < 55; ++i) {
    expected.push_back("n" + std::to_string(i));
    const std::string below = i % 10 == 0 ? "/below" : "";
    real_store()->begin("pages/" + expected.back() + below)->commit();
  }
  EXPECT_EQ(list_names(*real_store(), "pages"), expected);
  EXPECT_TRUE(real_store()->remove_folder("pages"));
  EXPECT_THROW(list_names(*real_store(), "pages"), NotFoundError);
}

// The two jobs of one name that nobody should start, where no condition holds them apart, too: each
// save is whole, or an error that says so, and whoever reads meanwhile gets a whole one.
TEST(RealS3Test, OfTwoWritersOfOneNameEachIsWholeOrRefused) {
  const std::string name = "s3://bucket/contested/ep0-ba1-rank0.pt";
  constexpr std::size_t kTwoParts = 9 << 20;
  const std::array values = {testing::sample_checkpoint(1, kTwoParts),
                             testing::sample_checkpoint(2, kTwoParts)};
  save(values[0], name);
  std::array<std::string, 2> unexpected;
  std::atomic<int> saved = 0;
  std::atomic<int> writing = 2;
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < 2; ++i) {
    writers.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        try {
          save(values[i], name, {.overwrite = true});
          ++saved;
        } catch (const AlreadyExistsError&) {
        } catch (const std::exception& e) {
          unexpected[i] = e.what();
        }
      }
      --writing;
    });
  }
  for (bool goes_on = true; goes_on;) {
    goes_on = writing > 0;
    try {
      const std::int64_t batch = testing::batch_of_sample(load(name), kTwoParts);
      EXPECT_TRUE(batch == 1 || batch == 2) << batch;
    } catch (const StorageError& e) {
      EXPECT_TRUE(goes_on) << "nobody writes any more: " << e.what();  // replaced while it was read
    }
  }
  for (std::thread& writer : writers)
    writer.join();
  EXPECT_THAT(unexpected, ::testing::Each(""));
  EXPECT_GE(saved, 1);
  EXPECT_TRUE(verify(name, Verify::kFull).ok());
}

// As two jobs of one run: the second stops, whether the server holds them apart or cairn looks.
TEST(RealS3Test, APointerThatAnotherJobMovedStopsThisOne) {
  for (const char* name : {"fenced/one.pt", "fenced/two.pt", "fenced/three.pt"})
    save(testing::sample_checkpoint(1), name, {.store = real_store()});
  PointerFence ours(real_store(), "fenced/latest");
  PointerFence theirs(s3_store({.bucket = "bucket"}), "fenced/latest");
  ours.move("fenced/one.pt", {});
  theirs.move("fenced/two.pt", {});
  EXPECT_THROW(ours.check({}), AlreadyExistsError);
  EXPECT_THROW(ours.move("fenced/three.pt", {}), AlreadyExistsError);
  EXPECT_EQ(real_store()->read_pointer("fenced/latest")->target, "fenced/two.pt");
}

// Killed with SIGKILL and started again, while objects are written and read: what was acknowledged
// is whole, nothing else is there by half.
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
  const std::string bytes = random_bytes(12'000'000);
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
      acknowledged.erase(name);  // the old one or the new one
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
