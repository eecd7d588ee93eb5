// Checkpoints in a store that is far away: requests cost time, calls fail, answers are lost, and
// another job may write to the same store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/plan/save_pipeline.h"
#include "io/bytes/source_part.h"
#include "storage/listing.h"
#include "storage/publish/publish.h"
#include "testing/message_of.h"
#include "testing/plain_store.h"
#include "testing/sample_checkpoint.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::batch_of_sample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::PlainStore;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::StoreCall;
using testing::StoreHooks;
using testing::WatchedStore;

RetryPolicy at_once(int attempts) {
  return {.attempts = attempts, .pause = [](std::chrono::milliseconds) {}};
}

std::string far_name(std::int64_t batch) {
  return "run/ep0-ba" + std::to_string(batch) + "-rank0.pt";
}

SaveJob far_job(std::int64_t batch, Replace replace = Replace::kNever) {
  return {.value = sample_checkpoint(batch),
          .path = far_name(batch),
          .latest = "run/latest-rank0.pt",
          .info = sample_info(batch),
          .replace = replace};
}

StoreHooks broken_commits() {
  return {.before = [](StoreCall call, const std::string& name) {
    if (call == StoreCall::kCommit) throw StorageError(name + ": 503", 503, true);
  }};
}

class FarPipelineTest : public ::testing::TestWithParam<bool> {
 protected:
  SavePipelineOptions options(std::shared_ptr<ObjectStore> store, int attempts = 3) {
    return {.async = GetParam(), .store = std::move(store), .retry = at_once(attempts)};
  }
  const std::shared_ptr<ObjectStore> memory_ = memory_store();
};

