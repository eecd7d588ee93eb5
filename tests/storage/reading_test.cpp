// Stores that wrap others: one repeats reads after a failure, one asks for small parts. And stores
// with options by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "cairn/error.h"
#include "cairn/storage/object_store_checks.h"
#include "cairn/storage/stores.h"

#include "io/bytes/source_part.h"
#include "storage/compat/store_with_kwargs.h"
#include "storage/load_store.h"
#include "storage/retrying_store.h"
#include "testing/message_of.h"
#include "testing/watched_store.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::StoreCall;
using testing::StoreHooks;
using testing::WatchedStore;

void write_named(ObjectStore& store, const std::string& name, const std::string& text) {
  const auto object = store.begin(name);
  object->write(as_bytes(text));
  object->commit();
}

std::string text_at(ObjectStore& store, const std::string& name) {
  return std::string(as_text(read_all(*store.open(name)).view));
}

// Each kind of call fails this many times, and then succeeds.
StoreHooks each_fails(int times, bool retryable = true) {
  const auto left = std::make_shared<std::map<StoreCall, int>>();
  return {.before = [=](StoreCall call, const std::string& name) {
    int& more = left->try_emplace(call, times).first->second;
    if (more-- > 0) throw StorageError(name + ": 503", 503, retryable);
    more = times;
  }};
}

struct RetryingStoreTest : ::testing::Test {
  std::shared_ptr<ObjectStore> retrying(StoreHooks hooks, int attempts) {
    watched = std::make_shared<WatchedStore>(memory, std::move(hooks));
    return retrying_store(watched,
                          {.attempts = attempts,
                           .first_pause = milliseconds(100),
                           .longest_pause = milliseconds(300),
                           .random = [] { return 1.0; },
                           .pause = [this](milliseconds time) { paused.push_back(time); }});
  }
  const std::shared_ptr<ObjectStore> memory = memory_store();
  std::shared_ptr<WatchedStore> watched;
  std::vector<milliseconds> paused;
};

TEST_F(RetryingStoreTest, WhateverIsReadIsReadAgainWithGrowingPauses) {
  write_named(*memory, "run/a", "text");
  memory->move_pointer("run/latest", "run/a");
  const auto store = retrying(each_fails(4), 5);
  EXPECT_TRUE(store->stat("run/a"));
  EXPECT_THAT(paused, ElementsAre(milliseconds(100), milliseconds(200), milliseconds(300),
                                  milliseconds(300)));
  EXPECT_EQ(text_at(*store, "run/a"), "text");
  EXPECT_EQ(store->list("run").names.size(), 2U);
  EXPECT_EQ(store->read_pointer("run/latest")->target, "run/a");
  EXPECT_EQ(watched->calls(StoreCall::kRead), 5U);
}

TEST_F(RetryingStoreTest, SoOftenAndNoMore) {
  write_named(*memory, "run/a", "text");
  const auto store = retrying(each_fails(1000), 3);
  EXPECT_THAT(message_of<StorageError>([&] { store->open("run/a"); }), HasSubstr("failed 3 times"));
  EXPECT_EQ(watched->calls(StoreCall::kOpen), 3U);
  const auto refused = retrying(each_fails(1000, /*retryable=*/false), 3);
  EXPECT_THROW(refused->stat("run/a"), StorageError);
  EXPECT_EQ(watched->calls(StoreCall::kStat), 1U);
}

// Only the caller knows whether a change may be made twice.
TEST_F(RetryingStoreTest, ChangesAreMadeOnce) {
  write_named(*memory, "run/a", "text");
  const auto store = retrying(each_fails(1), 5);
  EXPECT_THROW(store->remove("run/a"), StorageError);
  EXPECT_THROW(store->move_pointer("run/latest", "run/a", std::nullopt), StorageError);
  EXPECT_EQ(watched->calls(StoreCall::kRemove) + watched->calls(StoreCall::kMovePointer), 2U);
  EXPECT_TRUE(memory->stat("run/a"));
}

TEST_F(RetryingStoreTest, OneThatIsRegisteredIsReadSo) {
  const auto flaky = std::make_shared<WatchedStore>(memory, each_fails(1));
  register_object_store("readtest", [&](const std::string& /*root*/) { return flaky; });
  write_named(*memory, "run/a", "text");
  EXPECT_EQ(text_at(*object_store_of("readtest://x"), "readtest://x/run/a"), "text");
  EXPECT_EQ(flaky->calls(StoreCall::kOpen), 2U);
}

TEST(LoadStoreTest, CountsWhatIsReadAndOpensNothingElse) {
  const auto memory = memory_store();
  write_named(*memory, "a", std::string(1000, 'a'));
  std::atomic<std::uint64_t> read = 0;
  std::atomic<std::uint64_t> expected = 0;
  const auto store = load_store(memory, {.chunk_bytes = 0,
                                         .on_first_read = [&](auto size) { expected += size; },
                                         .on_read = [&](auto bytes) { read += bytes; }});
  const auto source = store->open("a");
  EXPECT_EQ(expected, 0U);
  source->view(0, 10);
  EXPECT_EQ(expected, 1000U);
  const ByteSource::Part all{.offset = 10, .size = 990};
  std::atomic<std::uint64_t> shown = 0;
  source->read_each({&all, 1}, [&](auto, auto, ByteView bytes) { shown += bytes.size(); });
  EXPECT_EQ(shown, 990U);
  EXPECT_EQ(read, 1000U);
  EXPECT_EQ(expected, 1000U);
}

TEST(LoadStoreTest, NoRequestIsLargerThanAChunk) {
  const auto memory = memory_store();
  std::string text(10'001, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>('a' + i % 23);
  }
  write_named(*memory, "a", text);
  const auto watched = std::make_shared<WatchedStore>(memory);
  const auto store = load_store(watched, {.chunk_bytes = 1000});
  EXPECT_EQ(as_text(store->open("a")->view(1, 10'000).view), text.substr(1));
  EXPECT_EQ(watched->calls(StoreCall::kRead), 10U);
  EXPECT_EQ(watched->bytes_read(), 10'000U);
}

TEST(BackendKwargsTest, AnOptionThatThereIsNotIsRefusedByName) {
  EXPECT_THAT(message_of<UsageError>([] {
                store_with_kwargs("s3://bucket", {{"transfer_config", "x"}, {"region", "eu"}});
              }),
              AllOf(HasSubstr("\"transfer_config\""), HasSubstr("endpoint_url")));
  EXPECT_THAT(message_of<UsageError>([] {
                store_with_kwargs("libcloud://bucket", {{"provider", "minio"}, {"ports", "1"}});
              }),
              AllOf(HasSubstr("\"ports\""), HasSubstr("port, secure")));
  EXPECT_THAT(message_of<UsageError>([] {
                store_with_kwargs("memory://x", {{"a", "b"}});
              }),
              HasSubstr("memory://x"));
  EXPECT_THAT(message_of<UsageError>([] {
                store_with_kwargs("https://me:canary@host/a.pt?X-Amz-Signature=canary", {});
              }),
              AllOf(HasSubstr("\"https://host/a.pt?...\""), Not(HasSubstr("canary"))));
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"port", "many"}, {"port", "0"}, {"secure", "yes"}}) {
    EXPECT_THROW(store_with_kwargs("libcloud://b", {{"provider", "minio"}, {name, value}}),
                 UsageError);
  }
}

}  // namespace
}  // namespace cairn
