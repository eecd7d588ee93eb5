// Callback: code that runs at the events of a training run (composer/core/callback.py).
#pragma once

#include <string>

#include "cairn/export.h"
#include "cairn/train/event.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

class Logger;
class State;

// One method for each event, all empty. Called on the training thread. If a method throws an
// exception, fit() ends with it; close() follows when the Trainer is closed or destroyed. An
// instance belongs to one open Trainer at a time; a copy belongs to none.
//
//   struct Printer final : cairn::Callback {
//     void batch_end(cairn::State& state, cairn::Logger& logger) override {
//       logger.log_metrics(cairn::Dict{{"my/samples", state.timestamp.sample}});
//     }
//   };
//
// Reading a tensor on a GPU waits for the GPU, which is costly in an event of every batch.
class Callback {
 public:
  Callback() = default;
  virtual ~Callback() = default;

  // The key of the callback's state in a checkpoint: the class's name without namespace. In a
  // Trainer with several callbacks of one name, the keys are "Name", "Name-1", ...
  virtual std::string name() const;

  // The events, in the order of cairn/train/event.h, which says when each one happens.
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

  // Whether this callback will save the state at this checkpoint event. Called before the event by
  // algorithms that put other weights into the model for a save (EMA).
  virtual bool will_save(Event /*event*/, const State& /*state*/) { return false; }

  // Whether this callback reads State::total_loss_dict or training metrics at the end of the
  // current batch. Asked in each batch. If a callback or an algorithm answers true, the Trainer
  // waits until the device has computed them. Override it to return false: then training on a GPU
  // does not wait, and they may be some batches old. They are up to date at eval_before_all, at
  // epoch_end, at fit_end, and, in a job of one process, at a checkpoint event at which a callback
  // will save.
  virtual bool needs_losses(const State& /*state*/) const { return true; }

  // Whether a method of this callback for batch_checkpoint, before_dataloader, after_dataloader,
  // batch_start or before_train_batch may change how many samples or tokens state.batch has, which
  // parameters require gradients, or a buffer of the model. If any rank has such a callback, the
  // ranks of a job send up to two more messages in each batch. Return false if yours does not.
  virtual bool may_change_batch() const { return true; }

  // Called after the last event, also when training failed, for work that a destructor would do too
  // late, such as closing files that others read. post_close() follows for callbacks whose close()
  // did not throw. Errors in either are logged, not thrown.
  virtual void close(State& /*state*/, Logger& /*logger*/) {}
  virtual void post_close() {}

  // Calls the method of `event`. Override it to see every event. If the methods are to keep
  // working, call the base class's run_event(), too.
  virtual void run_event(Event event, State& state, Logger& logger);

  // The state that is saved in checkpoints, and loaded before after_load: everything that a resumed
  // run needs to continue as if it had never stopped. The default is an empty dict.
  virtual Value state_dict() const;
  // Throws MismatchError for a state that does not fit; then nothing may be changed. Another
  // version of the class may have written the state.
  virtual void load_state_dict(const Value& /*state*/) {}

 protected:  // copied only as part of the derived class
  Callback(const Callback&) = default;
  Callback(Callback&&) = default;
  Callback& operator=(const Callback&) = default;
  Callback& operator=(Callback&&) = default;
};

}  // namespace cairn
