#include "cli/serve/web_server.h"

#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "cairn/error.h"

#include "io/process/listening_socket.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kThreads = 32;
constexpr auto kMostWait = std::chrono::seconds(5);   // for a part of a request, or to send one
constexpr auto kMostIdle = std::chrono::seconds(1);   // before a request begins
constexpr auto kMostTime = std::chrono::seconds(30);  // of a connection
constexpr std::uint64_t kMostReceived = 64 << 10;     // bytes of a request
constexpr auto kPause = std::chrono::milliseconds(50);

// No answer may be shown in a frame, kept, or taken for something else.
httplib::Headers headers_of_all() {
  return {{"Cache-Control", "no-store"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Referrer-Policy", "no-referrer"},
          {"X-Content-Type-Options", "nosniff"}};
}

constexpr const char* kPolicy = "default-src 'none'; frame-ancestors 'none'";

WebRequest read(const httplib::Request& asked) {
  return {.method = asked.method,
          .path = asked.path,
          .query = {asked.params.begin(), asked.params.end()},
          .host = asked.get_header_value("Host"),
          .authorization = asked.get_header_value("Authorization"),
          .cookie = asked.get_header_value("Cookie"),
          .if_none_match = asked.get_header_value("If-None-Match"),
          .fetch_site = asked.get_header_value("Sec-Fetch-Site"),
          .fetch_mode = asked.get_header_value("Sec-Fetch-Mode")};
}

void write(WebAnswer answer, httplib::Response& response) {
  response.status = answer.status;
  bool has_policy = false;
  for (const auto& [name, value] : answer.headers) {
    response.set_header(name, value);
    has_policy = has_policy || name == "Content-Security-Policy";
  }
  if (!has_policy) response.set_header("Content-Security-Policy", kPolicy);
  const std::size_t size = answer.body->size();
  if (size == 0) return;
  // A provider, because a body would be compressed, by Brotli at its slowest.
  response.set_content_provider(
      size, answer.type,
      [body = std::move(answer.body)](std::size_t at, std::size_t most, httplib::DataSink& sink) {
        return sink.write(body->data() + at, most);
      });
}

WebAnswer answer_to(const WebRequest& asked, const WebHandler& handler) {
  try {
    return handler(asked);
  } catch (const std::exception& error) {
    return {.status = 500, .body = web_body(std::string("cairn serve: ") + error.what() + "\n")};
  }
}

// Ends connections that take too long or send too much. The library bounds the wait for each part
// of a request, and neither the whole of it nor the number of headers.
class ConnectionLimits {
 public:
  explicit ConnectionLimits(int port) : port_(static_cast<std::uint16_t>(port)) {}

  void look(std::chrono::steady_clock::time_point now) {
    std::map<std::uint64_t, std::chrono::steady_clock::time_point> begins;
    for (const AcceptedConnection& connection : accepted_connections(port_)) {
      const auto known = begins_.find(connection.inode);
      const auto begin = known == begins_.end() ? now : known->second;
      begins.emplace(connection.inode, begin);
      if (now - begin > kMostTime || connection.received > kMostReceived)
        end_connection(connection);
    }
    begins_ = std::move(begins);
  }

  void end_all() const {
    for (const AcceptedConnection& connection : accepted_connections(port_))
      end_connection(connection);
  }

 private:
  std::uint16_t port_;
  std::map<std::uint64_t, std::chrono::steady_clock::time_point> begins_ = {};  // by inode
};

}  // namespace

void check_can_serve() {}

class WebServer::Impl {
 public:
  explicit Impl(const Options& options) : on_failure_(options.on_failure) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_keep_alive_max_count(1);
    server_.set_keep_alive_timeout(kMostIdle.count());
    server_.set_read_timeout(kMostWait.count());
    server_.set_write_timeout(kMostWait.count());
    server_.set_payload_max_length(0);
    server_.set_default_headers(headers_of_all());
    server_.set_socket_options(prepare_to_listen);  // the library would share the port
    port_ = options.port == 0 ? server_.bind_to_any_port(options.host)
            : server_.bind_to_port(options.host, options.port) ? options.port
                                                               : -1;
    if (port_ > 0) {
      limits_.emplace(port_);
      return;
    }
    throw StorageError("cannot listen at " + options.host + ", port " +
                           std::to_string(options.port) +
                           ": the address is not this machine's, or another program listens there. "
                           "--port chooses another port, 0 any that is free",
                       EADDRINUSE);
  }

  ~Impl() {
    if (!thread_.joinable()) return;
    // The library ignores stop() before its thread has begun to listen.
    while (!has_ended_ && !server_.is_running())
      std::this_thread::yield();
    is_stopping_ = true;
    server_.stop();
    // Threads that wait for slow clients end now, also those that begin with one only now.
    while (!has_ended_) {
      watch([](ConnectionLimits& limits) { limits.end_all(); });
      std::this_thread::sleep_for(kPause);
    }
    thread_.join();
    watcher_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int port() const { return port_; }

  void start(WebHandler handler) {
    // The handler of all paths and methods, so that the library's search for a path is not used.
    server_.set_pre_routing_handler(
        [handler = std::move(handler)](const httplib::Request& asked, httplib::Response& response) {
          // The library would send one part for each range that is asked for, however many.
          if (asked.has_header("Range")) {
            write({.status = 416, .body = web_body("")}, response);
          } else {
            write(answer_to(read(asked), handler), response);
          }
          return httplib::Server::HandlerResponse::Handled;
        });
    thread_ = std::thread([this] { listen(); });
    watcher_ = std::thread([this] {
      while (!has_ended_) {
        watch([](ConnectionLimits& limits) { limits.look(std::chrono::steady_clock::now()); });
        std::this_thread::sleep_for(kPause);
      }
    });
  }

 private:
  void listen() {
    server_.listen_after_bind();
    has_ended_ = true;
    if (!is_stopping_) on_failure_();
  }

  // Without memory or descriptors nothing is watched for a moment.
  void watch(const std::function<void(ConnectionLimits&)>& look) {
    const std::scoped_lock lock(limits_mutex_);
    try {
      look(*limits_);
    } catch (const std::exception&) {
      return;
    }
  }

  httplib::Server server_;
  std::function<void()> on_failure_;
  int port_ = -1;
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_stopping_ = false;
  std::mutex limits_mutex_;
  std::optional<ConnectionLimits> limits_;
  std::thread thread_;
  std::thread watcher_;
};

WebServer::WebServer(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
WebServer::~WebServer() = default;
int WebServer::port() const { return impl_->port(); }
void WebServer::start(WebHandler handler) { impl_->start(std::move(handler)); }

}  // namespace cairn::cli
