// Folders of several objects in a store whose objects appear one by one: whatever happens in
// between, what is there is the old one, the new one or none, and never a mixture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#ifdef CAIRN_BUILD_NET
#include "cairn/storage/s3.h"

#include "testing/fake_s3.h"
#include "testing/s3_environment.h"
#endif

#include "checkpoint/plan/write_dcp.h"
#include "storage/forwarding_store.h"
#include "storage/listing.h"
#include "testing/plain_store.h"
#include "testing/sample_checkpoint.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlainStore;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::StoreCall;
using testing::StoreHooks;
using testing::WatchedStore;

const std::string kFolder = "run/ep0-ba2";

// No error that anybody handles.
struct Killed {};

// The calls of a writer that is killed at the n-th: from then on none comes through, not even those
// that tidy up.
StoreHooks killed_at(int n) {
  const auto left = std::make_shared<std::atomic<int>>(n);
  return {.before = [left](StoreCall, const std::string&) {
    if (--*left <= 0) throw Killed();
  }};
}

// Writes folders object by object, so that each call can be hindered.
class EachObject final : public ForwardingStore {
 public:
  explicit EachObject(std::shared_ptr<ObjectStore> under) : ForwardingStore(std::move(under)) {}
  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    return ObjectStore::begin_folder(name, overwrite);
  }
};

// A kind of store, empty.
struct Fresh {
  virtual ~Fresh() = default;
  std::shared_ptr<ObjectStore> store;
};

struct FreshMemory : Fresh {
  explicit FreshMemory(bool versioned) {
    store = std::make_shared<PlainStore>(memory_store(), versioned);
  }
};

#ifdef CAIRN_BUILD_NET
struct FreshS3 final : Fresh {
  FreshS3() {
    const testing::CleanAwsEnvironment clean;
    const testing::FakeS3Options keys;
    store = s3_store({.bucket = "bucket",
                      .endpoint_url = fake.url(),
                      .access_key_id = keys.access_key,
                      .secret_access_key = keys.secret_key});
  }
  testing::FakeS3 fake;
};
#endif

using MakeFresh = std::unique_ptr<Fresh> (*)();

struct StoreKind {
  const char* name;
  MakeFresh make;
};

class FarFolderTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  // The batch of what is in the folder, -1 when that is no checkpoint.
  static std::int64_t batch_in(const std::shared_ptr<ObjectStore>& store) {
    try {
      const auto checkpoint = open_checkpoint(kFolder, store);
      EXPECT_TRUE(checkpoint.verify().ok());
      return batch_of_sample(load(checkpoint));
    } catch (const NotFoundError&) {
      return -1;
    } catch (const CorruptError& e) {
      EXPECT_THAT(e.what(), HasSubstr(".metadata, which is written last, is missing"));
      return -1;
    }
  }
  static FindOptions as_autoresume(const std::shared_ptr<ObjectStore>& store) {
    return {.filename = "ep{epoch}-ba{batch}", .trust_latest = true, .store = store};
  }
  static void write(const std::shared_ptr<ObjectStore>& store, std::int64_t batch, bool overwrite) {
    write_dcp(*store, sample_checkpoint(batch), kFolder, overwrite);
  }
};

template <class Made>
std::unique_ptr<Fresh> made() {
  return std::make_unique<Made>();
}

struct WithVersions final : FreshMemory {
  WithVersions() : FreshMemory(true) {}
};
struct WithoutVersions final : FreshMemory {
  WithoutVersions() : FreshMemory(false) {}
};

std::vector<StoreKind> all_kinds() {
  std::vector<StoreKind> kinds = {{"Versions", made<WithVersions>},
                                  {"NoVersions", made<WithoutVersions>}};
#ifdef CAIRN_BUILD_NET
  kinds.push_back({"S3", made<FreshS3>});
#endif
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Stores, FarFolderTest, ::testing::ValuesIn(all_kinds()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(FarFolderTest, IsWrittenFoundLoadedAndRemoved) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  save(sample_checkpoint(1), "run/first.pt", {.info = sample_info(1), .store = store});
  convert("run/first.pt", "run/ep0-ba1/", {.store = store});
  write(store, 2, false);
  EXPECT_EQ(batch_in(store), 2);
  EXPECT_THAT(list_names(*store, kFolder),
              ElementsAre(".cairn_manifest.json", ".metadata", "__0_0.distcp"));
  EXPECT_THROW(write(store, 3, false), AlreadyExistsError);
  const auto found = find_latest("run", as_autoresume(store));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, kFolder);
  write(store, 3, true);
  EXPECT_EQ(batch_in(store), 3);
  EXPECT_TRUE(store->remove_folder(kFolder));
  EXPECT_FALSE(store->stat(kFolder));
}

