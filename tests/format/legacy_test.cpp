// The format before PyTorch 1.6. tests/cli/dump_test.cpp shows that good files are read as PyTorch
// reads them; these tests cover the rest.
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "format/legacy/legacy_file.h"
#include "testing/counting_source.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/pickle_text.h"

namespace cairn {
namespace {

using testing::global;
using testing::pickle;
using testing::read_file;
using testing::shared;
using testing::source_with;
using testing::unicode;
using namespace std::string_literals;

const std::string kLegacy = read_file(CAIRN_TEST_DATA "/torch-2.6/legacy.pt");

Value read(const std::string& bytes) {
  return read_legacy_object(source_with(bytes, "x.pt")).value;
}

// The pickles that precede the object.
std::string head() {
  return "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s + pickle("M\xe9\3"s) +
         pickle("}");
}

std::string count(std::uint64_t numel) {
  std::string out;
  append_little_endian(out, numel);
  return out;
}

// A storage of four float32 with the key "7", or the part of that storage that `view` gives.
std::string storage(const std::string& view) {
  return "(" + unicode("storage") + global("torch", "FloatStorage") + unicode("7") +
         unicode("cpu") + "K\4"s + view + "tQ";
}

std::string file_of(const std::string& object, const std::string& keys, const std::string& data) {
  return head() + pickle(object) + pickle(keys) + data;
}

std::string one_tensor(const std::string& view, const std::string& place) {
  return file_of(testing::tensor(storage(view) + place), "]" + unicode("7") + "a",
                 count(4) + "aaaabbbbccccdddd");
}

TEST(LegacyTest, TensorsAreViewsOfTheFile) {
  const SharedBytes bytes = shared(one_tensor("N", "K\1K\2\x85K\1\x85"s));
  const Value value = read_legacy_object(source_of(bytes, "x.pt")).value;
  const SharedBytes elements = value.as_tensor().contiguous_bytes();
  EXPECT_EQ(as_text(elements.view), "bbbbcccc");
  EXPECT_GE(elements.view.data(), bytes.view.data());
  EXPECT_LT(elements.view.data(), bytes.view.data() + bytes.view.size());
}

TEST(LegacyTest, AStorageMayBeAPartOfAnother) {
  const std::string part = "(" + unicode("8") + "K\1K\2t"s;  // elements 1 and 2
  const Value value = read(one_tensor(part, "K\1K\1\x85K\1\x85"s));
  EXPECT_EQ(as_text(value.as_tensor().contiguous_bytes().view), "cccc");
  EXPECT_THROW(read(one_tensor(part, "K\1K\2\x85K\1\x85"s)), CorruptError);  // leaves the part
  const std::string outside = "(" + unicode("8") + "K\3K\2t"s;
  EXPECT_THROW(read(one_tensor(outside, "K\0K\1\x85K\1\x85"s)), CorruptError);
}

TEST(LegacyTest, SeveralObjectsFollowOneAnother) {
  const SharedBytes bytes = shared(kLegacy + one_tensor("N", "K\0K\1\x85K\1\x85"s));
  const auto file = source_of(bytes, "x.pt");
  const LegacyObject first = read_legacy_object(file);
  EXPECT_EQ(first.end, kLegacy.size());
  EXPECT_TRUE(first.value.is_dict());
  const LegacyObject second = read_legacy_object(file, first.end);
  EXPECT_EQ(as_text(second.value.as_tensor().contiguous_bytes().view), "aaaa");
  EXPECT_EQ(second.end, bytes.view.size());
}

TEST(LegacyTest, StoragesThatContradictTheTensorsAreCorrupt) {
  const std::string tensor = testing::tensor(storage("N") + "K\0K\1\x85K\1\x85"s);
  const std::string keys = "]" + unicode("7") + "a";
  const std::string elements = "aaaabbbbccccdddd";
  EXPECT_NO_THROW(read(file_of(tensor, keys, count(4) + elements)));
  EXPECT_THROW(read(file_of(tensor, keys, count(3) + elements)), CorruptError);
  EXPECT_THROW(read(file_of(tensor, keys, count(~std::uint64_t{0}) + elements)), CorruptError);
  EXPECT_THROW(read(file_of(tensor, "]", "")), CorruptError);
  EXPECT_THROW(read(file_of(tensor, "]" + unicode("9") + "a", count(4) + elements)), CorruptError);
  EXPECT_THROW(read(file_of(tensor, "](" + unicode("7") + unicode("7") + "e",
                            count(4) + elements + count(4) + elements)),
               CorruptError);
  EXPECT_THROW(read(file_of(tensor, "N", count(4) + elements)), CorruptError);
}

TEST(LegacyTest, FromFarAwayItTakesTwoReadsAndEachTensorItsOwnBytes) {
  const auto far = std::make_shared<const testing::CountingSource>(source_with(kLegacy, "x.pt"));
  const Value value = read_legacy_object(far).value;
  EXPECT_LE(far->reads, 2U) << "what stands before the storages, and where they are";
  std::vector<ByteSource::Range> ranges;
  std::vector<std::vector<std::byte>> places;
  const ByteSource* source = nullptr;
  for (const auto& [path, tensor] : tensors_of(value)) {
    const Storage& storage = *tensor->storage;
    if (source == nullptr) source = storage.source();
    EXPECT_EQ(storage.source(), source) << "one call reads all of them: " << path;
    far->bytes = 0;
    storage.bytes();
    EXPECT_EQ(far->bytes, storage.size()) << path;
    places.emplace_back(storage.size());
    ranges.push_back({storage.source_offset(), places.back()});
  }
  ASSERT_GT(ranges.size(), 1U);
  far->reads = 0;
  source->read(ranges);
  EXPECT_EQ(far->reads, 1U);
  std::size_t i = 0;
  for (const auto& [path, tensor] : tensors_of(value)) {
    EXPECT_EQ(as_text(places[i++]), as_text(tensor->storage->bytes().view)) << path;
  }
}

TEST(LegacyTest, AStorageThatReachesBeyondTheFileIsCorrupt) {
  const std::string tensor = testing::tensor(storage("N") + "K\0K\1\x85K\1\x85"s);
  const std::string keys = "]" + unicode("7") + "a";
  EXPECT_THROW(read(file_of(tensor, keys, count(4) + "aaaabbbbccccddd")), CorruptError);
  EXPECT_THROW(read(file_of(tensor, keys, count(4))), CorruptError);
  EXPECT_THROW(read(file_of(tensor, keys, "short")), CorruptError);
}

TEST(LegacyTest, APickleLargerThanTheFirstPieceIsReadInLargerOnes) {
  const std::string text(300'000, 'x');
  const std::string object = "X" + [] {
    std::string size;
    append_little_endian(size, std::uint32_t{300'000});
    return size;
  }() + text;
  const auto far = std::make_shared<const testing::CountingSource>(
      source_with(file_of(object, "]", ""), "x.pt"));
  EXPECT_EQ(read_legacy_object(far).value, Value(text));
  EXPECT_LE(far->reads, 5U);
}

TEST(LegacyTest, AnotherMagicNumberOrVersionIsCorrupt) {
  EXPECT_TRUE(is_legacy_file(as_bytes(kLegacy)));
  EXPECT_FALSE(is_legacy_file(as_bytes(pickle("N"))));
  EXPECT_THROW(read(pickle("N")), CorruptError);
  std::string other = head();
  other.replace(other.find("M\xe9\3"s), 3, "M\xea\3"s);
  EXPECT_THROW(read(other + pickle("N") + pickle("]")), CorruptError);
}

TEST(LegacyTest, EveryTruncationIsACorruptErrorThatSaysWhere) {
  for (std::size_t size = 0; size < kLegacy.size(); ++size) {
    try {
      read(kLegacy.substr(0, size));
      FAIL() << size << " bytes were enough";
    } catch (const CorruptError& e) {
      ASSERT_LE(e.offset(), size) << e.what();
      ASSERT_EQ(std::string(e.what()).find("x.pt: "), 0U);
    }
  }
}

}  // namespace
}  // namespace cairn
