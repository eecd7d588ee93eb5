// A plan announces exactly the bytes that are written, and stays the same from save to save.
#include "format/torch_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/safetensors/file_plan.h"
#include "format/stream_plan.h"
#include "testing/random_value.h"
#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::shared;

std::string streamed(const CheckpointPlan& plan) {
  testing::StringSink sink;
  stream_plan(plan, sink);
  return std::move(sink.text);
}

TorchPlan plan_of(const Value& value, TorchPlan::Room room = TorchPlan::Room::kToGrow) {
  return {pickle::encode(value), {}, room};
}

TensorView tensor_of(std::size_t floats, char fill) {
  return make_tensor(DType::kFloat32, {static_cast<std::int64_t>(floats)},
                     shared(std::string(4 * floats, fill)));
}

// A training state: two tensors, and values of all kinds that change from save to save.
Value state(std::int64_t batch, double loss, const std::string& random) {
  return Dict{{"model", Dict{{"w", tensor_of(100, 'w')}, {"b", tensor_of(3, 'b')}}},
              {"batch", batch},
              {"loss", loss},
              {"time", TimeDelta{batch, static_cast<std::int32_t>(batch % 86400), 7}},
              {"history", List{batch, -batch, Tuple{{batch}}}},
              {"rng", NdArray{.dtype = "u1",
                              .shape = {static_cast<std::int64_t>(random.size())},
                              .bytes = shared(random)}},
              {"last", "ep0-ba" + std::to_string(batch % 1000) + ".pt"}};
}

RC_GTEST_PROP(TorchPlanTest, PartsLieWhereThePlanSaysAndTheSizeIsExact, ()) {
  std::vector<Value> made;
  const TorchPlan plan = plan_of(testing::random_value(4, made));
  const std::string file = streamed(plan);
  RC_ASSERT(file.size() == plan.size());
  for (const CheckpointPlan::Part& part : plan.parts()) {
    RC_ASSERT(file.substr(part.offset, part.size) == as_text(part.storage->bytes().view));
    RC_ASSERT(part.offset % 64 == 0U);
  }
}

RC_GTEST_PROP(TorchPlanTest, WithRoomTheSameObjectIsRead, ()) {
  std::vector<Value> made;
  const Value value = testing::random_value(4, made);
  const std::string file = streamed(plan_of(value));
  const TorchFile read(shared(file), "x.pt");
  RC_ASSERT(testing::encoded(read.read()) == testing::encoded(value));
  std::uint64_t offset = 0;
  RC_ASSERT(read.has_canonical_layout(&offset));
  const FileRecord& pickle = *read.find_record("data.pkl");
  RC_ASSERT(read.matches_crc(pickle));
}

