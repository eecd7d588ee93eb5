// Names that are uploaded again, and names that become superfluous in an unusual order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cairn/error.h"

#include "io/threads/cancellation.h"
#include "storage/listing.h"
#include "storage/publish/own_objects.h"
#include "testing/message_of.h"
#include "testing/plain_store.h"
#include "testing/watched_store.h"
#include "tests/storage/upload_fixture.h"

namespace cairn {
namespace {

using testing::at_once;
using ::testing::ElementsAre;
using testing::file_of;
using testing::Gate;
using ::testing::HasSubstr;
using testing::kForever;
using testing::message_of;
using testing::object;
using testing::StoreCall;
using testing::text_in;
using testing::upload_known;
using testing::WatchedStore;

// Training that starts again from an earlier batch writes the same names again (fit(reset_time)).
TEST(UploadQueueTest, WhatHasPassedIsStillItsOwnAndNobodyElses) {
  for (const bool is_versioned : {true, false}) {
    const auto store = std::make_shared<testing::PlainStore>(memory_store(), is_versioned);
    write_until_seen(*store, object("run/found", "before"), at_once());
    UploadQueue queue(store, {.retry = at_once()});
    queue.publisher().own().know("run/found", store->stat("run/found", /*follow=*/true)->version);
    const auto upload = [&](const std::string& name, const std::string& text) {
      upload_known(queue, name, text, [name](const std::string& other) { return other != name; });
    };
    for (int i = 0; i < 100; ++i) {
      upload("run/" + std::to_string(i), "1");
    }
    EXPECT_LE(queue.publisher().own().size(), 32U);
    write_until_seen(*store, object("run/7", "another job's"), at_once());
    for (const char* name : {"run/0", "run/1", "run/found", "run/0"}) {
      upload(name, "2nd");
      ASSERT_NO_THROW(queue.throw_error()) << name;
      EXPECT_EQ(text_in(*store, name), "2nd");
    }
    upload("run/7", "2nd");
    EXPECT_THAT(message_of<AlreadyExistsError>([&] { queue.throw_error(); }),
                HasSubstr("another job writes it"));
    EXPECT_EQ(text_in(*store, "run/7"), "another job's");
    store->remove("run/2");
    upload("run/2", "2nd");
    ASSERT_NO_THROW(queue.throw_error());
    EXPECT_EQ(text_in(*store, "run/2"), "2nd");
  }
}

TEST(UploadQueueTest, WhatIsSubmittedOnceMoreIsNotRemovedForWhatWentBefore) {
  const auto memory = memory_store();
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("1"));
  UploadQueue queue(store, {.threads = 2});
  queue.submit({.name = "9", .file = file_of("old")});
  ASSERT_TRUE(queue.wait(kForever));
  queue.submit({.name = "1", .file = file_of("one"), .remove_afterwards = {"9"}});
  gate.wait_for_arrival();
  std::promise<void> is_done;
  queue.submit(
      {.name = "9", .file = file_of("new"), .replace = Replace::kAll, .on_done = [&](const auto&) {
         is_done.set_value();
       }});
  is_done.get_future().wait();
  gate.open();
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  EXPECT_EQ(text_in(*memory, "9"), "new");
}

TEST(UploadQueueTest, WhatIsSuperfluousBeforeItArrivesIsRemovedWhenItHas) {
  const auto memory = memory_store();
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(memory, gate.hooks("1"));
  UploadQueue queue(store, {.threads = 2});
  std::vector<std::string> removed;
  std::promise<void> second_is_done;
  queue.submit(
      {.name = "1", .file = file_of("one"), .pointer = "latest", .on_done = [&](const auto& names) {
         removed = names;
       }});
  gate.wait_for_arrival();
  queue.submit({.name = "2",
                .file = file_of("two"),
                .pointer = "latest",
                .remove_afterwards = {"1"},
                .on_done = [&](const auto&) { second_is_done.set_value(); }});
  second_is_done.get_future().wait();
  gate.open();
  EXPECT_THAT(queue.stop(kForever), ElementsAre());
  queue.throw_error();
  EXPECT_THAT(removed, ElementsAre("1"));
  EXPECT_THAT(list_names(*memory, ""), ElementsAre("2", "latest"));
}

// An object that a later upload was to remove is removed even when an earlier upload of that name
// fails.
TEST(UploadQueueTest, WhatIsSuperfluousBeforeItFailsIsRemovedAllTheSame) {
  const auto memory = memory_store();
  write_until_seen(*memory, object("1", "of before"), at_once());
  Gate gate;
  const auto store = std::make_shared<WatchedStore>(
      memory, testing::StoreHooks{
                  .before = [hold = gate.hooks("1").before](StoreCall call, const auto& name) {
                    hold(call, name);
                    if (call == StoreCall::kCommit && name == "1") throw StorageError("no", 403);
                  }});
  UploadQueue queue(store, {.threads = 2});
  std::promise<void> second_is_done;
  queue.submit({.name = "1",
                .file = file_of("one"),
                .replace = Replace::kAll,
                .remove_afterwards = {"other"}});
  write_until_seen(*memory, object("other", "that stays"), at_once());
  gate.wait_for_arrival();
  queue.submit({.name = "2",
                .file = file_of("two"),
                .remove_afterwards = {"1"},
                .on_done = [&](const auto&) { second_is_done.set_value(); }});
  second_is_done.get_future().wait();
  gate.open();
  EXPECT_THAT(queue.stop(kForever), ElementsAre("1"));
  EXPECT_THAT(message_of<StorageError>([&] { queue.throw_error(); }), HasSubstr("uploading 1"));
  EXPECT_THAT(list_names(*memory, ""), ElementsAre("2", "other"));
}

// --- Only this job's objects are removed -------------------------------------------------------

TEST(UploadQueueTest, WhatWasRefusedAsAnotherJobsIsNotRemovedForALaterOne) {
  for (const bool only_known : {false, true}) {
    const auto store = memory_store();
    write_until_seen(*store, object("1", "his"), at_once());
    UploadQueue queue(store, {.retry = at_once()});
    const auto upload = [&](const std::string& name, std::vector<std::string> superfluous) {
      queue.submit({.name = name,
                    .file = file_of("mine"),
                    .replace = only_known ? Replace::kOwn : Replace::kNever,
                    .remove_afterwards = std::move(superfluous)});
      EXPECT_TRUE(queue.wait(kForever));
    };
    upload("1", {});
    upload("2", {"1"});
    EXPECT_THROW(queue.throw_error(), AlreadyExistsError);
    ASSERT_TRUE(store->stat("1")) << only_known;
    EXPECT_EQ(text_in(*store, "1"), "his");
    store->remove("1");
    upload("1", {});
    upload("3", {"1"});
    queue.throw_error();
    EXPECT_THAT(list_names(*store, ""), ElementsAre("2", "3")) << "that was its own";
  }
}

TEST(UploadQueueTest, BehindAFailureOnlyWhatIsItsOwnIsRemovedForALaterOne) {
  for (const bool is_versioned : {true, false}) {
    for (const bool is_own : {true, false}) {
      const auto memory = memory_store();
      std::atomic<bool> is_gone = false;
      const auto store = std::make_shared<WatchedStore>(
          std::make_shared<testing::PlainStore>(memory, is_versioned),
          testing::StoreHooks{.before = [&](StoreCall, const auto& name) {
            if (is_gone && name == "1") throw StorageError("403", 403);
          }});
      UploadQueue queue(store, {.retry = at_once()});
      upload_known(queue, "1", "mine");
      if (!is_own) write_until_seen(*memory, object("1", "his"), at_once());
      is_gone = true;
      upload_known(queue, "1", "again");
      is_gone = false;
      EXPECT_THROW(queue.throw_error(), StorageError);
      queue.submit({.name = "2", .file = file_of("two"), .remove_afterwards = {"1"}});
      EXPECT_THAT(queue.stop(kForever), ElementsAre("1"));
      EXPECT_EQ(memory->stat("1").has_value(), !is_own) << is_versioned;
    }
  }
}

// Uploads "1", and holds it before its commit. Meanwhile uploads "2", which makes "1" superfluous,
// then calls `meanwhile`, and lets "1" continue.
class SuperfluousOnItsWay : public ::testing::Test {
 protected:
  void upload(Upload first, const std::function<void()>& meanwhile) {
    queue_.submit(std::move(first));
    gate_.wait_for_arrival();
    std::promise<void> second_is_done;
    queue_.submit({.name = "2",
                   .file = file_of("two"),
                   .remove_afterwards = {"1"},
                   .on_done = [&](const auto&) { second_is_done.set_value(); }});
    second_is_done.get_future().wait();
    meanwhile();
    gate_.open();
    EXPECT_THAT(queue_.stop(kForever), ElementsAre("1"));
  }

