#include "storage/publish/upload_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "storage/download.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "storage/publish/own_objects.h"
#include "storage/publish/pointer_fence.h"
#include "storage/publish/publish.h"
#include "testing/message_of.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"
#include "testing/watched_store.h"
#include "tests/storage/upload_fixture.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::at_once;
using ::testing::ElementsAre;
using testing::file_of;
using testing::Gate;
using ::testing::HasSubstr;
using testing::kForever;
using testing::message_of;
using testing::object;
using testing::SimFileSystem;
using testing::StoreCall;
using testing::text_in;
using testing::upload_known;
using testing::WatchedStore;

// Fails the n-th call of a kind, once.
testing::StoreHooks::Hook nth(StoreCall call, int n, bool retryable = true) {
  const auto left = std::make_shared<std::atomic<int>>(n);
  return [=](StoreCall now, const std::string& name) {
    if (now == call && --*left == 0) throw StorageError(name + ": broken", 500, retryable);
  };
}

TEST(PublishTest, AnErrorThatMayPassIsTriedAgainSoOftenAndNoMore) {
  const auto memory = memory_store();
  WatchedStore once(memory, {.before = nth(StoreCall::kWrite, 1)});
  EXPECT_EQ(write_until_seen(once, object("a", "text"), at_once()), 4U);
  EXPECT_EQ(text_in(*memory, "a"), "text");

  WatchedStore always(memory, {.before = [](StoreCall call, const std::string&) {
                        if (call == StoreCall::kCommit) throw StorageError("no", 503, true);
                      }});
  EXPECT_THAT(message_of([&] { write_until_seen(always, object("b", "text"), at_once(4)); }),
              HasSubstr("failed 4 times"));
  EXPECT_EQ(always.calls(StoreCall::kBegin), 4U);
  EXPECT_FALSE(memory->stat("b"));

  WatchedStore forbidden(memory, {.before = nth(StoreCall::kBegin, 1, /*retryable=*/false)});
  EXPECT_THROW(write_until_seen(forbidden, object("b", "text"), at_once()), StorageError);
  EXPECT_EQ(forbidden.calls(StoreCall::kBegin), 1U);
}

TEST(PublishTest, ALostAnswerIsNoConflictWithOneself) {
  const auto memory = memory_store();
  WatchedStore store(memory, {.after = nth(StoreCall::kCommit, 1)});
  EXPECT_EQ(write_until_seen(store, object("a", "text", Replace::kNever), at_once()), 4U);
  // The bytes are the same, but none of our attempts failed, so the object is another job's.
  EXPECT_THROW(write_until_seen(store, object("a", "text", Replace::kNever), at_once()),
               AlreadyExistsError);
}

TEST(PublishTest, SomebodyElsesObjectIsAConflictAlsoBehindALostAnswer) {
  const auto memory = memory_store();
  // Another job takes the name after our first attempt has failed.
  WatchedStore store(memory,
                     {.before = [&, failed = false](StoreCall call, const std::string&) mutable {
                       if (call != StoreCall::kCommit || std::exchange(failed, true)) return;
                       write_until_seen(*memory, object("a", "his."), at_once());
                       throw StorageError("a: broken", 500, true);
                     }});
  EXPECT_THROW(write_until_seen(store, object("a", "mine", Replace::kNever), at_once()),
               AlreadyExistsError);
  EXPECT_EQ(text_in(*memory, "a"), "his.");
}

TEST(PublishTest, WhatDoesNotHaveTheSizeThatWasSentIsSentAgain) {
  const auto memory = memory_store();
  WatchedStore store(memory,
                     {.after = [&, torn = false](StoreCall call, const std::string& name) mutable {
                       if (call != StoreCall::kCommit || std::exchange(torn, true)) return;
                       // A store that wrongly reports success.
                       const auto half = memory->begin(name);
                       half->write(as_bytes("te"));
                       half->commit();
                     }});
  write_until_seen(store, object("a", "text", Replace::kNever), at_once());
  EXPECT_EQ(text_in(*memory, "a"), "text");
}

