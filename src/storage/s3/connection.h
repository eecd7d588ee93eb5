// Requests to one bucket: addressed, signed, sent, tried again, and their errors made ours.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/http.h"
#include "net/retry.h"
#include "storage/s3/answers.h"
#include "storage/s3/config.h"

namespace cairn::s3 {

struct Request {
  std::string method = "GET";
  std::string key = {};  // "" is the bucket
  Query query = {};
  std::vector<HttpHeader> headers = {};
  std::vector<SharedBytes> body = {};
  std::span<std::byte> into = {};
  std::size_t most_bytes = std::size_t{8} << 20;
  bool is_answered_late = false;  // 200 may be sent before the work: its body may be an error
  int attempts = 0;               // less than the configuration's, when it is not 0
  std::string payload_hash = {};  // of `body`, in hex; Call fills it in
};

class Connection;

// A request under way, with all its attempts. Its end cancels it. Moves are made by whoever waits:
// one thread at a time.
class Call {
 public:
  Call(Connection& connection, Request request);
  // The answer of the last attempt: any status but those that were worth another one. StorageError
  // when there is none, or the server only kept failing.
  HttpResponse wait();

 private:
  bool answered(const HttpResponse& response);
  std::optional<std::uint64_t> first_byte() const;
  void check_range(const HttpResponse& response) const;
  bool resume_behind(std::size_t received);

  Connection& connection_;
  Request request_;
  Attempts attempts_;
  std::size_t received_ = 0;  // of `into`, in earlier attempts
  Credentials used_ = {};
  int refused_ = 0;  // corrections: another region, time or key
  std::unique_ptr<HttpCall> call_;
};

// Safe from several threads.
class Connection {
 public:
  explicit Connection(Config config) : config_(std::move(config)) {}

  const Config& config() const { return config_; }
  HttpResponse send(Request request) { return Call(*this, std::move(request)).wait(); }

  // How messages name an object, or the bucket: "s3://bucket/key".
  std::string describe(const std::string& key) const;
  // The error that an answer is, typed; `doing` as "reading".
  [[noreturn]] void refuse(const HttpResponse& response, const std::string& doing,
                           const std::string& key) const;
  // The same unless its status is 2xx.
  void check(const HttpResponse& response, const std::string& doing, const std::string& key) const;

  // The time of the server.
  NetTime now() const;

 private:
  friend class Call;
  HttpRequest signed_request(const Request& request, const Credentials& by);
  std::string region() const;
  std::string payload_hash(const Request& request) const;
  // Learns from an answer that refuses: another region, the server's time, other keys.
  bool correct(const HttpResponse& response, const ErrorAnswer& error, const Credentials& used);

  Config config_;
  std::atomic<std::int64_t> skew_ms_ = 0;  // the server's clock less ours
  mutable std::mutex mutex_;
  std::string region_ = {};  // learned; under the lock, as this:
  Credentials last_used_ = {};
};

}  // namespace cairn::s3
