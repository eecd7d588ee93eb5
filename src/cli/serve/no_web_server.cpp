// WebServer in a build without cpp-httplib.
#include "cairn/error.h"

#include "cli/serve/web_server.h"

namespace cairn::cli {

void check_can_serve() {
  throw UsageError(
      "this cairn was built without cpp-httplib (Debian: libcpp-httplib-dev), which `cairn serve` "
      "needs. `cairn report` writes the same page to a file, and `cairn metrics` prints the "
      "metrics");
}

class WebServer::Impl {};

WebServer::WebServer(const Options& /*options*/) { check_can_serve(); }
WebServer::~WebServer() = default;
int WebServer::port() const { return 0; }
void WebServer::start(WebHandler /*handler*/) {}

}  // namespace cairn::cli
