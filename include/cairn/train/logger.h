// Logger: where metrics and hyperparameters go (composer/loggers).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/time.h"
#include "cairn/train/callback.h"
#include "cairn/train/choices.h"
#include "cairn/train/handle.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// A local file that a destination is to keep elsewhere.
struct FileUpload {
  std::string remote_file_name;  // the file's name at the destination
  std::string file_path;
  bool overwrite = false;  // may replace an existing object of that name
  // Restricts `overwrite` to objects that look_before_uploads() found, or that were uploaded with
  // this flag since. If another job wrote the object meanwhile, it stays, and the upload fails with
  // AlreadyExistsError.
  bool only_known = false;
  // The format that remote_file_name was made from (with its {epoch}, {batch}, ...), and the
  // training time of the file. With both, a destination can forget what only_known needs about
  // names that cannot occur again. Empty: the destination forgets nothing.
  NameFormat remote_file_name_format = {};
  Timestamp timestamp = {};
  // A pointer, `latest`, that moves to remote_file_name as soon as this object is durable. Empty:
  // none.
  std::string latest_remote_file_name = {};
  // Names that this upload makes superfluous. These objects are removed after the pointer has
  // moved.
  std::vector<std::string> remove_afterwards = {};
  // The file is no longer written to, so it need not be copied before it is sent. The file may be
  // removed.
  bool is_immutable = false;
  // Called in any thread when the upload, the move of the pointer and the removals are done, with
  // the names that were removed. Not called after an error, nor for a file that another upload of
  // the same name replaced before it was sent.
  std::function<void(const std::vector<std::string>& removed)> on_done = nullptr;
};

// Where uploaded files can be read.
struct RemotePlace {
  std::shared_ptr<ObjectStore> store;
  NameFormat name;  // with the variables of the name that was asked for
};

// Rows of values under the names of their columns.
struct LoggedTable {
  std::vector<std::string> columns;
  std::vector<List> rows;  // each with one value per column
  std::string name = "Table";
};

// Images for people to look at.
struct LoggedImages {
  // One image of [C,H,W] or [H,W], or N images of [N,C,H,W], with one to four channels. uint8
  // elements are pixels, others are in [0, 1]. With `channels_last` the channels come after H and
  // W.
  at::Tensor images;
  std::string name = "Images";
  bool channels_last = false;
};

// A destination of log entries. Derive from this class to send entries elsewhere. A logger
// destination is a callback, too: logger destinations run before other callbacks at init, and after
// them at every other event. Called on the training thread, which waits: do slow work on a thread
// of your own.
class LoggerDestination : public Callback {
 public:
  // Keys are "loss/train/total", "metrics/eval/MulticlassAccuracy"; values are scalars. `step` is
  // the batch that they belong to. Losses that a GPU computes arrive some batches later.
  virtual void log_metrics(const Dict& /*metrics*/, std::int64_t /*step*/) {}
  // Values that do not change during a run: the seed, the number of devices, the enabled
  // algorithms.
  virtual void log_hyperparameters(const Dict& /*hyperparameters*/) {}
  virtual void log_traces(const Dict& /*traces*/) {}
  // A line for people: "saved ckpt/ep1.pt", "skipped ckpt/ep2.pt: damaged". The default does not
  // take messages.
  virtual void log_message(const std::string& message);

  // Losses arrive through log_metrics() with their own step, so nothing needs to wait for them.
  bool needs_losses(const State& /*state*/) const override { return false; }
  // A destination only takes what is logged.
  bool may_change_batch() const override { return false; }

  // Whether upload_file() keeps files.
  virtual bool can_upload_files() const { return false; }
  // Called before anything is loaded. Looks at the objects that may be overwritten later, and at
  // the pointer that will be moved, so that another job's writes are noticed. Dist variables are
  // filled in in both names. `latest` empty: no pointer.
  virtual void look_before_uploads(const NameFormat& /*remote_file_name*/,
                                   const NameFormat& /*latest*/) {}
  // Takes a file, which may change or be removed after this returns, and sends it in the
  // background. An event throws the error of a failed upload, fit_end at the latest.
  virtual void upload_file(const FileUpload& /*file*/) {}
  // Writes the object of that name, or the object that a pointer of that name points at, to the
  // file `destination`. Throws NotFoundError; AlreadyExistsError. The default throws
  // UnsupportedError.
  virtual void download_file(const std::string& remote_file_name, const std::string& destination,
                             bool overwrite = false);
  // The place where objects with names of that format are kept, for reading them without a copy.
  // autoresume searches this place. nullopt: there is none.
  virtual std::optional<RemotePlace> place_of(const NameFormat& /*remote_file_name*/) const {
    return std::nullopt;
  }

  // `step` as in log_metrics(). Most destinations show no tables and no images.
  virtual void log_table(const LoggedTable& /*table*/, std::int64_t /*step*/) {}
  virtual void log_images(const LoggedImages& /*images*/, std::int64_t /*step*/) {}

 private:
  friend class Logger;
  bool took_message_ = true;
};

// Takes the messages that no destination takes. The default writes them to stderr, one per line, so
// that no warning is lost. Called in the thread that logs; must not throw.
using MessageSink = std::function<void(const std::string& message)>;
// Replaces the sink for the whole process and returns the previous one. An empty sink discards
// messages. Safe to call from any thread.
MessageSink set_message_sink(MessageSink sink);

// Sends entries to all destinations. Used on the training thread only.
class Logger {
 public:
  explicit Logger(State& state) : state_(state) {}

  // `step` is a count of batches; nullopt: that of the state.
  void log_metrics(const Dict& metrics, std::optional<std::int64_t> step = std::nullopt);
  void log_hyperparameters(const Dict& hyperparameters);
  void log_traces(const Dict& traces);
  // Throws UsageError for a row whose length is not the number of columns.
  void log_table(const LoggedTable& table, std::optional<std::int64_t> step = std::nullopt);
  // Throws UsageError if `images` has no tensor.
  void log_images(const LoggedImages& images, std::optional<std::int64_t> step = std::nullopt);
  // Information and warnings. Warnings start with "warning: ". If no destination takes the message,
  // it goes to the message sink. Drops what set_level() leaves out.
  void log_message(const std::string& message);
  void set_level(LogLevel level) { level_ = level; }
  // Passes the file to every destination that keeps files. Fills in dist variables in both names.
  void upload_file(FileUpload file);
  // Whether any destination keeps files.
  bool has_file_upload_destination() const;

  void add(std::shared_ptr<LoggerDestination> destination);
  const std::vector<std::shared_ptr<LoggerDestination>>& destinations() const {
    return destinations_;
  }

 private:
  State& state_;
  LogLevel level_ = LogLevel::kInfo;
  std::vector<std::shared_ptr<LoggerDestination>> destinations_;
};

// Composer's rendering of a logged value: None, "text", 3, 0.1235.
std::string format_log_value(const Value& value);

}  // namespace cairn
