// What the fake servers of object stores have in common: they note what came, answer as they are
// told, and fail at random.
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

  // "PUT /bucket/key?partNumber=1" of all so far, in the order in which they came.
  std::vector<std::string> log();
  void forget_log();
  // Of the last request (of that method) that came; "" when it did not have it.
  std::string last_header(const std::string& name, const std::string& method = "");
  // How many of the log begin like this.
  std::size_t count(const std::string& beginning);
  std::size_t faults();

  // The next requests whose log line begins with `beginning` are answered like this, `times` often.
  // kAfter: what was asked is done, and the answer is lost.
  enum class When : std::uint8_t { kInstead, kAfter };
  void answer_next(const std::string& beginning, const HttpReply& reply, int times = 1,
                   When when = When::kInstead);
  void forget_plans();

  // Called with every request and its answer, before the answer is sent.
  using Witness = std::function<void(const HttpAsked&, const HttpReply&)>;
  void watch(Witness witness);

 protected:
  using Answer = std::function<HttpReply(const HttpAsked&)>;

  // `passing`: the errors of its protocol after which a client tries again, three of them.
  FakeServer(unsigned seed, std::vector<HttpReply> passing)
      : passing_(std::move(passing)), random_(seed) {}
  ~FakeServer() = default;
  // `answer` is called under the lock; first in the constructor's body, and
  void start(Answer answer);
  // first in the destructor's.
  void stop() { server_.reset(); }

  std::mutex mutex_;       // of all that follows, and of what derives
  double fault_rate_ = 0;  // of all requests

 private:
  struct Planned {
    std::string beginning;
    HttpReply reply;
    int times;
    When when;
  };

  HttpReply handle(const HttpAsked& asked);
  HttpReply planned_or_answer(const HttpAsked& asked);
  HttpReply with_fault(const HttpAsked& asked);

  Answer answer_;
  Witness witness_;
  std::vector<HttpReply> passing_;
  std::mt19937 random_;
  std::vector<std::string> log_;
  std::map<std::string, std::map<std::string, std::string>> last_headers_;  // by method
  std::vector<Planned> planned_;
  std::size_t faults_ = 0;
  std::unique_ptr<HttpServer> server_;
};

// "<name>text</name>".
std::string tag(const std::string& name, const std::string& text);
HttpReply xml(const std::string& body);
// What stands between the two, from the first `before` on; to the end without `after`.
std::string between(const std::string& text, const std::string& before, const std::string& after,
                    std::size_t from = 0);
std::vector<std::string> split(const std::string& text, char at);
// Cuts `reply`, whose body is a whole object, to the range that is asked for, if one is. False when
// there is nothing in it.
bool cut_to_range(const std::string& range, HttpReply& reply);

}  // namespace cairn::testing
