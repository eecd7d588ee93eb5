// A program with several calls of fit() is started again. Each call is trained once.

#include "train/trainer/fit_numbers.h"

#include <gmock/gmock.h>

#include <functional>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/keys.h"
#include "testing/message_of.h"
#include "testing/resumable_state.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "train/state/load/fit_calls.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using testing::TempFolder;
using testing::tiny_loader;
using testing::tiny_options;

using Reason = FitResult::Reason;

struct FitAgain : ::testing::Test {
  // A run with 5 batches per epoch. It saves after each batch.
  TrainerOptions options(const std::string& where) {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
    made.optimizers = AdamW({.lr = 0.01});
    made.schedulers = CosineAnnealingScheduler();
    made.run_name = "run";
    made.loggers = {log};
    made.save_folder = folder / where;
    made.save_interval = "1ba";
    made.autoresume = true;
    return made;
  }

  // Makes the run throw after this process has trained and saved `count` batches.
  static void die_after(std::int64_t count, TrainerOptions& made) {
    const auto left = std::make_shared<std::int64_t>(count);
    made.callbacks.push_back(CallAt(Event::kBatchStart, [left](State& /*state*/) {
      if (--*left < 0) throw CancelledError("killed");
    }));
  }

  using Program = std::function<void(Trainer& trainer)>;
  // Starts the program again and again until it ends. Each process dies after `batches` batches.
  // Returns the resumable_state() of the run's last state.
  Value run_dying(const std::string& where, const TrainerOptions& base, const Program& program,
                  std::int64_t batches) {
    for (int start = 0; start < 40; ++start) {
      TrainerOptions made = base;
      made.model = std::make_shared<testing::TinyModel>(testing::TinyModelOptions{.dropout = 0.3});
      made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
      made.save_folder = folder / where;
      die_after(batches, made);
      Trainer trainer(std::move(made));
      try {
        program(trainer);
      } catch (const CancelledError&) {
        continue;
      }
      return testing::resumable_state(load(trainer.save_checkpoint(folder / (where + "-end.pt"))));
    }
    ADD_FAILURE() << "it comes to no end";
    return {};
  }

  void expect_same_end(const Program& program) {
    const TrainerOptions base = options("all");
    const Value expected = run_dying("all", base, program, 1000);
    for (const std::int64_t batches : {1, 2, 3, 4, 7}) {
      const std::string where = "every" + std::to_string(batches);
      EXPECT_EQ(run_dying(where, base, program, batches), expected) << batches;
    }
  }

  void save_both_ways(Trainer& trainer) {
    const Value saved = load(trainer.save_checkpoint(folder / "file.pt"));
    const Value* note = find_path(saved, "state/timestamp/fit_calls");
    ASSERT_NE(note, nullptr);
    convert(folder / "file.pt", folder / "dcp", {.to = "dcp", .overwrite = true});
    EXPECT_EQ(load(folder / "dcp").at("state").at("timestamp").at("fit_calls"), *note);
  }

