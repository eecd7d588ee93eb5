// The cost of reading from far away, where each read is a request.
#include <gtest/gtest.h>

#include "cairn/format/safetensors.h"
#include "cairn/format/torch_file.h"

#include "testing/counting_source.h"
#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::CountingSource;
using testing::StringSink;

TensorView tensor_of(char byte, std::size_t bytes) {
  const auto text = std::make_shared<std::string>(bytes, byte);
  return make_tensor(DType::kUInt8, {static_cast<std::int64_t>(bytes)}, {as_bytes(*text), text});
}

Value tensors(std::size_t count, std::size_t bytes) {
  Dict dict;
  for (std::size_t i = 0; i < count; ++i) {
    dict.set("layers." + std::to_string(i) + ".weight",
             tensor_of(static_cast<char>('a' + i % 26), bytes));
  }
  return dict;
}

std::shared_ptr<const CountingSource> far(const Value& value) {
  const auto text = std::make_shared<const std::string>(testing::encoded(value));
  return std::make_shared<const CountingSource>(source_of({as_bytes(*text), text}, "far.pt"));
}

TEST(ReadingCost, OpeningATorchFileOfAnySizeTakesTwoReadsAtMost) {
  for (const auto& [count, bytes] : {std::pair<std::size_t, std::size_t>{1, 4},
                                     {3, 4 << 20},
                                     {300, 4},
                                     {2000, 1000},
                                     {30'000, 8}}) {
    const auto source = far(tensors(count, bytes));
    const TorchFile file(source);
    const Value value = file.read();
    EXPECT_LE(source->reads, 2U) << count << " tensors of " << bytes;
    EXPECT_LE(source->bytes, (384U << 10) + count * 600) << count;
    EXPECT_EQ(value.as_dict().size(), count);
  }
}

TEST(ReadingCost, ATensorCostsItsBytesAndNoOthers) {
  const auto source = far(tensors(50, 100'000));
  const TorchFile file(source);
  const Value value = file.read();
  source->reads = 0;
  source->bytes = 0;
  for (const char* name : {"layers.7.weight", "layers.31.weight"}) {
    const SharedBytes bytes = value.at(name).as_tensor().contiguous_bytes();
    EXPECT_EQ(bytes.view.size(), 100'000U);
  }
  EXPECT_EQ(source->reads, 2U);
  EXPECT_EQ(source->bytes, 200'000U);
}

TEST(ReadingCost, OpeningASafetensorsFileTakesOneRead) {
  for (const auto& [count, bytes] :
       {std::pair<std::size_t, std::size_t>{1, 4}, {3, 4 << 20}, {2000, 1000}, {7000, 500}}) {
    const Value value = tensors(count, bytes);
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : value.as_dict()) {
      named.emplace_back(name.as_str(), tensor.as_tensor());
    }
    StringSink sink;
    SafetensorsPlan(std::move(named)).write(sink);
    const auto text = std::make_shared<const std::string>(std::move(sink.text));
    const auto source = std::make_shared<const CountingSource>(
        source_of({as_bytes(*text), text}, "far.safetensors"));
    const SafetensorsFile file(source);
    const Value again = file.read();
    EXPECT_EQ(source->reads, 1U) << count << " tensors of " << bytes;
    source->bytes = 0;
    EXPECT_EQ(again.at("layers.0.weight"), value.at("layers.0.weight"));
    EXPECT_EQ(source->reads, 2U);
    EXPECT_EQ(source->bytes, bytes);
  }
}

}  // namespace
}  // namespace cairn
