// The answers of `cairn serve`, and who gets them. No test here opens a socket.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/error.h"

#include "cli/serve/page_access.h"
#include "cli/serve/run_pages.h"
#include "run_folder.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr const char* kHostile = "</script><img src=x onerror=alert(1)>\"'\\\n\x1b[2J\xff";

std::string metric(std::int64_t batch, double value) {
  return R"({"batch":)" + std::to_string(batch) + R"(,"metric":"loss/train/total","value":)" +
         std::to_string(value) + "}\n";
}

struct ServePagesTest : ::testing::Test {
  // A folder of runs, each with a log.
  void add_run(const std::string& name, const std::string& log = metric(1, 0.5)) const {
    std::filesystem::create_directories(folder_ / name);
    folder_.write(name + "/logs-rank0.jsonl", log);
  }
  RunPages pages(const std::string& place) {
    return RunPages({.place = place, .clock = [this] { return now_; }});
  }
  static std::string ask(RunPages& pages, const std::string& path,
                         const std::vector<std::string>& runs = {}) {
    WebRequest asked{.path = path};
    for (const std::string& run : runs)
      asked.query.emplace("run", run);
    if (!runs.empty()) asked.query.emplace("chosen", "1");
    const WebAnswer answer = pages.answer(asked);
    EXPECT_EQ(answer.status, 200);
    return *answer.body;
  }
  static nlohmann::json data(RunPages& pages, const std::vector<std::string>& runs = {}) {
    return nlohmann::json::parse(ask(pages, "/data.json", runs));
  }
  void wait(std::chrono::seconds time) { now_ = {now_.wall + time, now_.steady + time}; }

  RunFolder folder_;
  Moment now_ = Moment::now();
};

std::vector<std::string> names(const nlohmann::json& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows)
    names.push_back(row.at("name"));
  return names;
}

// --- What is served -----------------------------------------------------------------------------

