#include "net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "io/file_descriptor.h"
#include "net/http_loop.h"
#include "net/http_transfer.h"
#include "testing/http_server.h"
#include "testing/s3_environment.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::HttpServer;
using ::testing::Not;
using testing::ReceivedRequest;

HttpResponse send(HttpRequest request) {
  return shared_http_client()->start(std::move(request))->wait();
}

SharedBytes owned(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {as_bytes(*owner), owner};
}

TEST(HttpTest, SendsPiecesAndReadsTheAnswer) {
  HttpServer server([](const ReceivedRequest& asked) {
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
  HttpServer server([](const ReceivedRequest& asked) {
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
  HttpServer server(
      [](const ReceivedRequest&) { return HttpReply{.body = std::string(1000, 'x')}; });
  EXPECT_EQ(send({.url = server.url(), .most_bytes = 1000}).failure, "");
  EXPECT_THAT(send({.url = server.url(), .most_bytes = 999}).failure, HasSubstr("999 bytes"));
}

TEST(HttpTest, WhatBreaksOffIsAFailureThatMayPass) {
  for (const std::size_t bytes : {0, 5, 20, 100}) {
    HttpServer server([&](const ReceivedRequest&) {
      return HttpReply{.body = std::string(1000, 'x'), .sends_at_most = bytes};
    });
    const HttpResponse response = send({.url = server.url()});
    EXPECT_NE(response.failure, "") << bytes;
    EXPECT_TRUE(response.may_work_later) << bytes;
  }
  int port = 0;
  {
    const HttpServer server([](const ReceivedRequest&) { return HttpReply{}; });
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

// The key is not sent to another port of the same host either: another program may listen there.
TEST(HttpTest, AKeyIsNotTakenToAnotherHost) {
  std::atomic<int> asked = 0;
  std::string seen = "nothing";
  HttpServer other([&](const ReceivedRequest& request) {
    seen = request.header("authorization");
    ++asked;
    return HttpReply{.body = "there"};
  });
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const std::string there = "http://" + host + ":" + std::to_string(other.port()) + "/x";
    HttpServer first([&](const ReceivedRequest&) {
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
  HttpServer server([](const ReceivedRequest& asked) {
    const int step = std::stoi(asked.target.substr(1));
    if (step == 0) return HttpReply{.body = "there"};
    if (step == 9) return HttpReply{.status = 302, .headers = {{"Location", "file:///etc/passwd"}}};
    return HttpReply{.status = 302, .headers = {{"Location", "/" + std::to_string(step - 1)}}};
  });
  EXPECT_EQ(send({.url = server.url() + "/1"}).status, 302);
  EXPECT_EQ(send({.url = server.url() + "/1"}).redirected_to, server.url() + "/0");
  EXPECT_EQ(send({.url = server.url() + "/2", .redirects = 2}).body, "there");
  EXPECT_EQ(send({.url = server.url() + "/2", .redirects = 2}).redirected_to, server.url() + "/0");
  EXPECT_EQ(send({.url = server.url() + "/0", .redirects = 2}).redirected_to, "");
  EXPECT_NE(send({.url = server.url() + "/3", .redirects = 2}).failure, "");
  EXPECT_NE(send({.url = server.url() + "/9", .redirects = 2}).failure, "");
}

TEST(HttpTest, ProxiesAreThoseOfTheEnvironment) {
  HttpServer proxy(
      [](const ReceivedRequest& asked) { return HttpReply{.body = "for " + asked.target}; });
  const testing::CleanAwsEnvironment clean;
  const testing::EnvironmentVariable variable("http_proxy", proxy.url().c_str());
  EXPECT_EQ(send({.url = "http://example.invalid/a"}).body, "for http://example.invalid/a");
  EXPECT_NE(send({.url = "http://example.invalid/a", .is_direct = true}).failure, "")
      << "as keys from the metadata service, which are for this machine only";
  const testing::EnvironmentVariable except("no_proxy", "example.invalid");
  EXPECT_NE(send({.url = "http://example.invalid/a"}).failure, "");
}

TEST(HttpTest, APasswordOfAProxyIsInNoMessage) {
  const testing::CleanAwsEnvironment clean;
  for (const char* proxy : {"http://me:zeb/ra@127.0.0.1:1", "http://me:zeb#ra@127.0.0.1:1",
                            "http://me:zeb ra@127.0.0.1:1", "http://me:zebra@127.0.0.1:99999",
                            "http://me:zebra@[::1:1", "htp://me:zebra@127.0.0.1:1"}) {
    const testing::EnvironmentVariable variable("http_proxy", proxy);
    const HttpResponse response = send({.url = "http://example.invalid/a"});
    EXPECT_THAT(response.failure, AllOf(Not(HasSubstr("zeb")), Not(HasSubstr("ra@")))) << proxy;
    EXPECT_THAT(response.failure, HasSubstr("proxy")) << proxy;
    EXPECT_FALSE(response.may_work_later) << response.failure;
  }
  const testing::EnvironmentVariable variable("http_proxy", "http://me:zebra@proxy.invalid:1");
  const HttpResponse response = send({.url = "http://example.invalid/a"});
  EXPECT_THAT(response.failure, AllOf(HasSubstr("cannot be resolved"), Not(HasSubstr("zebra"))));
  EXPECT_TRUE(response.may_work_later);
}

// A server that does not answer until the test is over.
class SilentServer {
 public:
  SilentServer()
      : server_([over = over_.get_future().share()](const ReceivedRequest&) {
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

// Sends the head of an answer at once, and then five bytes of the body a second.
class TricklingServer {
 public:
  TricklingServer() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), any, size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~TricklingServer() { shutdown(listener_.get(), SHUT_RDWR); }  // ends accept4()
  TricklingServer(const TricklingServer&) = delete;
  TricklingServer& operator=(const TricklingServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void serve(const std::stop_token& stop) const {
    const FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string next = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    while (!stop.stop_requested() &&
           ::send(client.get(), next.data(), next.size(), MSG_NOSIGNAL) > 0) {
      next = "x";
      never.wait_for(lock, stop, milliseconds(200), [] { return false; });
    }
  }

  const FileDescriptor listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port_ = 0;
  std::jthread thread_;
};

TEST(HttpTest, AServerThatTricklesIsAway) {
  EXPECT_EQ(HttpDeadlines{}.stall, std::chrono::seconds(30));
  const TricklingServer server;
  const HttpResponse response =
      send({.url = server.url(), .deadlines = {.stall = milliseconds(1000)}});
  EXPECT_NE(response.failure, "");
  EXPECT_EQ(response.status, 200) << "it did answer";
  EXPECT_TRUE(response.is_stalled);
  EXPECT_TRUE(response.may_work_later);
  EXPECT_LT(response.body.size(), 100U);
}

TEST(HttpTest, AServerThatNeverAnswersIsAway) {
  const SilentServer server;
  const HttpResponse response =
      send({.url = server.url(), .deadlines = {.stall = milliseconds(1000)}});
  EXPECT_EQ(response.status, 0);
  EXPECT_TRUE(response.is_stalled);
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
  HttpServer server([](const ReceivedRequest& asked) { return HttpReply{.body = asked.target}; });
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

// A server that answers only when this number of requests is there at once.
class GatheringServer {
 public:
  explicit GatheringServer(int requests)
      : there_(requests), server_([this](const ReceivedRequest& asked) {
          there_.arrive_and_wait();
          return HttpReply{.body = asked.body};
        }) {}
  std::string url() const { return server_.url(); }
  int connections() const { return server_.connections(); }

 private:
  std::barrier<> there_;
  HttpServer server_;
};

TEST(HttpLoopsTest, OneRequestAfterAnotherNeedsOneThreadAndOneConnection) {
  HttpServer server([](const ReceivedRequest& asked) { return HttpReply{.body = asked.target}; });
  HttpLoops loops;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(loops.start({.url = server.url() + "/x"})->wait().body, "/x");
  }
  EXPECT_THAT(loops.under_way(), ElementsAre(0));
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpLoopsTest, WhatIsUnderWayAtOnceIsSharedByTwoThreadsAndKeepsItsConnections) {
  constexpr int kAtOnce = 6;
  GatheringServer server(kAtOnce);
  HttpLoops loops;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<HttpCall>> calls;
    for (int i = 0; i < kAtOnce; ++i) {
      calls.push_back(
          loops.start({.method = "PUT", .url = server.url(), .body = {owned(std::to_string(i))}}));
      // All requests are under way until the last one has arrived.
      if (i == 2) {
        EXPECT_THAT(loops.under_way(), ElementsAre(2, 1));
      }
    }
    for (int i = 0; i < kAtOnce; ++i) {
      EXPECT_EQ(calls[static_cast<std::size_t>(i)]->wait().body, std::to_string(i));
    }
    EXPECT_THAT(loops.under_way(), ElementsAre(0, 0)) << "before whoever waits has its answer";
  }
  EXPECT_EQ(server.connections(), kAtOnce);
}

TEST(HttpLoopsTest, ARequestGoesToTheThreadThatHasLessToDo) {
  const SilentServer server;
  HttpLoops loops;
  std::vector<std::unique_ptr<HttpCall>> calls;
  for (int i = 0; i < 4; ++i)
    calls.push_back(loops.start({.url = server.url()}));
  EXPECT_THAT(loops.under_way(), ElementsAre(2, 2));
  calls.erase(calls.begin() + 1);
  calls.erase(calls.begin() + 2);  // These two calls were the second thread's.
  EXPECT_THAT(loops.under_way(), ElementsAre(2, 0));
  calls.push_back(loops.start({.url = server.url()}));
  calls.push_back(loops.start({.url = server.url()}));
  EXPECT_THAT(loops.under_way(), ElementsAre(2, 2));
}

TEST(HttpLoopsTest, WhatMovesOnBothCanBeCancelledFromOtherThreads) {
  const SilentServer server;
  HttpLoops loops;
  std::vector<std::unique_ptr<HttpCall>> calls;
  for (int i = 0; i < 8; ++i)
    calls.push_back(loops.start({.url = server.url()}));
  EXPECT_THAT(loops.under_way(), ElementsAre(4, 4));
  std::vector<std::thread> others;
  for (const auto& call : calls) {
    others.emplace_back([&] { call->cancel(); });
    others.emplace_back([&] { call->cancel(); });
  }
  for (const auto& call : calls)
    EXPECT_TRUE(call->wait().cancelled);
  for (std::thread& other : others)
    other.join();
  EXPECT_THAT(loops.under_way(), ElementsAre(0, 0));
}

// In any order: the loops may be destroyed first, or calls that are done, cancelled or under way.
TEST(HttpLoopsTest, CallsOutliveTheLoops) {
  HttpServer quick([](const ReceivedRequest&) { return HttpReply{.body = "there"}; });
  const SilentServer silent;
  for (const bool loops_go_first : {false, true}) {
    auto loops = std::make_unique<HttpLoops>();
    std::string into(10, ' ');
    std::vector<std::unique_ptr<HttpCall>> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.push_back(
          loops->start({.url = silent.url(), .into = std::as_writable_bytes(std::span(into))}));
    }
    auto first = loops->start({.url = quick.url()});
    auto second = loops->start({.url = quick.url()});
    if (loops_go_first) loops.reset();
    waiting[1].reset();
    waiting[2]->cancel();
    EXPECT_EQ(first->wait().body, "there");
    EXPECT_EQ(second->wait().body, "there");
    EXPECT_TRUE(waiting[2]->wait().cancelled);
    if (!loops_go_first) loops.reset();
    waiting[3]->cancel();
    EXPECT_TRUE(waiting[3]->wait().cancelled);
  }
}

TEST(HttpLoopsTest, SeveralThreadsMayUseThem) {
  HttpServer server([](const ReceivedRequest& asked) { return HttpReply{.body = asked.body}; });
  HttpLoops loops;
  std::vector<std::thread> users;
  std::atomic<int> right = 0;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      for (int i = 0; i < 20; ++i) {
        const std::string text = std::to_string(user) + " " + std::to_string(i);
        HttpRequest request = {.method = "PUT", .url = server.url(), .body = {owned(text)}};
        if (loops.start(std::move(request))->wait().body == text) ++right;
      }
    });
  }
  for (std::thread& user : users)
    user.join();
  EXPECT_EQ(right, 80);
  EXPECT_LE(server.connections(), 4);
}

TEST(HttpTest, AForkedProcessHasItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer starts no thread after the fork of a process with threads";
#endif
  GatheringServer server(2);
  const auto both_threads_work = [&] {
    const auto client = shared_http_client();
    const auto one = client->start({.method = "PUT", .url = server.url(), .body = {owned("1")}});
    const auto other = client->start({.method = "PUT", .url = server.url(), .body = {owned("2")}});
    return one->wait().body == "1" && other->wait().body == "2";
  };
  EXPECT_TRUE(both_threads_work());  // The threads run in this process.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // ends the child if it would wait for ever
    _exit(both_threads_work() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(both_threads_work());
}

std::set<std::string> threads_of_this_process() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    all.insert(entry.path().filename());
  }
  return all;
}

// OpenSSL writes to closed connections without MSG_NOSIGNAL.
TEST(HttpTest, ItsThreadTakesNoSignals) {
  std::thread([] {}).join();  // At the first thread, ThreadSanitizer starts a thread of its own.
  const auto before = threads_of_this_process();
  HttpLoop loop;
  // The loop's thread runs.
  EXPECT_NE(loop.start({.url = "http://127.0.0.1:1"})->wait().failure, "");
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

// A libcurl that does not support the text options of 7.85.
struct OldLibcurl {
  static std::map<int, long>& numbers() {
    static std::map<int, long> all;
    return all;
  }
  static CURLcode set(CURL* handle, CURLoption option, ...) {
    va_list list;
    va_start(list, option);
    void* const value = va_arg(list, void*);  // all values have the same width
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
