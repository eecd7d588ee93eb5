// TensorBoard's event files as the log of a run: what cairn, PyTorch and TensorFlow write, files
// that grow, and files that lie.
#include "cli/runs/event_files.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>

#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "event_bytes.h"
#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "storage/place.h"
#include "testing/faulty_file_system.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using events::kStart;
using events::named;
using events::record;
using events::scalar;
using events::start;
using events::summary;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::read_file;
using ::testing::SizeIs;
using testing::write_file;

const std::string kGolden = testing::kData + "/tensorboard/events.out.tfevents.golden";

// --- Writing ------------------------------------------------------------------------------------

// The messages in the golden file.
std::vector<std::string> golden_messages() {
  const std::string golden = read_file(kGolden);
  std::vector<std::string> messages;
  for (std::size_t at = 0; at < golden.size();) {
    const auto size = load_little_endian<std::uint64_t>(as_bytes(golden).data() + at);
    messages.push_back(golden.substr(at + 12, size));
    at += size + 16;
  }
  return messages;
}

ProtoMessage plugin(const std::string& name) {
  return ProtoMessage().message(1, ProtoMessage().text(1, name));
}

// A tensor of floats, as TensorFlow 2 writes it, with these sizes.
ProtoMessage tensor(const std::vector<std::int64_t>& sizes, const std::vector<float>& numbers) {
  ProtoMessage shape;
  for (const std::int64_t size : sizes)
    shape.message(2, ProtoMessage().integer(1, size));
  return ProtoMessage().integer(1, 1).message(2, shape).text(
      4, as_text(std::as_bytes(std::span(numbers))));
}

struct EventFilesTest : ::testing::Test {
  void write(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
  }
  EventFiles files(const std::string& name = {}) const {
    return {store_of(folder_.path(), nullptr), folder_.path(), name};
  }
  RunLog read() const {
    RunLog log{.path = folder_.path()};
    files().update(log);
    return log;
  }
  RunLog read(const std::string& bytes) const {
    write(named(0), bytes);
    return read();
  }
  testing::TempFolder folder_;
};

// --- What is in them ----------------------------------------------------------------------------

TEST_F(EventFilesTest, ReadsWhatCairnWrites) {
  const RunLog log = read(read_file(kGolden));
  EXPECT_THAT(log.metrics,
              ElementsAre(Pair("loss/train/total",
                               ElementsAre(MetricPoint{1, 0.75}, MetricPoint{300, -2.5}))));
  ASSERT_THAT(log.messages, SizeIs(1));
  EXPECT_EQ(log.messages[0].batch, 2);
  EXPECT_EQ(log.messages[0].text, "notes: **bold** \xc3\xbc");
  EXPECT_THAT(log.hyperparameters, ElementsAre(Pair("lr", "\"0.1000\""), Pair("name", "\"adam\"")));
  ASSERT_THAT(log.spans, SizeIs(1));
  const auto after = [](double seconds) {
    return std::chrono::system_clock::time_point(
        std::chrono::milliseconds(std::llround((kStart + seconds) * 1000)));
  };
  EXPECT_EQ(log.spans[0].begin, after(0.5));
  EXPECT_EQ(log.spans[0].last, after(2));
  EXPECT_EQ(log.spans[0].first_batch, 1);
  EXPECT_EQ(log.spans[0].last_batch, 300);
  EXPECT_EQ(log.spans[0].end, SpanEnd::kNone);
  EXPECT_EQ(log.passed_over, 0U);
}

// tests/data/write_event_files.py wrote them. Steps 3 and 4 of the first writer are hidden by the
// `purge_step` of the second.
TEST_F(EventFilesTest, ReadsWhatPyTorchAndTensorBoardWrite) {
  RunLog log;
  const std::string folder = testing::kData + "/tensorboard/python";
  EventFiles(store_of(folder, nullptr), folder).update(log);
  EXPECT_THAT(
      log.metrics,
      ElementsAre(
          Pair("accuracy", ElementsAre(MetricPoint{0, 0}, MetricPoint{1, 0.5}, MetricPoint{2, 1})),
          Pair("best", ElementsAre(MetricPoint{0, 0.125})),
          Pair("loss/train", ElementsAre(MetricPoint{0, 1}, MetricPoint{1, 0.5},
                                         MetricPoint{2, 0.25}, MetricPoint{3, 10})),
          Pair("lr", ElementsAre(MetricPoint{0, 0}, MetricPoint{1, 0.25}, MetricPoint{2, 0.5}))));
  EXPECT_THAT(log.hyperparameters,
              ElementsAre(Pair("flag", "1.0"), Pair("lr", "0.5"), Pair("name", "\"adam\"")));
  ASSERT_THAT(log.messages, SizeIs(1));
  EXPECT_EQ(log.messages[0].text, "notes: **bold**");
  EXPECT_THAT(log.spans, SizeIs(1));  // one process wrote all four files
  EXPECT_EQ(log.passed_over, 0U);
}

