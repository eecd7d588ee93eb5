// Damages a small file of cairn's in every way at every single position, and a large file at some
// positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::encoded;
using testing::shared;

std::string small_file() {
  const TensorView tensor = make_tensor(
      DType::kFloat32, {2, 3}, shared(std::string("tensor bytes of six float").substr(0, 24)));
  return encoded(
      Dict{{"weight", tensor}, {"step", 7}, {"empty", make_tensor(DType::kInt8, {0}, {})}});
}

// Opens, reads and verifies everything. Returns false if the damage was found.
bool is_accepted(const std::string& bytes) {
  try {
    const TorchFile file(shared(bytes), "damaged.pt");
    file.read();
    std::uint64_t offset = 0;
    if (!file.has_checksums() || !file.has_canonical_layout(&offset)) return false;
    return std::all_of(file.records().begin(), file.records().end(),
                       [&](const FileRecord& record) { return file.matches_crc(record); });
  } catch (const CorruptError&) {
    return false;
  } catch (const UnsupportedError&) {
    return false;
  }
}

TEST(DamageTest, TheUndamagedFileIsAccepted) { EXPECT_TRUE(is_accepted(small_file())); }

TEST(DamageTest, EveryTruncationIsCorrupt) {
  const std::string whole = small_file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(TorchFile(shared(whole.substr(0, size)), "cut.pt"), CorruptError) << size;
  }
}

TEST(DamageTest, EveryFlippedByteIsFound) {
  const std::string whole = small_file();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {0xFF, 0x01, 0x20, 0x80}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      EXPECT_FALSE(is_accepted(bytes)) << "byte " << i << " flipped by " << mask;
    }
  }
}

TEST(DamageTest, FlippedTensorByteIsNamedByItsRecord) {
  std::string bytes = small_file();
  bytes[bytes.find("tensor bytes")] ^= 1;
  const TorchFile file(shared(bytes), "damaged.pt");
  EXPECT_NO_THROW(file.read());  // does not read tensors' bytes
  for (const FileRecord& record : file.records()) {
    EXPECT_EQ(file.matches_crc(record), record.name != "data/0") << record.name;
  }
}

TEST(DamageTest, FlippedPickleIsNotDecoded) {
  std::string bytes = small_file();
  bytes[bytes.find("weight")] ^= 1;
  const TorchFile file(shared(bytes), "damaged.pt");
  try {
    file.read();
    FAIL() << "was read";
  } catch (const CorruptError& e) {
    EXPECT_STREQ(e.what(), "damaged.pt: record data.pkl does not match its CRC");
    EXPECT_EQ(e.offset(), 64U);
  }
}

TEST(DamageTest, AppendedBytesAreFound) {
  const std::string whole = small_file();
  EXPECT_NO_THROW(TorchFile(shared(whole + "junk"), "x.pt"));
  EXPECT_FALSE(is_accepted(whole + "junk"));
}

TEST(DamageTest, ZeroedBlocksAreFound) {  // a lost page looks like this after a power cut
  const std::string whole = small_file();
  for (std::size_t from = 0; from < whole.size(); from += 64) {
    std::string bytes = whole;
    bytes.replace(from, 64, std::min<std::size_t>(64, whole.size() - from), '\0');
    if (bytes != whole) {
      EXPECT_FALSE(is_accepted(bytes)) << from;
    }
  }
}

// zip/canonical.cpp compares this file in several pieces. It must report the first byte that is not
// as it was written, or the end of the file.
TEST(DamageTest, TheFirstOfSeveralDifferencesOfManyRecordsIsTold) {
  constexpr std::size_t kTensors = 40'000;
  List tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.emplace_back(make_tensor(DType::kUInt8, {1}, shared("x")));
  }
  const std::string whole = encoded(std::move(tensors));
  const auto difference = [](const std::string& bytes) {
    std::uint64_t offset = 0;
    const bool is_same = TorchFile(shared(bytes), "x.pt").has_canonical_layout(&offset);
    EXPECT_EQ(is_same, offset == bytes.size());
    return offset;
  };
  EXPECT_EQ(difference(whole), whole.size());
  EXPECT_EQ(difference(whole + "junk"), whole.size());
  const TorchFile file(shared(whole), "x.pt");
  std::vector<std::uint64_t> places;  // positions that opening does not read, in the file's order
  for (const std::size_t i : {0U, 16'382U, 16'383U, 16'384U, 39'999U}) {
    const FileRecord& record = *file.find_record("data/" + std::to_string(i));
    places.push_back(record.offset - 1);            // in its local header
    places.push_back(record.offset + record.size);  // in its data descriptor
  }
  for (const std::size_t i : {0U, 16'382U, 16'383U, 39'999U}) {
    const std::uint64_t name = whole.rfind("archive/data/" + std::to_string(i));
    places.push_back(name - 46 + 4);  // "version made by" in its line of the directory
  }
  EXPECT_TRUE(std::ranges::is_sorted(places));
  std::string bytes = whole;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    bytes[*place] ^= 1;
    EXPECT_EQ(difference(bytes), *place);
  }
}

}  // namespace
}  // namespace cairn