TEST(PublishTest, SomebodyElsesObjectIsNotTakenForOursThatIsTorn) {
  const auto memory = memory_store();
  WatchedStore store(memory, {.after = [&](StoreCall call, const std::string& name) {
                       if (call == StoreCall::kCommit)
                         write_until_seen(*memory, object(name, "his"), at_once());
                     }});
  EXPECT_THROW(write_until_seen(store, object("a", "mine", Replace::kNever), at_once()),
               AlreadyExistsError);
  EXPECT_EQ(text_in(*memory, "a"), "his");
  write_until_seen(*memory, object("b", "old"), at_once());
  OwnObjects own(memory);
  own.know("b", memory->stat("b")->version);
  ObjectToPublish mine = object("b", "mine", Replace::kOwn);
  mine.own = &own;
  EXPECT_THROW(write_until_seen(store, mine, at_once()), AlreadyExistsError);
  EXPECT_EQ(text_in(*memory, "b"), "his");
}

TEST(PublishTest, WhatIsLostKeepsTheConditionOfTheNextAttempt) {
  const auto memory = memory_store();
  int commits = 0;
  WatchedStore store(memory, {.before =
                                  [&](StoreCall call, const std::string& name) {
                                    if (call != StoreCall::kCommit || commits != 1) return;
                                    write_until_seen(*memory, object(name, "his"), at_once());
                                  },
                              .after =
                                  [&](StoreCall call, const std::string& name) {
                                    if (call == StoreCall::kCommit && ++commits == 1) {
                                      memory->remove(name);
                                    }
                                  }});
  EXPECT_THROW(write_until_seen(store, object("a", "mine", Replace::kNever), at_once()),
               AlreadyExistsError);
  EXPECT_EQ(text_in(*memory, "a"), "his");
}

TEST(PublishTest, WriteAccessIsCheckedAndLeavesNothing) {
  const auto memory = memory_store();
  check_write_access(*memory, "run", at_once());
  EXPECT_FALSE(memory->stat("run"));
  WatchedStore store(memory, {.before = nth(StoreCall::kCommit, 1, /*retryable=*/false)});
  EXPECT_THAT(message_of([&] { check_write_access(store, "run", at_once()); }),
              HasSubstr("before training begins"));
}

TEST(PublishTest, ChecksOfWriteAccessByJobsThatStartAtOnceAreNoneOfEachOthersBusiness) {
  const auto memory = memory_store();
  // Another job checks write access, and cleans up, between this job's write and its check of it.
  WatchedStore store(memory,
                     {.after = [&, is_done = false](StoreCall call, const std::string&) mutable {
                       if (call != StoreCall::kCommit || std::exchange(is_done, true)) return;
                       check_write_access(*memory, "run", at_once());
                     }});
  check_write_access(store, "run", at_once());
  EXPECT_EQ(store.calls(StoreCall::kCommit), 1U);  // the object of the first attempt was found
  EXPECT_FALSE(memory->stat("run"));
}

TEST(PointerFenceTest, TheSecondJobOfOneRunIsStopped) {
  const auto store = memory_store();
  store->move_pointer("latest", "ep0.pt");
  PointerFence one(store, "latest");
  PointerFence other(store, "latest");
  one.look(at_once());
  other.look(at_once());
  one.move("ep1.pt", at_once());
  EXPECT_THAT(message_of([&] { other.move("ep2.pt", at_once()); }),
              AllOf(HasSubstr("another job moves latest"), HasSubstr("at ep0.pt"),
                    HasSubstr("at ep1.pt"), HasSubstr("run names of their own")));
  EXPECT_EQ(store->read_pointer("latest")->target, "ep1.pt");
  one.move("ep2.pt", at_once());
  one.move("ep3.pt", at_once());
  EXPECT_EQ(store->read_pointer("latest")->target, "ep3.pt");
}

// Two jobs both found a pointer that names nothing.
TEST(PointerFenceTest, ABrokenPointerIsMovedByOneJobAlone) {
  SimFileSystem disk;
  const auto store = local_store(disk);
  write_until_seen(*store, object("/run/latest.symlink", ""), at_once());
  PointerFence one(store, "/run/latest");
  PointerFence other(store, "/run/latest");
  one.look(at_once());
  other.look(at_once());
  one.move("/run/ep1.pt", at_once());
  EXPECT_THAT(message_of([&] { other.move("/run/ep2.pt", at_once()); }),
              AllOf(HasSubstr("this one last saw it broken"), HasSubstr("at /run/ep1.pt")));
}

