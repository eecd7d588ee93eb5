// Logger: where metrics and hyperparameters go (composer/loggers).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/train/callback.h"
#include "cairn/train/handle.h"
#include "cairn/value.h"

namespace cairn {

// A file of this machine that a destination is to keep elsewhere.
struct FileUpload {
  std::string remote_file_name;  // what it is called there
  std::string file_path;
  bool overwrite = false;  // what has that name there
  // Of `overwrite`: only what look_before_uploads() found there, or what was uploaded so under that
  // name since. What another job put there meanwhile is left, and is an AlreadyExistsError.
  bool only_known = false;
  // What remote_file_name was made of (its {epoch}, {batch}, ...), and when: with that a
  // destination can forget what it knew, for only_known, of names that do not come again. Empty: it
  // forgets none.
  NameFormat remote_file_name_format = {};
  Timestamp timestamp = {};
  // Another name there, which points at remote_file_name as soon as that is durable: `latest`.
  // Empty: none.
  std::string latest_remote_file_name = {};
  // Names there that this makes superfluous: removed behind that.
  std::vector<std::string> remove_afterwards = {};
  // Nobody writes into the file any more, so it need not be copied before it is sent. It may be
  // removed.
  bool is_immutable = false;
  // Called when all that is done, in any thread, with what was removed. Not behind an error, nor
  // for a file whose name another one took before it was sent.
  std::function<void(const std::vector<std::string>& removed)> on_done = nullptr;
};

// Where what was uploaded can be read.
struct RemotePlace {
  std::shared_ptr<ObjectStore> store;
  NameFormat name;  // with the variables that were in the name that was asked for
};

// A place that log entries go to: derive from it to send them elsewhere. It is a callback, too;
// logger destinations run before other callbacks at init and after them at every other event.
// Called on the training thread, which waits: what is slow belongs on a thread of its own.
class LoggerDestination : public Callback {
 public:
  // Keys are "loss/train/total", "metrics/eval/MulticlassAccuracy"; values are scalars.
  virtual void log_metrics(const Dict& /*metrics*/, std::int64_t /*step*/) {}
  // What does not change during a run: the seed, the number of devices, the enabled algorithms.
  virtual void log_hyperparameters(const Dict& /*hyperparameters*/) {}
  virtual void log_traces(const Dict& /*traces*/) {}
  // A line for people: "saved ckpt/ep1.pt", "skipped ckpt/ep2.pt: damaged". This one takes none.
  virtual void log_message(const std::string& message);

  // Whether upload_file() keeps files.
  virtual bool can_upload_files() const { return false; }
  // Called before anything is loaded. Looks at the objects that may be overwritten later, and at
  // the pointer that will be moved, so that another job's writes are noticed. Dist variables are
  // filled in. `latest` empty: no pointer.
  virtual void look_before_uploads(const NameFormat& /*remote_file_name*/,
                                   const NameFormat& /*latest*/) {}
  // Takes a file, which may change and go when this has returned; sends it in the background. An
  // error of sending is thrown by an event: at the latest by fit_end.
  virtual void upload_file(const FileUpload& /*file*/) {}
  // Writes what is kept under that name, or what a pointer of that name points at, to the file
  // `destination`. NotFoundError; AlreadyExistsError. This one throws UnsupportedError.
  virtual void download_file(const std::string& remote_file_name, const std::string& destination,
                             bool overwrite = false);
  // The place where names of that format are kept, to read them without a copy: autoresume looks
  // there. nullopt: there is none.
  virtual std::optional<RemotePlace> place_of(const NameFormat& /*remote_file_name*/) const {
    return std::nullopt;
  }

 private:
  friend class Logger;
  bool took_message_ = true;
};

// Where messages go that no destination takes: by default to stderr, a line each, so that a warning
// is never lost. Called in the thread that logs; must not throw.
using MessageSink = std::function<void(const std::string& message)>;
// Replaces it, for the whole process, and returns the one of before. An empty one silences.
// Any thread.
MessageSink set_message_sink(MessageSink sink);

// Fans out to the destinations. Used on the training thread only.
class Logger {
 public:
  explicit Logger(State& state) : state_(state) {}

  void log_metrics(const Dict& metrics);  // step: the batch count of the state
  void log_hyperparameters(const Dict& hyperparameters);
  void log_traces(const Dict& traces);
  // Information and warnings. Warnings start with "warning: ". When no destination takes the
  // message it goes to the message sink.
  void log_message(const std::string& message);
  // To every destination that keeps files. Dist variables in both names are filled in.
  void upload_file(FileUpload file);

  void add(std::shared_ptr<LoggerDestination> destination);
  const std::vector<std::shared_ptr<LoggerDestination>>& destinations() const {
    return destinations_;
  }

 private:
  State& state_;
  std::vector<std::shared_ptr<LoggerDestination>> destinations_;
};

// Composer's rendering of a logged value: None, "text", 3, 0.1235.
std::string format_log_value(const Value& value);

}  // namespace cairn
