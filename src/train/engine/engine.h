// Engine: runs algorithms, callbacks and loggers at each event (composer/core/engine.py).
//
//  1. init: logger destinations, then other callbacks, then algorithms: a logger is ready when
//     anything else wants to log.
//  2. Every other event: algorithms, then callbacks in the order of state.callbacks, then logger
//     destinations: what is logged is what the others left.
//  3. Algorithms that match an event are ordered by the passes that algorithms have
//     (Algorithm::passes()), and the whole list is reversed at events named after_*, so that what
//     was applied last is undone first. The engine knows no algorithm by name.
//     At *_checkpoint events each callback gets its turn, and the first error is thrown afterwards:
//     it may be one of this process alone, and one that does not end training, while the other
//     processes are at the next saver already.
//  4. close() calls close() of every callback and then post_close() of those whose close() did not
//     throw. Errors are logged: each callback gets its turn.
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

  // UsageError after close(), for a callback that another open Engine runs, and for an event that
  // needs a data loader or a max_duration that is not there. What a callback or an algorithm throws
  // names it and the event (event_failure.h).
  void run_event(Event event);

  // Idempotent; never throws what a callback threw.
  void close();

  // The last that was run.
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
  // state_.callbacks, as of the last event, in two parts.
  std::vector<std::shared_ptr<Callback>> adopted_;
  std::vector<Callback*> callbacks_;
  std::vector<Callback*> loggers_;
  // state_.algorithms, as of the last event, and their passes.
  std::vector<std::shared_ptr<Algorithm>> algorithms_;
  std::vector<AlgorithmPass> passes_;
};

}  // namespace cairn