TEST_F(ServePagesTest, AFolderOfRunsIsServed) {
  add_run("a", R"({"time":"2026-01-31T12:00:00.000Z","batch":0,"event":"fit_start",)"
               R"("max_duration":"10ba"})"
               "\n" +
                   metric(4, 0.25));
  add_run("b");
  folder_.save(20);
  std::filesystem::rename(folder_ / RunFolder::name(20), folder_ / "b/" + RunFolder::name(20));
  std::filesystem::create_directories(folder_ / "no run");
  RunPages pages = this->pages(folder_.path());
  const auto shown = data(pages);
  EXPECT_EQ(shown.at("place"), folder_.path());
  EXPECT_TRUE(shown.at("problem").is_null());
  EXPECT_THAT(names(shown.at("overview")), ElementsAre("a", "b"));
  const auto& a = shown.at("overview").at(0);
  EXPECT_EQ(a.at("state"), "training");
  EXPECT_EQ(a.at("batch"), 4);
  EXPECT_EQ(a.at("total_batches"), 10);
  EXPECT_EQ(a.at("value"), nlohmann::json({{"metric", "loss/train/total"}, {"value", 0.25}}));
  EXPECT_TRUE(a.at("newest").is_null());
  const auto& newest = shown.at("overview").at(1).at("newest");
  EXPECT_EQ(newest.at("name"), RunFolder::name(20));
  EXPECT_EQ(newest.at("batch"), 20);
  EXPECT_EQ(newest.at("time"), 1767268800000 + 20 * 60'000);
  EXPECT_THAT(names(shown.at("runs")), ElementsAre("a", "b"));
  const auto& folders = shown.at("runs").at(1).at("folders");
  EXPECT_EQ(folders.at(0).at("checkpoints").at(0).at("chosen"), true);
}

TEST_F(ServePagesTest, ARunIsServed) {
  folder_.write("logs-rank0.jsonl", metric(1, 0.5));
  std::filesystem::create_directories(folder_ / "ckpt");
  RunPages pages = this->pages(folder_.path());
  EXPECT_THAT(names(data(pages).at("overview")), SizeIs(1));
}

TEST_F(ServePagesTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(pages(folder_ / "none"), NotFoundError);
}

TEST_F(ServePagesTest, RunsAppearAndGrowWhileTheyAreServed) {
  RunPages pages = this->pages(folder_.path());
  EXPECT_THAT(data(pages).at("overview"), IsEmpty());
  add_run("a");
  wait(std::chrono::seconds(5));
  EXPECT_EQ(data(pages).at("overview").at(0).at("batch"), 1);
  add_run("a", metric(1, 0.5) + metric(2, 0.25));
  wait(std::chrono::seconds(5));
  const auto grown = data(pages);
  EXPECT_EQ(grown.at("overview").at(0).at("batch"), 2);
  EXPECT_EQ(grown.at("runs").at(0).at("curves").at(0).at("values"), nlohmann::json({0.5, 0.25}));
  std::filesystem::remove_all(folder_ / "a");
  wait(std::chrono::seconds(5));
  EXPECT_THAT(data(pages).at("overview"), IsEmpty());
}

TEST_F(ServePagesTest, ACheckpointAppears) {
  folder_.save(10);
  RunPages pages = this->pages(folder_.path());
  EXPECT_EQ(data(pages).at("overview").at(0).at("newest").at("batch"), 10);
  folder_.save(20);
  wait(std::chrono::seconds(5));
  const auto shown = data(pages);
  EXPECT_EQ(shown.at("overview").at(0).at("newest").at("batch"), 20);
  EXPECT_THAT(shown.at("runs").at(0).at("folders").at(0).at("checkpoints"), SizeIs(2));
}

TEST_F(ServePagesTest, OnlyRunsThatAreChosenHaveCurves) {
  for (const char* run : {"a", "b", "c"})
    add_run(run);
  RunPages pages = this->pages(folder_.path());
  const auto shown = data(pages, {"c", "a", "no run"});
  EXPECT_THAT(names(shown.at("runs")), ElementsAre("a", "c"));
  EXPECT_THAT(names(shown.at("overview")), ElementsAre("a", "b", "c"));
  const WebAnswer none = pages.answer({.path = "/data.json", .query = {{"chosen", "1"}}});
  EXPECT_THAT(nlohmann::json::parse(*none.body).at("runs"), IsEmpty());
}

TEST_F(ServePagesTest, AtFirstTheNewestRunsAreShownAndNeverTooMany) {
  std::vector<std::string> all;
  for (int i = 10; i < 50; ++i) {
    all.push_back("run" + std::to_string(i));
    add_run(all.back());
    folder_.set_time(all.back() + "/logs-rank0.jsonl",
                     RunFolder::start() + std::chrono::minutes(i % 20));
  }
  RunPages pages = this->pages(folder_.path());
  EXPECT_THAT(names(data(pages).at("runs")),
              ElementsAre("run16", "run17", "run18", "run19", "run36", "run37", "run38", "run39"));
  const auto shown = data(pages, all);
  EXPECT_THAT(shown.at("runs"), SizeIs(32));
  EXPECT_EQ(shown.at("most_runs"), 32);
  EXPECT_THAT(shown.at("overview"), SizeIs(40));
}

TEST_F(ServePagesTest, OfManyFoldersTheNewestAreLookedAt) {
  for (int i = 0; i < 103; ++i) {
    add_run("run" + std::to_string(i));
    folder_.set_time("run" + std::to_string(i) + "/logs-rank0.jsonl",
                     RunFolder::start() + std::chrono::minutes(i));
  }
  RunPages pages = this->pages(folder_.path());
  const auto shown = data(pages);
  EXPECT_EQ(shown.at("not_looked_at"), 3);
  EXPECT_THAT(shown.at("overview"), SizeIs(100));
  EXPECT_THAT(names(shown.at("overview")), Not(::testing::Contains("run2")));
}

TEST_F(ServePagesTest, HoweverManyClientsAskTheRunsAreLookedAtOnce) {
  add_run("a");
  RunPages pages = this->pages(folder_.path());
  const std::string first = ask(pages, "/data.json");
  add_run("a", metric(1, 0.5) + metric(2, 0.25));
  wait(std::chrono::seconds(4));
  EXPECT_EQ(ask(pages, "/data.json"), first);
  EXPECT_THAT(ask(pages, "/metrics"), HasSubstr("cairn_run_batch{run=\"a\"} 1\n"));
  wait(std::chrono::seconds(1));
  EXPECT_NE(ask(pages, "/data.json"), first);
  EXPECT_THAT(ask(pages, "/metrics"), HasSubstr("cairn_run_batch{run=\"a\"} 2\n"));
}

TEST_F(ServePagesTest, WhatHasNotChangedIsNotSentAgain) {
  add_run("a");
  RunPages pages = this->pages(folder_.path());
  const auto header = [](const WebAnswer& answer, const std::string& name) {
    for (const auto& [key, value] : answer.headers) {
      if (key == name) return value;
    }
    return std::string();
  };
  const WebAnswer first = pages.answer({.path = "/data.json"});
  const std::string tag = header(first, "ETag");
  wait(std::chrono::seconds(5));
  const WebAnswer same = pages.answer({.path = "/data.json", .if_none_match = tag});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(*same.body, "");
  EXPECT_EQ(std::stoll(header(same, "Looked-At")) - std::stoll(header(first, "Looked-At")), 5000);
  add_run("a", metric(1, 0.5) + metric(2, 0.25));
  wait(std::chrono::seconds(5));
  const WebAnswer grown = pages.answer({.path = "/data.json", .if_none_match = tag});
  EXPECT_EQ(grown.status, 200);
  EXPECT_NE(header(grown, "ETag"), tag);
}

TEST_F(ServePagesTest, WhenTheWallClockIsSetBackTheRunsAreStillLookedAt) {
  add_run("a");
  RunPages pages = this->pages(folder_.path());
  data(pages);
  now_.wall -= std::chrono::hours(2);
  add_run("a", metric(1, 0.5) + metric(2, 0.25));
  wait(std::chrono::seconds(5));
  EXPECT_EQ(data(pages).at("overview").at(0).at("batch"), 2);
}

TEST_F(ServePagesTest, FilesBesideTheRunsDoNotHideThem) {
  add_run("a");
  add_run("b");
  folder_.write("results.csv", "name,loss\n");
  folder_.write("ep9-ba9-rank0.pt", "x");
  RunPages pages = this->pages(folder_.path());
  EXPECT_THAT(names(data(pages).at("overview")), ElementsAre("a", "b"));
}

TEST_F(ServePagesTest, ARunWithCheckpointsBelowIsOneRun) {
  folder_.write("logs-rank0.jsonl", metric(1, 0.5));
  std::filesystem::create_directories(folder_ / "ckpt");
  RunPages pages = this->pages(folder_.path());
  EXPECT_THAT(data(pages).at("runs").at(0).at("folders"), IsEmpty());
  folder_.save(20);
  std::filesystem::rename(folder_ / RunFolder::name(20), folder_ / "ckpt/" + RunFolder::name(20));
  wait(std::chrono::seconds(5));
  const auto shown = data(pages);
  ASSERT_THAT(shown.at("overview"), SizeIs(1));
  ASSERT_THAT(shown.at("runs").at(0).at("folders"), SizeIs(1));
  EXPECT_EQ(shown.at("overview").at(0).at("newest").at("batch"), 20);
}

TEST_F(ServePagesTest, ACheckpointThatIsDamagedInPlaceIsSeen) {
  folder_.save(10);
  RunPages pages = this->pages(folder_.path());
  data(pages);
  folder_.damage(RunFolder::name(10), /*visibly=*/true);
  folder_.set_time(RunFolder::name(10), RunFolder::start() + std::chrono::hours(9));
  wait(std::chrono::seconds(5));
  const auto shown = data(pages);
  EXPECT_EQ(shown.at("runs").at(0).at("folders").at(0).at("checkpoints").at(0).at("ok"), false);
}

// --- What cannot be read ------------------------------------------------------------------------

TEST_F(ServePagesTest, ARunThatCannotBeReadSaysWhy) {
  add_run("bad", "no log\n");
  add_run("good");
  RunPages pages = this->pages(folder_.path());
  const auto shown = data(pages);
  EXPECT_THAT(shown.at("overview").at(0).at("problem").get<std::string>(),
              HasSubstr("is no log of FileLogger"));
  EXPECT_TRUE(shown.at("overview").at(1).at("problem").is_null());
  EXPECT_THAT(ask(pages, "/metrics"), AllOf(HasSubstr("cairn_run_readable{run=\"bad\"} 0\n"),
                                            HasSubstr("cairn_run_readable{run=\"good\"} 1\n")));
}

TEST_F(ServePagesTest, WhatWasReadStaysWhileTheFolderCannotBe) {
  add_run("runs/a");
  RunPages pages = this->pages(folder_ / "runs");
  data(pages);
  std::filesystem::rename(folder_ / "runs", folder_ / "elsewhere");
  wait(std::chrono::seconds(5));
  const auto shown = data(pages);
  EXPECT_THAT(shown.at("problem").get<std::string>(), HasSubstr(folder_ / "runs"));
  EXPECT_EQ(shown.at("runs").at(0).at("curves").at(0).at("values"), nlohmann::json({0.5}));
  EXPECT_THAT(ask(pages, "/metrics"), HasSubstr("cairn_run_readable{run=\"a\"} 0\n"));
  std::filesystem::rename(folder_ / "elsewhere", folder_ / "runs");
  wait(std::chrono::seconds(5));
  EXPECT_TRUE(data(pages).at("problem").is_null());
}

TEST_F(ServePagesTest, ARunThatHasEndedIsReadAgainWhenItIsShownOrGoesOn) {
  const std::string begin =
      "{\"time\":\"2026-01-31T12:00:00.000Z\",\"batch\":0,\"event\":\"fit_start\"}\n";
  const std::string ended =
      begin + metric(1, 0.5) +
      "{\"time\":\"2026-01-31T12:00:01.000Z\",\"batch\":1,\"event\":\"fit_end\"}\n";
  add_run("a", ended);
  add_run("b");
  RunPages pages = this->pages(folder_.path());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(data(pages, {"b"}).at("overview").at(0).at("state"), "finished");
    wait(std::chrono::seconds(5));
  }
  const auto shown = data(pages, {"a"});
  EXPECT_EQ(shown.at("runs").at(0).at("curves").at(0).at("values"), nlohmann::json({0.5}));
  wait(std::chrono::hours(1));  // no page shows it any more
  folder_.save(30);
  std::filesystem::rename(folder_ / RunFolder::name(30), folder_ / "a/" + RunFolder::name(30));
  EXPECT_EQ(data(pages, {"b"}).at("overview").at(0).at("newest").at("batch"), 30);
  std::filesystem::remove(folder_ / "a/" + RunFolder::name(30));
  wait(std::chrono::seconds(61));
  EXPECT_TRUE(data(pages, {"b"}).at("overview").at(0).at("newest").is_null());
  data(pages, {"b"});
  add_run("a", ended + begin + metric(7, 0.5));
  wait(std::chrono::seconds(5));
  const auto row = data(pages, {"b"}).at("overview").at(0);
  EXPECT_EQ(row.at("state"), "training");
  EXPECT_EQ(row.at("batch"), 7);
}