  TempFolder folder;
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

TEST_F(FitAgain, ADurationIsTrainedOnceHoweverOftenTheRunIsStarted) {
  expect_same_end([](Trainer& trainer) {
    trainer.fit({.duration = "2ep"});
    EXPECT_EQ(trainer.state().timestamp.batch, 10);
  });
}

TEST_F(FitAgain, SoIsEachOfSeveralAndAMaxDurationBesideThem) {
  expect_same_end([](Trainer& trainer) {
    trainer.fit({.duration = "7ba"});
    EXPECT_GE(trainer.state().timestamp.batch, 7);
    trainer.state().max_duration = Time("9ba");
    trainer.fit();
    trainer.fit({.duration = "4sp"});
    trainer.fit({.duration = "1ep"});
    EXPECT_EQ(trainer.state().timestamp.batch, 15);
  });
}

TEST_F(FitAgain, AFinishedCallReturnsAtOnceAndSaysSo) {
  {
    TrainerOptions made = options("ckpt");
    die_after(8, made);
    Trainer trainer(std::move(made));
    trainer.fit({.duration = "1ep"});
    EXPECT_THROW(trainer.fit({.duration = "1ep"}), CancelledError);
  }
  Trainer trainer(options("ckpt"));
  EXPECT_EQ(trainer.fit({.duration = "1ep"}).reason, Reason::kAlreadyFinished);
  EXPECT_EQ(trainer.state().timestamp.batch, 8);
  EXPECT_THAT(log->messages, Contains(HasSubstr("call 1 of fit() in the run run was finished")));
  EXPECT_EQ(trainer.fit({.duration = "1ep"}).reason, Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.epoch, 2);
  EXPECT_EQ(trainer.fit({.duration = "1ep"}).reason, Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.epoch, 3) << "a third call is a new one";
}

TEST_F(FitAgain, ATimeThatWasSetBackIsNotSetBackAgain) {
  const auto start = [&](std::int64_t batches) {
    TrainerOptions made = options("ckpt");
    // After the second stage has begun, only its checkpoint is kept.
    made.save_num_checkpoints_to_keep = 1;
    die_after(batches, made);
    return std::make_unique<Trainer>(std::move(made));
  };
  const auto first = start(7);
  first->fit({.duration = "4ba"});
  EXPECT_THROW(first->fit({.duration = "6ba", .reset_time = true}), CancelledError);
  first->close();
  const auto again = start(1000);
  EXPECT_EQ(again->state().timestamp.batch, 3);
  EXPECT_EQ(again->fit({.duration = "4ba"}).reason, Reason::kAlreadyFinished);
  EXPECT_EQ(again->fit({.duration = "6ba", .reset_time = true}).reason, Reason::kFinished);
  EXPECT_EQ(again->state().timestamp.batch, 6);
}

TEST_F(FitAgain, AnotherDurationCountsFromWhereTheCallBegan) {
  const auto stopped = [&](const std::string& where) {
    TrainerOptions made = options(where);
    die_after(7, made);
    Trainer trainer(std::move(made));
    trainer.fit({.duration = "5ba"});
    EXPECT_THROW(trainer.fit({.duration = "5ba"}), CancelledError);
  };
  stopped("longer");
  Trainer longer(options("longer"));
  longer.fit({.duration = "5ba"});
  longer.fit({.duration = "8ba"});
  EXPECT_EQ(longer.state().timestamp.batch, 13);
  longer.close();  // The next Trainer uses the same log.

  stopped("other");
  Trainer other(options("other"));
  other.fit({.duration = "5ba"});
  EXPECT_THAT(message_of<UsageError>([&] { other.fit({.duration = "1ep"}); }),
              HasSubstr("call 2 of fit() in this run began at 5ba"));
}

TEST_F(FitAgain, AScaledEndIsNotScaledAgain) {
  const auto fit = [](Trainer& trainer) {
    trainer.fit({.duration = "4ba",
                 .schedulers = HandleList<Scheduler>(LinearScheduler()),
                 .scale_schedule_ratio = 2.0});
  };
  {
    TrainerOptions made = options("ckpt");
    die_after(3, made);
    Trainer trainer(std::move(made));
    EXPECT_THROW(fit(trainer), CancelledError);
  }
  Trainer trainer(options("ckpt"));
  fit(trainer);
  EXPECT_EQ(trainer.state().timestamp.batch, 8);
}

TEST_F(FitAgain, WhatACallbackStoppedStaysStopped) {
  const auto start = [&](std::int64_t last) {
    TrainerOptions made = options("ckpt");
    made.callbacks.push_back(CallAt(Event::kBatchEnd, [last](State& state) {
      if (state.timestamp.batch == last) state.stop_training();
    }));
    return std::make_unique<Trainer>(std::move(made));
  };
  EXPECT_EQ(start(3)->fit({.duration = "2ep"}).reason, Reason::kFinished);
  const auto again = start(0);
  EXPECT_EQ(again->fit({.duration = "2ep"}).reason, Reason::kAlreadyFinished);
  EXPECT_EQ(again->state().timestamp.batch, 3);
}

// Older versions of cairn, and Composer, write checkpoints without a note of the calls of fit().
TEST_F(FitAgain, ACheckpointWithoutANoteIsSaidToHaveNone) {
  {
    Trainer trainer(options("ckpt"));
    trainer.fit({.duration = "3ba"});
  }
  const std::string path = folder / "ckpt/ep0-ba3-rank0.pt";
  Value value = load(path);
  Value& time = value.mutable_dict()["state"].mutable_dict()["timestamp"];
  ASSERT_THAT(testing::keys(time), ElementsAre("Timestamp", "fit_calls"));
  time.mutable_dict().erase("fit_calls");
  save(value, path, {.info = open_checkpoint(path).info()});
  {
    Trainer shorter(options("ckpt"));
    EXPECT_THAT(message_of<UsageError>([&] { shorter.fit({.duration = "2ba"}); }),
                HasSubstr("where a fit() of 2ba began, and training is at 3ba"));
  }
  Trainer trainer(options("ckpt"));
  EXPECT_EQ(trainer.fit({.duration = "3ba"}).reason, Reason::kAlreadyFinished);
  EXPECT_THAT(log->messages, Contains(HasSubstr("taken to have begun with the run")));
  trainer.fit({.duration = "1ba"});
  EXPECT_EQ(trainer.state().timestamp.batch, 4) << "a second call is a new one";
}

// If a run trained up to max_duration, its checkpoint has no note of the calls of fit().
TEST_F(FitAgain, ADurationInPlaceOfAMaxDurationCountsFromTheBeginningOfTheRun) {
  {
    TrainerOptions made = options("ckpt");
    made.max_duration = "1ep";
    Trainer(std::move(made)).fit();
  }
  for (int start = 0; start < 3; ++start) {
    Trainer trainer(options("ckpt"));
    trainer.fit({.duration = "2ep"});
    EXPECT_EQ(trainer.state().timestamp.epoch, 2);
  }
}

// A sharded run writes a folder.
TEST_F(FitAgain, TheNoteGoesThroughAFolder) {
  TrainerOptions made = options("ckpt");
  made.callbacks.push_back(CallAt(Event::kBatchStart, [](State& state) {
    if (state.timestamp.batch == 4) throw CancelledError("killed");
  }));
  Trainer trainer(std::move(made));
  trainer.fit({.duration = "3ba"});
  save_both_ways(trainer);
  trainer.state().max_duration = Time("4ba");
  trainer.fit();
  EXPECT_THROW(trainer.fit({.duration = "1ep"}), CancelledError);
  save_both_ways(trainer);
}

TEST_F(FitAgain, ARunOfOneFitHasTheEntriesThatComposersHas) {
  TrainerOptions made = options("ckpt");
  made.max_duration = "3ba";
  Trainer trainer(std::move(made));
  trainer.fit();
  const Value saved = load(folder / "ckpt/ep0-ba3-rank0.pt");
  EXPECT_THAT(testing::keys(saved.at("state").at("timestamp")), ElementsAre("Timestamp"));
}

TEST_F(FitAgain, AnotherRunsCheckpointCountsForNoCall) {
  {
    Trainer trainer(options("ckpt"));
    trainer.fit({.duration = "3ba"});
  }
  TrainerOptions made = options("of_other");
  made.autoresume = false;
  made.load_path = folder / "ckpt/ep0-ba3-rank0.pt";
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit({.duration = "3ba"}).reason, Reason::kFinished);
  EXPECT_EQ(trainer.state().timestamp.batch, 6);
}