TEST_F(EventFilesTest, ReadsScalarsThatAreTensors) {
  const auto value = [](const char* tag) { return ProtoMessage().text(1, tag); };
  const RunLog log = read(
      // TensorFlow 2: only the first event of a tag says which plugin it is for.
      summary(value("tf2").message(8, tensor({}, {1.5})).message(9, plugin("scalars")), 1) +
      summary(value("tf2").message(8, tensor({}, {2.5})), 2) +
      summary(value("one").message(8, tensor({1, 1}, {3})), 1) +
      // PyTorch, with new_style=True: a field of its own, packed or not.
      summary(
          value("packed").message(8, ProtoMessage().integer(1, 1).text(
                                         5, as_text(std::as_bytes(std::span("\0\0\x80\x3f", 4))))),
          4) +
      summary(value("single").message(8, ProtoMessage().integer(1, 1).number(5, 0.5F)), 5) +
      summary(value("double").message(8, ProtoMessage().integer(1, 2).number(6, 1e300)), 6));
  EXPECT_THAT(log.metrics,
              ElementsAre(Pair("double", ElementsAre(MetricPoint{6, 1e300})),
                          Pair("one", ElementsAre(MetricPoint{1, 3})),
                          Pair("packed", ElementsAre(MetricPoint{4, 1})),
                          Pair("single", ElementsAre(MetricPoint{5, 0.5})),
                          Pair("tf2", ElementsAre(MetricPoint{1, 1.5}, MetricPoint{2, 2.5}))));
  EXPECT_EQ(log.passed_over, 0U);
}

TEST_F(EventFilesTest, LeavesOutWhatIsNoCurve) {
  const auto value = [](const char* tag) { return ProtoMessage().text(1, tag); };
  const RunLog log =
      read(summary(value("histogram").message(8, tensor({2, 3}, {1, 2, 3, 4, 5, 6})), 1) +
           summary(value("other").message(8, tensor({}, {1})).message(9, plugin("mine")), 1) +
           summary(value("none").message(8, tensor({0}, {})), 1) +
           summary(value("claims").message(8, tensor({std::int64_t{1} << 62, 4}, {1})), 1) +
           summary(value("short").message(8, ProtoMessage().integer(1, 1).text(4, "abc")), 1) +
           summary(value("image").message(4, ProtoMessage().integer(1, 9).text(4, "png")), 1) +
           record(ProtoMessage().number(1, kStart).text(4, "graph")) + record(ProtoMessage()));
  EXPECT_THAT(log.metrics, IsEmpty());
  EXPECT_THAT(log.messages, IsEmpty());
  EXPECT_THAT(log.spans, IsEmpty());
  EXPECT_EQ(log.passed_over, 0U);
}

TEST_F(EventFilesTest, HyperparametersKeepTheirTypes) {
  const auto hyperparameter = [](const char* name, const ProtoMessage& value) {
    return ProtoMessage().text(1, name).message(2, value);
  };
  const ProtoMessage session = ProtoMessage()
                                   .message(1, hyperparameter("flag", ProtoMessage().integer(4, 1)))
                                   .message(1, hyperparameter("lr", ProtoMessage().number(2, 0.25)))
                                   .message(1, hyperparameter("name", ProtoMessage().text(3, "a")))
                                   .message(1, hyperparameter("none", ProtoMessage()));
  const ProtoMessage data =
      ProtoMessage().text(1, "hparams").message(2, ProtoMessage().message(3, session));
  const RunLog log = read(summary(ProtoMessage()
                                      .text(1, "_hparams_/session_start_info")
                                      .message(9, ProtoMessage().message(1, data)),
                                  0));
  EXPECT_THAT(log.hyperparameters, ElementsAre(Pair("flag", "true"), Pair("lr", "0.25"),
                                               Pair("name", "\"a\""), Pair("none", "null")));
}