  const std::shared_ptr<ObjectStore> memory_ = memory_store();
  std::atomic<bool> fails_ = false;
  Gate gate_;
  UploadQueue queue_{std::make_shared<WatchedStore>(
                         memory_, testing::StoreHooks{.before =
                                                          [this, hold = gate_.hooks("1").before](
                                                              StoreCall call, const auto& name) {
                                                            hold(call, name);
                                                            const bool is_held =
                                                                call == StoreCall::kCommit ||
                                                                call == StoreCall::kRemove;
                                                            if (fails_ && is_held && name == "1")
                                                              throw StorageError("no", 403);
                                                          }}),
                     {.threads = 2, .retry = at_once()}};
};

TEST_F(SuperfluousOnItsWay, AnotherJobsStaysWhenItsWriteFails) {
  upload({.name = "1", .file = file_of("mine")}, [&] {
    write_until_seen(*memory_, object("1", "his"), at_once());
    fails_ = true;
  });
  EXPECT_EQ(text_in(*memory_, "1"), "his");
  const std::string message = message_of<StorageError>([&] { queue_.throw_error(); });
  EXPECT_EQ(message.find("superfluous"), std::string::npos) << "nothing was to be removed";
}

TEST_F(SuperfluousOnItsWay, ItsOwnGoesWhenOnlyItsPointerIsAnotherJobs) {
  upload({.name = "1", .file = file_of("mine"), .pointer = "latest"},
         [&] { memory_->move_pointer("latest", "his"); });
  EXPECT_THROW(queue_.throw_error(), AlreadyExistsError);
  EXPECT_FALSE(memory_->stat("1"));
}

TEST_F(SuperfluousOnItsWay, TheErrorOfTheUploadIsTheFirst) {
  upload({.name = "1", .file = file_of("mine"), .replace = Replace::kAll}, [&] { fails_ = true; });
  EXPECT_THAT(message_of<StorageError>([&] { queue_.throw_error(); }),
              HasSubstr("before that: uploading 1"));
}

// The abandoned write may have succeeded, so the object there is not certainly another job's.
TEST(PublishTest, AWriteThatWasGivenUpIsNamedWhenItIsInTheWay) {
  for (const bool is_versioned : {true, false}) {
    const auto memory = memory_store();
    Cancellation cancellation("the time is over");
    const auto store = std::make_shared<WatchedStore>(
        std::make_shared<testing::PlainStore>(memory, is_versioned),
        testing::StoreHooks{.before =
                                [](StoreCall call, const std::string& name) {
                                  if (call == StoreCall::kWrite && name == "unsent") {
                                    check_cancelled_here();
                                  }
                                },
                            .after =
                                [](StoreCall call, const std::string&) {
                                  if (call == StoreCall::kCommit) check_cancelled_here();
                                }});
    OwnObjects own(store);
    const auto write = [&](const std::string& name, const std::string& text) {
      ObjectToPublish what = object(name, text);
      what.own = &own;
      what.replace = Replace::kOwn;
      write_until_seen(*store, what, at_once());
    };
    write("known", "before");
    cancellation.cancel();
    for (const char* name : {"known", "new", "unsent"}) {
      const CancelScope scope(&cancellation);
      EXPECT_THROW(write(name, "given up"), CancelledError);
    }
    EXPECT_FALSE(own.knows("unsent")) << "nothing of it can be there";
    for (const char* name : {"known", "new"}) {
      EXPECT_THAT(message_of<AlreadyExistsError>([&] { write(name, "next"); }),
                  HasSubstr("was given up (a deadline passed)"));
      EXPECT_EQ(text_in(*memory, name), "given up");
      memory->remove(name);
      write(name, "next");
      write_until_seen(*memory, object(name, "his"), at_once());
      EXPECT_EQ(message_of<AlreadyExistsError>([&] { write(name, "last"); }).find("given up"),
                std::string::npos)
          << "that is known again";
    }
  }
}

// --- After a failure ---------------------------------------------------------------------------

// A store that can be made to fail, with or without versions.
class FailingUploads : public ::testing::TestWithParam<bool> {
 protected:
  // kDone: the write succeeds, and the store then stops answering.
  enum class Fails : std::uint8_t { kNot, kUndone, kDone };