// --- Safety -------------------------------------------------------------------------------------

TEST_F(ServePagesTest, HostileNamesAndTextsStayText) {
  const std::string run = std::string(kHostile).substr(9, 22) + "\"\\\n\x1b";
  const std::string quoted = nlohmann::json(std::string(kHostile, 34)).dump();
  add_run(run, "{\"batch\":1,\"metric\":" + quoted +
                   ",\"value\":1}\n{\"batch\":1,\"message\":" + quoted + "}\n");
  RunPages pages = this->pages(folder_.path());
  const std::string text = ask(pages, "/data.json");
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\n"))));
  const auto shown = nlohmann::json::parse(text);
  EXPECT_EQ(shown.at("overview").at(0).at("name"), run);
  EXPECT_EQ(shown.at("runs").at(0).at("curves").at(0).at("name"), std::string(kHostile, 34));
  // The page itself holds nothing of them.
  EXPECT_THAT(ask(pages, "/"), Not(HasSubstr("onerror")));
}

TEST_F(ServePagesTest, ThePageMayAskItsOwnServerAndNothingElse) {
  RunPages pages = this->pages(folder_.path());
  const WebAnswer page = pages.answer({.path = "/"});
  ASSERT_THAT(page.headers, SizeIs(1));
  const auto& [name, policy] = page.headers.front();
  EXPECT_EQ(name, "Content-Security-Policy");
  EXPECT_THAT(policy, AllOf(StartsWith("default-src 'none'"), HasSubstr("connect-src 'self'"),
                            HasSubstr("frame-ancestors 'none'"), Not(HasSubstr("unsafe"))));
  for (const char* loads : {" src=", "@import", "url(", "innerHTML", "insertAdjacentHTML",
                            "document.write", "eval(", "XMLHttpRequest"}) {
    EXPECT_THAT(*page.body, Not(HasSubstr(loads))) << loads;
  }
}

