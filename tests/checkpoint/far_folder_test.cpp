// Folders of several objects in a store whose objects appear one by one. Whatever happens during a
// write, a reader finds the old folder, the new folder or none, and never a mixture.
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

// Killed is not an Error, so that no code handles it.
struct Killed {};

// The store calls of a writer that is killed at the n-th call. From then on no call reaches the
// store, not even a call that cleans up.
StoreHooks killed_at(int n) {
  const auto left = std::make_shared<std::atomic<int>>(n);
  return {.before = [left](StoreCall, const std::string&) {
    if (--*left <= 0) throw Killed();
  }};
}

// Writes folders object by object, so that a test can hinder each call.
class EachObject final : public ForwardingStore {
 public:
  explicit EachObject(std::shared_ptr<ObjectStore> under) : ForwardingStore(std::move(under)) {}
  std::unique_ptr<FolderWrite> begin_folder(const std::string& name, bool overwrite) override {
    return ObjectStore::begin_folder(name, overwrite);
  }
};

// Makes an empty store of one kind.
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
  // The batch of the checkpoint in the folder. -1 if there is no checkpoint.
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
  static void add(FolderWrite& folder, const std::string& name, const std::string& text) {
    const auto object = folder.begin(name, text.size());
    object->write(as_bytes(text));
    object->commit();
  }
  static void put(ObjectStore& store, const std::string& name, const std::string& text) {
    const auto object = store.begin(name);
    object->write(as_bytes(text));
    object->commit();
  }
  static std::string text_in(ObjectStore& store, const std::string& name) {
    const auto source = store.open(kFolder + "/" + name);
    return std::string(as_text(source->view(0, source->size()).view));
  }
  // A store that writes folders object by object. The call of kind `call` for a name that ends with
  // `end` fails, before or after it is done.
  static std::shared_ptr<ObjectStore> failing(const std::shared_ptr<ObjectStore>& store,
                                              StoreCall call, const std::string& end,
                                              bool is_done) {
    const StoreHooks::Hook hook = [=](StoreCall made, const std::string& name) {
      if (made == call && name.ends_with(end)) throw StorageError(name + ": 503", 503, true);
    };
    return std::make_shared<EachObject>(std::make_shared<WatchedStore>(
        store, is_done ? StoreHooks{.after = hook} : StoreHooks{.before = hook}));
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

// The next writer succeeds, too: a folder that is no checkpoint may be replaced without
// `overwrite`.
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

// A job was killed while it wrote the folder of batch 2. So the run resumes from batch 1.
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

// Two jobs write the same name at the same time. The store refuses the second job's first object.
TEST_P(FarFolderTest, OfTwoWritersTheSecondIsTold) {
  const auto fresh = GetParam().make();
  ObjectStore& store = *fresh->store;
  const auto one = store.begin_folder(kFolder, false);
  const auto two = store.begin_folder(kFolder, false);
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

// The answer to the last write, or to the check after that write, is lost. The folder is whole.
TEST_P(FarFolderTest, OnceTheMarkerIsBegunNothingIsRemoved) {
  for (const bool is_done : {true, false}) {
    const auto fresh = GetParam().make();
    const auto broken = failing(fresh->store, StoreCall::kCommit, "/.metadata", is_done);
    EXPECT_THROW(write(broken, 2, false), StorageError);
    EXPECT_EQ(batch_in(fresh->store), is_done ? 2 : -1);
    EXPECT_TRUE(fresh->store->stat(kFolder + "/__0_0.distcp"));
    write(fresh->store, 3, /*overwrite=*/is_done);
    EXPECT_EQ(batch_in(fresh->store), 3);
  }
}

TEST_P(FarFolderTest, AConversionGetsByWhatAFailedOneLeft) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  save(sample_checkpoint(1), "run/first.pt", {.info = sample_info(1), .store = store});
  put(*store, kFolder + "/__0_0.distcp", "half");
  convert("run/first.pt", kFolder + "/", {.store = store});
  EXPECT_EQ(batch_in(store), 1);
  EXPECT_THROW(convert("run/first.pt", kFolder + "/", {.store = store}), AlreadyExistsError);
  // The folder is recognized by its .metadata, but is not whole.
  EXPECT_TRUE(store->remove(kFolder + "/__0_0.distcp"));
  convert("run/first.pt", kFolder + "/", {.overwrite = true, .store = store});
  EXPECT_EQ(batch_in(store), 1);
}

// To the second writer, a living writer's objects look like leftovers. The second writer replaces
// them by objects of the same size.
TEST_P(FarFolderTest, AWriterPublishesAndRemovesOnlyWhatItWrote) {
  const auto fresh = GetParam().make();
  ObjectStore& store = *fresh->store;
  auto one = store.begin_folder(kFolder, false);
  add(*one, "__0_0.distcp", "one");
  add(*one, ".metadata", "1");
  auto two = store.begin_folder(kFolder, false);
  add(*two, "__0_0.distcp", "two");
  add(*two, ".metadata", "2");
  EXPECT_THROW(one->commit(), AlreadyExistsError);
  one.reset();
  EXPECT_EQ(text_in(store, "__0_0.distcp"), "two");
  two->commit();
  EXPECT_EQ(text_in(store, ".metadata"), "2");
}

// Both writers may replace the old folder. The second writer finds the whole folder of the first
// writer, and leaves it.
TEST_P(FarFolderTest, TheSecondToReplaceLeavesTheFirstOnes) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  write(store, 1, false);
  const auto each = std::make_shared<EachObject>(store);
  auto late = each->begin_folder(kFolder, true);
  add(*late, "__1_0.distcp", "late");
  write(each, 2, true);
  EXPECT_THROW(add(*late, "__0_0.distcp", "late"), AlreadyExistsError);
  late.reset();
  EXPECT_EQ(batch_in(store), 2);
}

