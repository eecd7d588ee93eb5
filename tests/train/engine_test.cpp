#include "train/engine/engine.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>

#include "cairn/error.h"

#include "train/engine/event_table.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string>& operator<<(std::vector<std::string>& log, std::string line) {
  log.push_back(std::move(line));
  return log;
}

class Noting : public Callback {
 public:
  Noting(std::string label, std::vector<std::string>& log) : label_(std::move(label)), log_(log) {}
  std::string name() const override { return label_; }
  void run_event(Event event, State& /*state*/, Logger& /*logger*/) override {
    log_ << label_ + ":" + std::string(cairn::name(event));
  }
  void close(State& /*state*/, Logger& /*logger*/) override { log_ << label_ + ":close"; }
  void post_close() override { log_ << label_ + ":post_close"; }

 private:
  std::string label_;
  std::vector<std::string>& log_;
};

class FailingToClose : public Noting {
 public:
  using Noting::Noting;
  void close(State& /*state*/, Logger& /*logger*/) override { throw std::runtime_error("stuck"); }
};

class NotingLogger : public LoggerDestination {
 public:
  explicit NotingLogger(std::vector<std::string>& log) : log_(log) {}
  void run_event(Event event, State& /*state*/, Logger& /*logger*/) override {
    log_ << "logger:" + std::string(cairn::name(event));
  }
  void log_traces(const Dict& traces) override {
    for (const auto& [key, value] : traces)
      log_ << key.as_str();
  }
  void log_message(const std::string& message) override { log_ << message; }

 private:
  std::vector<std::string>& log_;
};

class NotingAlgorithm : public Algorithm {
 public:
  NotingAlgorithm(std::string label, std::vector<std::string>& log)
      : label_(std::move(label)), log_(log) {}
  std::string name() const override { return label_; }
  std::string repr() const override { return label_ + "()"; }
  bool match(Event event, const State& /*state*/) const override {
    return event != Event::kBatchStart;
  }
  void apply(Event event, State& /*state*/, Logger& /*logger*/) override {
    log_ << label_ + ":" + std::string(cairn::name(event));
  }

 private:
  std::string label_;
  std::vector<std::string>& log_;
};

// An algorithm that puts itself first or last, by its own pass.
class PassingAlgorithm : public NotingAlgorithm {
 public:
  PassingAlgorithm(const std::string& label, std::vector<std::string>& log, bool first)
      : NotingAlgorithm(label, log), first_(first) {}
  std::vector<AlgorithmPass> passes() const override {
    return {{name() + (first_ ? " first" : " last"),
             [own = name(), first = first_](std::vector<Algorithm*>& algorithms, Event /*event*/) {
               std::ranges::stable_partition(algorithms, [&](const Algorithm* each) {
                 return (each->name() == own) == first;
               });
             }}};
  }

 private:
  bool first_;
};

// Reverses the list of algorithms. The list is reversed only once, even if there are several such
// algorithms.
class TurningAlgorithm : public NotingAlgorithm {
 public:
  using NotingAlgorithm::NotingAlgorithm;
  std::vector<AlgorithmPass> passes() const override {
    return {{"turn", [](std::vector<Algorithm*>& algorithms, Event /*event*/) {
               std::ranges::reverse(algorithms);
             }}};
  }
};

class AlgorithmWithABadPass : public NotingAlgorithm {
 public:
  using NotingAlgorithm::NotingAlgorithm;
  std::vector<AlgorithmPass> passes() const override {
    return {{"bad", [](std::vector<Algorithm*>& /*algorithms*/, Event /*event*/) {
               throw std::runtime_error("lost");
             }}};
  }
};

struct EngineTest : ::testing::Test {
  void set_up_training() {
    state.dataloader = &state.train_dataloader;
    state.max_duration = Time("1ep");
  }
  std::vector<std::string> log;
  State state;
  Logger logger{state};
};

TEST_F(EngineTest, RunsLoggersFirstAtInitAndLastAfterwards) {
  set_up_training();
  state.callbacks = {std::make_shared<NotingLogger>(log), std::make_shared<Noting>("a", log)};
  state.algorithms = {std::make_shared<NotingAlgorithm>("algorithm", log)};
  Engine engine(state, logger);
  engine.run_event(Event::kInit);
  engine.run_event(Event::kFitStart);
  EXPECT_THAT(log, ElementsAre("logger:init", "a:init", "algorithm:init", "algorithm:fit_start",
                               "a:fit_start", "logger:fit_start"));
}

TEST_F(EngineTest, AppliesOnlyAlgorithmsThatMatch) {
  set_up_training();
  state.algorithms = {std::make_shared<NotingAlgorithm>("x", log)};
  Engine engine(state, logger);
  engine.run_event(Event::kBatchStart);
  engine.run_event(Event::kBatchEnd);
  EXPECT_THAT(log, ElementsAre("x:batch_end"));
}

