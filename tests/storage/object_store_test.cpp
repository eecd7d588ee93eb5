#include "cairn/storage/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/object_store_checks.h"

#ifdef CAIRN_BUILD_NET
#include "azure_fixture.h"
#include "gcs_fixture.h"
#include "oci_fixture.h"
#include "s3_fixture.h"
#include "trackers_fixture.h"
#endif
#include "io/threads/retry.h"
#include "sftp_fixture.h"
#include "storage/local/local_store.h"
#include "storage/publish/pointer_fence.h"
#include "testing/plain_store.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"
#include "testing/tracing_store.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

// A store and an empty folder in it.
struct Opened {
  std::shared_ptr<ObjectStore> store;
  std::string folder;
  std::shared_ptr<void> owner = nullptr;
};

Opened open_folder() {
  const auto folder = std::make_shared<testing::TempFolder>();
  return {local_store(), folder->path(), folder};
}

Opened open_sim(int refuse_links) {
  const auto files = std::make_shared<testing::SimFileSystem>();
  if (refuse_links != 0) files->refuse_links(refuse_links);
  files->make_folders("/folder");
  return {local_store(*files), "/folder", files};
}

Opened open_recycling() {
  const auto files = std::make_shared<testing::SimFileSystem>();
  files->make_folders("/folder");
  // The store's destructor needs the files.
  const auto store = recycling_local_store(*files);
  return {{store.get(), [files, store](ObjectStore*) {}}, "/folder", nullptr};
}

Opened open_sftp() {
  const auto served = std::make_shared<SftpServed>();
  return {sftp_server().empty() ? nullptr : served->store(), "a/folder", served};
}

// The least that a program's store must define: only the pure virtual functions.
class OwnStore final : public ObjectStore {
 public:
  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    return memory_->stat(name, follow);
  }
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return memory_->open(name);
  }
  ListPage list(const std::string& folder, const std::string& page) override {
    ListPage listed = memory_->list(folder, page);
    for (ListedName& name : listed.names) {
      name.info.reset();
    }
    return listed;
  }
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    if (options.condition.when == WriteCondition::If::kVersion) {
      throw UnsupportedError(name + ": no versions here");
    }
    return memory_->begin(name, options);
  }
  bool remove(const std::string& name) override { return memory_->remove(name); }
  bool remove_folder(const std::string& name) override { return memory_->remove_folder(name); }
  std::optional<Pointer> read_pointer(const std::string& name) override {
    return memory_->read_pointer(name);
  }
  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    memory_->move_pointer(name, target, expected);
  }

 private:
  std::shared_ptr<ObjectStore> memory_ = memory_store();
};

#ifdef CAIRN_BUILD_NET
Opened open_azure(const testing::FakeAzureOptions& options) {
  const auto served = std::make_shared<AzureServed>(options);
  return {served->store(), "a/folder", served};
}

Opened open_s3(const testing::FakeS3Options& options) {
  const auto served = std::make_shared<S3Served>(options);
  return {served->store(), "a/folder", served};
}

Opened open_oci(const testing::FakeOciOptions& options) {
  const auto served = std::make_shared<OciServed>(options);
  return {served->store(), "a/folder", served};
}

Opened open_gcs(const testing::FakeGcsOptions& options) {
  const auto served = std::make_shared<GcsServed>(options);
  return {served->store(), "a/folder", served};
}
#endif

#ifdef CAIRN_BUILD_NET
Opened open_volume(const testing::FakeTrackersOptions& options) {
  const auto served = std::make_shared<TrackersServed>(options);
  return {served->store(), "Volumes/main/runs/ckpt/a/folder", served};
}

Opened open_run(const testing::FakeTrackersOptions& options) {
  const auto served = std::make_shared<TrackersServed>(options);
  const std::string run = served->fake.add_run("7");
  return {served->store(), "databricks/mlflow-tracking/7/" + run + "/artifacts/a/folder", served};
}
#endif

struct Kind {
  const char* name;
  std::function<Opened()> open;
  std::set<std::string> except = {};  // checks that the store's features exclude
};

#ifdef CAIRN_BUILD_NET
const std::set<std::string> kOfDatabricks = {"LongFoldersAreListedWhole", "PointersLeadToObjects",
                                             "RemovedThingsAreGone", "ObjectsCanBeRenamed",
                                             "FoldersCanBeReplaced"};