// And the next one gets by: it needs no leave to replace what is no checkpoint.
TEST_P(FarFolderTest, AKillAtAnyCallLeavesTheOldOneTheNewOneOrNone) {
  for (const bool overwrite : {false, true}) {
    bool was_whole = false;
    for (int n = 1; !was_whole; ++n) {
      const auto fresh = GetParam().make();
      if (overwrite) write(fresh->store, 1, false);
      try {
        write(std::make_shared<EachObject>(
                  std::make_shared<WatchedStore>(fresh->store, killed_at(n))),
              2, overwrite);
        was_whole = true;
      } catch (const Killed&) {
      }
      const std::int64_t batch = batch_in(fresh->store);
      EXPECT_TRUE(batch == 2 || batch == -1 || (overwrite && batch == 1)) << n << ": " << batch;
      EXPECT_TRUE(!was_whole || batch == 2);
      write(fresh->store, 3, /*overwrite=*/batch != -1);
      EXPECT_EQ(batch_in(fresh->store), 3) << n;
      ASSERT_LT(n, 200);
    }
  }
}

// Killed in the middle of the folder of batch 2, a run goes on from that of batch 1.
TEST_P(FarFolderTest, WithoutItsMetadataItIsPassedOverWithTheReason) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  write_dcp(*store, sample_checkpoint(1), "run/ep0-ba1");
  write(store, 2, false);
  EXPECT_TRUE(store->remove(kFolder + "/.metadata"));
  std::vector<std::string> skipped;
  FindOptions find = as_autoresume(store);
  find.on_skip = [&](const std::string& path, const std::string& why) {
    skipped.push_back(path + ": " + why);
  };
  const auto found = find_latest("run", find);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, "run/ep0-ba1");
  EXPECT_THAT(skipped, Contains(HasSubstr(".metadata, which is written last, is missing")));
}

// Two jobs with one name at the same time: the second one's first object is refused.
TEST_P(FarFolderTest, OfTwoWritersTheSecondIsTold) {
  const auto fresh = GetParam().make();
  ObjectStore& store = *fresh->store;
  const auto one = store.begin_folder(kFolder, false);
  const auto two = store.begin_folder(kFolder, false);
  const auto add = [](FolderWrite& folder, const std::string& name, const std::string& text) {
    const auto object = folder.begin(name, text.size());
    object->write(as_bytes(text));
    object->commit();
  };
  add(*one, "__0_0.distcp", "one");
  EXPECT_THROW(add(*two, "__0_0.distcp", "two"), AlreadyExistsError);
  add(*one, ".metadata", "m");
  EXPECT_FALSE(store.stat(kFolder + "/.metadata"));
  one->commit();
  EXPECT_EQ(store.open(kFolder + "/__0_0.distcp")->size(), 3U);
}

TEST_P(FarFolderTest, WhatIsGivenUpIsTidiedUpAndWhatIsNoneOfOursStays) {
  const auto fresh = GetParam().make();
  ObjectStore& store = *fresh->store;
  {
    const auto given_up = store.begin_folder(kFolder, false);
    const auto object = given_up->begin("__0_0.distcp", 1);
    object->write(as_bytes("x"));
    object->commit();
  }
  EXPECT_FALSE(store.stat(kFolder));
  const auto notes = store.begin(kFolder + "/notes.txt");
  notes->commit();
  EXPECT_THROW(store.begin_folder(kFolder, false), AlreadyExistsError);
  EXPECT_TRUE(store.stat(kFolder + "/notes.txt"));
}

}  // namespace
}  // namespace cairn
