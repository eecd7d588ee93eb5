// An HTTP/1.1 server in this process, on a free port of loopback, that can misbehave.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/socket_stream.h"

namespace cairn::testing {

struct ReceivedRequest {
  std::string method;
  std::string target;                          // As sent: "/a%20b?x=1".
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;
  std::size_t body_bytes = 0;  // Counted even if the server drops bodies.

  std::string path() const { return target.substr(0, target.find('?')); }  // Still encoded.
  std::string raw_query() const {
    const std::size_t mark = target.find('?');
    return mark == std::string::npos ? "" : target.substr(mark + 1);
  }
  std::map<std::string, std::string> query() const;  // Decoded.
  std::string header(const std::string& name) const;
};

struct HttpReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::size_t zeros = 0;  // Zero bytes to send after `body`. The server makes them while it sends.
  // The connection ends after this many bytes of the answer, headers included; 0 resets the
  // connection. With `closes` the server closes the connection after the answer.
  std::size_t sends_at_most = std::string::npos;
  bool closes = false;
  bool drips = false;  // Sends each byte on its own.
};

// A check in a fake server returns this if it finds nothing wrong: there is no answer yet.
inline const HttpReply kNoAnswerYet = {.status = 0};

class HttpServer {
 public:
  using Handler = std::function<HttpReply(const ReceivedRequest&)>;

  // Calls `handler` from one thread per connection. Without `keeps_bodies`, bodies of any size are
  // read and dropped. With `tls`, which must outlive the server, the server speaks only TLS.
  explicit HttpServer(Handler handler, bool keeps_bodies = true, const TlsServer* tls = nullptr);
  // Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  std::string url() const {
    return (tls_ != nullptr ? "https" : "http") + ("://127.0.0.1:" + std::to_string(port_));
  }
  int connections() const { return connections_; }  // How many connections there were so far.

 private:
  void accept_all();
  void serve(int socket);
  bool answer(SocketStream& stream, int socket, const ReceivedRequest& asked);

  Handler handler_;
  bool keeps_bodies_;
  const TlsServer* tls_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace cairn::testing
