// TensorBoard's event files: the golden file, which TensorBoard's own reader understands
// (tensorboard_test.py), images, runs that resume, and uploads.

#include <gmock/gmock.h>
#include <torch/torch.h>
#include <zlib.h>

#include <cstdlib>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/loggers/summary_writer.h"
#include "cairn/loggers/tensorboard_logger.h"
#include "cairn/train/trainer.h"

#include "io/file.h"
#include "storage/listing.h"
#include "testing/event_records.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::event_records;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Pair;
using testing::ProtoFields;
using testing::read_file;
using testing::scalars_in;
using testing::ScalarSeries;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::tiny_options;

// A clock that advances by half a second with each look.
std::function<double()> half_seconds() {
  return [seconds = 1.7e9]() mutable { return seconds += 0.5; };
}

void write_examples(SummaryWriter& writer) {
  writer.add_scalar("loss/train/total", 0.75, 1);
  writer.add_scalar("loss/train/total", -2.5, 300);
  writer.add_text("notes", "**bold** \xc3\xbc", 2);
  writer.add_histogram("weights", torch::tensor({-1.5, 0.0, 0.0, 0.25, 3.0}), 3);
  writer.add_hparams(Dict{{"lr", 0.1}, {"name", "adam"}}, {"hparams/loss"});
}

TEST(SummaryWriterTest, WritesTheGoldenFile) {
  const TempFolder folder;
  SummaryWriter writer({.log_dir = folder / "run", .purge_step = 7, .now = half_seconds()});
  write_examples(writer);
  writer.close();
  const std::string golden = testing::kData + "/tensorboard/events.out.tfevents.golden";
  const std::string written = read_file(writer.path());
  if (std::getenv("CAIRN_WRITE_TRACES") != nullptr) testing::write_file(golden, written);
  EXPECT_TRUE(written == read_file(golden)) << "CAIRN_WRITE_TRACES=1 writes it anew";
}

TEST(SummaryWriterTest, HistogramsHaveTheBucketsThatAreNotEmpty) {
  const TempFolder folder;
  SummaryWriter writer({.log_dir = folder.path()});
  writer.add_histogram("h", torch::tensor({1.0, 1.0, 2.0, double{NAN}, double{INFINITY}}), 5);
  writer.add_histogram("h", torch::tensor({double{NAN}}), 6);
  writer.close();
  const auto events = event_records(writer.path());
  ASSERT_THAT(events, SizeIs(2));  // the version, and one histogram
  EXPECT_EQ(events[1].integer(2), 5);
  const ProtoFields histogram = events[1].message(5).message(1).message(5);
  EXPECT_EQ(histogram.number(1), 1);
  EXPECT_EQ(histogram.number(2), 2);
  EXPECT_EQ(histogram.number(3), 3);
  EXPECT_EQ(histogram.number(4), 4);
  EXPECT_EQ(histogram.number(5), 6);
  EXPECT_EQ(histogram.text(6).size(), histogram.text(7).size());
  const std::string counts = histogram.text(7);
  double sum = 0;
  for (std::size_t at = 0; at < counts.size(); at += 8) {
    double count = 0;
    std::memcpy(&count, counts.data() + at, sizeof(count));
    sum += count;
  }
  EXPECT_EQ(sum, 3);
}

std::string inflated(const std::string& bytes, std::size_t size) {
  std::string out(size, '\0');
  uLongf length = size;
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(out.data()), &length,
                       reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
            Z_OK);
  EXPECT_EQ(length, size);
  return out;
}

TEST(SummaryWriterTest, ImagesArePngOfAllPixels) {
  const TempFolder folder;
  SummaryWriter writer({.log_dir = folder.path()});
  // Two images of 1 x 2 pixels: red and green, black and white.
  const at::Tensor images =
      torch::tensor({1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0})
          .reshape({2, 3, 1, 2});
  writer.add_images("both", images, 4);
  writer.close();
  const ProtoFields image = event_records(writer.path()).at(1).message(5).message(1).message(4);
  EXPECT_EQ(image.integer(1), 1);
  EXPECT_EQ(image.integer(2), 4);
  EXPECT_EQ(image.integer(3), 3);
  const std::string png = image.text(4);
  ASSERT_THAT(png, StartsWith("\x89PNG\r\n\x1a\n"));
  const std::size_t data = png.find("IDAT") + 4;
  const std::string rows = inflated(png.substr(data, png.find("IEND") - data - 8), 1 + 4 * 3);
  EXPECT_EQ(rows, std::string("\0"
                              "\xff\0\0\0\xff\0\0\0\0\xff\xff\xff",
                              13));
}

TEST(SummaryWriterTest, OtherTensorsAreNoImages) {
  const TempFolder folder;
  SummaryWriter writer({.log_dir = folder.path()});
  const auto refused = [&](const at::Tensor& images) {
    return message_of<UsageError>([&] { writer.add_images("x", images, 0); });
  };
  EXPECT_THAT(refused(torch::zeros({5, 2, 2})), HasSubstr("one to four channels"));
  EXPECT_THAT(refused(torch::zeros({3})), HasSubstr("[N,C,H,W]"));
  EXPECT_THAT(refused(torch::zeros({3, 0, 2})), HasSubstr("[3, 0, 2]"));
  EXPECT_THAT(refused(torch::zeros({3, 2, 2}, at::kLong)), HasSubstr("uint8"));
}

