// Tensors that PyTorch saved before it carried out a conjugation or negation.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "cairn/format/torch_file.h"

#include "testing/storage_ranges.h"
#include "tests/format/pickle_text.h"

namespace cairn {
namespace {

using testing::encoded;
using testing::global;
using testing::pickle;
using testing::shared;
using testing::storage;
using testing::torch_file_of;
using testing::unicode;
using namespace std::string_literals;

std::string text_of(const std::vector<float>& numbers) {
  return std::string(as_text(std::as_bytes(std::span(numbers))));
}

// Two numbers of the storage "0", beginning with number `offset`. The storage has `numel` numbers.
std::string two_of(const std::string& type, std::uint8_t numel, std::uint8_t offset,
                   const std::string& bits) {
  const auto number = [](std::uint8_t n) { return "K"s + static_cast<char>(n); };
  return global("torch._utils", "_rebuild_tensor_v2") + "(" +
         storage(global("torch", type), "0", number(numel)) + number(offset) +
         "K\2\x85K\1\x85\x89N}" + unicode(bits) + "\x88stR";
}

Value read(const std::string& items, const std::string& data0) {
  return TorchFile(shared(torch_file_of(pickle("](" + items + "e"), data0)), "x.pt").read();
}

TEST(TensorBitsTest, AnyRangeHasItsSignsTurned) {
  const std::string data = text_of({1, -2, 3, 4, -5, 6, 7, 8});
  const Value value =
      read(two_of("ComplexFloatStorage", 4, 1, "conj") + two_of("ComplexFloatStorage", 4, 1, "neg"),
           data);
  const TensorView& conj = value.as_items()[0].as_tensor();
  const TensorView& neg = value.as_items()[1].as_tensor();
  EXPECT_EQ(as_text(conj.storage->bytes().view), text_of({1, 2, 3, -4, -5, -6, 7, -8}));
  EXPECT_EQ(as_text(conj.contiguous_bytes().view), text_of({3, -4, -5, -6}));
  EXPECT_EQ(as_text(neg.storage->bytes().view), text_of({-1, 2, -3, -4, 5, -6, -7, -8}));
  EXPECT_EQ(testing::wrong_range_of(*conj.storage), "");
  EXPECT_EQ(testing::wrong_range_of(*neg.storage), "");
  const Value real = read(two_of("FloatStorage", 8, 1, "neg"), data);
  EXPECT_EQ(as_text(real.as_items()[0].as_tensor().contiguous_bytes().view), text_of({2, -3}));
  EXPECT_EQ(testing::wrong_range_of(*real.as_items()[0].as_tensor().storage), "");
}

// The views are like the rows of one matrix. If each row counted as a copy of the matrix, a few
// rows would be too many.
TEST(TensorBitsTest, ViewsOfOneStorageShareWhatItBecomes) {
  constexpr std::size_t kRows = 10;
  const std::vector<float> data(500, 1);
  std::string items;
  for (std::size_t i = 0; i < kRows; ++i) {
    items += two_of("ComplexFloatStorage", 250, static_cast<std::uint8_t>(2 * i), "conj");
  }
  const Value value = read(items + two_of("ComplexFloatStorage", 250, 0, "neg"), text_of(data));
  const List& rows = value.as_items();
  ASSERT_EQ(rows.size(), kRows + 1);
  for (std::size_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(rows[i].as_tensor().storage, rows[0].as_tensor().storage) << i;
  }
  EXPECT_NE(rows[kRows].as_tensor().storage, rows[0].as_tensor().storage);
  const TorchFile again(shared(encoded(value)), "again.pt");
  EXPECT_NE(again.find_record("data/1"), nullptr);
  EXPECT_EQ(again.find_record("data/2"), nullptr);
  EXPECT_EQ(again.read(), value);
}

}  // namespace
}  // namespace cairn
