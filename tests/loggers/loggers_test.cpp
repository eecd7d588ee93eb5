// Console, progress bar, file and in-memory loggers, each on a stream or file of its own; the
// message sink.

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "cairn/callbacks/lr_monitor.h"
#include "cairn/error.h"
#include "cairn/loggers/console_logger.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/loggers/in_memory_logger.h"
#include "cairn/loggers/progress_bar_logger.h"
#include "cairn/train/trainer.h"

#include "core/text/json.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_file;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::tiny_options;
using testing::write_file;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    found.push_back(line);
  }
  return found;
}

// --- ProgressBarLogger
// ----------------------------------------------------------------------------

struct ProgressBarTest : ::testing::Test {
  ProgressBarLogger logger(bool is_terminal) {
    return ProgressBarLogger(
        {.stream = &out, .is_terminal = is_terminal, .now = [this] { return seconds += 0.04; }});
  }
  std::string run(bool is_terminal, const std::string& max_duration) {
    TrainerOptions made = tiny_options();
    made.max_duration = max_duration;
    made.loggers = logger(is_terminal);
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
    return out.str();
  }
  std::ostringstream out;
  double seconds = 0;
};

TEST_F(ProgressBarTest, WithoutATerminalThereIsALineAnEpochAndNoControlCharacter) {
  const std::string text = run(false, "2ep");
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  std::vector<std::string> bars;
  for (const std::string& line : lines(text)) {
    if (line.find("| 5/5 [") != std::string::npos) bars.push_back(line);
  }
  ASSERT_THAT(bars, SizeIs(2));
  EXPECT_THAT(bars[0], StartsWith("train          Epoch   0: 100%|"));
  EXPECT_THAT(bars[1], StartsWith("train          Epoch   1: 100%|"));
}

TEST_F(ProgressBarTest, OtherDurationsHaveOneBarForTheWholeRun) {
  const std::string text = run(false, "7ba");
  EXPECT_THAT(text, HasSubstr("| 7/7 ["));
  EXPECT_THAT(text, Not(HasSubstr("/5 [")));
}

TEST_F(ProgressBarTest, ATerminalsLineIsRedrawnInPlace) {
  const std::string text = run(true, "1ep");
  EXPECT_THAT(text, HasSubstr("\r\x1b[K"));
  EXPECT_THAT(text, EndsWith("\n"));
}

TEST_F(ProgressBarTest, MessagesDoNotTearTheBar) {
  ProgressBarLogger bar = logger(true);
  TrainerOptions made = tiny_options();
  Trainer trainer(std::move(made));
  State& state = trainer.state();
  bar.epoch_start(state, trainer.logger());
  seconds += 1;
  bar.batch_end(state, trainer.logger());
  bar.log_message("saved x");
  EXPECT_THAT(out.str(), EndsWith("\r\x1b[Ksaved x\n"));
}

TEST_F(ProgressBarTest, StateHasTheKeysThatComposerInsistsOn) {
  const Value state = logger(false).state_dict();
  EXPECT_TRUE(state.at("train_pbar").is_none());
  EXPECT_TRUE(state.at("eval_pbar").is_none());
}

// --- ConsoleLogger
// --------------------------------------------------------------------------------

TEST(ConsoleLoggerTest, PrintsTheLastValuesAtTheInterval) {
  std::ostringstream out;
  TrainerOptions made = tiny_options();
  made.max_duration = "4ba";
  made.loggers = ConsoleLogger({.log_interval = "2ba", .stream = &out});
  Trainer trainer(std::move(made));
  trainer.fit();
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("[epoch=0][batch=2/4]:\n"), HasSubstr("[epoch=0][batch=4/4]:\n"),
                    HasSubstr("    loss/train/total: "), HasSubstr("rank_zero_seed: 3")));
  EXPECT_THAT(out.str(), Not(HasSubstr("[batch=1/4]")));
}

TEST(ConsoleLoggerTest, IntervalsInOtherUnitsAreRefused) {
  EXPECT_THROW(ConsoleLogger({.log_interval = "10sp"}), UsageError);
}

// --- InMemoryLogger
// -------------------------------------------------------------------------------