TEST(SummaryWriterTest, AStateOfAnotherKindChangesNothing) {
  const TempFolder folder;
  SummaryWriter writer({.log_dir = folder / "run"});
  testing::write_file(folder / "victim", "bytes");
  EXPECT_THROW(writer.load_state_dict(Dict{{"file", "x"}}), MismatchError);
  EXPECT_THROW(writer.load_state_dict(Dict{{"file", "x"}, {"bytes", -1}}), MismatchError);
  writer.load_state_dict(Dict{{"file", "events.out.tfevents.1/../../victim"}, {"bytes", 1}});
  EXPECT_EQ(read_file(folder / "victim"), "bytes");
}

// --- TensorboardLogger
// ----------------------------------------------------------------------------

struct TensorboardLoggerTest : ::testing::Test {
  TrainerOptions options(const std::string& max_duration) const {
    TrainerOptions made = tiny_options();
    made.run_name = "run";
    made.max_duration = max_duration;
    made.loggers = TensorboardLogger({.log_dir = folder / "logs", .flush_interval = 2});
    made.save_folder = folder / "ckpt";
    made.save_interval = "2ba";
    return made;
  }
  ScalarSeries scalars() const { return scalars_in(folder / "logs/run"); }
  std::vector<std::int64_t> steps(const std::string& tag) const {
    std::vector<std::int64_t> found;
    const ScalarSeries series = scalars();
    for (const auto& [step, value] : series.at(tag))
      found.push_back(step);
    return found;
  }
  TempFolder folder;
};

TEST_F(TensorboardLoggerTest, LogsTheLossOfEachBatch) {
  TrainerOptions made = options("4ba");
  const auto recorder = std::make_shared<testing::LogRecorder>();
  made.loggers.push_back(recorder);
  Trainer(std::move(made)).fit();
  const auto losses = scalars()["loss/train/total"];
  const std::vector<double> logged = recorder->values("loss/train/total");
  ASSERT_EQ(losses.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(losses[i].second, static_cast<float>(logged[i]));
}

// The run that never stopped logs the same steps.
TEST_F(TensorboardLoggerTest, AResumedRunHasEachStepOnce) {
  {
    TrainerOptions made = options("7ba");
    made.eval_dataloader = testing::tiny_loader(4);
    made.eval_interval = "2ba";
    Trainer(std::move(made)).fit();
  }
  const ScalarSeries whole = scalars();
  remove_tree(posix_file_system(), (folder / "logs"));
  remove_tree(posix_file_system(), (folder / "ckpt"));
  const auto run = [&](std::int64_t stop) {
    TrainerOptions made = options("7ba");
    made.eval_dataloader = testing::tiny_loader(4);
    made.eval_interval = "2ba";
    made.autoresume = true;
    made.callbacks = testing::CallAt(Event::kBatchStart, [stop](State& state) {
      if (state.timestamp.batch == stop) throw StorageError("killed", 0);
    });
    Trainer trainer(std::move(made));
    trainer.fit();
  };
  EXPECT_THROW(run(5), StorageError);  // saved after batch 4; batch 5 was logged
  EXPECT_THROW(run(5), StorageError);  // so did this one
  run(-1);
  for (const auto& [tag, series] : whole) {
    if (tag.find("loss/") == std::string::npos) continue;
    EXPECT_EQ(scalars()[tag], series) << tag;
  }
}

TEST_F(TensorboardLoggerTest, EvaluatingACheckpointLeavesTheLogAfterIt) {
  Trainer(options("6ba")).fit();
  const auto before = steps("loss/train/total");
  TrainerOptions made = options("6ba");
  made.save_folder = std::nullopt;
  made.load_path = folder / "ckpt/ep0-ba2-rank0.pt";
  Trainer trainer(std::move(made));
  trainer.eval(testing::tiny_loader(4));
  trainer.close();
  EXPECT_EQ(steps("loss/train/total"), before);
}

TEST_F(TensorboardLoggerTest, TablesAreMarkdownAndImagesPictures) {
  State state;
  state.run_name = "run";
  state.timestamp.batch = 9;
  Logger logger(state);
  const auto board =
      std::make_shared<TensorboardLogger>(TensorboardLoggerOptions{.log_dir = folder / "logs"});
  logger.add(board);
  board->init(state, logger);
  logger.log_table({.columns = {"a", "b"}, .rows = {{1, "x|y"}}, .name = "T"});
  logger.log_images({.images = torch::zeros({2, 2})});
  logger.log_metrics(Dict{{"text", "no number"}, {"flag", true}});
  board->close(state, logger);
  const auto events = event_records(board->writer()->path());
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(events[1].integer(2), 9);
  EXPECT_EQ(events[1].message(5).message(1).text(1), "T/text_summary");
  EXPECT_EQ(events[1].message(5).message(1).message(8).text(8),
            "| a | b |\n|---|---|\n| 1 | x\\|y |");
  EXPECT_EQ(events[2].message(5).message(1).text(1), "Images");
  EXPECT_EQ(events[3].message(5).message(1).text(1), "flag");
  EXPECT_THROW(logger.log_table({.columns = {"a"}, .rows = {{1, 2}}}), UsageError);
  EXPECT_THROW(logger.log_images({}), UsageError);
}

TEST_F(TensorboardLoggerTest, UploadsCompleteFiles) {
  const auto store = memory_store();
  TrainerOptions made = options("4ba");
  made.save_folder = std::nullopt;
  made.loggers.push_back(RemoteUploaderDownloader({.store = store}));
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.close();
  const auto names = list_names(*store, "tensorboard_logs/run");
  EXPECT_EQ(names, posix_file_system().list(folder / "logs/run"));
  EXPECT_GE(names.size(), 2U);
}

TEST_F(TensorboardLoggerTest, AFlushIntervalBelowOneIsRefused) {
  EXPECT_THROW(TensorboardLogger({.flush_interval = 0}), UsageError);
}

}  // namespace
}  // namespace cairn