TEST_F(EventFilesTest, TimesThatAreNoneAreNotUsed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double seconds : {0.0, -1.0, nan, infinite, -infinite, 1e300, 9e9}) {
    const RunLog log = read(scalar("loss", 1, 5, seconds));
    EXPECT_THAT(log.spans, IsEmpty()) << seconds;
    EXPECT_THAT(log.metrics.at("loss"), SizeIs(1)) << seconds;
  }
}

// --- Several starts -----------------------------------------------------------------------------

TEST_F(EventFilesTest, FilesAreReadInTheOrderOfTheirTimes) {
  // By name alone, a second of ten digits would be before one of nine.
  write("events.out.tfevents.1700000000.h.1.0", scalar("loss", 30, 3) + scalar("loss", 40, 4));
  write("events.out.tfevents.999999999.h.1.0", scalar("loss", 1, 1) + scalar("loss", 3, 3));
  write("checkpoint.pt", "no event file");
  EXPECT_THAT(read().metrics.at("loss"),
              ElementsAre(MetricPoint{1, 1}, MetricPoint{3, 30}, MetricPoint{4, 40}));
}

TEST_F(EventFilesTest, AStartHidesLaterSteps) {
  write(named(0), scalar("loss", 1, 1) + scalar("loss", 2, 2) + scalar("loss", 3, 3) +
                      scalar("only/late", 9, 3) +
                      summary(ProtoMessage().text(1, "t").message(
                                  8, ProtoMessage().integer(1, 7).text(8, "hidden")),
                              3));
  write(named(9), start(2) + scalar("lr", 0.5, 2));
  const RunLog log = read();
  EXPECT_THAT(log.metrics, ElementsAre(Pair("loss", ElementsAre(MetricPoint{1, 1})),
                                       Pair("lr", ElementsAre(MetricPoint{2, 0.5}))));
  EXPECT_THAT(log.messages, IsEmpty());
}

// The lowest step of all starts that a metric has not seen yet is what hides.
TEST(HidingStartsTest, TheLowestStepSinceThenCounts) {
  HidingStarts starts;
  EXPECT_EQ(starts.first_hidden(0), std::nullopt);
  for (const std::int64_t step : {5, 3, 8})
    starts.add(step);
  EXPECT_EQ(starts.count(), 3U);
  EXPECT_EQ(starts.first_hidden(0), 3);
  EXPECT_EQ(starts.first_hidden(1), 3);
  EXPECT_EQ(starts.first_hidden(2), 8);
  EXPECT_EQ(starts.first_hidden(3), std::nullopt);
}

TEST_F(EventFilesTest, EachFileIsAStartUnlessOneProcessWroteBoth) {
  // A logger whose files are uploaded closes one and opens the next.
  write(named(0, ".10.0.0.1.7.0.rank0"), scalar("loss", 1, 1, kStart));
  write(named(1, ".10.0.0.1.7.1.rank0"), scalar("loss", 1, 5, kStart + 50));
  write(named(2, ".10.0.0.1.8.0.rank0"), scalar("loss", 1, 6, kStart + 60));
  write(named(3, ".10.0.0.1.8.0.rank0"), scalar("loss", 1, 7, kStart + 70));  // the pid came again
  write(named(4, ""), scalar("loss", 1, 8, kStart + 80));
  const RunLog log = read();
  ASSERT_THAT(log.spans, SizeIs(4));
  EXPECT_EQ(log.spans[0].first_batch, 1);
  EXPECT_EQ(log.spans[0].last_batch, 5);
  EXPECT_EQ(log.spans[0].last - log.spans[0].begin, std::chrono::seconds(50));
  EXPECT_EQ(log.spans[1].first_batch, 6);
  EXPECT_EQ(log.spans[3].first_batch, 8);
}

TEST_F(EventFilesTest, OfSeveralRanksTheFirstCounts) {
  write(named(0, ".h.1.0.rank1"), scalar("loss", 9, 1));
  EXPECT_THAT(read().metrics.at("loss"), ElementsAre(MetricPoint{1, 9}));
  write(named(0, ".h.1.0.rank0"), scalar("loss", 1, 1));
  write(named(5, ".h.2.0.rank10"), scalar("loss", 8, 1));
  EXPECT_THAT(read().metrics.at("loss"), ElementsAre(MetricPoint{1, 1}));
}