TEST(PointerFenceTest, OfTwoThatBeginWithNothingOneMovesIt) {
  const auto store = memory_store();
  PointerFence one(store, "latest");
  PointerFence other(store, "latest");
  one.look(at_once());
  other.look(at_once());
  one.move("a.pt", at_once());
  EXPECT_THROW(other.move("b.pt", at_once()), AlreadyExistsError);
}

// For a run whose checkpoints all have the same name.
TEST(PointerFenceTest, AMoveToTheSameTargetIsSeenByItsVersion) {
  const auto store = memory_store();
  PointerFence one(store, "latest");
  one.look(at_once());
  one.move("ckpt.pt", at_once());
  one.move("ckpt.pt", at_once());
  PointerFence other(store, "latest");
  other.look(at_once());
  other.move("ckpt.pt", at_once());
  EXPECT_THROW(one.check(at_once()), AlreadyExistsError);
  EXPECT_THROW(one.move("ckpt.pt", at_once()), AlreadyExistsError);
  other.move("ckpt.pt", at_once());
}

TEST(PointerFenceTest, AMoveInTheSameInstantIsSeenByTheCondition) {
  const auto memory = memory_store();
  const auto store = std::make_shared<WatchedStore>(
      memory, testing::StoreHooks{.before = [&](StoreCall call, const std::string&) {
        if (call == StoreCall::kMovePointer) memory->move_pointer("latest", "theirs.pt");
      }});
  PointerFence fence(store, "latest");
  EXPECT_THROW(fence.move("mine.pt", at_once()), AlreadyExistsError);
  EXPECT_EQ(memory->read_pointer("latest")->target, "theirs.pt");
}

TEST(PointerFenceTest, ALostAnswerIsFoundOut) {
  const auto memory = memory_store();
  const auto store = std::make_shared<WatchedStore>(
      memory, testing::StoreHooks{.after = nth(StoreCall::kMovePointer, 1)});
  PointerFence fence(store, "latest");
  fence.move("a.pt", at_once());
  fence.move("b.pt", at_once());
  EXPECT_EQ(memory->read_pointer("latest")->target, "b.pt");
}

TEST(PointerFencesTest, OfPointersThatEachSaveHasForItselfTheOldestAreForgotten) {
  PointerFences fences(memory_store());
  const auto always = fences.find("run/latest");
  for (int i = 0; i < 10'000; ++i) {
    fences.find("run/latest-" + std::to_string(i));
    EXPECT_EQ(fences.find("run/latest"), always);
    ASSERT_LE(fences.size(), PointerFences::kMax);
  }
}

TEST(UploadQueueTest, UploadsInTheBackgroundThenPointsThenRemovesThenReports) {
  const auto store = memory_store();
  std::vector<std::string> removed;
  UploadQueue queue(store, {.threads = 3});
  queue.submit({.name = "run/1.pt", .file = file_of("one"), .pointer = "run/latest"});
  ASSERT_TRUE(queue.wait(kForever));
  queue.submit({.name = "run/2.pt",
                .file = file_of("two"),
                .pointer = "run/latest",
                .remove_afterwards = {"run/1.pt", "run/2.pt", "run/0.pt"},
                .on_done = [&](const auto& names) { removed = names; }});
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  EXPECT_THAT(list_names(*store, "run"), ElementsAre("2.pt", "latest"));
  EXPECT_EQ(text_in(*store, "run/latest"), "two");
  EXPECT_THAT(removed, ElementsAre("run/1.pt"));
  EXPECT_THROW(queue.submit({.name = "late", .file = file_of("")}), UsageError);
}

TEST(UploadQueueTest, ThePointerIsNotTouchedWhenTheObjectDoesNotArrive) {
  const auto memory = memory_store();
  memory->move_pointer("latest", "old");
  const auto store = std::make_shared<WatchedStore>(
      memory, testing::StoreHooks{.before = [](StoreCall call, const std::string&) {
        if (call == StoreCall::kCommit) throw StorageError("no", 503, true);
      }});
  UploadQueue queue(store, {.retry = at_once()});
  bool reported = false;
  queue.submit({.name = "new",
                .file = file_of("new"),
                .pointer = "latest",
                .remove_afterwards = {"old"},
                .on_done = [&](const auto&) { reported = true; }});
  EXPECT_THAT(queue.stop(kForever), ElementsAre("new"));
  EXPECT_THROW(queue.throw_error(), StorageError);
  EXPECT_NO_THROW(queue.throw_error());  // the error was already thrown
  EXPECT_EQ(memory->read_pointer("latest")->target, "old");
  EXPECT_EQ(store->calls(StoreCall::kRemove), 0U);
  EXPECT_FALSE(reported);
}