TEST(InMemoryLoggerTest, KeepsEveryValueWithItsTime) {
  auto memory = std::make_shared<InMemoryLogger>();
  TrainerOptions made = tiny_options();
  made.max_duration = "3ba";
  made.loggers = {memory};
  Trainer trainer(std::move(made));
  trainer.fit();
  const auto& losses = memory->data().at("loss/train/total");
  ASSERT_THAT(losses, SizeIs(3));
  EXPECT_EQ(losses[1].first.batch, 1);
  auto series = memory->get_timeseries("loss/train/total");
  EXPECT_THAT(series["batch"], ElementsAre(0, 1, 2));
  EXPECT_THAT(series["sample"], ElementsAre(0, 2, 4));
  EXPECT_EQ(series["loss/train/total"][1], losses[1].second.as_float());
  EXPECT_EQ(series["total_wct"][0], 0);
  EXPECT_GT(series["total_wct"][2], 0);
  EXPECT_EQ(memory->most_recent_value("loss/train/total"), losses[2].second);
  EXPECT_EQ(memory->hyperparameters().at("rank_zero_seed"), Value(3));
  try {
    memory->get_timeseries("loss");
    FAIL() << "no error";
  } catch (const NotFoundError& e) {
    EXPECT_THAT(e.what(), HasSubstr("loss/train/total"));
  }
}

// --- FileLogger
// A clock that advances by a millisecond with each look.
std::function<std::chrono::system_clock::time_point()> milliseconds_clock() {
  return [now = std::chrono::milliseconds(1'700'000'000'123)]() mutable {
    return std::chrono::system_clock::time_point(now++);
  };
}

struct BatchLines : ::testing::Test {
  // Two batches, with an evaluation after the second.
  void write(FileLogger file) {
    State state;
    Logger logger(state);
    file.init(state, logger);
    file.log_hyperparameters(Dict{{"seed", 17}});
    file.log_metrics(Dict{{"loss", 0.5}, {"lr", 0.1}}, 1);
    file.log_metrics(Dict{{"loss", NAN}}, 2);
    file.log_metrics(Dict{{"lr", 0.1}}, 2);
    file.log_metrics(Dict{{"metrics/eval/Acc, \"top\"", 0.25}}, 2);
    file.log_table({.columns = {"a"}, .rows = {{1}, {"x"}}, .name = "T"}, 2);
    file.close(state, logger);
  }
  FileLogger logger(FileLogFormat format, bool overwrite = false) {
    return FileLogger({.filename = folder / "log",
                       .overwrite = overwrite,
                       .format = format,
                       .now = milliseconds_clock()});
  }
  TempFolder folder;
};

TEST_F(BatchLines, AreJsonObjectsWithTheTimeOfDay) {
  write(logger(FileLogFormat::kBatches));
  EXPECT_THAT(lines(read_file(folder / "log")),
              ElementsAre(R"({"hyperparameter":"seed","value":17})",
                          R"({"time":"2023-11-14T22:13:20.123Z","batch":1,"loss":0.5,"lr":0.1})",
                          R"({"batch":2,"table":"T","columns":["a"],"rows":[[1],["x"]]})",
                          R"({"time":"2023-11-14T22:13:20.124Z","batch":2,"loss":null,"lr":0.1,)"
                          R"("metrics/eval/Acc, \"top\"":0.25})"));
}

TEST_F(BatchLines, OfCsvHaveAColumnForEachMetric) {
  write(logger(FileLogFormat::kCsv));
  EXPECT_EQ(read_file(folder / "log"),
            "time,batch,loss,lr,\"metrics/eval/Acc, \"\"top\"\"\"\n"
            "2023-11-14T22:13:20.123Z,1,0.5,0.1,\n"
            "2023-11-14T22:13:20.124Z,2,,0.1,0.25\n");
}

TEST_F(BatchLines, OfAResumedRunHaveTheColumnsOfTheFile) {
  write(logger(FileLogFormat::kCsv));
  const std::string before = read_file(folder / "log");
  write_file(folder / "log", before + "2023-11-14T22:13:2");  // killed inside a line
  write(logger(FileLogFormat::kCsv));
  const auto all = lines(read_file(folder / "log"));
  ASSERT_THAT(all, SizeIs(6));
  EXPECT_THAT(all[3], StartsWith("2023-11-14T22:13:2"));
  EXPECT_EQ(all[4], "2023-11-14T22:13:20.123Z,1,0.5,0.1,");
  write(logger(FileLogFormat::kCsv, /*overwrite=*/true));
  EXPECT_EQ(read_file(folder / "log"), before);
}

