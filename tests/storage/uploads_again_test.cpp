// Names that are uploaded once more, and names that become superfluous, out of their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cairn/error.h"

#include "storage/listing.h"
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
using testing::text_in;
using testing::WatchedStore;

// Training that begins once more from an earlier batch writes its names again (fit(reset_time)).
TEST(UploadQueueTest, WhatHasPassedIsStillItsOwnAndNobodyElses) {
  for (const bool is_versioned : {true, false}) {
    const auto store = std::make_shared<testing::PlainStore>(memory_store(), is_versioned);
    publish(*store, object("run/found", "before"), at_once());
    UploadQueue queue(store, {.retry = at_once()});
    queue.may_replace("run/found", store->stat("run/found", /*follow=*/true)->version);
    const auto upload = [&](const std::string& name, const std::string& text) {
      queue.submit({.name = name,
                    .file = file_of(text),
                    .overwrite = true,
                    .only_known = true,
                    .has_passed = [name](const std::string& other) { return other != name; }});
      EXPECT_TRUE(queue.wait(kForever));
    };
    for (int i = 0; i < 100; ++i) {
      upload("run/" + std::to_string(i), "1");
    }
    EXPECT_LE(queue.known_names(), 32U);
    publish(*store, object("run/7", "another job's"), at_once());
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
      {.name = "9", .file = file_of("new"), .overwrite = true, .on_done = [&](const auto&) {
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

}  // namespace
}  // namespace cairn