TEST_P(FarFolderTest, UntilItsFirstObjectIsReplacedTheOldOneStays) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  write(store, 1, false);
  for (const StoreCall call : {StoreCall::kBegin, StoreCall::kWrite}) {
    EXPECT_THROW(write(failing(store, call, "__0_0.distcp", false), 2, true), StorageError);
    EXPECT_EQ(batch_in(store), 1);
  }
  {
    const auto each = std::make_shared<EachObject>(store);
    const auto given_up = each->begin_folder(kFolder, true);
    add(*given_up, "__1_0.distcp", "beside it");
  }
  EXPECT_EQ(batch_in(store), 1);
  EXPECT_FALSE(store->stat(kFolder + "/__1_0.distcp"));
}

TEST_P(FarFolderTest, ItIsNotConvertedIntoItself) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  save(sample_checkpoint(1), "run/first.pt", {.info = sample_info(1), .store = store});
  convert("run/first.pt", kFolder + "/", {.store = store});
  for (const std::string& in : {kFolder, kFolder + "/"}) {
    EXPECT_THROW(convert(in, "run/./ep0-ba2/",
                         {.dtype = DType::kBFloat16, .overwrite = true, .store = store}),
                 UsageError);
  }
  EXPECT_EQ(batch_in(store), 1);
}

TEST_P(FarFolderTest, WhatIsNotNamedAsItsFilesIsNeverRemoved) {
  const auto fresh = GetParam().make();
  const auto& store = fresh->store;
  write(store, 1, false);
  put(*store, kFolder + "/notes.txt", "mine");
  put(*store, kFolder + "/ep4.pt", "another");
  put(*store, kFolder + "/__7_0.distcp", "of the old one");
  const auto each = std::make_shared<EachObject>(store);
  write(each, 2, true);
  EXPECT_EQ(batch_in(store), 2);
  EXPECT_THAT(list_names(*store, kFolder), ElementsAre(".cairn_manifest.json", ".metadata",
                                                       "__0_0.distcp", "ep4.pt", "notes.txt"));
  put(*store, kFolder + "/ep3/__0_0.distcp", "of another checkpoint");
  EXPECT_THROW(write(each, 3, true), UsageError);
  EXPECT_EQ(batch_in(store), 2);
}

// Files with other names are not taken for leftovers of a killed writer.
TEST_P(FarFolderTest, OnlyItsOwnNamesAreTakenForLeftBehind) {
  for (const char* name : {"ep1.safetensors", ".old/a", "model-1-of-2.safetensors",
                           "shard-00001-model-00001-of-00001.safetensors"}) {
    const auto fresh = GetParam().make();
    put(*fresh->store, kFolder + "/" + name, "kept");
    EXPECT_THROW(fresh->store->begin_folder(kFolder, false), AlreadyExistsError) << name;
  }
  const auto fresh = GetParam().make();
  put(*fresh->store, kFolder + "/model-00001-of-00002.safetensors", "left");
  EXPECT_TRUE(fresh->store->begin_folder(kFolder, false));
}

}  // namespace
}  // namespace cairn
