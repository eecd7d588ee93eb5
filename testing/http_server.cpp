#include "testing/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "net/url.h"

namespace cairn::testing {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;

// Reads requests from a connection.
class Incoming {
 public:
  Incoming(SocketStream& stream, bool keeps_bodies)
      : stream_(stream), keeps_bodies_(keeps_bodies) {}

  // Returns false at the end of the connection.
  bool read_request(ReceivedRequest& asked) {
    std::string head;
    if (!take_until("\r\n\r\n", head)) return false;
    parse_head(head + "\r\n", asked);
    if (!asked.header("expect").empty() && !go_on()) return false;
    if (asked.header("transfer-encoding") == "chunked") return take_chunks(asked);
    const std::string length = asked.header("content-length");
    return take_body(length.empty() ? 0 : std::stoull(length), asked);
  }

 private:
  bool fill() {
    buffer_.erase(0, begin_);
    begin_ = 0;
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const std::size_t got = stream_.read(buffer_.data() + before, kReadBytes);
    buffer_.resize(before + got);
    return got > 0;
  }

  bool take_until(std::string_view end, std::string& text) {
    std::size_t at = 0;
    while ((at = buffer_.find(end, begin_)) == std::string::npos) {
      if (!fill()) return false;
    }
    text = buffer_.substr(begin_, at - begin_);
    begin_ = at + end.size();
    return true;
  }

  bool take_body(std::size_t size, ReceivedRequest& asked) {
    asked.body_bytes += size;
    if (!keeps_bodies_) return drop(size);
    while (buffer_.size() - begin_ < size) {
      if (!fill()) return false;
    }
    asked.body += buffer_.substr(begin_, size);
    begin_ += size;
    return true;
  }

  bool take_chunks(ReceivedRequest& asked) {
    std::string line;
    for (std::size_t size = 1; size > 0;) {
      if (!take_until("\r\n", line)) return false;
      size = std::stoull(line, nullptr, 16);
      if (!take_body(size, asked) || !take_until("\r\n", line)) return false;
    }
    return true;
  }

  // Answers "Expect: 100-continue", the only expectation that HTTP defines. Without an answer, the
  // client waits for a second.
  bool go_on() {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    return stream_.write(kContinue.data(), kContinue.size());
  }

  bool drop(std::size_t size) {
    const std::size_t here = std::min(size, buffer_.size() - begin_);
    begin_ += here;
    std::size_t left = size - here;
    while (left > 0) {
      const std::size_t got = stream_.drop(left);
      if (got == 0) return false;
      left -= got;
    }
    return true;
  }

  static void parse_head(const std::string& head, ReceivedRequest& asked) {
    std::size_t begin = 0;
    bool is_first = true;
    for (std::size_t end; (end = head.find("\r\n", begin)) != std::string::npos; begin = end + 2) {
      const std::string line = head.substr(begin, end - begin);
      if (is_first) {
        const std::size_t one = line.find(' ');
        asked.method = line.substr(0, one);
        asked.target = line.substr(one + 1, line.rfind(' ') - one - 1);
        is_first = false;
        continue;
      }
      const std::size_t colon = line.find(':');
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      const std::size_t value = line.find_first_not_of(' ', colon + 1);
      asked.headers[name] = value == std::string::npos ? "" : line.substr(value);
    }
  }

  SocketStream& stream_;
  bool keeps_bodies_;
  std::string buffer_;
  std::size_t begin_ = 0;  // Where the unread bytes begin.
};

bool send_dripping(SocketStream& stream, const std::string& text) {
  for (const char& byte : text) {
    if (!stream.write(&byte, 1)) return false;
  }
  return true;
}

bool send_zeros(SocketStream& stream, std::size_t size) {
  static const std::string kZeros(std::size_t{1} << 20, '\0');
  for (std::size_t now; size > 0; size -= now) {
    now = std::min(size, kZeros.size());
    if (!stream.write(kZeros.data(), now)) return false;
  }
  return true;
}

// Drops all unsent bytes: the client gets ECONNRESET.
void reset(int socket) {
  const linger now = {1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

}  // namespace

std::map<std::string, std::string> ReceivedRequest::query() const {
  std::map<std::string, std::string> parts;
  const std::string all = raw_query();
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('&', begin), all.size());
    const std::string part = all.substr(begin, end - begin);
    const std::size_t equals = std::min(part.find('='), part.size());
    parts[percent_decoded(part.substr(0, equals))] =
        percent_decoded(part.substr(std::min(equals + 1, part.size())));
    begin = end + 1;
  }
  return parts;
}

std::string ReceivedRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpServer::HttpServer(Handler handler, bool keeps_bodies, const TlsServer* tls)
    : handler_(std::move(handler)), keeps_bodies_(keeps_bodies), tls_(tls) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || bind(listener_, any, size) != 0 || listen(listener_, 128) != 0 ||
      getsockname(listener_, any, &size) != 0) {
    throw std::runtime_error("no server on loopback can be started");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::scoped_lock lock(mutex_);
    for (const int socket : sockets_)
      shutdown(socket, SHUT_RDWR);
  }
  for (std::thread& thread : threads_)
    thread.join();
  close(listener_);
}

void HttpServer::accept_all() {
  while (!stopping_) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    ++connections_;
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::scoped_lock lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { serve(socket); });
  }
}

void HttpServer::serve(int socket) {
  if (const auto stream = tls_ != nullptr ? tls_->stream(socket) : plain_stream(socket)) {
    Incoming incoming(*stream, keeps_bodies_);
    ReceivedRequest asked;
    while (!stopping_ && incoming.read_request(asked) && answer(*stream, socket, asked)) {
      asked = {};
    }
  }
  const std::scoped_lock lock(mutex_);
  sockets_.erase(std::find(sockets_.begin(), sockets_.end(), socket));
  close(socket);
}
// Returns whether the connection stays open.
bool HttpServer::answer(SocketStream& stream, int socket, const ReceivedRequest& asked) {
  const HttpReply reply = handler_(asked);
  const bool has_length = std::any_of(reply.headers.begin(), reply.headers.end(),
                                      [](const auto& h) { return h.first == "Content-Length"; });
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
  for (const auto& [name, value] : reply.headers)
    text += name + ": " + value + "\r\n";
  if (!has_length)
    text += "Content-Length: " + std::to_string(reply.body.size() + reply.zeros) + "\r\n";
  if (reply.closes) text += "Connection: close\r\n";
  text += "\r\n";
  if (asked.method != "HEAD") text += reply.body;
  const bool is_cut = reply.sends_at_most < text.size();
  text.resize(std::min(reply.sends_at_most, text.size()));
  bool sent = reply.drips ? send_dripping(stream, text) : stream.write(text.data(), text.size());
  if (asked.method != "HEAD" && !is_cut) sent = sent && send_zeros(stream, reply.zeros);
  if (is_cut && text.empty()) reset(socket);
  return !is_cut && !reply.closes && sent;
}

}  // namespace cairn::testing
