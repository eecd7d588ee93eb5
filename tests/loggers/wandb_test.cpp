// WandBLogger: the records in its files, by the rules of W&B's datastore. W&B's own reader reads
// the golden file (wandb_test.py).

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "cairn/error.h"
#include "cairn/loggers/wandb_logger.h"
#include "cairn/train/trainer.h"

#include "core/hash/crc32.h"
#include "core/text/json.h"
#include "io/file.h"
#include "loggers/wandb/datastore.h"
#include "testing/event_records.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "testing/tiny_model.h"
#include "testing/trackers_environment.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::LogRecorder;
using testing::proto_fields;
using testing::ProtoFields;
using testing::read_file;
using ::testing::SizeIs;
using testing::TempFolder;
using testing::tiny_options;

constexpr std::size_t kBlock = 32768;

// The data of all records in a file. Fails the test for anything that leveldb's format forbids.
std::vector<std::string> wandb_records(const std::string& path) {
  const std::string bytes = read_file(path);
  EXPECT_EQ(bytes.substr(0, 7), std::string(":W&B\xe1\xbe\0", 7));
  std::vector<std::string> records;
  bool is_open = false;
  for (std::size_t at = 7; at < bytes.size();) {
    const std::size_t room = kBlock - at % kBlock;
    if (room < 7) {
      EXPECT_EQ(bytes.substr(at, room), std::string(room, '\0'));
      at += room;
      continue;
    }
    std::uint32_t crc = 0;
    std::uint16_t size = 0;
    std::memcpy(&crc, bytes.data() + at, sizeof(crc));
    std::memcpy(&size, bytes.data() + at + 4, sizeof(size));
    const std::string typed = bytes.substr(at + 6, 1 + std::size_t{size});
    EXPECT_EQ(typed.size(), 1U + size) << "torn";
    EXPECT_LE(7U + size, room) << "beyond its block";
    EXPECT_EQ(crc, crc32(as_bytes(typed)));
    const bool begins = typed[0] == 1 || typed[0] == 2;
    EXPECT_NE(begins, is_open) << "type " << int{typed[0]};
    if (begins) records.emplace_back();
    records.back() += typed.substr(1);
    is_open = typed[0] == 2 || typed[0] == 3;
    at += 7 + std::size_t{size};
  }
  EXPECT_FALSE(is_open);
  return records;
}

// The rows of a run's files: step to {key: value}. A step that is there twice fails the test.
std::map<std::int64_t, Json> wandb_rows(const std::string& folder) {
  std::map<std::int64_t, Json> rows;
  FileSystem& files = posix_file_system();
  for (const std::string& run : files.list(folder)) {
    const std::string inner = join_path(folder, run);
    for (const std::string& record : wandb_records(join_path(inner, files.list(inner).at(0)))) {
      const ProtoFields history = proto_fields(record).message(2);
      if (history.fields.empty()) continue;
      Json row;
      for (const auto& [field, bytes] : history.fields) {
        if (field != 1) continue;
        row[proto_fields(bytes).text(1)] = Json::parse(proto_fields(bytes).text(16));
      }
      EXPECT_EQ(row["_step"], history.message(2).integer(1));
      EXPECT_TRUE(rows.emplace(row["_step"], row).second) << "twice: " << row["_step"];
    }
  }
  return rows;
}

