#include "net/http.h"

#include <algorithm>

#include "net/http_loop.h"

namespace cairn {
namespace {

class LoopClient final : public HttpClient {
 public:
  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    return loop_.start(std::move(request));
  }

 private:
  HttpLoop loop_;
};

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const HttpHeader& header) { return header.name == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

std::shared_ptr<HttpClient> shared_http_client() {
  static const auto client = std::make_shared<LoopClient>();
  return client;
}

}  // namespace cairn
