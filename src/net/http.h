// Requests to HTTP servers: the one seam to the network.
//
// The outcome of a request is a value, even if there is no answer: the sender knows which failures
// are worth another attempt (net/retry.h). Nothing here logs. No message contains a header, a query
// or a body, because they may be secrets.
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

// Time limits; 0 means none.
struct HttpDeadlines {
  std::chrono::milliseconds connect{10'000};
  // How long the transfer may move fewer than `least_speed` bytes a second, both directions
  // together. In whole seconds.
  std::chrono::milliseconds stall{30'000};
  long least_speed = 1024;
  std::chrono::milliseconds total{0};
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<HttpHeader> headers = {};
  // The pieces, in order. Their owners are kept until the request is done.
  std::vector<SharedBytes> body = {};
  // Where the body of a 200 or 206 answer is written. A body that is longer than `into` is a
  // failure. The bodies of other answers go to HttpResponse::body, and so do all bodies if `into`
  // is empty. The memory must outlive the call.
  std::span<std::byte> into = {};
  // Limit of HttpResponse::body; a longer body is a failure.
  std::size_t most_bytes = std::size_t{8} << 20;
  HttpDeadlines deadlines = {};
  // How many redirects are followed: only to http and https, and never from https to http.
  int redirects = 0;
  std::string ca_file = {};  // Trusted certificates, in place of the system's.
  bool is_direct = false;    // Use no proxy.
};

struct HttpResponse {
  int status = 0;                        // 0: no answer
  std::vector<HttpHeader> headers = {};  // of the last answer
  std::string body = {};
  // Bytes written to HttpRequest::into, even if the request failed after that.
  std::size_t received = 0;
  // The address where the request ended, if it was redirected: "https://host/path", without user
  // and query. If a redirect was not followed, the address that the redirect points at.
  std::string redirected_to = {};
  // Why there is no whole answer: no connection, a bad certificate, a broken connection. Empty if
  // the answer is whole.
  std::string failure = {};
  bool may_work_later = false;  // whether the failure may be temporary
  bool is_stalled = false;      // whether the failure is that a deadline passed
  bool is_too_long = false;     // whether the failure is that the answer exceeds the limit
  bool cancelled = false;

  // The value of the header `name` (in lower case); "" if there is none.
  std::string_view header(std::string_view name) const;
};

// A request under way. The destructor cancels it; after that nothing is written to `into`.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  // Waits for the outcome and returns it. Call it once.
  virtual HttpResponse wait() = 0;
  // Makes wait() return at once, with a cancelled response. Any thread may call it.
  virtual void cancel() = 0;
};

// Thread-safe.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Starts the request. Many requests may be under way at once.
  virtual std::unique_ptr<HttpCall> start(HttpRequest request) = 0;
};

// The one client of the process, over libcurl. The client keeps connections for later requests,
// checks certificates, and uses the proxies of the environment (https_proxy, no_proxy). Throws
// UnsupportedError if libcurl is not installed.
std::shared_ptr<HttpClient> shared_http_client();

}  // namespace cairn
