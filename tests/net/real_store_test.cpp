// The tests of tests/storage/ that need no fake, with a real server. real_s3_test.cpp and
// real_azure_test.cpp define which server.
#include "real_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/object_store_checks.h"

#include "io/bytes/source_part.h"
#include "storage/listing.h"
#include "storage/publish/pointer_fence.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

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
    ::testing::RegisterTest("RealStore", check.name, nullptr, nullptr, __FILE__, __LINE__,
                            [&check]() -> RealConformance* { return new RealConformance(check); });
  }
  return true;
}();

TEST(RealStoreTest, LargeObjectsGoThereAndBack) {
  const std::string bytes = testing::pattern(33'333'333);
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

TEST(RealStoreTest, WhatIsAbandonedIsNotThere) {
  {
    const auto object = real_store()->begin("abandoned");
    object->write(as_bytes(testing::pattern(12'000'000)));
  }
  EXPECT_FALSE(real_store()->stat("abandoned"));
}

TEST(RealStoreTest, NamesMayHoldAnything) {
  for (const std::string name : {"a b", "a+b", "a%20b", "ü=ö&?#", "a~'()*!b", "ep1:ba2.pt"}) {
    const auto object = real_store()->begin("names/" + name);
    object->write(as_bytes(name));
    object->commit();
    EXPECT_EQ(as_text(read_all(*real_store()->open("names/" + name)).view), name);
    EXPECT_THAT(list_names(*real_store(), "names"), ::testing::ElementsAre(name));
    EXPECT_TRUE(real_store()->remove("names/" + name));
  }
}

TEST(RealStoreTest, CheckpointsAreSavedFoundVerifiedAndLoaded) {
  save(testing::sample_checkpoint(1), real_place() + "/run/ep0-ba1-rank0.pt");
  save(testing::sample_checkpoint(2), real_place() + "/run/ep0-ba2-rank0.pt");
  const auto found = find_latest(real_place() + "/run", {.full_state_only = false});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, real_place() + "/run/ep0-ba2-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(found->checkpoint)), 2);
}

// A page has 20 names with Swift (with_swift), a thousand with Ceph, five thousand with Azurite.
TEST(RealStoreTest, FoldersOfSeveralPagesAreListedWhole) {
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

// Two jobs write one name, which should not happen, and no condition separates them. Each save is
// whole or throws, and a reader gets a whole checkpoint at any time.
TEST(RealStoreTest, OfTwoWritersOfOneNameEachIsWholeOrRefused) {
  const std::string name = real_place() + "/contested/ep0-ba1-rank0.pt";
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
      // The checkpoint was replaced while it was read.
      EXPECT_TRUE(goes_on) << "nobody writes any more: " << e.what();
    }
  }
  for (std::thread& writer : writers)
    writer.join();
  EXPECT_THAT(unexpected, ::testing::Each(""));
  EXPECT_GE(saved, 1);
  EXPECT_TRUE(verify(name, Verify::kFull).ok());
}

// Like two jobs of one run: the second job stops, whether the server checks the condition or cairn
// looks itself.
TEST(RealStoreTest, APointerThatAnotherJobMovedStopsThisOne) {
  for (const char* name : {"fenced/one.pt", "fenced/two.pt", "fenced/three.pt"})
    save(testing::sample_checkpoint(1), name, {.store = real_store()});
  PointerFence ours(real_store(), "fenced/latest");
  PointerFence theirs(another_real_store(), "fenced/latest");
  ours.move("fenced/one.pt", {});
  theirs.move("fenced/two.pt", {});
  EXPECT_THROW(ours.check({}), AlreadyExistsError);
  EXPECT_THROW(ours.move("fenced/three.pt", {}), AlreadyExistsError);
  EXPECT_EQ(real_store()->read_pointer("fenced/latest")->target, "fenced/two.pt");
}

}  // namespace
}  // namespace cairn
