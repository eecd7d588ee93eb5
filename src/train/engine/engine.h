// Engine: runs algorithms, callbacks and loggers at each event (composer/core/engine.py).
//
//  1. At init: logger destinations, then other callbacks, then algorithms. So a logger is ready
//     before anything else logs.
//  2. At every other event: algorithms, then callbacks in the order of state.callbacks, then logger
//     destinations. So loggers log the final values.
//  3. Algorithms that match an event are ordered by the algorithms' passes (Algorithm::passes()).
//     At events named after_* the list is then reversed, so that the last one applied is undone
//     first. The engine knows no algorithm by name. At *_checkpoint events every callback runs, and
//     the first error is thrown afterwards. An error may concern this process alone and need not
//     end training, and other processes may already be at the next saver.
//  4. close() calls close() of every callback, and then post_close() of those whose close() did not
//     throw. Errors are logged, so every callback is closed.
#pragma once

#include <memory>
#include <vector>

#include "cairn/train/event.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

namespace cairn {

// Not thread-safe.
class Engine {
 public:
  Engine(State& state, Logger& logger) : state_(state), logger_(logger) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws UsageError after close(), for a callback that another open Engine runs, and for an event
  // whose data loader or max_duration is missing. An error of a callback or an algorithm names the
  // thrower and the event (event_failure.h).
  void run_event(Event event);

  // Idempotent. Logs what callbacks throw, and does not rethrow it.
  void close();

  // The event that was run last.
  Event last_event() const { return last_event_; }

 private:
  void check(Event event) const;
  void adopt_callbacks();
  void adopt_algorithms();
  void order(std::vector<Algorithm*>& algorithms, Event event) const;
  void run_algorithms(Event event);
  void run_callback(Callback& callback, Event event);
  void log_traces(Event event, const std::vector<Algorithm*>& applied);

  State& state_;
  Logger& logger_;
  bool closed_ = false;
  Event last_event_ = Event::kInit;
  // state_.callbacks as of the last event: all of them, then split into the two lists below.
  std::vector<std::shared_ptr<Callback>> adopted_;
  std::vector<Callback*> callbacks_;
  std::vector<Callback*> loggers_;
  // state_.algorithms as of the last event, and their passes.
  std::vector<std::shared_ptr<Algorithm>> algorithms_;
  std::vector<AlgorithmPass> passes_;
};

}  // namespace cairn