TEST_F(FitAgain, ANoteThatMakesNoSenseIsAMisfitAndChangesNothing) {
  {
    Trainer trainer(options("ckpt"));
    trainer.fit({.duration = "3ba"});
  }
  const Value good = load(folder / "ckpt/ep0-ba3-rank0.pt");
  const auto refusal = [&](const Value& note) {
    Value value = good;
    value.mutable_dict()["state"].mutable_dict()["timestamp"].mutable_dict()["fit_calls"] = note;
    save(value, folder / "edited.pt");
    Trainer trainer(options("fresh"));
    return message_of<MismatchError>(
        [&] { load_checkpoint(folder / "edited.pt", trainer.state(), trainer.logger()); });
  };
  const Value call = Dict{{"duration", "2ep"}, {"begin", "0ep"}, {"end", "2 miles"}};
  EXPECT_THAT(refusal(5), HasSubstr("nothing was changed"));
  EXPECT_THAT(refusal(Dict{{"finished", -1}, {"end", None{}}, {"open", List()}}),
              HasSubstr("-1 calls have finished"));
  EXPECT_THAT(refusal(Dict{{"finished", 1}, {"end", None{}}, {"open", List()}}),
              HasSubstr("1 calls have finished, the last at None"));
  EXPECT_THAT(refusal(Dict{{"finished", 0}, {"end", None{}}, {"open", List{call}}}),
              HasSubstr("2 miles"));
}

