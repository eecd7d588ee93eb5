// Certificates are checked, against a server with a certificate of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/process/program.h"
#include "net/http_loop.h"
#include "testing/child_process.h"
#include "testing/http_server.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto program = find_program("openssl");
    if (!program) GTEST_SKIP() << "the program openssl is not installed";
    testing::ChildProcess request({*program, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                   "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                                   "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                                   "-keyout", folder_ / "key.pem", "-out", certificate()});
    ASSERT_EQ(request.wait().exit_code, 0) << request.output();
    server_ = std::make_unique<testing::ChildProcess>(
        std::vector<std::string>{*program, "s_server", "-accept", "127.0.0.1:0", "-www", "-key",
                                 folder_ / "key.pem", "-cert", certificate()});
    const auto line = server_->wait_for_line("ACCEPT ");
    ASSERT_TRUE(line.has_value()) << server_->output();
    port_ = line->substr(line->rfind(':') + 1);
  }
  std::string certificate() const { return folder_ / "cert.pem"; }
  HttpResponse get(const std::string& host, const std::string& ca_file) const {
    return shared_http_client()
        ->start({.url = "https://" + host + ":" + port_ + "/", .ca_file = ca_file})
        ->wait();
  }

  testing::TempFolder folder_;
  std::unique_ptr<testing::ChildProcess> server_;
  std::string port_;
};

TEST_F(TlsTest, OnlyACertificateThatIsTrustedIsTaken) {
  const HttpResponse refused = get("localhost", "");
  EXPECT_THAT(refused.failure, ::testing::HasSubstr("certificate"));
  EXPECT_FALSE(refused.may_work_later);
  const HttpResponse taken = get("localhost", certificate());
  EXPECT_EQ(taken.failure, "");
  EXPECT_EQ(taken.status, 200);
}

TEST_F(TlsTest, OnlyForTheHostThatItNames) {
  const HttpResponse refused = get("127.0.0.1", certificate());
  EXPECT_NE(refused.failure, "");
  EXPECT_FALSE(refused.may_work_later);
}

// More bytes than a record, a call's buffer and a socket's buffers hold.
TEST_F(TlsTest, BodiesGoBothWaysOnBothThreads) {
  const testing::TlsServer tls(folder_ / "key.pem", certificate());
  const testing::HttpServer server(
      [](const testing::ReceivedRequest& asked) { return testing::HttpReply{.body = asked.body}; },
      /*keeps_bodies=*/true, &tls);
  constexpr std::size_t kBytes = (std::size_t{5} << 20) + 7;
  HttpLoops loops;
  std::vector<std::string> sent, got;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    sent.emplace_back(kBytes, c);
    for (std::size_t i = 0; i < kBytes; i += 4093)
      sent.back()[i] = static_cast<char>(i);
    got.emplace_back(kBytes, ' ');
  }
  std::vector<std::unique_ptr<HttpCall>> calls;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const ByteView body = as_bytes(sent[i]);
    calls.push_back(
        loops.start({.method = "PUT",
                     .url = "https://localhost:" + std::to_string(server.port()),
                     .body = {{body.first(100'000), nullptr}, {body.subspan(100'000), nullptr}},
                     .into = std::as_writable_bytes(std::span(got[i])),
                     .ca_file = certificate()}));
  }
  EXPECT_THAT(loops.under_way(), ::testing::ElementsAre(2, 2));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const HttpResponse response = calls[i]->wait();
    EXPECT_EQ(response.failure, "");
    EXPECT_EQ(response.received, kBytes);
    EXPECT_TRUE(got[i] == sent[i]) << i;
  }
}

}  // namespace
}  // namespace cairn