INSTANTIATE_TEST_SUITE_P(SyncAndAsync, FarPipelineTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Async" : "Sync"; });

TEST_P(FarPipelineTest, EveryAcknowledgedSaveIsThereHoweverOftenTheStoreFails) {
  constexpr int kSaves = 100;
  const auto store =
      std::make_shared<WatchedStore>(memory_, testing::random_faults(0.2, /*seed=*/11));
  std::vector<std::string> acknowledged;
  SavePipeline pipeline(options(store, 20));
  for (int batch = 1; batch <= kSaves; ++batch) {
    SaveJob job = far_job(batch);
    job.report = [&](const SaveReport& done) { acknowledged.push_back(done.path); };
    if (batch > 2) job.remove_afterwards = {far_name(batch - 2)};
    pipeline.submit(std::move(job));
    pipeline.wait();
    // The target of the pointer is whole at every moment.
    ASSERT_EQ(batch_of_sample(load("run/latest-rank0.pt", {.store = memory_})), batch);
  }
  EXPECT_EQ(acknowledged.size(), static_cast<std::size_t>(kSaves));
  EXPECT_THAT(list_names(*memory_, "run"),
              ElementsAre("ep0-ba100-rank0.pt", "ep0-ba99-rank0.pt", "latest-rank0.pt"));
}

TEST_P(FarPipelineTest, ASaveThatDoesNotArriveMovesAndRemovesNothing) {
  SavePipeline good(options(memory_));
  good.submit(far_job(1));
  good.wait();
  SavePipeline bad(options(std::make_shared<WatchedStore>(memory_, broken_commits())));
  SaveJob job = far_job(2);
  job.remove_afterwards = {far_name(1)};
  const auto save = [&] {
    bad.submit(std::move(job));
    bad.wait();
  };
  EXPECT_THAT(message_of(save),
              AllOf(HasSubstr("saving run/ep0-ba2-rank0.pt"), HasSubstr("failed 3 times")));
  EXPECT_THAT(list_names(*memory_, "run"), ElementsAre("ep0-ba1-rank0.pt", "latest-rank0.pt"));
  EXPECT_EQ(memory_->read_pointer("run/latest-rank0.pt")->target, far_name(1));
}

TEST_P(FarPipelineTest, OfTwoJobsWithOneRunTheSecondIsTold) {
  SavePipeline one(options(memory_));
  SavePipeline other(options(memory_));
  one.publisher().look_at_pointer("run/latest-rank0.pt");
  other.publisher().look_at_pointer("run/latest-rank0.pt");
  const auto save = [](SavePipeline& pipeline, SaveJob job) {
    return message_of<AlreadyExistsError>([&] {
      pipeline.submit(std::move(job));
      pipeline.wait();
    });
  };
  EXPECT_EQ(save(one, far_job(1)), "nothing was thrown");
  EXPECT_THAT(save(other, far_job(2)), HasSubstr("another job moves run/latest-rank0.pt"));
  EXPECT_FALSE(memory_->stat(far_name(2)));  // The job fails before it writes anything.
  SaveJob without_pointer = far_job(1);
  without_pointer.latest.clear();
  EXPECT_THAT(save(other, std::move(without_pointer)), HasSubstr("exists already"));
  EXPECT_EQ(save(one, far_job(3)), "nothing was thrown");
  EXPECT_EQ(memory_->read_pointer("run/latest-rank0.pt")->target, far_name(3));
}

TEST_P(FarPipelineTest, WhatIsReplacedMustBeOfTheVersionThatWasSeen) {
  SavePipeline pipeline(options(memory_));
  pipeline.submit(far_job(1));
  pipeline.wait();
  const std::string seen = memory_->stat(far_name(1))->version;
  pipeline.publisher().own().know(far_name(1), seen);
  pipeline.submit(far_job(1, Replace::kOwn));
  pipeline.wait();
  pipeline.publisher().own().know(far_name(1), seen);
  EXPECT_THROW(
      {
        pipeline.submit(far_job(1, Replace::kOwn));
        pipeline.wait();
      },
      AlreadyExistsError);
}

// All saves have the same name.
TEST_P(FarPipelineTest, OfTwoJobsThatWriteOneNameTheSecondIsTold) {
  for (const bool versioned : {true, false}) {
    const auto memory = memory_store();
    const auto store = std::make_shared<PlainStore>(memory, versioned);
    const auto save = [](SavePipeline& pipeline, std::int64_t batch) {
      SaveJob job = far_job(batch);
      job.path = "run/ckpt.pt";
      job.replace = Replace::kOwn;
      pipeline.submit(std::move(job));
      pipeline.wait();
    };
    SavePipeline one(options(store));
    one.publisher().look_at_pointer("run/latest-rank0.pt");
    save(one, 1);
    save(one, 2);
    // Continues from the pointer that the other saver has moved.
    SavePipeline other(options(store));
    other.publisher().look_at_pointer("run/latest-rank0.pt");
    other.publisher().own().know("run/ckpt.pt", memory->stat("run/ckpt.pt")->version);
    save(one, 3);
    EXPECT_THROW(save(other, 3), AlreadyExistsError);
    EXPECT_EQ(batch_of_sample(load("run/ckpt.pt", {.store = memory})), 3);
    save(one, 4);
    other.publisher().own().know("run/ckpt.pt", memory->stat("run/ckpt.pt")->version);
    save(other, 5);
    EXPECT_THROW(save(one, 6), AlreadyExistsError);
    EXPECT_EQ(batch_of_sample(load("run/ckpt.pt", {.store = memory})), 5);
  }
}

TEST_P(FarPipelineTest, KnowsNoMoreOfALongRunThanOfAShortOne) {
  SavePipeline pipeline(options(memory_));
  std::size_t most = 0;
  for (std::int64_t batch = 0; batch < 10'000; ++batch) {
    const std::string path = far_name(batch);
    pipeline.submit({.value = batch,
                     .path = path,
                     .replace = Replace::kOwn,
                     .is_retired = [path](const std::string& other) { return other != path; }});
    most = std::max(most, pipeline.publisher().own().size());
  }
  pipeline.wait();
  EXPECT_GE(most, 1U);
  EXPECT_LE(most, 32U);
}

TEST_P(FarPipelineTest, BehindAFailureANameIsWrittenAgainWhateverBecameOfIt) {
  for (const bool is_done : {false, true}) {
    const auto memory = memory_store();
    std::atomic<bool> is_bad = false;
    const auto fail = [&](StoreCall call, const std::string& name) {
      if (is_bad && call == StoreCall::kCommit) throw StorageError(name + ": 503", 503, true);
    };
    // Either the call is done and its answer is lost, or the call is not done. No later attempt
    // reaches the store.
    const auto store = std::make_shared<WatchedStore>(
        memory, StoreHooks{.before =
                               [&, is_done](StoreCall call, const std::string& name) {
                                 if (!is_done) fail(call, name);
                               },
                           .after = fail});
    SavePipeline pipeline(options(store, 1));
    const auto save = [&](std::int64_t batch) {
      SaveJob job = far_job(batch);
      job.path = "run/ckpt.pt";
      job.replace = Replace::kOwn;
      pipeline.submit(std::move(job));
      pipeline.wait();
    };
    save(1);
    is_bad = true;
    EXPECT_THROW(save(2), StorageError);
    is_bad = false;
    save(3);
    EXPECT_EQ(batch_of_sample(load("run/ckpt.pt", {.store = memory})), 3);
    SaveJob job = far_job(4);
    job.remove_afterwards = {"run/ckpt.pt"};
    pipeline.submit(std::move(job));
    pipeline.wait();
    save(5);
  }
}

TEST_P(FarPipelineTest, BehindAFailureWhatAnotherJobWroteIsNotReplaced) {
  for (const bool is_versioned : {true, false}) {
    const auto memory = memory_store();
    std::atomic<bool> is_bad = false;
    const auto store = std::make_shared<WatchedStore>(
        std::make_shared<PlainStore>(memory, is_versioned),
        StoreHooks{.before = [&](StoreCall call, const std::string& name) {
          if (is_bad && call == StoreCall::kCommit) throw StorageError(name + ": 503", 503, true);
        }});
    SavePipeline pipeline(options(store, 1));
    const auto save_as = [&](std::int64_t batch) {
      SaveJob job = far_job(batch);
      job.path = "run/ckpt.pt";
      job.replace = Replace::kOwn;
      pipeline.submit(std::move(job));
      pipeline.wait();
    };
    save_as(1);
    is_bad = true;
    EXPECT_THROW(save_as(2), StorageError);
    is_bad = false;
    save(sample_checkpoint(9), "run/ckpt.pt", {.store = memory});
    EXPECT_THROW(save_as(3), AlreadyExistsError);
    EXPECT_EQ(batch_of_sample(load("run/ckpt.pt", {.store = memory})), 9);
  }
}

// A failed save does not count as one of the checkpoints to keep, whatever happened to its object.
TEST_P(FarPipelineTest, WhatAFailedSaveLeftIsRemovedWithTheNextThatIsSuperfluous) {
  enum class Fails : std::uint8_t { kWrite, kPointer, kUndone };
  for (const Fails fails : {Fails::kWrite, Fails::kPointer, Fails::kUndone}) {
    const auto memory = memory_store();
    std::atomic<bool> is_bad = false;
    const auto fail = [&, fails](StoreCall call, const std::string& name) {
      const StoreCall bad = fails == Fails::kPointer ? StoreCall::kMovePointer : StoreCall::kCommit;
      if (is_bad && call == bad) throw StorageError(name + ": 403", 403);
    };
    const auto store = std::make_shared<WatchedStore>(
        memory, fails == Fails::kUndone ? StoreHooks{.before = fail} : StoreHooks{.after = fail});
    SavePipeline pipeline(options(store, 1));
    const auto save_as = [&](std::int64_t batch, std::vector<std::string> superfluous) {
      SaveJob job = far_job(batch, Replace::kOwn);
      job.remove_afterwards = std::move(superfluous);
      pipeline.submit(std::move(job));
      pipeline.wait();
    };
    save_as(1, {});
    is_bad = true;
    EXPECT_THROW(save_as(2, {}), StorageError);
    is_bad = false;
    if (fails == Fails::kUndone) save(sample_checkpoint(9), far_name(2), {.store = memory});
    save_as(3, {});
    ASSERT_TRUE(memory->stat(far_name(2))) << "all are kept";
    save_as(4, {far_name(1)});
    EXPECT_EQ(memory->stat(far_name(2)).has_value(), fails == Fails::kUndone) << "another job's";
    EXPECT_FALSE(memory->stat(far_name(1)));
    EXPECT_TRUE(memory->stat(far_name(3)));
  }
}

TEST_P(FarPipelineTest, WhatAFailedSaveWasToReplaceStays) {
  std::atomic<bool> is_bad = false;
  const StoreHooks hooks = {.before = [&](StoreCall call, const std::string& name) {
    if (is_bad && call == StoreCall::kCommit) throw StorageError(name + ": 403", 403);
  }};
  SavePipeline pipeline(options(std::make_shared<WatchedStore>(memory_, hooks), 1));
  const auto save_as = [&](std::int64_t batch, std::vector<std::string> superfluous) {
    SaveJob job = far_job(batch, Replace::kOwn);
    job.remove_afterwards = std::move(superfluous);
    pipeline.submit(std::move(job));
    pipeline.wait();
  };
  save_as(1, {});
  save_as(2, {});
  is_bad = true;
  EXPECT_THROW(save_as(2, {}), StorageError);
  is_bad = false;
  save_as(3, {far_name(1)});
  EXPECT_TRUE(memory_->stat(far_name(2)));
}

TEST(FarSaveTest, WhatIsWrittenOnceMoreIsToldOfOnce) {
  int commits = 0;
  const StoreHooks loses_the_first = {.before = [&](StoreCall call, const std::string& name) {
    if (call == StoreCall::kCommit && ++commits == 1) throw StorageError(name + ": 503", 503, true);
  }};
  SavePipeline pipeline({.async = false,
                         .store = std::make_shared<WatchedStore>(memory_store(), loses_the_first),
                         .retry = at_once(2)});
  std::uint64_t written = 0;
  std::uint64_t all = 0;
  SaveJob job = far_job(1);
  job.on_progress = [&](std::uint64_t more, std::uint64_t total) {
    written += more;
    all = total;
  };
  pipeline.submit(std::move(job));
  EXPECT_GE(commits, 2);
  EXPECT_GT(all, 0U);
  EXPECT_EQ(written, all);
}

TEST(FarSaveTest, ErrorsAreThereWithoutWaiting) {
  const auto memory = memory_store();
  SavePipeline pipeline(
      {.store = std::make_shared<WatchedStore>(memory, broken_commits()), .retry = at_once(1)});
  EXPECT_NO_THROW(pipeline.throw_error());
  pipeline.submit(far_job(1));
  EXPECT_THROW(
      {
        for (;;) {
          pipeline.throw_error();
        }
      },
      StorageError);
  EXPECT_NO_THROW(pipeline.wait());
}

TEST(FarSaveTest, BehindTheDeadlineASaveIsGivenUp) {
  const auto memory = memory_store();
  constexpr auto kLong = std::chrono::hours(24);  // The pauses would take days.
  SavePipeline pipeline({.store = std::make_shared<WatchedStore>(memory, broken_commits()),
                         .retry = {.attempts = 9, .first_pause = kLong, .longest_pause = kLong}});
  pipeline.submit(far_job(1));
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  EXPECT_THAT(message_of<CancelledError>([&] { pipeline.wait_until(soon); }),
              HasSubstr("saving run/ep0-ba1-rank0.pt: the time for it has passed"));
  EXPECT_THAT(list_names(*memory, ""), IsEmpty());
}

// The second save is already under way when the first fails.
TEST(FarSaveTest, WhatAFailedSaveDidNotReplaceIsNotRemovedByTheNext) {
  for (const bool is_refused : {true, false}) {
    const auto memory = memory_store();
    save(sample_checkpoint(9), far_name(1), {.store = memory});  // Written by another job.
    std::promise<void> both;
    const std::shared_future<void> submitted = both.get_future().share();
    const auto before = [&](StoreCall call, const std::string& name) {
      if (name != far_name(1)) return;
      submitted.wait();
      if (call == StoreCall::kCommit && !is_refused) throw StorageError(name + ": 403", 403);
    };
    SavePipeline pipeline(
        {.max_pending = 3,
         .store = std::make_shared<WatchedStore>(memory, StoreHooks{.before = before}),
         .retry = at_once(1)});
    pipeline.submit(far_job(1));
    SaveJob job = far_job(2);
    job.remove_afterwards = {far_name(1)};
    pipeline.submit(std::move(job));
    both.set_value();
    EXPECT_THAT(message_of([&] { pipeline.wait(); }), HasSubstr("saving " + far_name(1)));
    EXPECT_THAT(list_names(*memory, "run"),
                ElementsAre("ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt", "latest-rank0.pt"));
    EXPECT_EQ(batch_of_sample(load(far_name(1), {.store = memory})), 9);
  }
}

// A store with `count` checkpoints. The last two checkpoints are whole. The store's pointer names
// the last one.
struct Bucket {
  explicit Bucket(std::int64_t count) : last(count) {
    for (std::int64_t batch = 1; batch < count - 1; ++batch) {
      write_until_seen(*memory,
                       {.name = far_name(batch),
                        .fill = [](ObjectWrite& out) { out.write(as_bytes("never looked into")); }},
                       {});
    }
    for (const std::int64_t batch : {count - 1, count}) {
      save(sample_checkpoint(batch), far_name(batch),
           {.info = sample_info(batch), .store = memory});
    }
    memory->move_pointer("run/latest-rank0.pt", far_name(count));
  }

  // The batch that find_latest() finds, and the number of requests that the search took.
  std::pair<std::int64_t, std::uint64_t> find() {
    const auto store = std::make_shared<WatchedStore>(memory);
    skipped.clear();
    FindOptions options{.trust_latest = true, .verify = Verify::kQuick, .store = store};
    options.on_skip = [&](const std::string& path, const std::string& why) {
      skipped.push_back(path + ": " + why);
    };
    const auto found = find_latest("run", options);
    if (!found) return {0, store->requests()};
    EXPECT_EQ(batch_of_sample(load(found->checkpoint)), found->timestamp.batch);
    return {found->timestamp.batch, store->requests()};
  }

  void damage(std::int64_t batch) {
    write_until_seen(*memory,
                     {.name = far_name(batch),
                      .fill = [](ObjectWrite& out) { out.write(as_bytes("PK\3\4, and no more")); }},
                     {});
  }

  std::shared_ptr<ObjectStore> memory = memory_store();
  std::int64_t last;
  std::vector<std::string> skipped;
};

TEST(FarSearchTest, AGoodPointerCostsTwoRequestsAmongTenThousandCheckpoints) {
  Bucket bucket(10'000);
  EXPECT_EQ(bucket.find(), std::pair(std::int64_t{10'000}, std::uint64_t{2}));
  EXPECT_THAT(bucket.skipped, IsEmpty());
}

TEST(FarSearchTest, AMissingOrBrokenPointerCostsAtMostTwenty) {
  Bucket bucket(10'000);
  bucket.memory->remove("run/latest-rank0.pt");
  auto [batch, requests] = bucket.find();
  EXPECT_EQ(batch, 10'000);
  EXPECT_LE(requests, 20U);

  bucket.memory->move_pointer("run/latest-rank0.pt", "run/ep0-ba77777-rank0.pt");
  std::tie(batch, requests) = bucket.find();
  EXPECT_EQ(batch, 10'000);
  EXPECT_LE(requests, 20U);
  EXPECT_THAT(bucket.skipped, ElementsAre(HasSubstr("ba77777")));

  bucket.memory->move_pointer("run/latest-rank0.pt", far_name(10'000));
  bucket.damage(10'000);
  std::tie(batch, requests) = bucket.find();
  EXPECT_EQ(batch, 9'999);
  EXPECT_LE(requests, 20U);
  EXPECT_THAT(bucket.skipped, ElementsAre(HasSubstr(far_name(10'000))));
}

TEST(FarLoadTest, APartCostsItsOwnBytesAndEachOfThemIsChecked) {
  static constexpr std::uint64_t kPart = 4 << 20;
  const auto memory = memory_store();
  const auto tensor = [](char fill) {
    const auto owner = std::make_shared<const std::string>(kPart, fill);
    return TensorView{.dtype = DType::kUInt8,
                      .shape = {static_cast<std::int64_t>(kPart)},
                      .strides = {1},
                      .storage = storage_of(SharedBytes{as_bytes(*owner), owner})};
  };
  save(Dict{{"a", tensor('a')}, {"b", tensor('b')}, {"c", tensor('c')}}, "x.pt", {.store = memory});
  const auto store = std::make_shared<WatchedStore>(memory);
  const Checkpoint opened = open_checkpoint("x.pt", store);
  const Value value = load(opened, {.verify = Verify::kQuick});
  std::vector<std::byte> place(kPart);
  const auto read_b = [&] {
    return opened.read({{value.at("b").as_tensor().storage, place}}, Verify::kWhatIsRead);
  };
  EXPECT_TRUE(read_b().ok());
  EXPECT_EQ(place, std::vector<std::byte>(kPart, std::byte{'b'}));
  EXPECT_LT(store->bytes_read(), kPart + (3 << 20));

  std::string bytes(as_text(read_all(*memory->open("x.pt")).view));
  for (const char letter : {'c', 'b'}) {
    bytes[bytes.find(std::string(1024, letter)) + 512] ^= 1;
    write_until_seen(
        *memory, {.name = "x.pt", .fill = [&](ObjectWrite& out) { out.write(as_bytes(bytes)); }},
        {});
    const Checkpoint damaged = open_checkpoint("x.pt", memory);
    const Value again = load(damaged, {.verify = Verify::kQuick});
    const VerifyReport report =
        damaged.read({{again.at("b").as_tensor().storage, place}}, Verify::kWhatIsRead);
    EXPECT_EQ(report.ok(), letter == 'c') << report.summary();
  }
}

TEST(FarSearchTest, AnEmptyStoreHoldsNothingAndARefusalIsNoAnswer) {
  const auto memory = memory_store();
  EXPECT_FALSE(find_latest("run", {.trust_latest = true, .store = memory}).has_value());
  for (const StoreCall call : {StoreCall::kReadPointer, StoreCall::kOpen, StoreCall::kList}) {
    Bucket bucket(3);
    if (call == StoreCall::kList) bucket.memory->remove("run/latest-rank0.pt");
    const auto store = std::make_shared<WatchedStore>(
        bucket.memory, StoreHooks{.before = [call](StoreCall now, const std::string& name) {
          if (now == call) throw StorageError(name + ": 403 Forbidden", 403);
        }});
    EXPECT_THROW(find_latest("run", {.trust_latest = true, .store = store}), StorageError);
  }
}

}  // namespace
}  // namespace cairn