TEST(UploadQueueTest, ThePointerNeverGoesBack) {
  const auto memory = memory_store();
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("1.pt"));
  UploadQueue queue(store, {.threads = 2});
  std::promise<void> second_is_done;
  queue.submit({.name = "1.pt", .file = file_of("one"), .pointer = "latest"});
  gate.wait_for_arrival();
  queue.submit(
      {.name = "2.pt", .file = file_of("two"), .pointer = "latest", .on_done = [&](const auto&) {
         second_is_done.set_value();
       }});
  second_is_done.get_future().wait();
  gate.open();
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  EXPECT_EQ(text_in(*memory, "1.pt"), "one");
  EXPECT_EQ(memory->read_pointer("latest")->target, "2.pt");
}

TEST(UploadQueueTest, OfOneNameTheLastContentWins) {
  const auto memory = memory_store();
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("a"));
  UploadQueue queue(store, {.threads = 4});
  queue.submit({.name = "a", .file = file_of("0"), .replace = Replace::kAll});
  gate.wait_for_arrival();
  for (int i = 1; i <= 10; ++i) {
    queue.submit({.name = "a", .file = file_of(std::to_string(i)), .replace = Replace::kAll});
  }
  EXPECT_THAT(message_of([&] { queue.submit({.name = "a", .file = file_of("x")}); }),
              HasSubstr("was already enqueued to be uploaded, but overwrite=False"));
  gate.open();
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  EXPECT_EQ(text_in(*memory, "a"), "10");
  // The first upload, and the newest of the uploads that waited.
  EXPECT_EQ(store->calls(StoreCall::kCommit), 2U);
}

TEST(UploadQueueTest, AFullQueueMakesSubmitWait) {
  const auto memory = memory_store();
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("0"));
  UploadQueue queue(store, {.most_waiting = 1});
  queue.submit({.name = "0", .file = file_of("0")});
  gate.wait_for_arrival();
  queue.submit({.name = "1", .file = file_of("1")});
  auto third =
      std::async(std::launch::async, [&] { queue.submit({.name = "2", .file = file_of("2")}); });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gate.open();
  third.get();
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  EXPECT_THAT(list_names(*memory, ""), ElementsAre("0", "1", "2"));
}

TEST(UploadQueueTest, BehindTheDeadlineWhatIsLeftIsGivenUpAndNamed) {
  const auto memory = memory_store();
  const auto store = std::make_shared<WatchedStore>(
      memory, testing::StoreHooks{.before = [](StoreCall call, const std::string&) {
        if (call == StoreCall::kCommit) throw StorageError("no", 503, true);
      }});
  // The pauses between the attempts of an upload would take a day.
  constexpr auto kLong = std::chrono::hours(24);
  UploadQueue queue(store,
                    {.retry = {.attempts = 9, .first_pause = kLong, .longest_pause = kLong}});
  queue.submit({.name = "a", .file = file_of("a")});
  queue.submit({.name = "b", .file = file_of("b")});
  EXPECT_THAT(queue.stop(UploadQueue::Clock::now() + std::chrono::milliseconds(5)),
              ElementsAre("a", "b"));
  EXPECT_THAT(list_names(*memory, ""), ElementsAre());
}

TEST(UploadQueueTest, OnlyWhatIsKnownIsOverwritten) {
  const auto store = memory_store();
  for (const char* name : {"found", "changed"}) {
    write_until_seen(*store, object(name, "before"), at_once());
  }
  UploadQueue queue(store, {.retry = at_once()});
  for (const char* name : {"found", "changed"}) {
    queue.publisher().own().know(name, store->stat(name)->version);
  }
  for (const char* name : {"found", "new"}) {
    for (const char* text : {"1", "2"}) {
      upload_known(queue, name, text);
    }
  }
  queue.throw_error();
  EXPECT_EQ(text_in(*store, "found") + text_in(*store, "new"), "22");
  for (const char* name : {"changed", "new", "unknown"}) {
    write_until_seen(*store, object(name, "another job's"), at_once());
    upload_known(queue, name, "mine");
    EXPECT_THROW(queue.throw_error(), AlreadyExistsError) << name;
    EXPECT_EQ(text_in(*store, name), "another job's");
  }
}

