// `cairn serve`: the server itself, over sockets.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "cli/serve/page_access.h"
#include "cli/serve/web_server.h"
#include "io/file_descriptor.h"
#include "run_folder.h"
#include "run_tool.h"
#include "testing/child_process.h"
#include "testing/environment_variable.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

bool can_serve() {
  try {
    check_can_serve();
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

FileDescriptor connect_to(int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void send_text(const FileDescriptor& socket, const std::string& text) {
  EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

// All that the server sends until it closes the connection.
std::string answer_on(const FileDescriptor& socket) {
  std::string all;
  char buffer[4096];
  for (ssize_t got; (got = read(socket.get(), buffer, sizeof buffer)) > 0;)
    all.append(buffer, static_cast<std::size_t>(got));
  return all;
}

std::string send_and_read(int port, const std::string& text) {
  const FileDescriptor socket = connect_to(port);
  send_text(socket, text);
  return answer_on(socket);
}

std::string ask(int port, const std::string& method, const std::string& target,
                const std::string& headers = "") {
  return send_and_read(port, method + " " + target + " HTTP/1.1\r\nHost: localhost:" +
                                 std::to_string(port) + "\r\n" + headers + "\r\n");
}

struct ServeTest : ::testing::Test {
  void SetUp() override {
    if (!can_serve()) GTEST_SKIP() << "this build has no cpp-httplib";
  }
};

// --- HTTP ---------------------------------------------------------------------------------------

struct WebServerTest : ServeTest {
  void start(WebHandler handler) {
    server_.emplace(WebServer::Options{});
    server_->start(std::move(handler));
  }
  int port() const { return server_->port(); }
  std::optional<WebServer> server_;
};

TEST_F(WebServerTest, PassesOnWhatIsAskedAndAnswered) {
  WebRequest seen;
  start([&](const WebRequest& asked) {
    seen = asked;
    return WebAnswer{.status = 404, .body = web_body("gone"), .headers = {{"X-A", "b"}}};
  });
  const std::string answer = ask(port(), "GET", "/a%20b?run=x%2Fy&run=%3Cz%3E&token=t",
                                 "Cookie: c=d\r\nAuthorization: Bearer e\r\n");
  EXPECT_EQ(seen.method, "GET");
  EXPECT_EQ(seen.path, "/a b");
  EXPECT_EQ(seen.query, (std::multimap<std::string, std::string>{
                            {"run", "x/y"}, {"run", "<z>"}, {"token", "t"}}));
  EXPECT_EQ(seen.host, "localhost:" + std::to_string(port()));
  EXPECT_EQ(seen.cookie, "c=d");
  EXPECT_EQ(seen.authorization, "Bearer e");
  EXPECT_THAT(answer,
              AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("\r\nX-A: b\r\n"),
                    HasSubstr("\r\nContent-Length: 4\r\n"), ::testing::EndsWith("\r\n\r\ngone")));
}

TEST_F(WebServerTest, EveryAnswerHasTheHeadersOfSafety) {
  start([](const WebRequest& asked) -> WebAnswer {
    if (asked.path == "/throw") throw UsageError("wrong");
    return {.body = web_body("x")};
  });
  for (const char* target : {"/", "/throw", "/none"}) {
    EXPECT_THAT(ask(port(), "GET", target),
                AllOf(HasSubstr("\r\nCache-Control: no-store\r\n"),
                      HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"),
                      HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"),
                      HasSubstr("\r\nContent-Security-Policy: default-src 'none'; frame-ancestors "
                                "'none'\r\n"),
                      Not(HasSubstr("\r\nServer:")), Not(HasSubstr("Access-Control-Allow"))));
  }
  EXPECT_THAT(ask(port(), "GET", "/throw"),
              AllOf(StartsWith("HTTP/1.1 500 "), HasSubstr("cairn serve: wrong")));
}

TEST_F(WebServerTest, HeadHasNoBody) {
  start([](const WebRequest&) { return WebAnswer{.body = web_body("a body")}; });
  EXPECT_THAT(ask(port(), "HEAD", "/"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\nContent-Length: 6\r\n"),
                    ::testing::EndsWith("\r\n\r\n")));
}

TEST_F(WebServerTest, IsNeitherCompressedNorCutIntoRanges) {
  const std::string body(100'000, 'x');
  start([&](const WebRequest&) { return WebAnswer{.body = web_body(body)}; });
  EXPECT_THAT(ask(port(), "GET", "/", "Accept-Encoding: gzip, br\r\n"),
              AllOf(Not(HasSubstr("Content-Encoding")), HasSubstr(body)));
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 1000; ++i)
    ranges += ",0-";
  const std::string answer = ask(port(), "GET", "/", ranges + "\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 416 "));
  EXPECT_LT(answer.size(), 1000U);
}

TEST_F(WebServerTest, AConnectionHasOneRequestAndNoBody) {
  int count = 0;
  start([&](const WebRequest&) {
    ++count;
    return WebAnswer{.body = web_body("once")};
  });
  const std::string get =
      "GET / HTTP/1.1\r\nHost: localhost:" + std::to_string(port()) + "\r\n\r\n";
  EXPECT_THAT(send_and_read(port(), get + get), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_EQ(count, 1);
}

TEST_F(WebServerTest, RequestsThatAreNoneOrTooLongAreRefused) {
  int count = 0;
  start([&](const WebRequest&) {
    ++count;
    return WebAnswer{.body = web_body("x")};
  });
  EXPECT_THAT(ask(port(), "GET", "/" + std::string(20'000, 'x')), StartsWith("HTTP/1.1 414 "));
  EXPECT_THAT(ask(port(), "GET", "/", "X: " + std::string(20'000, 'x') + "\r\n"),
              StartsWith("HTTP/1.1 400 "));
  for (const char* text :
       {"\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n", "SOME / HTTP/1.1\r\n\r\n"})
    EXPECT_THAT(send_and_read(port(), text), Not(HasSubstr(" 200 "))) << text;
  EXPECT_EQ(count, 0);
  EXPECT_THAT(ask(port(), "GET", "/"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, AClientThatSaysNothingDoesNotKeepOthersWaiting) {
  start([](const WebRequest&) { return WebAnswer{.body = web_body("x")}; });
  const FileDescriptor silent = connect_to(port());
  const FileDescriptor slow = connect_to(port());
  send_text(slow, "GET / HT");
  EXPECT_THAT(ask(port(), "GET", "/"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServerTest, EndsWhileManyClientsAreSlow) {
  start([](const WebRequest&) { return WebAnswer{.body = web_body("x")}; });
  std::vector<FileDescriptor> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(connect_to(port()));
    send_text(slow.back(), "GET / HT");
  }
  server_.reset();
  for (const FileDescriptor& socket : slow)
    EXPECT_THAT(answer_on(socket), Not(HasSubstr(" 200 ")));
}

TEST_F(WebServerTest, APortThatIsTakenIsAnError) {
  start([](const WebRequest&) { return WebAnswer{.body = web_body("x")}; });
  EXPECT_THROW(WebServer({.port = port()}), StorageError);
  EXPECT_THROW(WebServer({.host = "192.0.2.1"}), StorageError);  // nobody's
  const int port = this->port();
  server_.reset();
  EXPECT_EQ(WebServer({.port = port}).port(), port);
}

TEST_F(WebServerTest, EndsAlsoBeforeItHasBegunAndTakesThatForNoFailure) {
  std::atomic<int> failures = 0;
  for (int i = 0; i < 20; ++i) {
    WebServer server({.on_failure = [&failures] { ++failures; }});
    server.start([](const WebRequest&) { return WebAnswer{.body = web_body("x")}; });
  }
  EXPECT_EQ(failures, 0);
}

// --- The command --------------------------------------------------------------------------------

int port_in(const std::string& line) {
  return std::stoi(line.substr(line.find(':', line.find("//")) + 1));
}

TEST_F(ServeTest, PrintsItsAddressAndEndsInOrder) {
  const RunFolder folder;
  folder.write("logs-rank0.jsonl", "{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n");
  for (const int signal : {SIGINT, SIGTERM}) {
    testing::ChildProcess tool({CAIRN_TOOL, "serve", folder.path(), "--port", "0"});
    const auto line = tool.wait_for_line("http://127.0.0.1:");
    ASSERT_TRUE(line);
    const int port = port_in(*line);
    EXPECT_THAT(ask(port, "GET", "/"), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("<!doctype")));
    EXPECT_THAT(ask(port, "GET", "/data.json"), HasSubstr("\"batches\":[1]"));
    EXPECT_THAT(ask(port, "GET", "/metrics"),
                HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    EXPECT_THAT(ask(port, "DELETE", "/"), StartsWith("HTTP/1.1 405 "));
    tool.send(signal);
    const auto ended = tool.wait();
    EXPECT_EQ(ended.exit_code, kDone) << tool.output();
    EXPECT_EQ(tool.output(), "http://127.0.0.1:" + std::to_string(port) + "/\n");
  }
}

TEST_F(ServeTest, WhereOthersReachItATokenIsNeeded) {
  const RunFolder folder;
  testing::ChildProcess tool(
      {CAIRN_TOOL, "serve", folder.path(), "--host", "0.0.0.0", "--port", "0"});
  const auto line = tool.wait_for_line("?token=");
  ASSERT_TRUE(line);
  ASSERT_TRUE(tool.wait_for_line("plain HTTP"));
  const int port = port_in(*line);
  const std::string token = line->substr(line->find("token=") + 6);
  EXPECT_EQ(token.size(), 32U);
  EXPECT_THAT(ask(port, "GET", "/"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask(port, "GET", "/metrics", "Authorization: Bearer " + token + "\r\n"),
              StartsWith("HTTP/1.1 200 "));
  const std::string entered = ask(port, "GET", "/?token=" + token);
  EXPECT_THAT(entered, StartsWith("HTTP/1.1 303 "));
  const std::size_t at = entered.find("cairn_serve_");
  ASSERT_NE(at, std::string::npos);
  const std::string cookie = entered.substr(at, entered.find(';', at) - at);
  EXPECT_THAT(ask(port, "GET", "/", "Cookie: " + cookie + "\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServeTest, TheTokenOfTheEnvironmentIsNeverPrinted) {
  const RunFolder folder;
  const testing::EnvironmentVariable token("CAIRN_SERVE_TOKEN", "a token of the environment");
  testing::ChildProcess tool({CAIRN_TOOL, "serve", folder.path(), "--port", "0", "--json"});
  const auto line = tool.wait_for_line("\"port\"");
  ASSERT_TRUE(line);
  const int port = port_in(tool.output());
  EXPECT_THAT(ask(port, "GET", "/"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(ask(port, "GET", "/", "Authorization: Bearer a token of the environment\r\n"),
              StartsWith("HTTP/1.1 200 "));
  tool.send(SIGTERM);
  EXPECT_EQ(tool.wait().exit_code, kDone);
  EXPECT_THAT(tool.output(), Not(HasSubstr("a token")));
}

TEST_F(ServeTest, RefusesWhatCannotBeServed) {
  const RunFolder folder;
  EXPECT_EQ(run({"serve", folder / "none"}).code, kNotFound);
  EXPECT_EQ(run({"serve", folder.path(), "--port", "70000"}).code, kFailed);
  const testing::EnvironmentVariable token("CAIRN_SERVE_TOKEN", "short");
  const Answer answer = run({"serve", folder.path()});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("CAIRN_SERVE_TOKEN"), HasSubstr("at least 16")));
}

}  // namespace
}  // namespace cairn::cli
