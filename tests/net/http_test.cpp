#include "net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "net/http_loop.h"
#include "net/http_transfer.h"
#include "testing/http_server.h"
#include "testing/s3_environment.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::HttpAsked;
using testing::HttpReply;
using testing::HttpServer;

HttpResponse send(HttpRequest request) {
  return shared_http_client()->start(std::move(request))->wait();
}

SharedBytes owned(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {as_bytes(*owner), owner};
}

TEST(HttpTest, SendsPiecesAndReadsTheAnswer) {
  HttpServer server([](const HttpAsked& asked) {
    return HttpReply{.status = 201,
                     .headers = {{"X-Case", " a b "}},
                     .body = asked.method + asked.target + asked.header("x-own") + asked.body};
  });
  const HttpResponse response = send({.method = "PUT",
                                      .url = server.url() + "/a/../b%20c?x=%2F",
                                      .headers = {{"x-own", "!"}},
                                      .body = {owned("one "), owned(""), owned("two")}});
  EXPECT_EQ(response.failure, "");
  EXPECT_EQ(response.status, 201);
  EXPECT_EQ(response.header("x-case"), "a b");
  EXPECT_EQ(response.body, "PUT/a/../b%20c?x=%2F!one two") << "as it was signed, byte by byte";
}

TEST(HttpTest, ABodyGoesIntoItsPlace) {
  HttpServer server([](const HttpAsked& asked) {
    return HttpReply{.status = asked.target == "/missing" ? 404 : 200, .body = "0123456789"};
  });
  std::string into(10, ' ');
  const auto place = std::as_writable_bytes(std::span(into));
  HttpResponse response = send({.url = server.url() + "/", .into = place});
  EXPECT_EQ(response.received, 10U);
  EXPECT_EQ(into, "0123456789");
  EXPECT_EQ(response.body, "");
  response = send({.url = server.url() + "/", .into = place.first(9)});
  EXPECT_THAT(response.failure, HasSubstr("longer than what was asked for"));
  EXPECT_FALSE(response.may_work_later);
  into.assign(10, ' ');
  response = send({.url = server.url() + "/missing", .into = place});
  EXPECT_EQ(response.body, "0123456789") << "an error is not what was asked for";
  EXPECT_EQ(into, std::string(10, ' '));
}

TEST(HttpTest, AnAnswerIsBounded) {
  HttpServer server([](const HttpAsked&) { return HttpReply{.body = std::string(1000, 'x')}; });
  EXPECT_EQ(send({.url = server.url(), .most_bytes = 1000}).failure, "");
  EXPECT_THAT(send({.url = server.url(), .most_bytes = 999}).failure, HasSubstr("999 bytes"));
}

TEST(HttpTest, WhatBreaksOffIsAFailureThatMayPass) {
  for (const std::size_t bytes : {0, 5, 20, 100}) {
    HttpServer server([&](const HttpAsked&) {
      return HttpReply{.body = std::string(1000, 'x'), .sends_at_most = bytes};
    });
    const HttpResponse response = send({.url = server.url()});
    EXPECT_NE(response.failure, "") << bytes;
    EXPECT_TRUE(response.may_work_later) << bytes;
  }
  int port = 0;
  {
    const HttpServer server([](const HttpAsked&) { return HttpReply{}; });
    port = server.port();
  }
  const HttpResponse response = send({.url = "http://127.0.0.1:" + std::to_string(port)});
  EXPECT_NE(response.failure, "");
  EXPECT_TRUE(response.may_work_later) << "a server that restarts";
}

TEST(HttpTest, OnlyHttpIsSpoken) {
  for (const char* url : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"}) {
    const HttpResponse response = send({.url = url});
    EXPECT_NE(response.failure, "") << url;
    EXPECT_FALSE(response.may_work_later) << url;
  }
}

// Nor to another port: another program may listen there.
TEST(HttpTest, AKeyIsNotTakenToAnotherHost) {
  std::atomic<int> asked = 0;
  std::string seen = "nothing";
  HttpServer other([&](const HttpAsked& request) {
    seen = request.header("authorization");
    ++asked;
    return HttpReply{.body = "there"};
  });
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const std::string there = "http://" + host + ":" + std::to_string(other.port()) + "/x";
    HttpServer first([&](const HttpAsked&) {
      return HttpReply{.status = 302, .headers = {{"Location", there}}};
    });
    EXPECT_EQ(send({.url = first.url() + "/a",
                    .headers = {{"authorization", "Bearer canary"}},
                    .redirects = 2})
                  .body,
              "there");
    EXPECT_EQ(seen, "") << host;
  }
  EXPECT_EQ(asked, 2);
}

TEST(HttpTest, RedirectsAreFollowedAsFarAsAllowed) {
  HttpServer server([](const HttpAsked& asked) {
    const int step = std::stoi(asked.target.substr(1));
    if (step == 0) return HttpReply{.body = "there"};
    if (step == 9) return HttpReply{.status = 302, .headers = {{"Location", "file:///etc/passwd"}}};
    return HttpReply{.status = 302, .headers = {{"Location", "/" + std::to_string(step - 1)}}};
  });
  EXPECT_EQ(send({.url = server.url() + "/1"}).status, 302);
  EXPECT_EQ(send({.url = server.url() + "/2", .redirects = 2}).body, "there");
  EXPECT_NE(send({.url = server.url() + "/3", .redirects = 2}).failure, "");
  EXPECT_NE(send({.url = server.url() + "/9", .redirects = 2}).failure, "");
}