TEST(UploadQueueTest, KnowsNoMoreOfALongRunThanOfAShortOne) {
  UploadQueue queue(memory_store(), {.retry = at_once()});
  std::size_t most = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "run/" + std::to_string(i);
    queue.submit({.name = name,
                  .file = file_of("x"),
                  .replace = Replace::kOwn,
                  .is_retired = [name](const std::string& other) {
                    return other != name && other != "run/constant";
                  }});
    queue.submit({.name = "run/constant", .file = file_of("x"), .replace = Replace::kOwn});
    most = std::max(most, queue.publisher().own().size());
  }
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  EXPECT_LE(most, 64U);
}

// Two uploads of one name wait for room: the later one must find the earlier one, as if it had been
// submitted only then.
TEST(UploadQueueTest, WhatWaitsForRoomLooksAgainWhenThereIsSome) {
  for (const bool overwrite : {true, false}) {
    const auto memory = memory_store();
    Gate first;
    Gate second;
    const auto store = std::make_shared<WatchedStore>(
        memory, testing::StoreHooks{
                    .before = [one = first.hooks("0").before, other = second.hooks("1").before](
                                  StoreCall call, const std::string& name) {
                      one(call, name);
                      other(call, name);
                    }});
    UploadQueue queue(store, {.most_waiting = 2});
    for (const char* name : {"0", "1", "2"}) {
      queue.submit({.name = name, .file = file_of(name)});
      if (name == std::string("0")) first.wait_for_arrival();
    }
    const auto submit = [&queue, overwrite] {
      return message_of([&] {
        queue.submit({.name = "3", .file = file_of("3"), .replace = replace_if(overwrite)});
      });
    };
    auto one = std::async(std::launch::async, submit);
    auto other = std::async(std::launch::async, submit);
    for (auto* waiting : {&one, &other}) {
      EXPECT_EQ(waiting->wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    }
    first.open();
    second.wait_for_arrival();  // now there is room for one of the two
    for (auto* waiting : {&one, &other}) {
      EXPECT_EQ(waiting->wait_for(std::chrono::seconds(20)), std::future_status::ready);
    }
    second.open();
    EXPECT_EQ((one.get() + other.get()).find("already enqueued") == std::string::npos, overwrite);
    EXPECT_THAT(queue.stop(kForever), ElementsAre());
    queue.throw_error();
    EXPECT_EQ(text_in(*memory, "3"), "3");
  }
}

TEST(UploadQueueTest, WhatWaitsForRoomIsRefusedWhenUploadingEnds) {
  const auto memory = memory_store();
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("0"));
  UploadQueue queue(store, {.most_waiting = 1});
  queue.submit({.name = "0", .file = file_of("0")});
  gate.wait_for_arrival();
  queue.submit({.name = "1", .file = file_of("1")});
  auto third = std::async(std::launch::async, [&] {
    return message_of<UsageError>([&] { queue.submit({.name = "2", .file = file_of("2")}); });
  });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  auto stopped = std::async(std::launch::async, [&] { return queue.stop(kForever); });
  EXPECT_THAT(third.get(), HasSubstr("uploading has ended already"));
  gate.open();
  EXPECT_THAT(stopped.get(), ElementsAre());
  EXPECT_FALSE(memory->stat("2"));
}

TEST(UploadQueueTest, WhatAnUploadMadeSuperfluousGoesAlsoWhenANewerOneTakesItsPlace) {
  const auto memory = memory_store();
  write_until_seen(*memory, object("old", "old"), at_once());
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("0"));
  UploadQueue queue(store, {});
  queue.submit({.name = "0", .file = file_of("0")});
  gate.wait_for_arrival();
  queue.submit(
      {.name = "1", .file = file_of("1"), .replace = Replace::kAll, .remove_afterwards = {"old"}});
  queue.submit({.name = "1", .file = file_of("2"), .replace = Replace::kAll});
  gate.open();
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  EXPECT_THAT(list_names(*memory, ""), ElementsAre("0", "1"));
}