#endif

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"Folder", open_folder},
      {"SimulatedFolder", [] { return open_sim(0); }},
      {"SimulatedFolderWithoutLinks", [] { return open_sim(EPERM); }},
      {"Recycling", open_recycling},
      {"Memory",
       [] {
         return Opened{memory_store(), "a/folder"};
       }},
      {"Sftp", open_sftp},
      {"Watched",
       [] {
         return Opened{std::make_shared<testing::WatchedStore>(memory_store()), "folder"};
       }},
      {"OwnStore",
       [] {
         return Opened{std::make_shared<OwnStore>(), "folder"};
       }},
#ifdef CAIRN_BUILD_NET
      {"Gcs", [] { return open_gcs({}); }},
      {"GcsOfAFifthOfFaults", [] { return open_gcs({.fault_rate = 0.2}); }},
      {"Oci", [] { return open_oci({}); }},
      {"OciOfAFifthOfFaults", [] { return open_oci({.fault_rate = 0.2}); }},
      {"Azure", [] { return open_azure({.empty_pages = true}); }},
      {"AzureOfAFifthOfFaults",
       [] { return open_azure({.pending_copies = 2, .fault_rate = 0.2}); }},
      {"S3", [] { return open_s3({}); }},
      {"S3LikeCeph", [] { return open_s3({.like_ceph = true, .keeps_crc64 = false}); }},
      {"S3OfAFifthOfFaults", [] { return open_s3({.fault_rate = 0.2}); }},
      {"S3WithoutConditions",
       [] {
         using Conditions = testing::FakeS3Options::Conditions;
         return open_s3({.conditions = Conditions::kIgnore,
                         .upload_conditions = Conditions::kRefuse,
                         .keeps_crc64 = false});
       }},
      {"Volume", [] { return open_volume({}); }},
      {"VolumeOfAFifthOfFaults", [] { return open_volume({.fault_rate = 0.2}); }},
      // Databricks removes no artifacts, and a list for each write makes long folders slow.
      // tests/storage/mlflow_test.cpp tests both.
      {"MlflowServer",
       [] { return open_run({.serves_artifacts = true}); },
       {"LongFoldersAreListedWhole"}},
      {"MlflowServerOfAFifthOfFaults",
       [] { return open_run({.serves_artifacts = true, .fault_rate = 0.2}); },
       {"LongFoldersAreListedWhole"}},
      {"MlflowOfDatabricks", [] { return open_run({}); }, kOfDatabricks},
      {"MlflowOfDatabricksOfAFifthOfFaults",
       [] { return open_run({.signed_type = "AZURE_SAS_URI", .fault_rate = 0.2}); }, kOfDatabricks},
#endif
  };
  return all;
}

class Conformance : public ::testing::Test {
 public:
  Conformance(const Kind& kind, const ObjectStoreCheck& check) : kind_(kind), check_(check) {}
  void TestBody() override {
    const Opened opened = kind_.open();
    if (opened.store == nullptr) GTEST_SKIP() << "its server is not installed";
    EXPECT_NO_THROW(check_.run(*opened.store, opened.folder));
  }

 private:
  const Kind& kind_;
  const ObjectStoreCheck& check_;
};

const bool kRegistered = [] {
  for (const Kind& kind : kinds()) {
    for (const ObjectStoreCheck& check : object_store_checks()) {
      if (kind.except.contains(check.name)) continue;
      ::testing::RegisterTest(
          (std::string(kind.name) + "Store").c_str(), check.name, nullptr, nullptr, __FILE__,
          __LINE__, [&kind, &check]() -> Conformance* { return new Conformance(kind, check); });
    }
  }
  return true;
}();

// Writes without the last byte. The checks must notice what ForgetfulStore does wrong.
class BrokenWrite final : public ObjectWrite {
 public:
  explicit BrokenWrite(std::unique_ptr<ObjectWrite> write) : write_(std::move(write)) {}
  void write(ByteView bytes) override {
    write_->write(bytes.empty() ? bytes : bytes.first(bytes.size() - 1));
  }

 private:
  void publish() override { write_->commit(); }
  std::unique_ptr<ObjectWrite> write_;
};

