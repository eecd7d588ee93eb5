// A user's requests to a running fit() from outside: by signal, or by a file in the save folder.
//
//   SIGTERM, SIGINT, SIGUSR1, <save_folder>/STOP   save after the next batch, then stop
//   SIGUSR2, <save_folder>/SAVE                    save after the next batch, continue
//   a second SIGTERM or SIGINT                     leave at once, as without a handler
//
//  1. The handlers (signal_watch.h) only set flags. They are installed when a Trainer is
//     constructed.
//  2. The training thread calls poll() after each batch. poll() looks for the files at most once
//     per `file_interval`, since a stat of a network folder for every batch would slow training
//     down. In a store that may_be_far(), another thread looks once per `store_interval`, and a
//     later poll() reports what it found (control_files.h). So no batch waits for a server.
//  3. poll() removes a file before the request is served. So a failed save is not retried forever,
//     and a STOP file does not stop the next run.
//  4. Each request is served once, by the fit() that receives it. A request after the last poll()
//     of a fit() (a signal, too) goes to the Trainer's next fit(), which serves it before its first
//     batch. So a program of many short fit()s can be stopped, although each batch may be the last
//     of its fit(). A stop then saves what the earlier fit()s trained. A save waits until a batch
//     is trained, even if that batch is the last. If this fit() throws before that, the save waits
//     for the next fit().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {
class ObjectStore;
}  // namespace cairn

namespace cairn {

class FileSystem;

struct StopRequestOptions {
  bool handle_signals = true;
  std::optional<std::string> folder = std::nullopt;  // Where to look for the files.
  std::chrono::milliseconds file_interval{500};
  std::shared_ptr<ObjectStore> store = nullptr;  // Where the folder is. Null: in `files`.
  std::chrono::milliseconds store_interval{10000};
  FileSystem* files = nullptr;  // Null: the machine's own.
  // For tests. Empty: the steady clock.
  std::function<std::chrono::steady_clock::time_point()> now = nullptr;
};

struct Requests {
  bool save = false;   // save now
  bool stop = false;   // and then stop
  std::string reason;  // "SIGTERM" or "ckpt/STOP", for messages. Empty without a request.
};

// The requests of all ranks: a request to one rank becomes a request to all.
Requests joint_requests(Requests own, bool any_saves, bool any_stops);

// At most one StopRequest at a time in a process may handle signals; the constructor of a second
// one throws UsageError. Construct and destroy it on the training thread.
class StopRequest {
 public:
  explicit StopRequest(StopRequestOptions options);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The requests since the last call. An unreadable folder counts as no request.
  Requests poll();

  // stop_handling() stops handling signals, between two fit()s. resume_handling() handles them
  // again; it throws UsageError as the constructor does.
  void stop_handling();
  void resume_handling();
  // Before the first batch: signals so far, files already in the folder, and requests that came
  // after the last poll() of the previous fit().
  Requests poll_before_training();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
