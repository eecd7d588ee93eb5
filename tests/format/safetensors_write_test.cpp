// cairn writes safetensors files with the same bytes as the reference implementation. If cairn
// refuses a tensor, the error names the tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "testing/message_of.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kData;
using testing::message_of;
using testing::shared;

std::string written(std::vector<NamedTensor> tensors,
                    const SafetensorsFile::Metadata& metadata = {}) {
  const SafetensorsPlan plan(std::move(tensors), metadata);
  testing::StringSink sink;
  plan.write(sink);
  EXPECT_EQ(sink.text.size(), plan.size());
  return sink.text;
}

TensorView tensor(DType dtype, const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  std::string bytes(static_cast<std::size_t>(count) * item_size(dtype), '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i);
  }
  return make_tensor(dtype, shape, shared(bytes));
}

// Reads a file and writes its tensors, given in another order. The result has the same bytes as the
// file of the reference.
TEST(SafetensorsPlanTest, WritesTheReferencesBytes) {
  for (const char* name : {"/torch-2.14/dtypes.safetensors", "/cairn/tiny.safetensors"}) {
    const std::string bytes = testing::read_file(kData + name);
    const SafetensorsFile file(shared(bytes), name);
    std::vector<NamedTensor> tensors;
    const Value value = file.read();
    for (const auto& [key, part] : value.as_dict()) {
      tensors.emplace(tensors.begin(), key.as_str(), part.as_tensor());
    }
    EXPECT_EQ(written(tensors, file.metadata()), bytes) << name;
  }
}

TEST(SafetensorsPlanTest, LargestElementsFirstThenByName) {
  const std::string bytes = written({{"z", tensor(DType::kBool, {3})},
                                     {"b", tensor(DType::kFloat32, {1})},
                                     {"a", tensor(DType::kFloat32, {1})},
                                     {"i", tensor(DType::kInt64, {1})},
                                     {"h", tensor(DType::kFloat16, {1})},
                                     {"f4", tensor(DType::kFloat4E2M1FNx2, {1})}});
  const SafetensorsFile file(shared(bytes), "written");
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file.entries()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.offset % item_size(entry.dtype), 0U) << entry.name;
  }
  EXPECT_THAT(names, ElementsAre("i", "a", "b", "h", "f4", "z"));
}

TEST(SafetensorsPlanTest, PairsOfFourBitNumbersAreCountedSingly) {
  const std::string bytes = written({{"w", tensor(DType::kFloat4E2M1FNx2, {2, 3})}});
  EXPECT_THAT(bytes, HasSubstr(R"("dtype":"F4","shape":[2,6],"data_offsets":[0,6])"));
  EXPECT_THAT(SafetensorsFile(shared(bytes), "w").entries()[0].shape, ElementsAre(2, 3));
}

TEST(SafetensorsPlanTest, ViewsAreMadeDense) {
  TensorView matrix = tensor(DType::kUInt8, {2, 3});
  matrix.shape = {3, 2};  // transposed
  matrix.strides = {1, 3};
  const std::string bytes = written({{"w", matrix}});
  EXPECT_EQ(bytes.substr(bytes.size() - 6), std::string("\0\3\1\4\2\5", 6));
}

TEST(SafetensorsPlanTest, NamesAreEscaped) {
  const std::string name("a\"\\\n\0\xc3\xa9", 7);
  const std::string bytes = written({{name, tensor(DType::kUInt8, {1})}}, {{"k\t", "\x01"}});
  const SafetensorsFile file(shared(bytes), "written");
  EXPECT_EQ(file.entries()[0].name, name);
  EXPECT_EQ(*file.find_metadata("k\t"), "\x01");
}

TEST(SafetensorsPlanTest, EmptyAndScalarTensorsAreHeld) {
  const std::string bytes =
      written({{"e", tensor(DType::kFloat32, {0, 3})}, {"s", tensor(DType::kFloat32, {})}});
  const Value value = SafetensorsFile(shared(bytes), "written").read();
  EXPECT_THAT(value.at("e").as_tensor().shape, ElementsAre(0, 3));
  EXPECT_TRUE(value.at("s").as_tensor().shape.empty());
}

TEST(SafetensorsPlanTest, RefusesByNameWhatTheFormatCannotHold) {
  for (const DType dtype : {DType::kComplex128, DType::kComplex32, DType::kQInt8, DType::kBits8}) {
    const auto write = [&] { written({{"layer.w", tensor(dtype, {2})}}); };
    EXPECT_THROW(write(), UnsupportedError);
    EXPECT_THAT(message_of(write), HasSubstr("layer.w"));
    EXPECT_THAT(message_of(write), HasSubstr(std::string(name(dtype))));
    EXPECT_THAT(message_of(write), HasSubstr("torch.save"));
  }
  const auto scalar = [] { written({{"w", tensor(DType::kFloat4E2M1FNx2, {})}}); };
  EXPECT_THROW(scalar(), UnsupportedError);
}

TEST(SafetensorsPlanTest, RefusesNamesThatTheFormatCannotHold) {
  const TensorView one = tensor(DType::kUInt8, {1});
  EXPECT_THROW(written({{"w", one}, {"w", one}}), UsageError);
  EXPECT_THROW(written({{"__metadata__", one}}), UsageError);
  EXPECT_THROW(written({{"\xff", one}}), UsageError);
  EXPECT_THROW(written({{"w", one}}, {{"k", "\xff"}}), UsageError);
}

TEST(SafetensorsPlanTest, RefusesAPartOfATensorWhosePlaceWouldBeForgotten) {
  TensorView part = tensor(DType::kUInt8, {2});
  part.part = std::make_shared<const TensorPart>(TensorPart{{4}, {2}});
  EXPECT_THROW(written({{"w", part}}), UnsupportedError);
}

TEST(SafetensorsPlanTest, LoadsALazyStorageOnceForTensorsThatFollowOneAnother) {
  int loads = 0;
  const auto storage = storage_of(8, [&loads] {
    ++loads;
    return shared("01234567");
  });
  const auto part = [&](std::int64_t offset) {
    return TensorView{.dtype = DType::kUInt8,
                      .shape = {4},
                      .strides = {1},
                      .storage_offset = offset,
                      .storage = storage};
  };
  const std::string bytes = written({{"a", part(4)}, {"b", part(0)}});
  EXPECT_THAT(bytes, ::testing::EndsWith("45670123"));
  EXPECT_EQ(loads, 1);
}

}  // namespace
}  // namespace cairn