TEST_F(EngineTest, TracesEachAppliedAlgorithm) {
  set_up_training();
  logger.add(std::make_shared<NotingLogger>(log));
  state.algorithms = {std::make_shared<NotingAlgorithm>("x", log)};
  Engine engine(state, logger);
  engine.run_event(Event::kBatchEnd);
  EXPECT_THAT(log, ElementsAre("x:batch_end", "algorithm_traces/x/batch_end"));
}

TEST_F(EngineTest, OrdersAlgorithmsByTheirPassesAndReversesThemAfter) {
  set_up_training();
  state.algorithms = {std::make_shared<NotingAlgorithm>("a", log),
                      std::make_shared<PassingAlgorithm>("low", log, /*first=*/false),
                      std::make_shared<NotingAlgorithm>("b", log),
                      std::make_shared<PassingAlgorithm>("selective", log, /*first=*/true)};
  const auto run_alone = [&](Event event) {
    log.clear();
    Engine(state, logger).run_event(event);
    return log;
  };
  EXPECT_THAT(run_alone(Event::kBeforeForward),
              ElementsAre("selective:before_forward", "a:before_forward", "b:before_forward",
                          "low:before_forward"));
  EXPECT_THAT(run_alone(Event::kAfterForward),
              ElementsAre("low:after_forward", "b:after_forward", "a:after_forward",
                          "selective:after_forward"));
  // Only events that begin with "after_" run in reverse order.
  EXPECT_THAT(run_alone(Event::kEvalAfterForward),
              ElementsAre("selective:eval_after_forward", "a:eval_after_forward",
                          "b:eval_after_forward", "low:eval_after_forward"));
}

// Composer's engine orders SelectiveBackprop and LowPrecisionLayerNorm by name. Here, algorithms
// state their order.
TEST_F(EngineTest, KnowsNoAlgorithmByName) {
  set_up_training();
  state.algorithms = {std::make_shared<NotingAlgorithm>("LowPrecisionLayerNorm", log),
                      std::make_shared<NotingAlgorithm>("SelectiveBackprop", log)};
  Engine(state, logger).run_event(Event::kBatchEnd);
  EXPECT_THAT(log, ElementsAre("LowPrecisionLayerNorm:batch_end", "SelectiveBackprop:batch_end"));
}

TEST_F(EngineTest, RunsAPassOfOneNameOnceAndTakesUpThoseThatComeLater) {
  set_up_training();
  state.algorithms = {std::make_shared<TurningAlgorithm>("a", log),
                      std::make_shared<TurningAlgorithm>("b", log)};
  Engine engine(state, logger);
  engine.run_event(Event::kBatchEnd);
  EXPECT_THAT(log, ElementsAre("b:batch_end", "a:batch_end"));
  log.clear();
  state.algorithms.push_back(std::make_shared<PassingAlgorithm>("c", log, /*first=*/false));
  engine.run_event(Event::kBatchEnd);
  EXPECT_THAT(log, ElementsAre("b:batch_end", "a:batch_end", "c:batch_end"));
  log.clear();
  state.algorithms.erase(state.algorithms.begin(), state.algorithms.begin() + 2);
  state.algorithms.push_back(std::make_shared<NotingAlgorithm>("d", log));
  engine.run_event(Event::kBatchEnd);
  EXPECT_THAT(log, ElementsAre("d:batch_end", "c:batch_end"));
}

TEST_F(EngineTest, NamesThePassThatFailed) {
  set_up_training();
  state.algorithms = {std::make_shared<AlgorithmWithABadPass>("x", log)};
  Engine engine(state, logger);
  EXPECT_THAT(
      [&] { engine.run_event(Event::kBatchEnd); },
      ::testing::ThrowsMessage<TrainingError>(AllOf(HasSubstr("the algorithm pass \"bad\""),
                                                    HasSubstr("batch_end"), HasSubstr("lost"))));
}

TEST_F(EngineTest, ClosesEveryCallbackAndPostClosesThoseThatClosed) {
  logger.add(std::make_shared<NotingLogger>(log));
  state.callbacks = {std::make_shared<Noting>("a", log),
                     std::make_shared<FailingToClose>("bad", log),
                     std::make_shared<Noting>("b", log)};
  Engine engine(state, logger);
  engine.close();
  engine.close();
  EXPECT_THAT(log, ElementsAre("a:close", "warning: bad::close() failed: stuck", "b:close",
                               "a:post_close", "b:post_close"));
}

TEST_F(EngineTest, RefusesEventsAfterClose) {
  Engine engine(state, logger);
  engine.close();
  EXPECT_THROW(engine.run_event(Event::kInit), UsageError);
}

TEST_F(EngineTest, RefusesTrainingEventsWithoutLoaderOrDuration) {
  Engine engine(state, logger);
  EXPECT_NO_THROW(engine.run_event(Event::kInit));
  EXPECT_THROW(engine.run_event(Event::kFitStart), UsageError);
  state.dataloader = &state.train_dataloader;
  EXPECT_THROW(engine.run_event(Event::kFitStart), UsageError);
  EXPECT_NO_THROW(engine.run_event(Event::kEvalStart));
}

