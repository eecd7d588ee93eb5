// Logger: where metrics and hyperparameters go (composer/loggers).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cairn/train/callback.h"
#include "cairn/train/handle.h"
#include "cairn/value.h"

namespace cairn {

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