TEST_F(ServePagesTest, OtherPathsAreNotThere) {
  RunPages pages = this->pages(folder_.path());
  for (const char* path :
       {"", "/x", "//", "/data.json/", "/../data.json", "/metrics/x", "/page.js"})
    EXPECT_EQ(pages.answer({.path = path}).status, 404) << path;
}

// --- PageAccess
// -------------------------------------------------------------------------------------

int status_of(const PageAccess& access, const WebRequest& asked) {
  const auto refusal = access.refuse(asked);
  return refusal ? refusal->status : 200;
}

TEST(ServeAccessTest, OnLoopbackTheHostMustBeTheOneThatIsServed) {
  const PageAccess access("127.0.0.1", 8321, "");
  for (const char* host : {"127.0.0.1:8321", "localhost:8321", "[::1]:8321"})
    EXPECT_EQ(status_of(access, {.host = host}), 200) << host;
  for (const char* host : {"", "example.org", "example.org:8321", "127.0.0.1", "localhost:80",
                           "127.0.0.1:8321.example.org", "localhost:8321:8321"})
    EXPECT_EQ(status_of(access, {.host = host}), 403) << host;
  EXPECT_EQ(status_of(PageAccess("127.0.0.1", 80, ""), {.host = "localhost"}), 200);
  EXPECT_EQ(status_of(PageAccess("127.0.1.1", 8321, ""), {.host = "127.0.1.1:8321"}), 200);
}

