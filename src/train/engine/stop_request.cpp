#include "train/engine/stop_request.h"

#include <signal.h>

#include <atomic>
#include <vector>

#include "cairn/error.h"

#include "io/file.h"
#include "train/engine/control_files.h"
#include "train/engine/signal_watch.h"

namespace cairn {
namespace {

const std::string kStop = "STOP";
const std::vector<std::string> kNames = {"SAVE", kStop};

std::atomic<bool> signals_taken = false;  // A StopRequest polls the signals.

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

// At most one StopRequest at a time takes the signals.
class Claim {
 public:
  Claim() {
    if (signals_taken.exchange(true)) {
      throw UsageError("another fit() of this process handles signals: set handle_signals = false");
    }
  }
  ~Claim() { signals_taken = false; }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  SignalWatch watch_;
};

}  // namespace

struct StopRequest::Impl {
  explicit Impl(StopRequestOptions o) : options(std::move(o)) {
    if (options.handle_signals) claim.emplace();
    if (options.files == nullptr) options.files = &posix_file_system();
    if (!options.now) options.now = [] { return std::chrono::steady_clock::now(); };
    const bool is_far = options.store && options.store->may_be_far();
    if (options.folder && is_far) far_files.emplace(options.store, *options.folder, kNames);
  }

  // Removes the file. Returns true if the file existed and is now removed.
  bool take(const std::string& path) const {
    try {
      if (options.store) return options.store->stat(path) && options.store->remove(path);
      return options.files->stat(path) && options.files->remove(path);
    } catch (const Error&) {  // An unreadable folder is no reason to stop training.
      return false;
    }
  }

  void poll_signals(Requests& requests) const {
    if (!claim) return;
    const auto [save, stop] = take_signals();
    requests.save = save != 0 || stop != 0;
    requests.stop = stop != 0;
    if (requests.save) requests.reason = signal_name(stop != 0 ? stop : save);
  }

  void poll_files(Requests& requests) {
    if (!options.folder) return;
    const auto now = options.now();
    if (far_files) {
      add_requests(far_files->take(), requests);
      if (now >= next_look && far_files->look()) next_look = now + options.store_interval;
    } else if (now >= next_look) {
      next_look = now + options.file_interval;
      add_requests(take_here(), requests);
    }
  }

  void add_requests(const std::vector<std::string>& found, Requests& requests) const {
    for (const std::string& name : found) {
      requests.save = true;
      requests.stop = requests.stop || name == kStop;
      requests.reason += (requests.reason.empty() ? "" : ", ") + join_path(*options.folder, name);
    }
  }

  std::vector<std::string> take_here() const {
    std::vector<std::string> found;
    for (const std::string& name : kNames) {
      if (take(join_path(*options.folder, name))) found.push_back(name);
    }
    return found;
  }

  StopRequestOptions options;
  std::optional<Claim> claim;
  std::chrono::steady_clock::time_point next_look = {};
  std::optional<ControlFiles> far_files;
};

Requests joint_requests(Requests own, bool any_saves, bool any_stops) {
  own.save = any_saves;
  own.stop = any_stops;
  if ((any_saves || any_stops) && own.reason.empty()) own.reason = "requested on another rank";
  return own;
}

StopRequest::StopRequest(StopRequestOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
StopRequest::~StopRequest() = default;

Requests StopRequest::poll() {
  Requests requests;
  impl_->poll_signals(requests);
  impl_->poll_files(requests);
  return requests;
}

void StopRequest::stop_handling() { impl_->claim.reset(); }

void StopRequest::resume_handling() {
  if (!impl_->options.handle_signals) return;
  if (impl_->claim) throw UsageError("fit() is under way: it cannot be called again inside itself");
  impl_->claim.emplace();
}

// On this machine a look is cheap enough to ignore the interval, and the next look comes soon.
Requests StopRequest::poll_before_training() {
  Requests requests;
  impl_->poll_signals(requests);
  if (impl_->far_files) {
    impl_->poll_files(requests);
  } else if (impl_->options.folder) {
    impl_->add_requests(impl_->take_here(), requests);
    impl_->next_look = {};
  }
  return requests;
}

}  // namespace cairn
