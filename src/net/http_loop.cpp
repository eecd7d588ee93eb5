// libcurl's handles belong to one thread:
//
//  1. start() and cancel() put a transfer into a list under the lock, and wake the thread.
//  2. The thread takes the lists, adds or removes the handles, moves all of them on, answers those
//     that are done, and waits for a socket or to be woken.
//  3. A transfer lives until the thread and its call let go of it. A call's end waits for the
//     thread, which may still be writing to the call's places.
#include "net/http_loop.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "net/http_transfer.h"

namespace cairn {
namespace {

constexpr long kKeptConnections = 64;
constexpr int kLongestWaitMs = 1000;  // libcurl's own deadlines end it earlier

// Of the calling thread, until its end; not those of what the thread itself does wrong, whose
// handlers tell where.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

class HttpLoop::State {
 public:
  using Shared = std::shared_ptr<HttpTransfer>;

  State() : api_(curl_api()), multi_(api_.multi_init()) {
    if (multi_ == nullptr) throw std::bad_alloc();
    api_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kKeptConnections);
    // Signals are the program's: its handlers run on its own threads. And of TLS to a connection
    // that is closed libcurl gets a SIGPIPE, which it only keeps away when it may set handlers
    // itself.
    const SignalsBlocked blocked;  // the thread begins with what its maker has
    thread_ = std::thread([this] { run(); });
  }
  ~State() {
    stopping_ = true;
    api_.multi_wakeup(multi_);
    thread_.join();
    api_.multi_cleanup(multi_);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const CurlApi& api() const { return api_; }
  void add(Shared transfer) { tell(added_, std::move(transfer)); }
  void cancel(Shared transfer) { tell(cancelled_, std::move(transfer)); }

 private:
  void tell(std::vector<Shared>& list, Shared transfer) {
    {
      const std::scoped_lock lock(mutex_);
      list.push_back(std::move(transfer));
    }
    api_.multi_wakeup(multi_);
  }

  void run() {
    while (!stopping_) {
      take_lists();
      int running = 0;
      api_.multi_perform(multi_, &running);
      answer_done();
      api_.multi_poll(multi_, nullptr, 0, kLongestWaitMs, nullptr);
    }
    take_lists();
    while (!moving_.empty()) {
      take_out(moving_.begin()->first)->finish_cancelled();
    }
  }

  void take_lists() {
    std::vector<Shared> added;
    std::vector<Shared> cancelled;
    {
      const std::scoped_lock lock(mutex_);
      added.swap(added_);
      cancelled.swap(cancelled_);
    }
    for (Shared& transfer : added) {
      CURL* const handle = transfer->handle();
      if (api_.multi_add_handle(multi_, handle) == CURLM_OK) {
        moving_.emplace(handle, std::move(transfer));
      } else {
        transfer->finish_failed("libcurl takes no more requests");
      }
    }
    for (const Shared& transfer : cancelled) {
      if (const Shared found = take_out(transfer->handle())) found->finish_cancelled();
    }
  }

  void answer_done() {
    int left = 0;
    while (const CURLMsg* const message = api_.multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      if (const Shared transfer = take_out(message->easy_handle)) transfer->finish(code);
    }
  }

  Shared take_out(CURL* handle) {
    auto node = moving_.extract(handle);
    if (node.empty()) return nullptr;
    api_.multi_remove_handle(multi_, handle);
    return std::move(node.mapped());
  }

  const CurlApi& api_;
  CURLM* multi_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::vector<Shared> added_;
  std::vector<Shared> cancelled_;
  std::map<CURL*, Shared> moving_;  // the thread's own
  std::thread thread_;
};

namespace {

template <class State>
class LoopCall final : public HttpCall {
 public:
  LoopCall(std::shared_ptr<State> state, std::shared_ptr<HttpTransfer> transfer)
      : state_(std::move(state)), transfer_(std::move(transfer)), future_(transfer_->future()) {
    state_->add(transfer_);
  }
  ~LoopCall() override {
    cancel();
    future_.wait();
  }
  LoopCall(const LoopCall&) = delete;
  LoopCall& operator=(const LoopCall&) = delete;

  HttpResponse wait() override { return future_.get(); }
  void cancel() override {
    if (future_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      state_->cancel(transfer_);
    }
  }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<HttpTransfer> transfer_;
  std::shared_future<HttpResponse> future_;
};

}  // namespace

HttpLoop::HttpLoop() : state_(std::make_shared<State>()) {}
HttpLoop::~HttpLoop() = default;

std::unique_ptr<HttpCall> HttpLoop::start(HttpRequest request) {
  return std::make_unique<LoopCall<State>>(
      state_, std::make_shared<HttpTransfer>(state_->api(), std::move(request)));
}

}  // namespace cairn
