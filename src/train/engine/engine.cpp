#include "train/engine/engine.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "train/engine/event_failure.h"
#include "train/engine/event_table.h"

namespace cairn {
namespace {

// Records which open Engine runs each callback. At most one Engine runs a callback.
class Owners {
 public:
  bool is_of_another(const Callback* callback, const Engine* engine) {
    const std::scoped_lock lock(mutex_);
    const auto found = engine_of_.find(callback);
    return found != engine_of_.end() && found->second != engine;
  }
  void set(const Callback* callback, const Engine* engine) {
    const std::scoped_lock lock(mutex_);
    engine_of_[callback] = engine;
  }
  void release(const std::vector<std::shared_ptr<Callback>>& callbacks) {
    const std::scoped_lock lock(mutex_);
    for (const auto& callback : callbacks) {
      engine_of_.erase(callback.get());
    }
  }

 private:
  std::mutex mutex_;  // Trainers may live on several threads.
  std::unordered_map<const Callback*, const Engine*> engine_of_;
};

Owners& owners() {
  static Owners all;
  return all;
}

bool is_checkpoint_event(Event event) {
  return event == Event::kBatchCheckpoint || event == Event::kEpochCheckpoint ||
         event == Event::kIterationCheckpoint;
}

// Events at which callbacks look for, write and send files, usually on rank 0 alone. The other
// ranks wait for these callbacks as long as they take. At any other event, a callback that takes
// long counts as hanging.
bool is_event_of_files(Event event) {
  using enum Event;
  return is_checkpoint_event(event) || event == kInit || event == kAfterLoad ||
         event == kFitStart || event == kFitEnd || event == kEvalStandaloneEnd ||
         event == kPredictEnd;
}

void close_all(const std::vector<std::shared_ptr<Callback>>& callbacks, State& state,
               Logger& logger) {
  const auto log_failure = [&](const Callback& callback, const char* method, const char* what) {
    logger.log_message("warning: " + callback.name() + "::" + method + " failed: " + what);
  };
  std::vector<Callback*> closed;
  for (const auto& callback : callbacks) {
    try {
      callback->close(state, logger);
      closed.push_back(callback.get());
    } catch (const std::exception& error) {
      log_failure(*callback, "close()", error.what());
    }
  }
  for (Callback* callback : closed) {
    try {
      callback->post_close();
    } catch (const std::exception& error) {
      log_failure(*callback, "post_close()", error.what());
    }
  }
}

}  // namespace

Engine::~Engine() { owners().release(adopted_); }

void Engine::check(Event event) const {
  const std::string at = "the event " + std::string(name(event));
  if (closed_) {
    throw UsageError(at + " cannot run: the Trainer is closed. Make a new one to go on training.");
  }
  const EventNeeds needs = event_row(event).needs;
  if (needs != EventNeeds::kNothing && state_.dataloader == nullptr) {
    throw UsageError(at + " needs state.dataloader, and none is set");
  }
  if (needs == EventNeeds::kTraining && !state_.max_duration) {
    throw UsageError(at + " needs state.max_duration, and none is set");
  }
}

void Engine::adopt_callbacks() {
  for (const auto& callback : state_.callbacks) {
    if (owners().is_of_another(callback.get(), this)) {
      throw UsageError("the callback " + callback->name() +
                       " belongs to another Trainer that is still open: close() that one first, "
                       "or give each its own instance");
    }
  }
  owners().release(adopted_);
  adopted_ = state_.callbacks;
  callbacks_.clear();
  loggers_.clear();
  for (const auto& callback : adopted_) {
    owners().set(callback.get(), this);
    const bool is_logger = dynamic_cast<LoggerDestination*>(callback.get()) != nullptr;
    (is_logger ? loggers_ : callbacks_).push_back(callback.get());
  }
}

void Engine::adopt_algorithms() {
  passes_.clear();
  for (const auto& algorithm : state_.algorithms) {
    for (AlgorithmPass& pass : algorithm->passes()) {
      if (std::ranges::find(passes_, pass.name, &AlgorithmPass::name) == passes_.end()) {
        passes_.push_back(std::move(pass));
      }
    }
  }
  algorithms_ = state_.algorithms;
}

void Engine::order(std::vector<Algorithm*>& algorithms, Event event) const {
  for (const AlgorithmPass& pass : passes_) {
    try {
      pass.order(algorithms, event);
    } catch (...) {
      rethrow_from_event("the algorithm pass \"" + pass.name + "\"", event, state_);
    }
  }
  if (name(event).starts_with("after_")) std::ranges::reverse(algorithms);
}

void Engine::log_traces(Event event, const std::vector<Algorithm*>& applied) {
  if (logger_.destinations().empty()) return;
  Dict traces;
  for (const Algorithm* algorithm : applied) {
    traces.set("algorithm_traces/" + algorithm->name() + "/" + std::string(name(event)), 1);
  }
  logger_.log_traces(traces);
}

void Engine::run_algorithms(Event event) {
  if (algorithms_ != state_.algorithms) adopt_algorithms();
  std::vector<Algorithm*> matching;
  for (const auto& algorithm : state_.algorithms) {
    if (algorithm->match(event, state_)) matching.push_back(algorithm.get());
  }
  if (matching.empty()) return;
  order(matching, event);
  for (Algorithm* algorithm : matching) {
    try {
      algorithm->apply(event, state_, logger_);
    } catch (...) {
      rethrow_from_event("the algorithm " + algorithm->name(), event, state_);
    }
  }
  log_traces(event, matching);
}

void Engine::run_callback(Callback& callback, Event event) {
  try {
    callback.run_event(event, state_, logger_);
  } catch (...) {
    rethrow_from_event("the callback " + callback.name(), event, state_);
  }
}

void Engine::run_event(Event event) {
  check(event);
  last_event_ = event;
  std::optional<dist::LongWork> long_work;
  if (is_event_of_files(event)) long_work.emplace();
  if (adopted_ != state_.callbacks) adopt_callbacks();
  const bool is_checkpoint = is_checkpoint_event(event);
  std::exception_ptr failed;
  const auto run = [&](const std::vector<Callback*>& callbacks) {
    for (Callback* callback : callbacks) {
      try {
        run_callback(*callback, event);
      } catch (const dist::DistError&) {
        throw;
      } catch (const Error&) {
        if (!is_checkpoint) throw;
        if (!failed) failed = std::current_exception();
      }
    }
  };
  if (event == Event::kInit) {
    run(loggers_);
    run(callbacks_);
    run_algorithms(event);
  } else {
    run_algorithms(event);
    run(callbacks_);
    run(loggers_);
  }
  if (failed) std::rethrow_exception(failed);
}

void Engine::close() {
  if (closed_) return;
  closed_ = true;
  const dist::LongWork long_work;
  close_all(state_.callbacks, state_, logger_);
  owners().release(adopted_);
}

}  // namespace cairn
