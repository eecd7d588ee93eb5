// Callback: code that runs at the events of a training run (composer/core/callback.py).
#pragma once

#include <string>

#include "cairn/train/event.h"
#include "cairn/value.h"

namespace cairn {

class Logger;
class State;

// One method per event, all empty. Called on the training thread. An exception ends fit(), which
// throws it; close() follows when the Trainer is closed or destroyed. An instance belongs to one
// open Trainer at a time; a copy belongs to none.
//
//   struct Printer final : cairn::Callback {
//     void batch_end(cairn::State& state, cairn::Logger& logger) override {
//       logger.log_metrics(cairn::Dict{{"my/samples", state.timestamp.sample}});
//     }
//   };
//
// What it reads of tensors on a GPU waits for them: in an event of every batch that is a cost.
class Callback {
 public:
  Callback() = default;
  virtual ~Callback() = default;

  // Key of its state in a checkpoint: the class's name without namespace. Two callbacks of one name
  // in one Trainer get "Name", "Name-1", ... there.
  virtual std::string name() const;

  // The events, in the order of cairn/train/event.h, which says when each happens.
  virtual void init(State& /*state*/, Logger& /*logger*/) {}
  virtual void before_load(State& /*state*/, Logger& /*logger*/) {}
  virtual void after_load(State& /*state*/, Logger& /*logger*/) {}
  virtual void fit_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void iteration_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void epoch_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void before_dataloader(State& /*state*/, Logger& /*logger*/) {}
  virtual void after_dataloader(State& /*state*/, Logger& /*logger*/) {}
  virtual void batch_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void before_train_batch(State& /*state*/, Logger& /*logger*/) {}
  virtual void before_forward(State& /*state*/, Logger& /*logger*/) {}
  virtual void after_forward(State& /*state*/, Logger& /*logger*/) {}
  virtual void before_loss(State& /*state*/, Logger& /*logger*/) {}
  virtual void after_loss(State& /*state*/, Logger& /*logger*/) {}
  virtual void before_backward(State& /*state*/, Logger& /*logger*/) {}
  virtual void after_backward(State& /*state*/, Logger& /*logger*/) {}
  virtual void after_train_batch(State& /*state*/, Logger& /*logger*/) {}
  virtual void batch_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void batch_checkpoint(State& /*state*/, Logger& /*logger*/) {}
  virtual void epoch_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void epoch_checkpoint(State& /*state*/, Logger& /*logger*/) {}
  virtual void iteration_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void iteration_checkpoint(State& /*state*/, Logger& /*logger*/) {}
  virtual void fit_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_before_all(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_batch_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_before_forward(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_after_forward(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_batch_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_after_all(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_standalone_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void eval_standalone_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void predict_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void predict_batch_start(State& /*state*/, Logger& /*logger*/) {}
  virtual void predict_before_forward(State& /*state*/, Logger& /*logger*/) {}
  virtual void predict_after_forward(State& /*state*/, Logger& /*logger*/) {}
  virtual void predict_batch_end(State& /*state*/, Logger& /*logger*/) {}
  virtual void predict_end(State& /*state*/, Logger& /*logger*/) {}

  // Whether this callback will save the state when it is given this checkpoint event; asked before
  // it, by algorithms that then put other weights into the model (EMA).
  virtual bool will_save(Event /*event*/, const State& /*state*/) { return false; }

  // After the last event, also when training failed: for what a destructor would do too late, such
  // as closing files that others read. Then post_close(), on those whose close() did not throw;
  // errors in either are logged, not thrown.
  virtual void close(State& /*state*/, Logger& /*logger*/) {}
  virtual void post_close() {}

  // Calls the method of `event`. Override to see every event; call the base class's, too, where the
  // methods are to go on working.
  virtual void run_event(Event event, State& state, Logger& logger);

  // What is saved in checkpoints, and given back on load before after_load: all that a run which is
  // resumed needs to go on as if it had never stopped. An empty dict by default.
  virtual Value state_dict() const;
  // MismatchError for what does not fit; then nothing may be changed. Other versions of the class
  // may have written it.
  virtual void load_state_dict(const Value& /*state*/) {}

 protected:  // copied as the derived class only
  Callback(const Callback&) = default;
  Callback(Callback&&) = default;
  Callback& operator=(const Callback&) = default;
  Callback& operator=(Callback&&) = default;
};

}  // namespace cairn
