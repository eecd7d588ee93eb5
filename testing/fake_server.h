// The common part of the fake servers of object stores. It notes the requests, answers as a test
// tells it to, and fails at random.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "testing/http_server.h"

namespace cairn::testing {

class FakeServer {
 public:
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return server_->url(); }
  int port() const { return server_->port(); }
  int connections() const { return server_->connections(); }

  // All requests so far, in the order of arrival, as "PUT /bucket/key?partNumber=1".
  std::vector<std::string> log();
  void forget_log();
  // A header of the last request (with that method, if given). "" if the request did not have it.
  std::string last_header(const std::string& name, const std::string& method = "");
  // How many lines of the log begin with `beginning`.
  std::size_t count(const std::string& beginning);
  std::size_t faults();

  // Sends `reply` as the answer to the next `times` requests whose log line begins with
  // `beginning`. kAfter: first does what the request asks, so that only its own answer is lost.
  enum class When : std::uint8_t { kInstead, kAfter };
  void answer_next(const std::string& beginning, const HttpReply& reply, int times = 1,
                   When when = When::kInstead);
  void forget_plans();

  // Called with every request and its answer before the answer is sent.
  using Witness = std::function<void(const ReceivedRequest&, const HttpReply&)>;
  void watch(Witness witness);

 protected:
  using Answer = std::function<HttpReply(const ReceivedRequest&)>;

  // `passing`: three errors of the protocol after which a client repeats its request.
  FakeServer(unsigned seed, std::vector<HttpReply> passing)
      : passing_(std::move(passing)), random_(seed) {}
  ~FakeServer() = default;
  // Call it first in the derived constructor's body. `answer` is called under the lock.
  void start(Answer answer);
  // Call it first in the derived destructor.
  void stop() { server_.reset(); }

  std::mutex mutex_;       // Protects all members below and those of derived classes.
  double fault_rate_ = 0;  // The share of requests that fail.

 private:
  struct Planned {
    std::string beginning;
    HttpReply reply;
    int times;
    When when;
  };

  HttpReply handle(const ReceivedRequest& asked);
  HttpReply planned_or_answer(const ReceivedRequest& asked);
  HttpReply with_fault(const ReceivedRequest& asked);

  Answer answer_;
  Witness witness_;
  std::vector<HttpReply> passing_;
  std::mt19937 random_;
  std::vector<std::string> log_;
  std::map<std::string, std::map<std::string, std::string>> last_headers_;  // By method.
  std::vector<Planned> planned_;
  std::size_t faults_ = 0;
  std::unique_ptr<HttpServer> server_;
};

// "<name>text</name>".
std::string tag(const std::string& name, const std::string& text);
HttpReply xml(const std::string& body);
// Finds the first `before` at or after `from`. Returns the text between this position and `after`,
// or to the end if `after` is "".
std::string between(const std::string& text, const std::string& before, const std::string& after,
                    std::size_t from = 0);
std::vector<std::string> split(const std::string& text, char at);
// If a range is requested, cuts the body of `reply`, which is a whole object, to that range.
// Returns false if the range is empty.
bool cut_to_range(const std::string& range, HttpReply& reply);

}  // namespace cairn::testing