// --- Files that grow ----------------------------------------------------------------------------

TEST_F(EventFilesTest, ARecordThatIsBeingWrittenIsLeftForLater) {
  std::string whole;
  for (const std::string& message : golden_messages())
    whole += message.size() < 1000 ? record(std::string_view(message)) : "";
  whole += scalar("loss/train/total", 7, 400);
  const RunLog all = read(whole);
  EventFiles growing = files();
  RunLog log;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write(named(0), whole.substr(0, size));
    growing.update(log);
    ASSERT_EQ(log.passed_over, 0U) << size << " " << log.problem;
  }
  EXPECT_EQ(log.metrics, all.metrics);
  EXPECT_EQ(log.hyperparameters, all.hyperparameters);
  EXPECT_THAT(log.messages, SizeIs(1));
  EXPECT_THAT(log.spans, SizeIs(1));
  EXPECT_FALSE(growing.update(log));
}

TEST_F(EventFilesTest, ReadsEachRecordOnce) {
  EventFiles growing = files();
  RunLog log;
  write(named(0), scalar("loss", 1, 1));
  EXPECT_TRUE(growing.update(log));
  log.metrics.at("loss")[0].value = 17;  // not replaced by what is in the file
  write(named(0), scalar("loss", 1, 1) + scalar("loss", 2, 2));
  EXPECT_TRUE(growing.update(log));
  EXPECT_THAT(log.metrics.at("loss"), ElementsAre(MetricPoint{1, 17}, MetricPoint{2, 2}));
  write(named(1), start(2) + scalar("loss", 3, 2));
  EXPECT_TRUE(growing.update(log));
  EXPECT_THAT(log.metrics.at("loss"), ElementsAre(MetricPoint{1, 17}, MetricPoint{2, 3}));
  EXPECT_FALSE(growing.update(log));
}

TEST_F(EventFilesTest, WhatAnOlderFileGetsReplacesNothing) {
  EventFiles growing = files();
  RunLog log;
  const std::string old = scalar("loss", 1, 1);
  write(named(0), old);
  write(named(1), scalar("loss", 20, 2) + scalar("loss", 30, 3));
  growing.update(log);
  write(named(0), old + start(0) + scalar("loss", 2, 2) + scalar("other", 5, 2));
  growing.update(log);
  EXPECT_THAT(log.metrics,
              ElementsAre(Pair("loss", ElementsAre(MetricPoint{1, 1}, MetricPoint{2, 20},
                                                   MetricPoint{3, 30})),
                          Pair("other", ElementsAre(MetricPoint{2, 5}))));
}

// A run that resumes cuts off what was logged after its checkpoint, and removes later files.
TEST_F(EventFilesTest, FilesThatWereCutAreReadAnew) {
  EventFiles growing = files();
  RunLog log{.path = "shown"};
  const std::string first = scalar("loss", 1, 1);
  write(named(0), first + scalar("loss", 2, 2));
  write(named(1), scalar("gone", 3, 3));
  growing.update(log);
  EXPECT_THAT(log.metrics, SizeIs(2));
  std::filesystem::remove(folder_ / named(1));
  write(named(0), first);
  EXPECT_TRUE(growing.update(log));
  EXPECT_THAT(log.metrics, ElementsAre(Pair("loss", ElementsAre(MetricPoint{1, 1}))));
  EXPECT_THAT(log.spans, SizeIs(1));
  EXPECT_EQ(log.path, "shown");
}

// --- Where they are -----------------------------------------------------------------------------

TEST_F(EventFilesTest, AFileCanBeNamed) {
  write(named(0), scalar("loss", 1, 1));
  write(named(1), scalar("loss", 2, 2));
  RunLog log;
  files(named(1)).update(log);
  EXPECT_THAT(log.metrics.at("loss"), ElementsAre(MetricPoint{2, 2}));
  EXPECT_THROW(files(named(2)).update(log), NotFoundError);
}

TEST_F(EventFilesTest, ALinkToAFileIsReadToo) {
  write("elsewhere", scalar("loss", 1, 1));
  std::filesystem::create_symlink("elsewhere", folder_ / named(0));
  std::filesystem::create_symlink("nowhere", folder_ / named(1));
  std::filesystem::create_directory(folder_ / named(2));
  EXPECT_THAT(read().metrics.at("loss"), SizeIs(1));
}

