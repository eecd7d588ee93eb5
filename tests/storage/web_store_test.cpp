// Files on web servers, both capable ones and ones that support little.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "storage/http/store.h"
#include "storage/place.h"
#include "testing/fake_clock.h"
#include "testing/fake_server.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::message_of;
using ::testing::Not;
using testing::ReceivedRequest;

constexpr std::size_t kSeveralReads = 20 << 20;

struct WebOptions {
  std::string etag = "\"1\"";
  std::string changed = {};  // Last-Modified
  bool knows_ranges = true;
  bool knows_suffixes = true;  // "bytes=-9"
  bool tells_size = true;
  bool allows_head = true;
  std::string user = {};                         // the Authorization header that must be given
  std::string query = {};                        // the query that must be given
  std::size_t breaks_after = std::string::npos;  // how much of each answer to a range is sent
};

// One file, "/run/a b.pt".
class WebServed {
 public:
  explicit WebServed(std::string bytes, WebOptions options = {})
      : bytes_(std::move(bytes)), options_(std::move(options)) {}

  std::string place(const std::string& user = {}, const std::string& query = {}) const {
    std::string url = server_.url();
    if (!user.empty()) url.insert(std::string("http://").size(), user + "@");
    return url + "/run/a%20b.pt" + query;
  }
  std::shared_ptr<ObjectStore> store(const std::string& user = {}) const {
    web::Config config = web::resolve_config(place(user).substr(0, place(user).rfind("/run")));
    config.settings.retries.clock = std::make_shared<testing::FakeNetClock>();
    config.settings.retries.policy.attempts = 3;
    return web::make_web_store(std::move(config));
  }
  int requests() const { return requests_; }
  void replace() { options_.etag = "\"2\""; }

 private:
  HttpReply answer(const ReceivedRequest& asked) {
    ++requests_;
    if (asked.path() == "/elsewhere") {
      return {.status = 302, .headers = {{"Location", "/run/a%20b.pt"}}};
    }
    if (asked.header("authorization") != options_.user) return {.status = 401, .body = "canary"};
    if (asked.path() != "/run/a%20b.pt") return {.status = 404};
    if (asked.raw_query() != options_.query) return {.status = 403, .body = "canary"};
    const std::string match = asked.header("if-match");
    const std::string since = asked.header("if-unmodified-since");
    const bool is_same =
        (match.empty() || match == options_.etag) && (since.empty() || since == options_.changed);
    if (!is_same) return {.status = 412};
    if (asked.method == "HEAD" && !options_.allows_head) return {.status = 403};
    HttpReply reply = {.body = bytes_};
    if (!options_.etag.empty()) reply.headers.emplace_back("ETag", options_.etag);
    if (!options_.changed.empty()) reply.headers.emplace_back("Last-Modified", options_.changed);
    if (asked.method == "HEAD") {
      reply.headers.emplace_back("Content-Length", std::to_string(bytes_.size()));
      return reply;
    }
    if (!options_.knows_suffixes && asked.header("range").starts_with("bytes=-")) {
      return {.status = 416};
    }
    if (!options_.tells_size) {  // the body ends with the connection
      reply.headers.emplace_back("Transfer-Encoding", "identity");
      reply.headers.emplace_back("Content-Length", "");
      reply.closes = true;
    }
    if (options_.knows_ranges && !cut_to_range(asked.header("range"), reply)) {
      return {.status = 416};
    }
    if (reply.status == 206 && reply.body.size() > options_.breaks_after) {
      reply.sends_at_most = options_.breaks_after;
    }
    return reply;
  }

  std::string bytes_;
  WebOptions options_;
  std::atomic<int> requests_ = 0;
  testing::HttpServer server_{[this](const ReceivedRequest& asked) { return answer(asked); }};
};

constexpr const char* kName = "run/a%20b.pt";

std::string all_of(ObjectStore& store, const std::string& name = kName) {
  return std::string(as_text(read_all(*store.open(name)).view));
}

TEST(WebStoreTest, AFileIsReadInRangesOfOneVersion) {
  const std::string bytes = testing::pattern(kSeveralReads);
  WebServed served(bytes);
  const auto store = served.store();
  const auto source = store->open(kName);
  EXPECT_EQ(served.requests(), 1);
  EXPECT_TRUE(as_text(read_all(*source).view) == bytes);
  EXPECT_EQ(store->stat(kName)->size, bytes.size());
  EXPECT_EQ(store->stat(kName)->version, "\"1\"");
  served.replace();
  EXPECT_THAT(message_of<StorageError>([&] { read_all(*source); }), HasSubstr("was replaced"));
}

TEST(WebStoreTest, WhenItWasChangedIsAVersionToo) {
  for (const char* etag : {"", "W/\"1\""}) {
    WebServed served(testing::pattern(kSeveralReads),
                     {.etag = etag, .changed = "Fri, 24 May 2013 00:00:00 GMT"});
    EXPECT_TRUE(all_of(*served.store()) == testing::pattern(kSeveralReads));
  }
  WebServed neither(testing::pattern(kSeveralReads), {.etag = ""});
  EXPECT_THAT(message_of<StorageError>([&] { all_of(*neither.store()); }), HasSubstr("no ETag"));
}

TEST(WebStoreTest, AServerWithoutRangesSendsAllOfIt) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, kSeveralReads}) {
    const std::string bytes = testing::pattern(size);
    WebServed served(bytes, {.knows_ranges = false});
    EXPECT_TRUE(all_of(*served.store()) == bytes) << size;
  }
}

