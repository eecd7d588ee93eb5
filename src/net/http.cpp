#include "net/http.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "net/http_loop.h"

namespace cairn {
namespace {

std::atomic<int> forks_before = 0;  // How many forks lie between the first process and this one.

// A forked process has the memory of the HTTP loops, but not their threads. So a forked process
// gets loops of its own. The inherited loops cannot be stopped: they are left as they are, even at
// exit.
class LoopClient final : public HttpClient {
 public:
  LoopClient() : own_(new Own) {
    pthread_atfork(nullptr, nullptr, [] { ++forks_before; });
  }
  ~LoopClient() override {
    if (Own* const own = own_; own->is_of_this_process()) delete own;
  }
  LoopClient(const LoopClient&) = delete;
  LoopClient& operator=(const LoopClient&) = delete;

  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    Own* own = own_;
    if (!own->is_of_this_process()) {
      auto made = std::make_unique<Own>();
      // Another thread may have been faster. Then `own` is what that thread made.
      if (own_.compare_exchange_strong(own, made.get())) own = made.release();
    }
    return own->loops.start(std::move(request));
  }

 private:
  struct Own {
    bool is_of_this_process() const { return forks == forks_before; }
    const int forks = forks_before;
    HttpLoops loops;
  };

  // There is no lock: in a forked process, a thread that no longer exists might hold it.
  std::atomic<Own*> own_;
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