TEST(TorchPlanTest, NothingMovesWhileOnlyNumbersTextsAndRandomBytesChange) {
  const TorchPlan first = plan_of(state(1, 0.5, std::string(2500, '\0')));
  std::string random;
  for (int i = 0; i < 2500; ++i) {
    random += static_cast<char>(i * 2654435761U >> 24);
  }
  for (const std::int64_t batch :
       {std::int64_t{0}, std::int64_t{255}, std::int64_t{256}, std::int64_t{70'000},
        std::int64_t{3'000'000'000}, std::numeric_limits<std::int64_t>::max()}) {
    const TorchPlan later = plan_of(state(batch, 1e300, random));
    EXPECT_EQ(later.pickle_bytes(), first.pickle_bytes()) << batch;
    ASSERT_EQ(later.parts().size(), 2U);
    EXPECT_EQ(later.parts()[0].offset, first.parts()[0].offset) << batch;
    EXPECT_EQ(later.parts()[1].offset, first.parts()[1].offset) << batch;
  }
}

TEST(TorchPlanTest, TheRoomIsOnlyWhereItIsAskedForAndWhereSomethingMayGrow) {
  const Value value = Dict{{"w", tensor_of(4, 'w')}, {"batch", 3}};
  EXPECT_GT(plan_of(value).pickle_bytes(), plan_of(value, TorchPlan::Room::kNone).pickle_bytes());
  const Value tensors = Dict{{"w", tensor_of(4, 'w')}};
  EXPECT_EQ(plan_of(tensors).pickle_bytes(),
            plan_of(tensors, TorchPlan::Room::kNone).pickle_bytes());
}

TEST(TorchPlanTest, MillionsOfNumbersDoNotMultiplyTheFile) {
  const pickle::Encoded encoded = pickle::encode(List(1'000'000, 7));
  EXPECT_LT(encoded.room, encoded.data_pkl.size() / 6);
}

TEST(TorchPlanTest, ExtraRecordsOfAnotherLengthAreNotWrittenBehindAWrongSize) {
  bool is_long = false;
  const TorchPlan plan(pickle::encode(List{}), {.extra_records = [&](const auto& /*records*/) {
                         return ExtraRecords{{"x", is_long ? "long" : "l"}};
                       }});
  const std::uint64_t size = plan.size();
  is_long = true;
  EXPECT_NE(streamed(plan).size(), size);
}

TEST(TorchPlanTest, TakenAndUnsafeNamesOfExtraRecordsAreRefused) {
  for (const char* name : {"data.pkl", "DATA/0", "version", "Byteorder", "../x", ""}) {
    const TorchPlan plan(pickle::encode(Dict{{"w", tensor_of(1, 'w')}}),
                         {.extra_records = [&](const auto& /*records*/) {
                           return ExtraRecords{{name, ""}};
                         }});
    EXPECT_THROW(plan.size(), UsageError) << name;
  }
  const TorchPlan free(pickle::encode(Dict{{"w", tensor_of(1, 'w')}}),
                       {.extra_records = [&](const auto& /*records*/) {
                         return ExtraRecords{{"data/1", ""}, {"data/00", ""}};
                       }});
  EXPECT_EQ(streamed(free).size(), free.size());
}

TEST(TorchPlanTest, ManyClassNamesAreEachWrittenOnce) {
  List classes;
  for (int i = 0; i < 200; ++i) {
    Foreign named;
    named.made = Foreign::Made::kNamed;
    named.module = "module";
    named.name = "name" + std::to_string(i % 100);
    classes.emplace_back(std::make_shared<const Foreign>(named));
  }
  const std::string pickle = pickle::encode(classes).data_pkl;
  for (const char* name : {"name0\n", "name31\n", "name32\n", "name99\n"}) {
    const std::size_t first = pickle.find(name);
    ASSERT_NE(first, std::string::npos) << name;
    EXPECT_EQ(pickle.find(name, first + 1), std::string::npos) << name;
  }
}

// The keys of storages are texts with numbers. Other texts in the tree may be equal to these keys.
TEST(TorchPlanTest, AKeyOfAStorageThatIsATextOfTheTreeIsWrittenOnce) {
  const auto text = [](const std::string& digits) {
    return std::string{'X', static_cast<char>(digits.size()), 0, 0, 0} + digits;
  };
  const auto count = [](std::string_view pickle, std::string_view what) {
    int found = 0;
    for (auto at = pickle.find(what); at != pickle.npos; at = pickle.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  for (const char* first : {"0", "1", "7", "00", "data"}) {
    Dict dict{{first, 5}};
    for (int i = 0; i < 12; ++i) {
      dict.set("w" + std::to_string(i), tensor_of(1, static_cast<char>(i)));
    }
    dict.set("11", first);
    const std::string pickle = pickle::encode(dict).data_pkl;
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(count(pickle, text(std::to_string(i))), 1) << first << " " << i;
    }
    EXPECT_EQ(count(pickle, text(first)), 1) << first;
    const TorchFile file(shared(streamed(plan_of(dict))), "x.pt");
    EXPECT_EQ(file.read(), Value(dict)) << first;
  }
}

TEST(SafetensorsFilePlanTest, PartsLieWhereThePlanSays) {
  TensorView transposed = tensor_of(6, '\3');
  transposed.shape = {2, 3};
  transposed.strides = {1, 2};
  const safetensors::FilePlan plan(
      {{"a", tensor_of(5, '\1')}, {"none", tensor_of(0, '\0')}, {"t", transposed}}, {}, true);
  const std::string file = streamed(plan);
  EXPECT_EQ(file.size(), plan.size());
  ASSERT_EQ(plan.parts().size(), 2U);
  EXPECT_EQ(file.substr(plan.parts()[0].offset, 20), std::string(20, '\1'));
  EXPECT_EQ(file.substr(plan.parts()[1].offset, 24), std::string(24, '\3'));
  EXPECT_EQ(plan.name_of(1), "t");
}

}  // namespace
}  // namespace cairn