TEST(WandbFileTest, RecordsOfAllSizesAreCutAtBlocks) {
  const TempFolder folder;
  std::vector<std::string> written;
  {
    WandbFile file(folder / "a.wandb");
    for (const std::size_t size : {0, 1, 32700, 30, 8, 100'000, 3, 32768, 65522, 5}) {
      const ProtoMessage record = ProtoMessage().text(1, std::string(size, 'x'));
      file.append(record);
      written.push_back(record.bytes());
    }
    EXPECT_EQ(file.bytes(), read_file(folder / "a.wandb").size());
  }
  EXPECT_EQ(wandb_records(folder / "a.wandb"), written);
}

struct WandbLoggerTest : ::testing::Test {
  WandBLoggerOptions logger_options() const {
    return {.project = "digits",
            .entity = "team",
            .tags = {"a", "b"},
            .dir = folder.path(),
            .now = [ms = 1'700'000'000'000]() mutable {
              return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms += 500));
            }};
  }
  TrainerOptions options(const std::string& max_duration) const {
    TrainerOptions made = tiny_options();
    made.run_name = "run";
    made.max_duration = max_duration;
    made.loggers = {WandBLogger(logger_options()), recorder};
    made.save_folder = folder / "ckpt";
    made.save_interval = "2ba";
    made.autoresume = true;
    return made;
  }
  testing::CleanTrackersEnvironment environment;
  TempFolder folder;
  std::shared_ptr<LogRecorder> recorder = std::make_shared<LogRecorder>();
};

TEST_F(WandbLoggerTest, WritesTheGoldenFile) {
  environment.set("WANDB_RUN_ID", "goldenid");
  State state;
  state.run_name = "run";
  Logger log(state);
  WandBLogger logger(logger_options());
  logger.init(state, log);
  logger.log_hyperparameters(Dict{{"lr", 0.1}, {"name", "adam"}});
  logger.log_metrics(Dict{{"loss", 0.75}}, 0);
  logger.log_metrics(Dict{{"acc", 1}}, 0);
  logger.log_metrics(Dict{{"loss", -2.5}}, 300);
  logger.close(state, log);
  // The name of this machine differs.
  std::vector<std::string> records = wandb_records(logger.path());
  ASSERT_THAT(records, SizeIs(7));  // header, run, config, two rows, summary, exit
  const std::string golden = testing::kData + "/wandb/run-goldenid.wandb";
  if (std::getenv("CAIRN_WRITE_TRACES") != nullptr) {
    testing::write_file(golden, read_file(logger.path()));
  }
  std::vector<std::string> expected = wandb_records(golden);
  ASSERT_THAT(expected, SizeIs(7));
  EXPECT_EQ(proto_fields(records[1]).message(17).text(8), "run");
  records.erase(records.begin() + 1);
  expected.erase(expected.begin() + 1);
  EXPECT_EQ(records, expected);
}

TEST_F(WandbLoggerTest, AResumedRunHasItsIdAndEachStepOnce) {
  const auto run = [&](std::int64_t stop) {
    TrainerOptions made = options("7ba");
    made.callbacks = testing::CallAt(Event::kBatchStart, [stop](State& state) {
      if (state.timestamp.batch == stop) throw StorageError("killed", 0);
    });
    Trainer trainer(std::move(made));
    trainer.fit();
    trainer.close();
  };
  EXPECT_THROW(run(5), StorageError);  // saved after batch 4; batch 5 was logged
  run(-1);
  const auto rows = wandb_rows(folder / "wandb");
  std::vector<std::int64_t> steps;
  for (const auto& [step, row] : rows) {
    if (row.contains("loss/train/total")) steps.push_back(step);
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  const auto runs = posix_file_system().list(folder / "wandb");
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0].substr(runs[0].rfind('-')), runs[1].substr(runs[1].rfind('-')));
}

TEST_F(WandbLoggerTest, AStateThatLeadsElsewhereIsNotFollowed) {
  testing::write_file(folder / "victim.wandb", "bytes");
  State state;
  state.run_name = "run";
  Logger log(state);
  WandBLogger logger(logger_options());
  logger.init(state, log);
  logger.load_state_dict(Dict{{"run_name", "run"},
                              {"run_id", "id"},
                              {"path", "wandb/offline-run-1/../../victim.wandb"},
                              {"bytes", 1}});
  logger.fit_start(state, log);
  EXPECT_EQ(read_file(folder / "victim.wandb"), "bytes");
  EXPECT_THROW(logger.load_state_dict(Dict{{"run_name", "run"}}), MismatchError);
}

}  // namespace
}  // namespace cairn
