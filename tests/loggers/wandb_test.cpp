// WandBLogger: the file of a run is read back by the rules of W&B's format, for a run that ends,
// one that is killed and resumed, and one that is continued elsewhere.

#include <gmock/gmock.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/loggers/wandb_logger.h"
#include "cairn/train/trainer.h"

#include "io/file.h"
#include "loggers/wandb/record_file.h"
#include "loggers/wandb/run_file.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "testing/wandb_records.h"

namespace cairn {
namespace {

using testing::CallAt;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ProtoFields;
using testing::read_file;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::tiny_options;
using testing::wandb_messages;
using testing::wandb_records;
using testing::write_file;

// Fields of Record.
constexpr int kHistory = 2;
constexpr int kSummary = 3;
constexpr int kConfig = 5;
constexpr int kRun = 17;
constexpr int kExit = 18;

constexpr double kNow = 1'764'448'200;  // 2025-11-29 20:30:00

std::vector<ProtoFields> records_of(const std::string& path, int field) {
  std::vector<ProtoFields> found;
  for (const ProtoFields& record : wandb_records(path)) {
    if (!record.text(field).empty()) found.push_back(record.message(field));
  }
  return found;
}

// The items of a record of history, summary or config: key to JSON.
std::map<std::string, std::string> items_of(const ProtoFields& record) {
  std::map<std::string, std::string> items;
  for (const auto& [field, bytes] : record.fields) {
    const ProtoFields item = testing::proto_fields(bytes);
    if (field == 1) items[item.text(1)] = item.text(16);
  }
  return items;
}

std::vector<std::string> column(const std::vector<ProtoFields>& records, const std::string& key) {
  std::vector<std::string> values;
  for (const ProtoFields& record : records) {
    const auto items = items_of(record);
    if (items.contains(key)) values.push_back(items.at(key));
  }
  return values;
}

std::vector<std::string> run_folders(const TempFolder& folder) {
  return posix_file_system().list(folder / "wandb");
}

std::string file_of_run(const TempFolder& folder, const std::string& id, std::size_t number = 0) {
  std::vector<std::string> folders = run_folders(folder);
  std::ranges::sort(folders);
  return folder / ("wandb/" + folders.at(number) + "/run-" + id + ".wandb");
}

WandBLoggerOptions options_in(const TempFolder& folder) {
  return {.project = "digits",
          .entity = "team",
          .tags = {"small", "cpu"},
          .id = "run1",
          .dir = folder.path(),
          .mode = "offline",
          .now = [seconds = kNow]() mutable { return seconds += 0.001; }};
}

TrainerOptions run_of(const WandBLoggerOptions& logger, const std::string& max_duration = "4ba") {
  TrainerOptions options = tiny_options();
  options.run_name = "night";
  options.max_duration = max_duration;
  options.loggers = WandBLogger(logger);
  return options;
}

TEST(WandBLoggerTest, WritesARunWithItsConfigRowsAndSummary) {
  const TempFolder folder;
  {
    Trainer trainer(run_of(options_in(folder)));
    trainer.fit();
  }
  EXPECT_THAT(run_folders(folder), ElementsAre("offline-run-20251129_203000-run1"));
  const std::string path = file_of_run(folder, "run1");
  const std::vector<ProtoFields> records = wandb_records(path);
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(records[i].integer(1), static_cast<std::int64_t>(i + 1));

  const ProtoFields run = records.at(0).message(kRun);
  EXPECT_EQ(run.text(1), "run1");
  EXPECT_EQ(run.text(2), "team");
  EXPECT_EQ(run.text(3), "digits");
  EXPECT_EQ(run.text(8), "night");
  EXPECT_EQ(run.text(10), "small");
  EXPECT_EQ(run.integer(14), 0);
  EXPECT_EQ(run.message(17).integer(1), static_cast<std::int64_t>(kNow));
  EXPECT_EQ(run.integer(18), 0);

  const auto config = items_of(records_of(path, kConfig).at(0));
  EXPECT_TRUE(config.contains("rank_zero_seed"));
  const std::vector<ProtoFields> rows = records_of(path, kHistory);
  EXPECT_THAT(column(rows, "_step"), ElementsAre("0", "1", "2", "3", "4"));
  const std::vector<std::string> losses = column(rows, "loss/train/total");
  EXPECT_THAT(losses, SizeIs(4));
  EXPECT_EQ(rows[2].message(2).integer(1), 2);  // step
  const auto summary = items_of(records_of(path, kSummary).back());
  EXPECT_EQ(summary.at("loss/train/total"), losses.back());
  EXPECT_EQ(records_of(path, kExit).at(0).integer(1), 0);
}

TEST(WandBLoggerTest, AResumedRunHasEachStepOnce) {
  const TempFolder folder;
  WandBLoggerOptions logger = options_in(folder);
  logger.id = "";  // drawn, and kept
  const auto options = [&](const std::string& max_duration) {
    TrainerOptions made = run_of(logger, max_duration);
    made.save_folder = folder / "checkpoints";
    made.save_interval = "2ba";
    made.autoresume = true;
    return made;
  };
  {
    TrainerOptions dying = options("8ba");
    int batches = 0;
    dying.callbacks = {std::make_shared<CallAt>(Event::kBatchEnd, [&batches](State&) {
      if (++batches == 5) throw std::runtime_error("killed");
    })};
    Trainer trainer(std::move(dying));
    EXPECT_THROW(trainer.fit(), std::runtime_error);
  }
  const std::string id = run_folders(folder).at(0).substr(sizeof("offline-run-20251129_203000"));
  const std::string path = file_of_run(folder, id);
  EXPECT_THAT(column(records_of(path, kHistory), "_step"), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_EQ(records_of(path, kExit).at(0).integer(1), 1);
  {
    Trainer trainer(options("8ba"));
    trainer.fit();
  }
  EXPECT_THAT(run_folders(folder), SizeIs(1));
  const std::vector<ProtoFields> rows = records_of(path, kHistory);
  EXPECT_THAT(column(rows, "loss/train/total"), SizeIs(8));
  EXPECT_THAT(column(rows, "time/batch"), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8"));
  EXPECT_THAT(records_of(path, kRun), SizeIs(1));
  EXPECT_THAT(records_of(path, kExit), SizeIs(1));
  EXPECT_EQ(records_of(path, kExit).at(0).integer(1), 0);
}

TEST(WandBLoggerTest, WhereTheFileIsNotThereASecondOneOfTheSameRunBegins) {
  const TempFolder first;
  const TempFolder second;
  const auto options = [&](const TempFolder& folder, const std::string& max_duration) {
    WandBLoggerOptions logger = options_in(folder);
    logger.id = "";
    TrainerOptions made = run_of(logger, max_duration);
    made.save_folder = first / "checkpoints";
    made.autoresume = true;
    return made;
  };
  Trainer(options(first, "1ep")).fit();
  const std::string id = run_folders(first).at(0).substr(sizeof("offline-run-20251129_203000"));
  Trainer(options(second, "2ep")).fit();
  const ProtoFields run = records_of(file_of_run(second, id), kRun).at(0);
  EXPECT_EQ(run.text(1), id);
  EXPECT_EQ(run.integer(14), 5);
  EXPECT_EQ(run.integer(18), 1);
  EXPECT_THAT(column(records_of(file_of_run(second, id), kHistory), "loss/train/total"), SizeIs(5));
}

TEST(WandBLoggerTest, AnotherRunDoesNotContinueTheRunOfItsCheckpoint) {
  const TempFolder folder;
  TrainerOptions before = run_of(options_in(folder), "1ep");
  before.save_folder = folder / "checkpoints";
  Trainer(std::move(before)).fit();
  const std::string bytes = read_file(file_of_run(folder, "run1"));
  WandBLoggerOptions logger = options_in(folder);
  logger.id = "run2";
  TrainerOptions after = run_of(logger, "2ep");
  after.run_name = "tuned";
  after.load_path = folder / "checkpoints/latest-rank0.pt";
  Trainer(std::move(after)).fit();
  EXPECT_THAT(run_folders(folder), SizeIs(2));
  EXPECT_EQ(read_file(file_of_run(folder, "run1")), bytes);
  EXPECT_EQ(records_of(file_of_run(folder, "run2", 1), kRun).at(0).integer(18), 0);
}

TEST(WandBLoggerTest, WorksWithALoggerOfOnesOwn) {
  const TempFolder folder;
  WandBLoggerOptions options = options_in(folder);
  options.id = "";
  State state;
  state.run_name = "night";
  Logger logger(state);
  WandBLogger wandb(options);
  wandb.init(state, logger);
  for (std::int64_t step = 0; step < 100; ++step) {
    wandb.log_metrics(Dict{{"loss", 1.0}}, step);
    if (step == 50) {
      EXPECT_FALSE(wandb.run_dir().empty()) << "rows do not wait for the end";
    }
  }
  const std::string path = wandb.run_dir() + "/run-" + wandb.run_id() + ".wandb";
  wandb.close(state, logger);
  EXPECT_THAT(wandb.run_id(), SizeIs(8));
  EXPECT_THAT(records_of(path, kHistory), SizeIs(100));
}

TEST(WandBLoggerTest, DisabledItWritesNothing) {
  const TempFolder folder;
  WandBLoggerOptions logger = options_in(folder);
  logger.mode = "disabled";
  Trainer(run_of(logger)).fit();
  EXPECT_THAT(posix_file_system().list(folder.path()), SizeIs(0));
}

TEST(WandBLoggerTest, RefusesModesAndIdsThatItCannotWrite) {
  EXPECT_THROW(WandBLogger({.mode = "dryrun"}), UsageError);
  EXPECT_THROW(WandBLogger({.id = "../run"}), UsageError);
}

TEST(WandBLoggerTest, AStateCannotNameAnotherFile) {
  WandBLogger logger;
  const auto state = [](const char* id, const char* folder) {
    return Dict{{"run_name", "night"}, {"run_id", id},     {"folder", folder},  {"bytes", 7},
                {"records", 0},        {"step", 0},        {"rows_written", 0}, {"rows", List{}},
                {"runtime", 0.5},      {"summary", Dict{}}};
  };
  logger.load_state_dict(state("run1", "offline-run-20251129_203000-run1"));
  EXPECT_THROW(logger.load_state_dict(state("run1", "..")), MismatchError);
  EXPECT_THROW(logger.load_state_dict(state("../run1", "offline-run-1-run1")), MismatchError);
  EXPECT_NO_THROW(logger.load_state_dict(Dict{}));
}

TEST(WandBRunFileTest, NumbersThatJsonDoesNotHaveAreTexts) {
  const TempFolder folder;
  wandb::RunFile file(folder.path(), {.id = "run1"}, kNow);
  const double infinity = std::numeric_limits<double>::infinity();
  const Dict metrics = {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}, {"d", 0.25}};
  file.write_row({.step = 3, .metrics = metrics, .runtime = 1.5, .time = kNow});
  const auto row = items_of(records_of(file.path(), kHistory).at(0));
  EXPECT_EQ(row.at("a"), "\"NaN\"");
  EXPECT_EQ(row.at("b"), "\"Infinity\"");
  EXPECT_EQ(row.at("c"), "\"-Infinity\"");
  EXPECT_EQ(row.at("d"), "0.25");
  EXPECT_EQ(row.at("_runtime"), "1.5");
}

// Read by W&B's own datastore.py (tests/data/wandb/README.md).
TEST(WandBRunFileTest, HasTheBytesThatWandBsToolsRead) {
  const TempFolder folder;
  wandb::RunFile file(folder.path(),
                      {.id = "run1",
                       .entity = "team",
                       .project = "digits",
                       .group = "all",
                       .job_type = "train",
                       .shown_name = "night",
                       .notes = "a note",
                       .tags = {"small", "cpu"},
                       .host = "machine",
                       .is_resumed = true,
                       .first_step = 7},
                      kNow + 0.25);
  file.write_config(Dict{{"lr", 0.1}, {"layers", List{64, 10}}});
  for (std::int64_t step = 7; step < 10; ++step) {
    const Dict metrics = {{"loss/train/total", 1.0 / static_cast<double>(step)}};
    file.write_row({.step = step, .metrics = metrics, .runtime = 0.5, .time = kNow});
  }
  file.write_config(Dict{{"long", std::string(70'000, 'x')}});  // crosses two ends of blocks
  file.write_summary(Dict{{"loss/train/total", 0.125}});
  file.write_exit(0, 12.5);
  const std::string golden = CAIRN_TEST_DATA "/wandb/run-run1.wandb";
  if (std::getenv("CAIRN_WRITE_GOLDEN") != nullptr) write_file(golden, read_file(file.path()));
  EXPECT_TRUE(read_file(file.path()) == read_file(golden));
}

TEST(WandBRecordFileTest, MessagesOfEverySizeAroundTheEndOfABlockAreReadBack) {
  constexpr std::size_t kBlock = 32768;
  for (std::size_t left = 0; left < 40; ++left) {
    const TempFolder folder;
    wandb::RecordFile file(folder / "run.wandb");
    std::vector<std::string> sent;
    for (const std::size_t size : {kBlock - 40 - left, std::size_t{0}, left, 2 * kBlock}) {
      sent.emplace_back(size, static_cast<char>('a' + sent.size()));
      file.write(kConfig, ProtoMessage().text(1, sent.back()));
    }
    EXPECT_EQ(read_file(file.path()).size(), file.position().bytes);
    std::vector<std::string> found;
    for (const ProtoFields& record : wandb_records(file.path()))
      found.push_back(record.message(kConfig).text(1));
    EXPECT_EQ(found, sent) << left;
  }
}

TEST(WandBRecordFileTest, ContinuesAtAPosition) {
  const TempFolder folder;
  const std::string path = folder / "run.wandb";
  wandb::RecordPosition position;
  {
    wandb::RecordFile file(path);
    file.write(kConfig, ProtoMessage().text(1, "kept"));
    position = file.position();
    file.write(kConfig, ProtoMessage().text(1, "cut"));
  }
  wandb::RecordFile(path, position).write(kConfig, ProtoMessage().text(1, "new"));
  const std::vector<ProtoFields> records = wandb_records(path);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[1].integer(1), 2);
  EXPECT_EQ(records[1].message(kConfig).text(1), "new");
  const std::string bytes = read_file(path);
  for (const wandb::RecordPosition& wrong : {wandb::RecordPosition{.bytes = 9999, .records = 1},
                                             {.bytes = position.bytes + 1, .records = 1},
                                             {.bytes = position.bytes, .records = 2},
                                             {.bytes = 3, .records = 0}}) {
    EXPECT_THROW(wandb::RecordFile(path, wrong), CorruptError);
  }
  EXPECT_EQ(read_file(path), bytes);
  EXPECT_THROW((wandb::RecordFile(path)), StorageError);
}

TEST(WandBRecordFileTest, DoesNotCutAnotherFile) {
  const TempFolder folder;
  const std::string path = folder / "notes.txt";
  write_file(path, "my notes, which are long enough");
  EXPECT_THROW(wandb::RecordFile(path, {.bytes = 7, .records = 0}), CorruptError);
  EXPECT_EQ(read_file(path), "my notes, which are long enough");
}

}  // namespace
}  // namespace cairn
