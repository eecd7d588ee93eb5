#include "cli/serve/web_server.h"

#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "cairn/error.h"

#include "io/process/listening_socket.h"

namespace cairn::cli {
namespace {

constexpr std::size_t kThreads = 8;
constexpr auto kMostWait = std::chrono::seconds(5);  // for a part of a request, or to send one

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
          .cookie = asked.get_header_value("Cookie")};
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

}  // namespace

void check_can_serve() {}

class WebServer::Impl {
 public:
  explicit Impl(const Options& options) : on_failure_(options.on_failure) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_keep_alive_max_count(1);
    server_.set_keep_alive_timeout(kMostWait.count());
    server_.set_read_timeout(kMostWait.count());
    server_.set_write_timeout(kMostWait.count());
    server_.set_payload_max_length(0);
    server_.set_default_headers(headers_of_all());
    server_.set_socket_options(
        [](int socket) { allow_address_again(socket); });  // the library would share the port
    port_ = options.port == 0 ? server_.bind_to_any_port(options.host)
            : server_.bind_to_port(options.host, options.port) ? options.port
                                                               : -1;
    if (port_ > 0) return;
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
    thread_.join();
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
  }

 private:
  void listen() {
    server_.listen_after_bind();
    has_ended_ = true;
    if (!is_stopping_) on_failure_();
  }

  httplib::Server server_;
  std::function<void()> on_failure_;
  int port_ = -1;
  std::atomic<bool> has_ended_ = false;
  std::atomic<bool> is_stopping_ = false;
  std::thread thread_;
};

WebServer::WebServer(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
WebServer::~WebServer() = default;
int WebServer::port() const { return impl_->port(); }
void WebServer::start(WebHandler handler) { impl_->start(std::move(handler)); }

}  // namespace cairn::cli
