// A libcurl handle belongs to one thread, which also encrypts and decrypts its bytes. There are two
// such threads, which share nothing (HttpLoops). A transfer stays with the thread that got it. Each
// thread works like this:
//
//  1. start() and cancel() put a transfer into a list under the lock, and wake the thread.
//  2. The thread takes the lists, adds or removes the handles, advances all transfers, and answers
//     those that are done. Then it waits for a socket, or to be woken.
//  3. A transfer lives until both the thread and its call have released it. The destructor of a
//     call waits for the thread, which may still be writing to the caller's memory.
#include "net/http_loop.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "net/http_transfer.h"

namespace cairn {
namespace {

constexpr long kKeptConnections = 64;
constexpr int kLongestWaitMs = 1000;  // libcurl's own deadlines end the wait earlier.

// Blocks the signals of the calling thread during this object's life. Signals that report the
// thread's own faults stay unblocked, so that their handlers can say where the fault is.
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

  State() : api_(curl_api()), owned_multi_(api_.multi_init(), api_.multi_cleanup) {
    if (multi_ == nullptr) throw std::bad_alloc();
    api_.multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kKeptConnections);
    // The program's signal handlers must run on the program's threads. Besides, TLS raises SIGPIPE
    // on a closed connection, and libcurl prevents that only if it may set handlers itself.
    const SignalsBlocked blocked;  // The new thread inherits this thread's signal mask.
    thread_ = std::thread([this] { run(); });
  }
  ~State() {
    stopping_ = true;
    api_.multi_wakeup(multi_);
    thread_.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const CurlApi& api() const { return api_; }
  int under_way() const { return under_way_; }
  void add(Shared transfer) {
    {
      const std::scoped_lock lock(mutex_);
      added_.emplace(transfer->handle(), transfer);
      ++under_way_;
    }
    api_.multi_wakeup(multi_);
  }
  // Destructors call cancel(), so it allocates no memory.
  void cancel(HttpTransfer& transfer) noexcept {
    transfer.ask_to_cancel();
    api_.multi_wakeup(multi_);
  }

 private:
  // The thread runs run() and the functions below. No caller could catch their exceptions, so these
  // functions allocate no memory.
  void run() {
    while (!stopping_) {
      take_added();
      take_out_cancelled();
      int running = 0;
      api_.multi_perform(multi_, &running);
      answer_done();
      api_.multi_poll(multi_, nullptr, 0, kLongestWaitMs, nullptr);
    }
    take_added();
    while (!moving_.empty()) {
      take_out(moving_.begin()->first)->finish_cancelled();
    }
  }

  void take_added() {
    std::map<CURL*, Shared> added;
    {
      const std::scoped_lock lock(mutex_);
      added.swap(added_);
    }
    while (!added.empty()) {
      auto node = added.extract(added.begin());
      if (api_.multi_add_handle(multi_, node.key()) == CURLM_OK) {
        moving_.insert(std::move(node));
      } else {
        --under_way_;
        node.mapped()->finish_refused();
      }
    }
  }

  void take_out_cancelled() {
    for (auto next = moving_.begin(); next != moving_.end();) {
      const auto each = next++;
      if (each->second->is_to_be_cancelled()) take_out(each->first)->finish_cancelled();
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
    --under_way_;
    return std::move(node.mapped());
  }

  const CurlApi& api_;
  const std::unique_ptr<CURLM, decltype(&::curl_multi_cleanup)> owned_multi_;
  CURLM* const multi_ = owned_multi_.get();
  std::atomic<bool> stopping_ = false;
  std::atomic<int> under_way_ = 0;
  std::mutex mutex_;
  std::map<CURL*, Shared> added_;
  std::map<CURL*, Shared> moving_;  // used only by the thread
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
      state_->cancel(*transfer_);
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

int HttpLoop::under_way() const { return state_->under_way(); }

std::unique_ptr<HttpCall> HttpLoop::start(HttpRequest request) {
  return std::make_unique<LoopCall<State>>(
      state_, std::make_shared<HttpTransfer>(state_->api(), std::move(request)));
}

// --- HttpLoops -----------------------------------------------------------------------------------

std::unique_ptr<HttpCall> HttpLoops::start(HttpRequest request) {
  const std::scoped_lock lock(mutex_);
  return choose().start(std::move(request));
}

std::vector<int> HttpLoops::under_way() const {
  const std::scoped_lock lock(mutex_);
  std::vector<int> all = {first_.under_way()};
  if (second_ != nullptr) all.push_back(second_->under_way());
  return all;
}

// The caller holds the lock.
HttpLoop& HttpLoops::choose() {
  if (first_.under_way() == 0) return first_;
  if (second_ == nullptr) {
    try {
      second_ = std::make_unique<HttpLoop>();
    } catch (const std::system_error&) {
      // No second thread can be started. One thread does all the work, only slower.
      return first_;
    }
  }
  return second_->under_way() < first_.under_way() ? *second_ : first_;
}

}  // namespace cairn
