// Requests to HTTP servers: the one seam to the network.
//
// What came of a request is a value, also when nothing came back: whoever sends it knows which
// failures are worth another attempt (net/retry.h). Nothing here logs, and no message holds a
// header, a query or a body: they may be secrets.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/bytes.h"

namespace cairn {

struct HttpHeader {
  std::string name;  // in lower case
  std::string value;
};

// How long what may take; 0: as long as it takes.
struct HttpDeadlines {
  std::chrono::milliseconds connect{10'000};
  // For so long fewer than `least_speed` bytes a second move, in both directions together. In whole
  // seconds.
  std::chrono::milliseconds stall{30'000};
  long least_speed = 1024;
  std::chrono::milliseconds total{0};
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<HttpHeader> headers = {};
  // One after another; their owners are kept until the request is done.
  std::vector<SharedBytes> body = {};
  // Where the body of an answer 200 or 206 goes; a longer one is a failure. Without it, and for
  // other answers, to HttpResponse::body. It must be there until the call is.
  std::span<std::byte> into = {};
  std::size_t most_bytes = std::size_t{8} << 20;  // of HttpResponse::body; more is a failure
  HttpDeadlines deadlines = {};
  int redirects = 0;  // how many are followed: to http and https, and never from https to http
  std::string ca_file = {};  // of certificates that are trusted, in place of the system's
  bool is_direct = false;    // past all proxies
};

struct HttpResponse {
  int status = 0;                        // 0: no answer
  std::vector<HttpHeader> headers = {};  // of the last answer
  std::string body = {};
  std::size_t received = 0;  // bytes that are in HttpRequest::into, also when it failed then
  // The address where the request ended, if that is not where it was sent: "https://host/path",
  // without user and query. For a redirect that was not followed: the address that it points at.
  std::string redirected_to = {};
  // Why there is no whole answer: no connection, no certificate, broken off. Empty: there is one.
  std::string failure = {};
  bool may_work_later = false;  // of a failure
  bool is_stalled = false;      // the failure: a deadline passed
  bool is_too_long = false;     // the failure: more came than there is room for
  bool cancelled = false;

  // Value of a header, in lower case; "" when there is none.
  std::string_view header(std::string_view name) const;
};

// A request under way. Its end cancels it, and then nothing is written to its places any more.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  // What came of it; once.
  virtual HttpResponse wait() = 0;
  // From any thread: wait() gives a response that was cancelled, at once.
  virtual void cancel() = 0;
};

// Safe from several threads.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Begins it. Many may be under way at once.
  virtual std::unique_ptr<HttpCall> start(HttpRequest request) = 0;
};

// One for the whole process, over libcurl: connections are kept for the next request; certificates
// are checked; proxies are those of the environment (https_proxy, no_proxy). UnsupportedError where
// libcurl is not installed.
std::shared_ptr<HttpClient> shared_http_client();

}  // namespace cairn