TEST_F(EventFilesTest, TheirFoldersMayBeOneBelow) {
  const auto store = store_of(folder_.path(), nullptr);
  const auto found = [&] {
    return event_folders(*store, folder_.path(), list_all(*store, folder_.path()));
  };
  EXPECT_THAT(found(), IsEmpty());
  std::filesystem::create_directories(folder_ / "ep1-ba1.pt");
  write("ep1-ba1.pt/" + named(0), "");
  EXPECT_THAT(found(), IsEmpty());  // in a checkpoint
  std::filesystem::create_directories(folder_ / "run");
  write("run/" + named(0), "");
  EXPECT_THAT(found(), ElementsAre(folder_ / "run"));
  std::filesystem::create_directories(folder_ / "run2");
  write("run2/" + named(0), "");
  EXPECT_THAT(found(), ElementsAre(folder_ / "run", folder_ / "run2"));
  write(named(0), "");
  EXPECT_THAT(found(), ElementsAre(folder_.path()));
}

TEST_F(EventFilesTest, AfterAnErrorNoRecordIsReadTwice) {
  const auto note = [](const std::string& text) {
    return summary(
        ProtoMessage().text(1, "note").message(8, ProtoMessage().integer(1, 7).text(8, text)), 1);
  };
  const std::string large(std::size_t{5} << 20, 'x');  // more than is read at once
  write(named(0), note("first") + note(large) + scalar("loss", 1, 1));
  testing::FaultyFileSystem faulty(posix_file_system());
  EventFiles files(local_store(faulty), folder_.path());
  RunLog log;
  int reads_left = 1;  // before the disk breaks
  faulty.before_each([&](testing::FileCall call, std::uint64_t /*number*/) {
    if (call == testing::FileCall::kRead && reads_left-- <= 0) throw StorageError("broken", EIO);
  });
  EXPECT_THROW(files.update(log), StorageError);
  reads_left = 1000;
  EXPECT_TRUE(files.update(log));
  EXPECT_THAT(log.messages, SizeIs(2));
  EXPECT_EQ(log.entries, 3U);
  EXPECT_FALSE(files.update(log));

  // Files that were replaced are read whole, or count as before.
  write(named(0), scalar("loss", 2, 2));
  reads_left = 0;
  EXPECT_THROW(files.update(log), StorageError);
  EXPECT_EQ(log.entries, 3U);
  reads_left = 1000;
  EXPECT_TRUE(files.update(log));
  EXPECT_THAT(log.metrics.at("loss"), ElementsAre(MetricPoint{2, 2}));
  EXPECT_THAT(log.messages, IsEmpty());
  EXPECT_EQ(log.messages_added, 2U);
}

// --- Files that lie -----------------------------------------------------------------------------

TEST_F(EventFilesTest, AWrongChecksumEndsOneFile) {
  const std::string good = scalar("loss", 1, 1);
  std::string bad = good + scalar("loss", 2, 2) + scalar("loss", 3, 3);
  bad[good.size() + 20] ^= 1;
  write(named(0), bad);
  write(named(1), scalar("lr", 1, 1));
  const RunLog log = read();
  EXPECT_THAT(log.metrics, ElementsAre(Pair("loss", ElementsAre(MetricPoint{1, 1})),
                                       Pair("lr", ElementsAre(MetricPoint{1, 1}))));
  EXPECT_EQ(log.passed_over, 1U);
  EXPECT_EQ(log.problem, named(0) + ": a checksum is wrong after byte " +
                             std::to_string(good.size()) + ", so what follows is not read");
}

// On some file systems, bytes of a file that grows are zero for a moment.
TEST_F(EventFilesTest, AChecksumThatWasWrongMayBeGoodLater) {
  const std::string good = scalar("loss", 1, 1) + scalar("loss", 2, 2);
  const std::size_t half = good.size() / 2;
  EventFiles growing = files();
  RunLog log;
  write(named(0), good.substr(0, half) + std::string(half, '\0'));
  growing.update(log);
  EXPECT_EQ(log.passed_over, 1U);
  write(named(0), good + scalar("loss", 3, 3));
  EXPECT_TRUE(growing.update(log));
  EXPECT_EQ(log.passed_over, 0U);
  EXPECT_EQ(log.problem, "");
  EXPECT_THAT(log.metrics.at("loss"), SizeIs(3));
}