TEST(ServeAccessTest, OnlyGetAndHead) {
  const PageAccess access("127.0.0.1", 1, "");
  EXPECT_EQ(status_of(access, {.method = "HEAD", .host = "localhost:1"}), 200);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", ""}) {
    const auto refusal = access.refuse({.method = method, .host = "localhost:1"});
    ASSERT_TRUE(refusal) << method;
    EXPECT_EQ(refusal->status, 405);
    EXPECT_THAT(refusal->headers, ElementsAre(::testing::Pair("Allow", "GET, HEAD")));
  }
}

TEST(ServeAccessTest, OtherSitesMayOnlyLinkToThePage) {
  const PageAccess access("127.0.0.1", 1, "");
  const auto from = [&](const char* path, const char* site, const char* mode) {
    return status_of(access,
                     {.path = path, .host = "localhost:1", .fetch_site = site, .fetch_mode = mode});
  };
  EXPECT_EQ(from("/", "cross-site", "navigate"), 200);
  EXPECT_EQ(from("/", "cross-site", "no-cors"), 403);
  EXPECT_EQ(from("/data.json", "cross-site", "navigate"), 403);
  EXPECT_EQ(from("/data.json", "same-origin", "cors"), 200);
  EXPECT_EQ(from("/metrics", "none", "navigate"), 200);
}

TEST(ServeAccessTest, WithATokenNothingIsAnsweredWithoutIt) {
  const std::string token = "0123456789abcdef";
  const PageAccess access("0.0.0.0", 8321, token);
  for (const char* path : {"/", "/data.json", "/metrics", "/other"}) {
    EXPECT_EQ(status_of(access, {.path = path}), 401);
    EXPECT_EQ(status_of(access, {.path = path, .authorization = "Bearer " + token}), 200);
    EXPECT_EQ(status_of(access, {.path = path, .authorization = "bearer " + token}), 200);
    for (const char* wrong : {"Bearer ", "Bearer 0", "Basic 0123456789abcdef",
                              "Bearer 0123456789abcdeg", "Bearer 0123456789abcdef0"})
      EXPECT_EQ(status_of(access, {.path = path, .authorization = wrong}), 401) << wrong;
  }
  EXPECT_EQ(status_of(access, {.query = {{"token", "wrong"}}}), 401);
  EXPECT_EQ(status_of(access, {.path = "/data.json", .query = {{"token", token}}}), 401);
}

TEST(ServeAccessTest, TheTokenInAnAddressBecomesACookie) {
  const std::string token = "0123456789abcdef";
  const PageAccess access("0.0.0.0", 8321, token);
  const auto entered = access.refuse({.query = {{"token", token}}});
  ASSERT_TRUE(entered);
  EXPECT_EQ(entered->status, 303);
  ASSERT_THAT(entered->headers, SizeIs(2));
  EXPECT_EQ(entered->headers[0].second, "./");
  const std::string& set = entered->headers[1].second;
  EXPECT_THAT(
      set, AllOf(HasSubstr("; HttpOnly"), HasSubstr("; SameSite=Strict"), Not(HasSubstr(token))));
  const std::string cookie = set.substr(0, set.find(';'));
  EXPECT_EQ(status_of(access, {.path = "/data.json", .cookie = cookie}), 200);
  EXPECT_EQ(status_of(access, {.path = "/", .cookie = "a=b;  " + cookie + "; c=d"}), 200);
  EXPECT_EQ(status_of(access, {.path = "/", .cookie = cookie + "0"}), 401);
  EXPECT_EQ(status_of(access, {.path = "/", .cookie = "x" + cookie}), 401);
  EXPECT_EQ(status_of(access, {.path = "/", .cookie = "cairn_serve_8321=" + token}), 401);
  EXPECT_EQ(status_of(PageAccess("0.0.0.0", 8321, "another token 16"), {.cookie = cookie}), 401);
}

TEST(ServeAccessTest, KnowsLoopback) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host :
       {"0.0.0.0", "::", "127.example.org", "10.0.0.1", "localhost.example.org", "machine", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
  EXPECT_EQ(web_address("::1", 80), "http://[::1]:80/");
}

}  // namespace
}  // namespace cairn::cli
