// Steps of a publication that the tests of the queues do not cover.
#include "storage/publish/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cairn/error.h"

#include "io/threads/cancellation.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/watched_store.h"
#include "tests/storage/upload_fixture.h"

namespace cairn {
namespace {

using testing::at_once;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::object;
using testing::StoreCall;
using testing::StoreHooks;
using testing::WatchedStore;

void publish_text(Publisher& publisher, const std::string& name, const std::string& text) {
  publisher.publish({.name = name, .pointer = "latest"}, [&](const auto&) {
    publisher.write_object(object(name, text, Replace::kNever));
    return text.size();
  });
}

RemovalReport remove_all(Publisher& publisher, const std::vector<std::string>& names) {
  RemovalReport report;
  for (const std::string& name : names) {
    publisher.remove(name, {.context = "while testing"}, report);
  }
  return report;
}

// The answer to the move says that another attempt is useless, or a deadline ends it.
TEST(PointerFenceTest, AMoveThatFailedIsItsOwnWhetherItWasDoneOrNot) {
  for (const bool is_done : {true, false}) {
    for (const bool is_cancelled : {true, false}) {
      const auto memory = memory_store();
      bool is_bad = false;
      const auto fail = [&](StoreCall call, const std::string&) {
        if (!is_bad || call != StoreCall::kMovePointer) return;
        if (is_cancelled) throw CancelledError("the time is over");
        throw StorageError("403", 403);
      };
      PointerFence fence(
          std::make_shared<WatchedStore>(
              memory, is_done ? StoreHooks{.after = fail} : StoreHooks{.before = fail}),
          "latest");
      fence.move("1", at_once());
      is_bad = true;
      EXPECT_ANY_THROW(fence.move("2", at_once()));
      is_bad = false;
      EXPECT_EQ(memory->read_pointer("latest")->target, is_done ? "2" : "1");
      fence.check(at_once());
      fence.move("3", at_once());
      EXPECT_EQ(memory->read_pointer("latest")->target, "3");
      memory->move_pointer("latest", "2");
      EXPECT_THROW(fence.check(at_once()), AlreadyExistsError) << "that is over";
    }
  }
}

TEST(PublisherTest, AllThatCanBeRemovedIsAndTheFirstErrorIsKept) {
  const auto memory = memory_store();
  for (const char* name : {"1", "2", "3", "4"}) {
    write_until_seen(*memory, object(name, "x"), at_once());
  }
  Publisher publisher(std::make_shared<WatchedStore>(
                          memory, StoreHooks{.before =
                                                 [](StoreCall call, const std::string& name) {
                                                   if (call != StoreCall::kRemove) return;
                                                   if (name == "2") throw StorageError("403", 403);
                                                   if (name == "3") throw std::runtime_error("?");
                                                 }}),
                      {.retry = at_once()});
  const RemovalReport done = remove_all(publisher, {"1", "2", "3", "missing", "4"});
  EXPECT_THAT(done.removed, ElementsAre("1", "4"));
  EXPECT_THAT(message_of<StorageError>([&] { std::rethrow_exception(done.error); }),
              HasSubstr("while testing: 403"));
  EXPECT_THAT(list_names(*memory, ""), ElementsAre("2", "3"));
}

// Runs as a separate program: the environment variable is read only once.
TEST(TraceDeathTest, EachStepIsALineWhenTheEnvironmentAsksForIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto publish_two = [](const char* trace) {
    setenv("CAIRN_TRACE", trace, 1);  // NOLINT(concurrency-mt-unsafe)
    Publisher publisher(memory_store(), {.retry = at_once(1)});
    publish_text(publisher, "run/1", "one");
    EXPECT_THROW(publish_text(publisher, "run/1", "two"), AlreadyExistsError);
    publish_text(publisher, "run/2\n", "two");
    remove_all(publisher, {"run/2\n"});
    std::fputs("end\n", stderr);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);  // NOLINT(concurrency-mt-unsafe)
  };
  const std::string time = "  [0-9]+\\.[0-9][0-9][0-9] s";
  const auto line = [&](const std::string& step) { return "cairn saves: " + step + time + "\n"; };
  EXPECT_EXIT(publish_two("saves"), ::testing::ExitedWithCode(0),
              "^" + line("check latest") + line("write run/1") + line("point latest") +
                  line("check latest") + "cairn saves: write run/1" + time + "  failed\n" +
                  line("check latest") + line("write run/2.x0a") + line("point latest") +
                  line("remove run/2.x0a") + "end\n$");
  EXPECT_EXIT(publish_two("else"), ::testing::ExitedWithCode(0), "^end\n$");
}

}  // namespace
}  // namespace cairn