TEST_F(BatchLines, OfATrainedRunAreOneForEachBatch) {
  const auto train = [&](const std::string& max_duration) {
    TrainerOptions options = tiny_options();
    options.run_name = "night";
    options.max_duration = max_duration;
    options.save_folder = folder / "checkpoints";
    options.save_interval = "2ba";
    options.autoresume = true;
    options.callbacks = LRMonitor();
    options.loggers = logger(FileLogFormat::kBatches);
    Trainer(std::move(options)).fit();
  };
  train("4ba");
  train("8ba");
  std::map<std::int64_t, std::string> last;  // by batch: the later line counts
  std::vector<std::string> twice;
  for (const std::string& line : lines(read_file(folder / "log"))) {
    const Json json = Json::parse(line);
    if (!json.contains("time") || json.contains("event") || json.contains("message")) continue;
    std::string& known = last[json.at("batch")];
    if (!known.empty()) twice.push_back(known);
    known = line;
  }
  EXPECT_THAT(twice, SizeIs(1));  // that of the fourth batch, when the first run ended
  ASSERT_THAT(last, SizeIs(9));
  for (std::int64_t batch = 1; batch < 8; ++batch) {
    EXPECT_THAT(last[batch], AllOf(HasSubstr("\"loss/train/total\""), HasSubstr("\"lr-")));
  }
}

// The events of the lines of a log, with batch and time.
std::vector<std::string> events(const std::string& text) {
  std::vector<std::string> found;
  for (const std::string& line : lines(text)) {
    const Json json = Json::parse(line);
    if (!json.contains("event")) continue;
    EXPECT_THAT(json.at("time").get<std::string>(), StartsWith("2023-11-14T22:13:2"));
    found.push_back(json.at("event").get<std::string>() + " " + json.at("batch").dump());
  }
  return found;
}

TEST_F(BatchLines, SayWhenFitBeginsAndEnds) {
  for (const FileLogFormat format : {FileLogFormat::kEntries, FileLogFormat::kBatches}) {
    TrainerOptions options = tiny_options();
    options.max_duration = "4ba";
    options.loggers = logger(format, /*overwrite=*/true);
    Trainer trainer(std::move(options));
    trainer.fit();
    trainer.fit({.duration = "2ba"});
    trainer.close();
    EXPECT_THAT(events(read_file(folder / "log")),
                ElementsAre("fit_start 0", "fit_end 4", "fit_start 4", "fit_end 6"));
  }
}

TEST_F(BatchLines, SayHowLongTheRunWillBe) {
  TrainerOptions options = tiny_options();
  options.max_duration = "3ep";
  options.train_subset_num_batches = 2;
  options.loggers = logger(FileLogFormat::kEntries);
  Trainer(std::move(options)).fit();
  EXPECT_THAT(lines(read_file(folder / "log")),
              Contains(AllOf(HasSubstr("\"event\":\"fit_start\""),
                             HasSubstr("\"max_duration\":\"3ep\",\"dataloader_len\":2}"))));
}

TEST_F(BatchLines, OfMessagesHaveTheTimeOfDay) {
  State state;
  Logger logger(state);
  FileLogger file = this->logger(FileLogFormat::kBatches);
  file.init(state, logger);
  state.timestamp.batch = 7;
  file.log_message("saved");
  EXPECT_EQ(read_file(folder / "log"),
            "{\"time\":\"2023-11-14T22:13:20.123Z\",\"batch\":7,\"message\":\"saved\"}\n");
}

TEST_F(BatchLines, SayThatFitFailed) {
  struct Failing final : Callback {
    void batch_end(State& state, Logger& /*logger*/) override {
      if (state.timestamp.batch == 2) throw UsageError("broken");
    }
  };
  TrainerOptions options = tiny_options();
  options.callbacks = std::make_shared<Failing>();
  options.loggers = logger(FileLogFormat::kEntries);
  EXPECT_THROW(Trainer(std::move(options)).fit(), UsageError);
  EXPECT_THAT(events(read_file(folder / "log")), ElementsAre("fit_start 0", "close 2"));
}

TEST_F(BatchLines, OtherFormatsAreRefused) {
  EXPECT_THROW(FileLogger({.format = "xml"}), UsageError);
}

// -----------------------------------------------------------------------------------