TEST_F(EngineTest, RefusesACallbackOfAnotherOpenEngine) {
  const auto shared = std::make_shared<Noting>("shared", log);
  state.callbacks = {shared};
  State other_state;
  other_state.callbacks = {shared};
  Logger other_logger(other_state);
  Engine first(state, logger);
  Engine second(other_state, other_logger);
  first.run_event(Event::kInit);
  EXPECT_THROW(second.run_event(Event::kInit), UsageError);
  first.close();
  EXPECT_NO_THROW(second.run_event(Event::kInit));
}

TEST_F(EngineTest, RunsCallbacksThatWereAddedLater) {
  Engine engine(state, logger);
  engine.run_event(Event::kInit);
  state.callbacks.push_back(std::make_shared<Noting>("late", log));
  engine.run_event(Event::kBeforeLoad);
  EXPECT_THAT(log, ElementsAre("late:before_load"));
}

// --- Events and callbacks ------------------------------------------------------------------------

TEST(Event, NamesAreFoundInAnyCase) {
  for (int i = 0; i < kNumEvents; ++i) {
    const auto event = static_cast<Event>(i);
    EXPECT_EQ(find_event(name(event)), event);
  }
  EXPECT_EQ(find_event("BATCH_END"), Event::kBatchEnd);
  EXPECT_EQ(find_event("batch"), std::nullopt);
  EXPECT_EQ(name(Event::kPredictEnd), "predict_end");
}

template <class T>
struct Generic : Callback {};
struct Monitor : Callback {
  void batch_end(State& /*state*/, Logger& /*logger*/) override { ++calls; }
  int calls = 0;
};

TEST(Callback, IsNamedAsItsClassWithoutNamespace) {
  EXPECT_EQ(Monitor().name(), "Monitor");
  EXPECT_EQ(Generic<Monitor>().name().substr(0, 8), "Generic<");
}

TEST(Event, TheTableSaysWhatEachNeeds) {
  EXPECT_EQ(event_row(Event::kAfterLoad).needs, EventNeeds::kNothing);
  EXPECT_EQ(event_row(Event::kFitEnd).needs, EventNeeds::kTraining);
  EXPECT_EQ(event_row(Event::kEvalStandaloneEnd).needs, EventNeeds::kNothing);
  EXPECT_EQ(event_row(Event::kPredictStart).needs, EventNeeds::kLoader);
}

TEST(Callback, RunEventCallsTheMethodOfTheEvent) {
  State state;
  Logger logger(state);
  Monitor monitor;
  for (int i = 0; i < kNumEvents; ++i)
    monitor.run_event(static_cast<Event>(i), state, logger);
  EXPECT_EQ(monitor.calls, 1);
}

TEST(Algorithm, SavesItsRepr) {
  std::vector<std::string> log;
  EXPECT_EQ(NotingAlgorithm("x", log).state_dict(), Value(Dict{{"repr", "x()"}}));
}

// --- State and log values ------------------------------------------------------------------------

TEST(State, StopTrainingEndsAtTheCurrentCount) {
  State state;
  state.timestamp = Timestamp().to_next_batch(4, 0, {}).to_next_batch(4, 0, {});
  state.max_duration = Time("10sp");
  state.stop_training();
  EXPECT_EQ(*state.max_duration, Time("8sp"));
  state.max_duration = Time("10ep");
  state.stop_training();
  EXPECT_EQ(*state.max_duration, Time("2ba"));
}

TEST(State, ElapsedDurationCountsInTheUnitOfMaxDuration) {
  State state;
  EXPECT_EQ(state.get_elapsed_duration(), std::nullopt);
  state.timestamp = Timestamp().to_next_batch(4, 0, {});
  state.max_duration = Time("16sp");
  EXPECT_EQ(state.get_elapsed_duration()->fraction(), 0.25);
  state.max_duration = Time("2ep");
  EXPECT_EQ(state.get_elapsed_duration()->fraction(), 0.0);
}

TEST(State, GivesMetricValuesByLabelAndName) {
  State state;
  state.metric_values.set("eval", Dict{{"Accuracy", 0.5}});
  EXPECT_EQ(state.metric_value("eval", "Accuracy"), 0.5);
  EXPECT_EQ(state.metric_value("eval", "Loss"), std::nullopt);
  EXPECT_EQ(state.metric_value("train", "Accuracy"), std::nullopt);
}

TEST(FormatLogValue, RendersAsComposer) {
  EXPECT_EQ(format_log_value({}), "None");
  EXPECT_EQ(format_log_value("run"), "\"run\"");
  EXPECT_EQ(format_log_value(3), "3");
  EXPECT_EQ(format_log_value(0.12345), "0.1235");
  EXPECT_EQ(format_log_value(true), "True");
  EXPECT_EQ(format_log_value(List{1, 2.0}), "[1, 2.0000]");
  EXPECT_EQ(format_log_value(Dict{{"a", 1}}), "{ \"a\": 1, }");
}

}  // namespace
}  // namespace cairn