TEST(HttpTest, ProxiesAreThoseOfTheEnvironment) {
  HttpServer proxy([](const HttpAsked& asked) { return HttpReply{.body = "for " + asked.target}; });
  const testing::CleanAwsEnvironment clean;
  const testing::EnvironmentVariable variable("http_proxy", proxy.url().c_str());
  EXPECT_EQ(send({.url = "http://example.invalid/a"}).body, "for http://example.invalid/a");
  EXPECT_NE(send({.url = "http://example.invalid/a", .is_direct = true}).failure, "")
      << "as keys from the metadata service, which are for this machine only";
  const testing::EnvironmentVariable except("no_proxy", "example.invalid");
  EXPECT_NE(send({.url = "http://example.invalid/a"}).failure, "");
}

// A server that does not answer until the test is over.
class SilentServer {
 public:
  SilentServer()
      : server_([over = over_.get_future().share()](const HttpAsked&) {
          over.wait();
          return HttpReply{};
        }) {}
  ~SilentServer() { over_.set_value(); }
  std::string url() const { return server_.url(); }

 private:
  std::promise<void> over_;
  HttpServer server_;
};

TEST(HttpTest, DeadlinesEndIt) {
  const SilentServer server;
  const HttpResponse response =
      send({.url = server.url(), .deadlines = {.total = milliseconds(50)}});
  EXPECT_NE(response.failure, "");
  EXPECT_TRUE(response.may_work_later);
}

TEST(HttpTest, ACallCanBeCancelledOrLetGo) {
  const SilentServer server;
  const auto call = shared_http_client()->start({.url = server.url()});
  std::thread other([&] { call->cancel(); });
  EXPECT_TRUE(call->wait().cancelled);
  other.join();
  std::string into(10, ' ');
  shared_http_client()->start(
      {.url = server.url(), .into = std::as_writable_bytes(std::span(into))});
}

TEST(HttpTest, ManyAreUnderWayAtOnceAndConnectionsAreKept) {
  HttpServer server([](const HttpAsked& asked) { return HttpReply{.body = asked.target}; });
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<HttpCall>> calls;
    for (int i = 0; i < 8; ++i) {
      calls.push_back(shared_http_client()->start({.url = server.url() + "/" + std::to_string(i)}));
    }
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(calls[static_cast<std::size_t>(i)]->wait().body, "/" + std::to_string(i));
    }
  }
  EXPECT_LE(server.connections(), 8);
}

TEST(HttpTest, AForkedProcessHasItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets no thread start behind the fork of a process that has some";
#endif
  HttpServer server([](const HttpAsked&) { return HttpReply{.body = "there"}; });
  EXPECT_EQ(send({.url = server.url()}).body, "there");  // the loop's thread runs, here
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // ends it, where it would wait for ever
    _exit(send({.url = server.url()}).body == "there" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(send({.url = server.url()}).body, "there");
}

std::set<std::string> threads_of_this_process() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    all.insert(entry.path().filename());
  }
  return all;
}

// OpenSSL writes to a connection that is closed without MSG_NOSIGNAL.
TEST(HttpTest, ItsThreadTakesNoSignals) {
  std::thread([] {}).join();  // beside the first one ThreadSanitizer starts one of its own
  const auto before = threads_of_this_process();
  HttpLoop loop;
  EXPECT_NE(loop.start({.url = "http://127.0.0.1:1"})->wait().failure, "");  // it runs
  int found = 0;
  for (const std::string& thread : threads_of_this_process()) {
    if (before.contains(thread)) continue;
    std::ifstream file("/proc/self/task/" + thread + "/status");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::size_t at = text.find("SigBlk:\t");
    ASSERT_NE(at, std::string::npos);
    const auto blocked = std::stoull(text.substr(at + 8, 16), nullptr, 16);
    EXPECT_NE(blocked >> (SIGPIPE - 1) & 1, 0U);
    EXPECT_NE(blocked >> (SIGTERM - 1) & 1, 0U) << "handlers run on the program's threads";
    ++found;
  }
  EXPECT_EQ(found, 1);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGPIPE), 0) << "and here nothing has changed";
}

// One that does not know the texts of 7.85.
struct OldLibcurl {
  static std::map<int, long>& numbers() {
    static std::map<int, long> all;
    return all;
  }
  static CURLcode set(CURL* handle, CURLoption option, ...) {
    va_list list;
    va_start(list, option);
    void* const value = va_arg(list, void*);  // all of them are as wide
    va_end(list);
    if (option > CURLOPTTYPE_STRINGPOINT + 300 && option < CURLOPTTYPE_FUNCTIONPOINT) {
      return CURLE_UNKNOWN_OPTION;
    }
    if (option < CURLOPTTYPE_STRINGPOINT) numbers()[option] = reinterpret_cast<long>(value);
    return curl_api().easy_setopt(handle, option, value);
  }
};

TEST(HttpTest, AnOlderLibraryThanTheHeadersIsRestrictedToHttpToo) {
  CurlApi old = curl_api();
  old.easy_setopt = &OldLibcurl::set;
  const HttpTransfer plain(old, {.url = "http://localhost/"});
  EXPECT_EQ(OldLibcurl::numbers()[CURLOPTTYPE_LONG + 181], CURLPROTO_HTTP | CURLPROTO_HTTPS);
  EXPECT_EQ(OldLibcurl::numbers()[CURLOPTTYPE_LONG + 182], CURLPROTO_HTTP | CURLPROTO_HTTPS);
  const HttpTransfer secure(old, {.url = "https://localhost/"});
  EXPECT_EQ(OldLibcurl::numbers()[CURLOPTTYPE_LONG + 182], CURLPROTO_HTTPS);
}

}  // namespace
}  // namespace cairn