TEST(ObjectStoreChecksTest, SayWhatAStoreDoesWrong) {
  class ForgetfulStore final : public ObjectStore {
   public:
    std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
      return memory_->stat(name, follow);
    }
    std::shared_ptr<const ByteSource> open(const std::string& name) override {
      return memory_->open(name);
    }
    ListPage list(const std::string& folder, const std::string& page) override {
      return memory_->list(folder, page);
    }
    std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                       const BeginOptions& options) override {
      return std::make_unique<BrokenWrite>(memory_->begin(name, {options}));
    }
    bool remove(const std::string&) override { return true; }
    bool remove_folder(const std::string&) override { return true; }
    std::optional<Pointer> read_pointer(const std::string&) override { return std::nullopt; }
    void move_pointer(const std::string&, const std::string&,
                      const std::optional<std::string>&) override {}

   private:
    std::shared_ptr<ObjectStore> memory_ = memory_store();
  };
  std::vector<std::string> passed;
  for (const ObjectStoreCheck& check : object_store_checks()) {
    ForgetfulStore store;
    try {
      check.run(store, "folder");
      passed.emplace_back(check.name);
    } catch (const std::exception& e) {
      EXPECT_STRNE(e.what(), "") << check.name;
    }
  }
  // ForgetfulStore does nothing wrong in this check.
  EXPECT_THAT(passed, ::testing::ElementsAre("LongFoldersAreListedWhole"));
}

// These stores must count as far. Otherwise tests of far stores would become tests of local files,
// and pass.
TEST(StoresOfTestsTest, PlayAFarStoreAroundLocalStore) {
  const std::vector<std::shared_ptr<ObjectStore>> stores = {
      memory_store(), std::make_shared<OwnStore>(),
      std::make_shared<testing::WatchedStore>(local_store()),
      std::make_shared<testing::TracingStore>(local_store(), std::make_shared<testing::Trace>()),
      std::make_shared<testing::PlainStore>(local_store(), /*versioned_writes=*/false)};
  for (const auto& store : stores) {
    EXPECT_TRUE(store->may_be_far());
    EXPECT_FALSE(store->names_are_paths());
    EXPECT_EQ(local_files_of(*store), nullptr);
  }
}

// Saves, finds, loads and verifies in every store.
class WithStore : public ::testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Stores, WithStore, ::testing::Range(std::size_t{0}, kinds().size()),
                         [](const auto& test) { return kinds()[test.param].name; });

TEST_P(WithStore, CheckpointsAreSavedFoundVerifiedAndLoaded) {
  const Opened opened = kinds()[GetParam()].open();
  const auto& store = opened.store;
  if (store == nullptr) GTEST_SKIP() << "its server is not installed";
  for (const std::int64_t batch : {1, 2}) {
    save(testing::sample_checkpoint(batch),
         opened.folder + "/ep0-ba" + std::to_string(batch) + "-rank0.pt",
         {.info = testing::sample_info(batch), .store = store});
  }
  const auto found = find_latest(opened.folder, {.store = store});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->timestamp.batch, 2);
  EXPECT_EQ(testing::batch_of_sample(load(found->checkpoint)), 2);
  EXPECT_EQ(testing::batch_of_sample(load(found->path, {.store = store})), 2);
  EXPECT_TRUE(verify(found->path, Verify::kFull, store).ok());
  EXPECT_THROW(
      save(testing::sample_checkpoint(3), found->path, {.overwrite = false, .store = store}),
      AlreadyExistsError);
}

// Another program may leave such a pointer. The pointer must not stop the jobs of that folder for
// good.
TEST_P(WithStore, APointerThatNamesNothingIsReplacedUnderItsVersion) {
  const Opened opened = kinds()[GetParam()].open();
  const auto& store = opened.store;
  if (store == nullptr) GTEST_SKIP() << "its server is not installed";
  const RetryPolicy retry = {.attempts = 20, .pause = [](std::chrono::milliseconds) {}};
  int number = 0;
  for (const std::string& text : {std::string(), std::string("\n"), std::string("a\nb"),
                                  std::string("a\0b", 3), std::string(5000, 'a')}) {
    const std::string link = opened.folder + "/latest" + std::to_string(++number);
    with_retries(retry, [&] {
      const auto text_of_pointer = store->begin(link + ".symlink");
      text_of_pointer->write(as_bytes(text));
      text_of_pointer->commit();
    });
    const auto broken = store->read_pointer(link);
    if (!broken) GTEST_SKIP() << "its pointers are no texts";
    EXPECT_TRUE(broken->is_broken()) << broken->target;
    EXPECT_FALSE(store->stat(link));
    EXPECT_THROW(store->open(link), NotFoundError);
    PointerFence fence(store, link);
    fence.look(retry);
    fence.check(retry);
    fence.move(opened.folder + "/a", retry);
    EXPECT_EQ(store->read_pointer(link)->target, opened.folder + "/a") << text.size();
  }
}

}  // namespace
}  // namespace cairn