TEST(WebStoreTest, AServerThatOnlyKnowsNumbersIsNotOneOfEmptyFiles) {
  const std::string bytes = testing::pattern(kSeveralReads);
  for (const bool allows_head : {true, false}) {
    WebServed served(bytes, {.knows_suffixes = false, .allows_head = allows_head});
    EXPECT_TRUE(all_of(*served.store()) == bytes) << allows_head;
  }
}

TEST(WebStoreTest, ALoadThatBreaksOffGoesOn) {
  const std::string bytes = testing::pattern(kSeveralReads);
  WebServed served(bytes, {.breaks_after = 5 << 20});
  EXPECT_TRUE(all_of(*served.store()) == bytes);
}

TEST(WebStoreTest, AnEmptyFileIsEmpty) {
  WebServed served("");
  EXPECT_EQ(all_of(*served.store()), "");
}

TEST(WebStoreTest, ASignedUrlAllowsNoHead) {
  WebServed served("bytes", {.allows_head = false, .query = "sig=canary%2F&x=//y"});
  const auto store = served.store();
  const std::string name = std::string(kName) + "?sig=canary%2F&x=//y";
  EXPECT_EQ(store->stat(name)->size, 5U);
  EXPECT_EQ(store->stat(name)->version, "\"1\"");
  EXPECT_EQ(all_of(*store, name), "bytes");
  EXPECT_THAT(store->describe(name), AllOf(HasSubstr("/run/a%20b.pt?..."), Not(HasSubstr("sig"))));
}

TEST(WebStoreTest, RedirectsAreFollowed) {
  WebServed served("bytes");
  EXPECT_EQ(all_of(*served.store(), "elsewhere"), "bytes");
}

TEST(WebStoreTest, ErrorsNameWhereARedirectLed) {
  WebServed served("bytes", {.user = "Basic bWU6Y2FuYXJ5"});
  EXPECT_THAT(message_of<StorageError>([&] { all_of(*served.store(), "elsewhere"); }),
              AllOf(HasSubstr("/elsewhere (redirected to http://"), HasSubstr("/run/a%20b.pt)"),
                    HasSubstr("401")));
}

TEST(WebStoreTest, WhatIsNotThereIsNotFound) {
  WebServed served("bytes");
  EXPECT_FALSE(served.store()->stat("run/none.pt"));
  EXPECT_THROW(served.store()->open("run/none.pt"), NotFoundError);
}

TEST(WebStoreTest, ErrorsSayWhatToDoAndNoSecret) {
  // The user is me:canary.
  WebServed served("bytes", {.user = "Basic bWU6Y2FuYXJ5", .query = "sig=1"});
  EXPECT_EQ(all_of(*served.store("me:c%61nary"), std::string(kName) + "?sig=1"), "bytes");
  const auto refused = [&](const std::string& user, const std::string& query) {
    return message_of<StorageError>([&] { all_of(*served.store(user), kName + query); });
  };
  EXPECT_THAT(refused("me:canary-2", "?sig=1"),
              AllOf(HasSubstr("401"), HasSubstr("user:password@"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused("me:canary", "?sig=canary"),
              AllOf(HasSubstr("403"), HasSubstr("may have expired"), Not(HasSubstr("canary"))));
  EXPECT_THAT(message_of<UsageError>([] { web::resolve_config("https://"); }),
              HasSubstr("a place on a web server"));
}

TEST(WebStoreTest, NothingButLoadingIsSupported) {
  WebServed served("bytes");
  const auto store = served.store();
  const auto refused = [](const auto& use) {
    EXPECT_THAT(message_of<UnsupportedError>(use), HasSubstr("can only be loaded"));
  };
  refused([&] { store->begin("a"); });
  refused([&] { store->list("run"); });
  refused([&] { store->remove("a"); });
  refused([&] { store->remove_folder("a"); });
  refused([&] { store->rename("a", "b"); });
  refused([&] { store->move_pointer("a", "b"); });
  refused([&] { store->prepare("a"); });
}

// --- https:// wherever a place can be given ---

TEST(WebUriTest, ACheckpointIsLoadedAndVerified) {
  const testing::TempFolder folder;
  save(testing::sample_checkpoint(7), folder / "a.pt");
  WebServed served(testing::read_file(folder / "a.pt"),
                   {.user = "Basic bWU6Y2FuYXJ5", .query = "sig=canary&x=//y"});
  const std::string place = served.place("me:canary", "?sig=canary&x=//y");
  EXPECT_EQ(testing::batch_of_sample(load(place)), 7);
  EXPECT_TRUE(verify(place, Verify::kFull).ok());
  EXPECT_THAT(message_of([&] { save(testing::sample_checkpoint(1), place); }),
              AllOf(HasSubstr("can only be loaded"), Not(HasSubstr("canary"))));
}

TEST(WebUriTest, NoMessageHoldsASecret) {
  for (const char* bytes : {"no checkpoint", "PK\3\4 and nothing behind it", ""}) {
    WebServed served(bytes, {.user = "Basic bWU6Y2FuYXJ5", .query = "sig=canary"});
    const std::string place = served.place("me:canary", "?sig=canary");
    EXPECT_THAT(message_of([&] { load(place); }),
                AllOf(HasSubstr("/run/a%20b.pt?..."), Not(HasSubstr("canary"))));
    EXPECT_THAT(message_of([&] { find_latest(place); }), Not(HasSubstr("canary")));
  }
}

}  // namespace
}  // namespace cairn
