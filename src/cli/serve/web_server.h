// The HTTP server of `cairn serve`, with the library cpp-httplib.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/serve/web_answer.h"

namespace cairn::cli {

// Throws UsageError in a build without cpp-httplib.
void check_can_serve();

// Listens and answers from the constructor to the destructor, in threads of its own. A connection
// has one request, so that a slow client cannot keep others waiting for long.
class WebServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 0;  // 0: any that is free
    // Called from another thread if the server ends by itself. Does not throw.
    std::function<void()> on_failure = [] {};
  };

  // Binds the address; nobody is answered before start(). Throws StorageError if the address cannot
  // be bound, and UsageError in a build without cpp-httplib.
  explicit WebServer(const Options& options);
  // Waits for the answers that are under way.
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  int port() const;
  // Answers what is asked with `handler`. Call it once.
  void start(WebHandler handler);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::cli
