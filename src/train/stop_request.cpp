#include "train/stop_request.h"

#include <signal.h>

#include <array>
#include <atomic>

#include "cairn/error.h"

#include "base/file.h"

namespace cairn {
namespace {

// A handler can reach nothing but globals.
std::atomic<bool> installed = false;
std::atomic<int> stop_signal = 0;  // asked for and not yet polled
std::atomic<int> save_signal = 0;
std::atomic<int> interrupts = 0;  // SIGTERM and SIGINT so far
static_assert(std::atomic<int>::is_always_lock_free);

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

extern "C" void cairn_on_signal(int number) {
  if (number == SIGUSR2) {
    save_signal = number;
    return;
  }
  stop_signal = number;
  const bool is_interrupt = number == SIGTERM || number == SIGINT;
  if (is_interrupt && interrupts.fetch_add(1) > 0) {
    ::signal(number, SIG_DFL);
    ::raise(number);  // delivered when this handler returns
  }
}

std::string signal_name(int number) {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "SIGUSR2";
  }
}

// The handlers while an object lives.
class Handlers {
 public:
  Handlers() {
    if (installed.exchange(true)) {
      throw UsageError("another fit() of this process handles signals: set handle_signals = false");
    }
    stop_signal = 0;
    save_signal = 0;
    interrupts = 0;
    struct sigaction action = {};
    action.sa_handler = cairn_on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      // Who started the program had it ignore the signal: a shell's background job, say.
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Handlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &before_[i], nullptr);
    }
    installed = false;
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

 private:
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

}  // namespace

struct StopRequest::Impl {
  explicit Impl(StopRequestOptions o) : options(std::move(o)) {
    if (options.handle_signals) handlers.emplace();
    if (options.files == nullptr) options.files = &posix_file_system();
    if (!options.now) options.now = [] { return std::chrono::steady_clock::now(); };
  }

  // True, and the file is gone, when it was there.
  bool take(const std::string& path) const {
    try {
      return options.files->stat(path) && options.files->remove(path);
    } catch (const Error&) {  // a folder that cannot be read: no reason to stop training
      return false;
    }
  }

  void poll_signals(Requests& requests) const {
    if (!handlers) return;
    const int save = save_signal.exchange(0);
    const int stop = stop_signal.exchange(0);
    requests.save = save != 0 || stop != 0;
    requests.stop = stop != 0;
    if (requests.save) requests.reason = signal_name(stop != 0 ? stop : save);
  }

  void poll_files(Requests& requests) {
    if (!options.folder || options.now() < next_look) return;
    next_look = options.now() + options.file_interval;
    for (const char* name : {"SAVE", "STOP"}) {
      const std::string path = join_path(*options.folder, name);
      if (!take(path)) continue;
      requests.save = true;
      requests.stop = requests.stop || name == std::string("STOP");
      requests.reason += (requests.reason.empty() ? "" : ", ") + path;
    }
  }

  StopRequestOptions options;
  std::optional<Handlers> handlers;
  std::chrono::steady_clock::time_point next_look = {};
};

StopRequest::StopRequest(StopRequestOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
StopRequest::~StopRequest() = default;

Requests StopRequest::poll() {
  Requests requests;
  impl_->poll_signals(requests);
  impl_->poll_files(requests);
  return requests;
}

}  // namespace cairn
