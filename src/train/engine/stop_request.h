// What a user asks of a running fit() from outside: by signal, or by a file in the save folder.
//
//   SIGTERM, SIGINT, SIGUSR1, <save_folder>/STOP   save at the next batch, then stop
//   SIGUSR2, <save_folder>/SAVE                    save at the next batch, go on
//   a second SIGTERM or SIGINT                     leave at once, as if nobody handled it
//
//  1. The handlers (signal_watch.h) only set flags; a Trainer has them from its construction on.
//  2. The training thread asks poll() after each batch. The files are looked for at most once in
//     `file_interval`: a stat of a network folder for every batch would be felt. In a store that
//     may_be_far() another thread looks, once in `store_interval`, and a later poll() reports what
//     it found (control_files.h): no batch waits for a server.
//  3. A file is removed when poll() reports it, before it is served: a save that fails is not
//     tried again for ever, and a STOP file does not stop the next run, too.
//  4. Each request is served once, by the fit() that is told of it. What comes behind the last
//     poll() of a fit(), a signal too, is for the next one of the Trainer, before its first batch:
//     a program of many short fit()s is stopped, although each of its batches may be a last one.
//     A stop then saves what the fit()s before have trained; a save waits until a batch is trained,
//     if only the last one, and for the next fit() when this one throws before.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cairn {

class FileSystem;
class ObjectStore;

struct StopRequestOptions {
  bool handle_signals = true;
  std::optional<std::string> folder = std::nullopt;  // where the files are looked for
  std::chrono::milliseconds file_interval{500};
  std::shared_ptr<ObjectStore> store = nullptr;  // where the folder is; null: in `files`
  std::chrono::milliseconds store_interval{10000};
  FileSystem* files = nullptr;  // the machine's own when null
  // For tests; the steady clock when empty.
  std::function<std::chrono::steady_clock::time_point()> now = nullptr;
};

struct Requests {
  bool save = false;   // save now
  bool stop = false;   // and then stop
  std::string reason;  // "SIGTERM", "ckpt/STOP": for messages; empty when nothing was asked
};

// One at a time in a process that handles signals; UsageError for a second one. Constructed and
// destroyed on the training thread.
class StopRequest {
 public:
  explicit StopRequest(StopRequestOptions options);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // What was asked since the last call. An unreadable folder counts as no request.
  Requests poll();

  // Between two fit()s it handles no signals. attend(): UsageError as the constructor.
  void rest();
  void attend();
  // Before the first batch: signals so far, what lies in the folder already, and what was found
  // behind the last poll() of the fit() before.
  Requests poll_before_training();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