TEST(UploadQueueTest, OneThatCannotBeRemovedCostsTheOthersNothing) {
  const auto memory = memory_store();
  for (const char* name : {"1", "2", "3"}) {
    write_until_seen(*memory, object(name, name), at_once());
  }
  const auto store = std::make_shared<WatchedStore>(
      memory, testing::StoreHooks{.before = [](StoreCall call, const std::string& name) {
        if (call == StoreCall::kRemove && name != "3") throw StorageError(name + ": 403", 403);
      }});
  UploadQueue queue(store, {.retry = at_once()});
  bool reported = false;
  queue.submit({.name = "4",
                .file = file_of("4"),
                .remove_afterwards = {"1", "2", "3"},
                .on_done = [&](const auto&) { reported = true; }});
  EXPECT_THAT(queue.stop(kForever), ElementsAre("4"));
  EXPECT_THAT(message_of<StorageError>([&] { queue.throw_error(); }),
              AllOf(HasSubstr("1: 403"), HasSubstr("cannot remove an older one")));
  EXPECT_THAT(list_names(*memory, ""), ElementsAre("1", "2", "4"));
  EXPECT_FALSE(reported);
}

TEST(UploadQueueTest, NumbersBelowOneAreRefused) {
  EXPECT_THROW(UploadQueue(memory_store(), {.threads = 0}), UsageError);
  EXPECT_THROW(UploadQueue(memory_store(), {.retry = {.attempts = 0}}), UsageError);
}

// A day on a bad network: 1,000 uploads and 1,000 downloads. A fifth of all requests fail, half of
// them after the store has done what they asked for.
TEST(UploadQueueTest, AThousandUploadsAndDownloadsAtAFaultRateOfAFifth) {
  constexpr int kUploads = 1000;
  constexpr int kAttempts = 12;
  const auto memory = memory_store();
  const auto store =
      std::make_shared<WatchedStore>(memory, testing::random_faults(0.2, /*seed=*/20));
  const auto content = [](int i) {
    return std::string(static_cast<std::size_t>(i * 37 % 4096), static_cast<char>('a' + i % 26));
  };
  std::map<int, bool> acknowledged;
  UploadQueue queue(store, {.retry = at_once(kAttempts)});
  for (int i = 0; i < kUploads; ++i) {
    queue.submit({.name = "run/" + std::to_string(i),
                  .file = file_of(content(i)),
                  .pointer = "run/latest",
                  .on_done = [&acknowledged, i](const auto&) { acknowledged[i] = true; }});
  }
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  ASSERT_EQ(acknowledged.size(), static_cast<std::size_t>(kUploads));
  EXPECT_EQ(memory->read_pointer("run/latest")->target, "run/" + std::to_string(kUploads - 1));
  EXPECT_EQ(list_names(*memory, "run").size(), kUploads + 1U);  // nothing else is left

  const testing::TempFolder folder;
  const std::string path = folder.path() + "/file";
  for (int i = 0; i < kUploads; ++i) {
    download(*store, "run/" + std::to_string(i), path,
             {.overwrite = true, .retry = at_once(kAttempts), .block_bytes = 512});
    ASSERT_EQ(testing::read_file(path), content(i)) << i;
  }
  EXPECT_LT(store->requests(), 10U * kUploads * 2);
}

TEST(DownloadTest, FollowsPointersAndReportsItsProgress) {
  const auto store = memory_store();
  write_until_seen(*store, object("a", std::string(1000, 'a')), at_once());
  store->move_pointer("latest", "a");
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/deep/file";
  std::vector<std::uint64_t> steps;
  download(*store, "latest", path, {.block_bytes = 400, .on_progress = [&](auto done, auto all) {
                                      steps.push_back(done);
                                      EXPECT_EQ(all, 1000U);
                                    }});
  EXPECT_THAT(steps, ElementsAre(400U, 800U, 1000U));
  EXPECT_EQ(testing::read_file(path).size(), 1000U);
  EXPECT_THROW(download(*store, "a", path), AlreadyExistsError);
  EXPECT_THROW(download(*store, "b", path, {.overwrite = true}), NotFoundError);
  EXPECT_EQ(testing::read_file(path).size(), 1000U);
}

}  // namespace
}  // namespace cairn
