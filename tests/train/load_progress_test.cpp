// Tests load_progress_bar and load_chunk_size: what a load from far away shows, and how large the
// reads of the load are.
#include "resuming/load_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <vector>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "storage/forwarding_store.h"
#include "storage/listing.h"
#include "storage/remote/source.h"
#include "terminal/progress_bar.h"
#include "testing/message_of.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::tiny_options;

// A store that notes the largest read from an opened object.
class MeasuredStore final : public ForwardingStore {
 public:
  explicit MeasuredStore(std::shared_ptr<ObjectStore> under) : ForwardingStore(std::move(under)) {}
  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    return std::make_shared<const Source>(under_->open(name), *this);
  }
  std::uint64_t largest = 0;

 private:
  struct Source final : ByteSource {
    Source(std::shared_ptr<const ByteSource> u, MeasuredStore& s) : under(std::move(u)), store(s) {}
    std::uint64_t size() const override { return under->size(); }
    const std::string& name() const override { return under->name(); }
    void read(std::span<const Range> ranges) const override {
      const std::scoped_lock lock(store.mutex_);
      for (const Range& range : ranges) {
        store.largest = std::max<std::uint64_t>(store.largest, range.into.size());
      }
      under->read(ranges);
    }
    std::shared_ptr<const ByteSource> under;
    MeasuredStore& store;
  };
  std::mutex mutex_;
};

struct LoadProgressTest : ::testing::Test {
  TrainerOptions options() {
    TrainerOptions made = tiny_options();
    made.max_duration = "2ba";
    made.run_name = "run";
    made.save_folder = "run";
    made.save_interval = "1ba";
    made.save_object_store = memory;
    return made;
  }
  // Options with weights of about a megabyte.
  TrainerOptions large_options() {
    TrainerOptions made = options();
    torch::nn::Sequential net(torch::nn::Linear(4, 40000), torch::nn::Linear(40000, 10));
    net->to(torch::kFloat64);
    made.model = classifier(net);
    return made;
  }
  const std::shared_ptr<ObjectStore> memory = memory_store();
};

TEST_F(LoadProgressTest, ABarTellsHowMuchOfTheFileWasReadAndGoes) {
  const std::string name = "run/" + std::string(60, 'x') + "/ep1-ba2-rank0.pt";
  const auto written = memory->begin(name);
  written->write(std::vector<std::byte>(1 << 20));
  written->commit();
  std::ostringstream out;
  double seconds = 0;
  LoadProgress progress({.stream = &out, .is_terminal = true, .now = [&] { return seconds; }});
  const auto store = progress.watch(memory);
  EXPECT_EQ(progress.watch(memory), store);
  {
    const auto bar = progress.show(name);
    const auto source = store->open(name);
    seconds = 1;
    source->view(0, 512 << 10);
    EXPECT_THAT(out.str(), HasSubstr("Downloading run/xxxxx"));
    EXPECT_THAT(out.str(), HasSubstr("...p1-ba2-rank0.pt:  50%"));
    EXPECT_THAT(out.str(), HasSubstr("512 KiB/1.0 MiB"));
  }
  const std::string shown = out.str();
  EXPECT_TRUE(shown.ends_with("\r\x1b[K")) << shown;
  seconds = 9;
  store->open(name)->view(0, 1);  // No load waits for this read.
  EXPECT_EQ(out.str(), shown);
}

TEST_F(LoadProgressTest, OfThisMachinesFilesNothingIsShown) {
  LoadProgress progress({.chunk_bytes = 1});
  EXPECT_EQ(progress.watch(local_store()), local_store());
  LoadProgress silent({.is_shown = false});
  EXPECT_EQ(silent.watch(memory), memory);
  EXPECT_EQ(silent.show("a"), nullptr);
}

TEST_F(LoadProgressTest, ChunksAreNoLargerThanAsked) {
  Trainer(large_options()).fit();
  for (const std::uint64_t chunk : {std::uint64_t{0}, kTailRead}) {
    const auto measured = std::make_shared<MeasuredStore>(memory);
    TrainerOptions made = large_options();
    made.save_folder = std::nullopt;
    made.load_path = "run/ep0-ba2-rank0.pt";
    made.load_object_store = measured;
    made.load_chunk_size = chunk;
    Trainer loaded(std::move(made));
    EXPECT_EQ(loaded.state().timestamp.batch, 2);
    if (chunk == 0) {
      EXPECT_GT(measured->largest, kTailRead);
    } else {
      EXPECT_LE(measured->largest, chunk);
    }
  }
}

// Opening a far file reads more than this chunk size at once.
TEST_F(LoadProgressTest, LessThanOpeningTakesIsRefused) {
  TrainerOptions made = options();
  made.load_chunk_size = kTailRead - 1;
  EXPECT_THAT(message_of<UsageError>([&] { Trainer(std::move(made)); }),
              HasSubstr("load_chunk_size is 262143 bytes, and opening a file asks for 262144"));
}

TEST_F(LoadProgressTest, AutoresumeGoesThroughItToo) {
  Trainer(large_options()).fit();
  const auto measured = std::make_shared<MeasuredStore>(memory);
  TrainerOptions made = large_options();
  made.save_object_store = measured;
  made.max_duration = "4ba";
  made.autoresume = true;
  made.load_chunk_size = kTailRead;
  Trainer resumed(std::move(made));
  EXPECT_EQ(resumed.state().timestamp.batch, 2);
  EXPECT_LE(measured->largest, kTailRead);
  resumed.fit();
  resumed.close();
  EXPECT_THAT(list_names(*memory, "run"), ::testing::Contains("ep0-ba4-rank0.pt"));
}

}  // namespace
}  // namespace cairn