TEST_F(EventFilesTest, ARecordThatIsNoEventIsPassedOver) {
  const std::string bad = record(std::string_view("\x2a\xff\xff\xff\xff\x7f", 6));
  const RunLog log = read(bad + scalar("loss", 1, 1) + bad + record("\x0b") + record("\xff"));
  EXPECT_THAT(log.metrics.at("loss"), SizeIs(1));
  EXPECT_EQ(log.passed_over, 4U);
  EXPECT_EQ(log.problem, named(0) + ": the record before byte " + std::to_string(bad.size()) +
                             " is no event of TensorBoard");
}

TEST_F(EventFilesTest, AnyByteThatIsWrongHidesOnlyWhatFollows) {
  const std::string good = scalar("loss", 1, 1) + scalar("loss", 2, 2) + start(2) +
                           scalar("loss", 30, 3) + scalar("lr", 1, 3);
  const RunLog all = read(good);
  const auto& expected = all.metrics.at("loss");
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      const RunLog log = read(bad);
      ASSERT_EQ(log.passed_over, 1U) << at;
      ASSERT_EQ(log.metrics.contains("lr"), false) << at;
      const auto found = log.metrics.find("loss");
      if (found == log.metrics.end()) continue;
      // Before the start, the second point was not hidden yet.
      for (const MetricPoint& point : found->second)
        ASSERT_TRUE(point == (MetricPoint{2, 2}) || std::ranges::count(expected, point) == 1) << at;
    }
  }
}

// A file whose writer is hostile has good checksums.
TEST_F(EventFilesTest, NoMessageHarmsWhoeverReadsIt) {
  for (const std::string& message : golden_messages()) {
    // The histogram is 10 KB of packed numbers, which nothing reads.
    const std::size_t most = std::min<std::size_t>(message.size(), 300);
    for (std::size_t at = 0; at < most; ++at) {
      (void)event_of(std::string_view(message).substr(0, at));
      std::string bad = message;
      for (int value = 0; value < 256; value += 5) {
        bad[at] = static_cast<char>(value);
        const auto event = event_of(bad);
        if (!event) continue;
        for (const auto& [tag, number] : event->scalars)
          ASSERT_LE(tag.size(), bad.size());
      }
    }
  }
}

TEST_F(EventFilesTest, ALengthIsNotBelieved) {
  for (const std::uint64_t size :
       {std::uint64_t{1}, std::uint64_t{1} << 40, std::numeric_limits<std::uint64_t>::max(),
        std::numeric_limits<std::uint64_t>::max() - 15}) {
    std::string head;
    append_little_endian(head, size);
    append_little_endian(head, masked_crc32c(as_bytes(head)));
    const RunLog log = read(scalar("loss", 1, 1) + head + "abc");
    EXPECT_THAT(log.metrics.at("loss"), SizeIs(1));
    EXPECT_EQ(log.passed_over, 0U);  // as of a record that is being written
  }
}

// It holds an image or the like. The file has a hole, so that the test needs no disk.
TEST_F(EventFilesTest, ARecordOfManyBytesIsSkippedUnread) {
  const std::uint64_t size = std::uint64_t{1} << 30;
  std::string head;
  append_little_endian(head, size);
  append_little_endian(head, masked_crc32c(as_bytes(head)));
  write(named(0), scalar("loss", 1, 1) + head);
  std::filesystem::resize_file(folder_ / named(0),
                               std::filesystem::file_size(folder_ / named(0)) + size + 4);
  const RunLog log = read();
  EXPECT_EQ(log.passed_over, 0U);
  EXPECT_THAT(log.metrics.at("loss"), SizeIs(1));
}

TEST_F(EventFilesTest, ManyStartsOfManyMetricsCostLittle) {
  std::string bytes;
  for (int i = 0; i < 20'000; ++i)
    bytes += scalar("metric" + std::to_string(i), 1, 0);
  for (int i = 0; i < 20'000; ++i)
    bytes += start(1) + scalar("loss", 1, 1);
  const RunLog log = read(bytes);  // the product of both would take minutes
  EXPECT_THAT(log.metrics, SizeIs(20'001));
}

}  // namespace
}  // namespace cairn::cli