  void hook_before(StoreCall call) {
    if (fails_ == Fails::kUndone && call == StoreCall::kCommit) fail();
    if (is_gone_) fail();
  }
  void hook_after(StoreCall call) {
    if (fails_ != Fails::kDone || call != StoreCall::kCommit) return;
    is_gone_ = true;
    fail();
  }
  [[noreturn]] static void fail() { throw StorageError("503", 503, /*retryable=*/true); }

  // The result of the upload as the queue reports it, or the text that was stored.
  std::string upload(const std::string& text, Fails fails = Fails::kNot) {
    fails_ = fails;
    upload_known(queue_, "ckpt", text);
    fails_ = Fails::kNot;
    is_gone_ = false;
    try {
      queue_.throw_error();
    } catch (const AlreadyExistsError&) {
      return "another job's";
    } catch (const StorageError&) {
      return "failed";
    }
    return text_in(*memory_, "ckpt");
  }
  void other_job_writes() { write_until_seen(*memory_, object("ckpt", "his"), at_once()); }

  const std::shared_ptr<ObjectStore> memory_ = memory_store();
  std::atomic<Fails> fails_ = Fails::kNot;
  std::atomic<bool> is_gone_ = false;
  UploadQueue queue_{
      std::make_shared<WatchedStore>(
          std::make_shared<testing::PlainStore>(memory_, GetParam()),
          testing::StoreHooks{.before = [this](StoreCall call, const auto&) { hook_before(call); },
                              .after = [this](StoreCall call, const auto&) { hook_after(call); }}),
      {.retry = at_once()}};
};

INSTANTIATE_TEST_SUITE_P(Stores, FailingUploads, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Versions" : "NoVersions"; });

TEST_P(FailingUploads, WhatAnotherJobWroteMeanwhileIsNotReplaced) {
  EXPECT_EQ(upload("one"), "one");
  EXPECT_EQ(upload("two", Fails::kUndone), "failed");
  other_job_writes();
  EXPECT_EQ(upload("try"), "another job's");  // the failed text had the same length
  EXPECT_EQ(text_in(*memory_, "ckpt"), "his");
}

TEST_P(FailingUploads, WhatAnotherJobWroteInPlaceOfAFirstOneIsNotReplaced) {
  EXPECT_EQ(upload("one", Fails::kUndone), "failed");
  other_job_writes();
  EXPECT_EQ(upload("two"), "another job's");
  EXPECT_EQ(text_in(*memory_, "ckpt"), "his");
}

TEST_P(FailingUploads, WhatWasNotWrittenCostsTheNextNothing) {
  EXPECT_EQ(upload("one"), "one");
  EXPECT_EQ(upload("two", Fails::kUndone), "failed");
  EXPECT_EQ(upload("three"), "three");
}

TEST_P(FailingUploads, WhatWasWrittenWithoutAnAnswerIsKnownByItsBytes) {
  EXPECT_EQ(upload("first", Fails::kDone), "failed");
  EXPECT_EQ(text_in(*memory_, "ckpt"), "first");
  EXPECT_EQ(upload("two", Fails::kDone), "failed");
  EXPECT_EQ(upload("3", Fails::kUndone), "failed");
  EXPECT_EQ(text_in(*memory_, "ckpt"), "two");
  EXPECT_EQ(upload("four"), "four");
}

// The other job writes between two attempts of one upload.
TEST(UploadQueueTest, AnAttemptBehindAFailureReplacesNobodyElses) {
  for (const bool is_versioned : {true, false}) {
    const auto memory = memory_store();
    bool takes = false;
    const auto store = std::make_shared<WatchedStore>(
        std::make_shared<testing::PlainStore>(memory, is_versioned),
        testing::StoreHooks{.before = [&](StoreCall call, const auto& name) {
          if (call != StoreCall::kCommit || !std::exchange(takes, false)) return;
          write_until_seen(*memory, object(name, "his"), at_once());
          throw StorageError("503", 503, /*retryable=*/true);
        }});
    UploadQueue queue(store, {.retry = at_once()});
    upload_known(queue, "ckpt", "one");
    takes = true;
    upload_known(queue, "ckpt", "two");
    EXPECT_THROW(queue.throw_error(), AlreadyExistsError) << is_versioned;
    EXPECT_EQ(text_in(*memory, "ckpt"), "his") << is_versioned;
  }
}

}  // namespace
}  // namespace cairn