struct FileLoggerTest : ::testing::Test {
  void run(bool overwrite) {
    TrainerOptions made = tiny_options();
    made.run_name = "run";
    made.max_duration = "2ba";
    made.loggers =
        FileLogger({.filename = folder / "{run_name}/log.jsonl", .overwrite = overwrite});
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.logger().log_message("said \"this\"\n");
    trainer.logger().log_hyperparameters(Dict{{"nested", Dict{{"depth", 2}, {"none", None{}}}}});
    trainer.logger().log_metrics(Dict{{"bad", std::nan("")}});
  }
  std::vector<nlohmann::json> objects() const {
    std::vector<nlohmann::json> found;
    for (const std::string& line : lines(read_file(folder / "run/log.jsonl"))) {
      found.push_back(nlohmann::json::parse(line));
    }
    return found;
  }
  TempFolder folder;
};

TEST_F(FileLoggerTest, WritesOneJsonObjectALine) {
  run(false);
  std::vector<std::int64_t> batches;
  bool has_seed = false;
  for (const auto& object : objects()) {
    if (object.value("metric", "") == "loss/train/total") {
      EXPECT_TRUE(object["value"].is_number_float());
      batches.push_back(object["batch"]);
    }
    has_seed = has_seed || object.value("hyperparameter", "") == "rank_zero_seed";
  }
  EXPECT_THAT(batches, ElementsAre(0, 1));
  EXPECT_TRUE(has_seed);
  const auto all = objects();
  EXPECT_EQ(all[all.size() - 3]["message"], "said \"this\"\n");
  EXPECT_EQ(all[all.size() - 2]["value"], nlohmann::json::parse(R"({"depth":2,"none":null})"));
  EXPECT_TRUE(all.back()["value"].is_null());
}

TEST_F(FileLoggerTest, ResumedRunContinuesTheFileAlsoAfterATornLine) {
  run(false);
  const std::size_t before = objects().size();
  write_file(folder / "run/log.jsonl", read_file(folder / "run/log.jsonl") + R"({"batch": 3, "me)");
  run(false);
  const auto all = lines(read_file(folder / "run/log.jsonl"));
  EXPECT_EQ(all.size(), 2 * before + 1);
  EXPECT_EQ(all[before], R"({"batch": 3, "me)");
  run(true);
  EXPECT_EQ(objects().size(), before);
}

// Takes metrics, and no messages.
class MetricsOnly final : public LoggerDestination {
 public:
  std::string name() const override { return "MetricsOnly"; }
};

// Sets a message sink, and restores the previous one when it is destroyed.
struct Sink {
  explicit Sink(MessageSink sink) : before(set_message_sink(std::move(sink))) {}
  ~Sink() { set_message_sink(std::move(before)); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  MessageSink before;
};

TEST(MessageSinkTest, GetsTheMessagesThatACsvFileHasNoPlaceFor) {
  const TempFolder folder;
  std::vector<std::string> sent;
  const Sink sink([&sent](const std::string& message) { sent.push_back(message); });
  State state;
  Logger logger(state);
  const auto csv = std::make_shared<FileLogger>(
      FileLoggerOptions{.filename = folder / "log", .format = FileLogFormat::kCsv});
  csv->init(state, logger);
  logger.add(csv);
  logger.log_message("warning: damaged");
  EXPECT_THAT(sent, ElementsAre("warning: damaged"));
}

TEST(MessageSinkTest, IsStderrForWhatNoDestinationTakes) {
  State state;
  Logger logger(state);
  logger.add(std::make_shared<MetricsOnly>());
  ::testing::internal::CaptureStderr();
  logger.log_message("warning: an epoch is lost");
  logger.log_message("named \x1b[2J");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: an epoch is lost\nnamed \\x1b[2J\n");
}

TEST(MessageSinkTest, GetsNothingThatADestinationTook) {
  std::vector<std::string> lost;
  const Sink sink([&](const std::string& message) { lost.push_back(message); });
  State state;
  Logger logger(state);
  logger.log_message("one");
  const auto memory = std::make_shared<InMemoryLogger>();
  logger.add(memory);
  logger.add(std::make_shared<MetricsOnly>());
  logger.log_message("two");
  EXPECT_EQ(lost, std::vector<std::string>{"one"});
  EXPECT_EQ(memory->messages(), std::vector<std::string>{"two"});
}

TEST(MessageSinkTest, AnEmptyOneSilences) {
  const Sink sink(nullptr);
  State state;
  Logger logger(state);
  ::testing::internal::CaptureStderr();
  logger.log_message("one");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace cairn