// --- The numbers themselves ----------------------------------------------------------------------

std::optional<FitCalls> as_saved(const FitNumbers& numbers) {
  State state;
  state.fit_calls = numbers.calls();
  const auto value = fit_calls_value(state);
  if (!value) return std::nullopt;
  return fit_calls_from(*value);
}

void begin(FitNumbers& numbers, const Time& from, const Time& duration) {
  const auto start = numbers.next(duration);
  ASSERT_FALSE(start.is_known);
  numbers.note({.duration = duration, .begin = from, .end = from + duration});
}

TEST(FitNumbersTest, ACallThatThrewIsNotFinishedByALaterOneThatBegan) {
  FitNumbers numbers;
  begin(numbers, "0ba", "10ba");  // Throws at 4.
  begin(numbers, "4ba", "10ba");  // Killed at 6.
  FitNumbers again;
  again.resume(as_saved(numbers));
  const auto first = again.next(Time("10ba"));
  EXPECT_FALSE(first.is_over);
  EXPECT_EQ(first.end, Time("10ba"));
}

TEST(FitNumbersTest, AProgramThatWentOnAfterACallThrewIsDoneWithItWhenALaterOneFinished) {
  FitNumbers numbers;
  begin(numbers, "0ba", "10ba");
  begin(numbers, "4ba", "10ba");
  numbers.finish("14ba");
  begin(numbers, "14ba", "1ba");
  FitNumbers again;
  again.resume(as_saved(numbers));
  EXPECT_TRUE(again.next(Time("10ba")).is_over);
  EXPECT_TRUE(again.next(Time("10ba")).is_over);
  EXPECT_EQ(again.next(Time("1ba")).end, Time("15ba"));
  EXPECT_FALSE(again.next(Time("1ba")).is_known);
}

TEST(FitNumbersTest, TheLastCallUpToMaxDurationMayGoOn) {
  FitNumbers numbers;
  begin(numbers, "0ba", "10ba");
  numbers.finish("10ba");
  numbers.next(std::nullopt);
  numbers.finish("20ba");
  FitNumbers again;
  again.resume(numbers.calls());
  EXPECT_TRUE(again.next(Time("10ba")).is_over);
  EXPECT_FALSE(again.next(std::nullopt).is_over) << "max_duration may be larger now";
  again.finish("30ba");
  EXPECT_EQ(again.calls().finished, 2);
}

TEST(FitNumbersTest, ThousandsOfCallsTakeNoMoreRoomThanOne) {
  FitNumbers numbers;
  for (std::int64_t i = 0; i < 5000; ++i) {
    begin(numbers, Time::batches(i), "1ba");
    numbers.finish(Time::batches(i + 1));
  }
  EXPECT_EQ(numbers.calls().finished, 5000);
  EXPECT_TRUE(numbers.calls().open.empty());
}

}  // namespace
}  // namespace cairn
