// How the executor that streams a plan reads storages.
#include "format/stream_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/value.h"

#include "format/torch_plan.h"
#include "io/bytes/device_source.h"
#include "testing/counting_source.h"
#include "testing/keys.h"
#include "testing/message_of.h"
#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::CountingSource;
using testing::shared;

// A source that behaves like the memory of a device.
class FarMemory final : public DeviceSource {
 public:
  explicit FarMemory(std::shared_ptr<const CountingSource> under) : under_(std::move(under)) {}
  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  void read(std::span<const Range> ranges) const override { under_->read(ranges); }

 private:
  std::shared_ptr<const CountingSource> under_;
};

// A source that behaves like a device or a bucket: it has no views, and its bytes must be read.
// Each byte is the low byte of a mix of its offset.
std::shared_ptr<CountingSource> far_away(std::uint64_t size) {
  std::string text(size, '\0');
  for (std::uint64_t i = 0; i < size; ++i) {
    text[i] = static_cast<char>((i ^ (i >> 8) ^ (i >> 16)) * 31);
  }
  return std::make_shared<CountingSource>(source_of(shared(text), "far"));
}

TensorView tensor_in(const std::shared_ptr<const ByteSource>& source, std::uint64_t offset,
                     std::uint64_t size) {
  return {.dtype = DType::kUInt8,
          .shape = {static_cast<std::int64_t>(size)},
          .strides = {1},
          .storage = storage_of(source, offset, size)};
}

std::string streamed(const Value& value) {
  testing::StringSink sink;
  stream_plan(TorchPlan(pickle::encode(value), {}, TorchPlan::Room::kToGrow), sink);
  return std::move(sink.text);
}

// Returns the same value with all tensors in memory.
Value in_memory(const Value& value) {
  Dict near;
  for (const auto& [key, item] : value.as_dict()) {
    TensorView tensor = item.as_tensor();
    tensor.storage = storage_of(tensor.storage->bytes());
    near.set(key, tensor);
  }
  return near;
}

TEST(StreamPlanTest, ManySmallStoragesOfASourceAreReadWithOneCall) {
  const auto source = far_away(300'000);
  Dict value;
  for (int i = 0; i < 1000; ++i) {
    // some tensors are empty
    value.set("w" + std::to_string(i), tensor_in(source, 300 * i, i % 300));
  }
  const std::string file = streamed(value);
  EXPECT_EQ(source->reads, 1);
  EXPECT_EQ(file, streamed(in_memory(value)));
}

// An example is an optimizer, whose steps are on the host between moments on a device.
TEST(StreamPlanTest, TensorsInMemoryBetweenThemCostNoCall) {
  const auto source = far_away(300'000);
  Dict value;
  for (int i = 0; i < 500; ++i) {
    value.set("m" + std::to_string(i), tensor_in(source, 500 * i, 100 + i % 300));
    value.set("step" + std::to_string(i), tensor_in(source_of(shared("step"), "near"), 0, 4));
  }
  const std::string file = streamed(value);
  EXPECT_EQ(source->reads, 1);
  EXPECT_EQ(file, streamed(in_memory(value)));
}

TEST(StreamPlanTest, LargeStoragesOfADeviceAreReadInPieces) {
  constexpr std::uint64_t kSize = (std::uint64_t{40} << 20) + 1;
  for (const bool is_device : {false, true}) {
    const auto counted = far_away(kSize);
    std::shared_ptr<const ByteSource> source = counted;
    if (is_device) source = std::make_shared<FarMemory>(counted);
    const Value value = Dict{{"before", tensor_in(source, 5, 1000)},
                             {"large", tensor_in(source, 0, kSize)},
                             {"behind", tensor_in(source, 7, 1000)},
                             {"behind that", tensor_in(source, 9, 1000)}};
    const std::string file = streamed(value);
    EXPECT_EQ(counted->reads, is_device ? 5 : 2);  // the large tensor takes three reads, or one
    EXPECT_EQ(counted->bytes, kSize + 3000);
    EXPECT_TRUE(file == streamed(in_memory(value)));
  }
}

TEST(StreamPlanTest, OfSeveralSourcesEachIsReadByItself) {
  const auto one = far_away(1000);
  const auto other = far_away(2000);
  const Value value = Dict{{"a", tensor_in(one, 0, 500)},
                           {"b", tensor_in(one, 500, 500)},
                           {"c", tensor_in(other, 1000, 900)},
                           {"near", tensor_in(source_of(shared("near"), "near"), 0, 4)},
                           {"d", tensor_in(other, 0, 100)},
                           {"e", tensor_in(one, 200, 100)}};
  const std::string file = streamed(value);
  EXPECT_EQ(one->reads, 2);
  EXPECT_EQ(other->reads, 1);
  EXPECT_EQ(file, streamed(in_memory(value)));
}

// A source that fails to read one of its bytes.
class FailingSource final : public ByteSource {
 public:
  std::uint64_t size() const override { return 100'000; }
  const std::string& name() const override { return name_; }
  void read(std::span<const Range> ranges) const override {
    ++reads;
    for (const Range& range : ranges) {
      if (range.offset <= kBad && kBad < range.offset + range.into.size()) {
        throw StorageError("a byte of far cannot be read", 5);
      }
      std::fill(range.into.begin(), range.into.end(), std::byte{1});
    }
  }

  static constexpr std::uint64_t kBad = 70'050;
  mutable std::uint64_t reads = 0;

 private:
  std::string name_ = "far";
};

TEST(StreamPlanTest, AnErrorIsThatOfItsStorageWhateverIsReadWithIt) {
  const auto source = std::make_shared<FailingSource>();
  Dict value;
  for (int i = 0; i < 1000; ++i) {
    value.set("w" + std::to_string(i), tensor_in(source, 100 * i, 100));
  }
  const TorchPlan plan(pickle::encode(Value(value)), {}, TorchPlan::Room::kToGrow);
  testing::StringSink sink;
  EXPECT_THAT(testing::message_of<StorageError>([&] { stream_plan(plan, sink); }),
              ::testing::HasSubstr("cannot be read"));
  EXPECT_GE(sink.text.size(), plan.parts()[700].offset) << "those before it were written";
  EXPECT_LT(sink.text.size(), plan.parts()[701].offset);
  EXPECT_LE(source->reads, 702) << "what cannot be read is asked for twice, not for each part";
}

}  // namespace
}  // namespace cairn
