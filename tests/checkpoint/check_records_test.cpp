#include "checkpoint/open/verify/check_records.h"

#include <gtest/gtest.h>
#include <libdeflate.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

namespace cairn {
namespace {

// The record has 40 MiB: enough for several threads, which share it.
TEST(CheckRecordsTest, PiecesOfARecordGiveTheCrcOfTheWhole) {
  std::string content(std::size_t{40} << 20, '\0');
  for (std::size_t i = 0; i < content.size(); i += 97) {
    content[i] = static_cast<char>(i >> 7);
  }
  const SharedBytes file = {as_bytes(content), nullptr};
  const std::vector<FileRecord> records = {
      {.name = "small", .offset = 3, .size = 5},
      {.name = "empty", .offset = 8, .size = 0},
      {.name = "large", .offset = 11, .size = content.size() - 20},
      {.name = "one piece", .offset = 64, .size = 4 << 20},
  };
  std::atomic<std::uint64_t> progress = 0;
  const auto source = source_of(file, "f");
  const auto crcs = crcs_of(
      {.file = *source, .on_progress = [&](std::uint64_t bytes) { progress += bytes; }}, records);
  ASSERT_EQ(crcs.size(), records.size());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(crcs[i], libdeflate_crc32(0, content.data() + records[i].offset, records[i].size))
        << records[i].name;
    bytes += records[i].size;
  }
  EXPECT_EQ(progress, bytes);
}

// A file of any size that repeats one MiB. Counts the reads.
class Repeated final : public ByteSource {
 public:
  explicit Repeated(std::uint64_t size) : size_(size), bytes_(std::size_t{1} << 20) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<std::byte>(i * i >> 9);
    }
  }

  std::uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  void read(std::span<const Range> ranges) const override {
    for (const Range& range : ranges) {
      for (std::size_t done = 0; done < range.into.size();) {
        const std::size_t begin = (range.offset + done) % bytes_.size();
        const std::size_t count = std::min(range.into.size() - done, bytes_.size() - begin);
        std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(begin), count,
                    range.into.subspan(done).begin());
        done += count;
      }
    }
  }
  void read_each(std::span<const Part> parts, const Look& look) const override {
    ++calls;
    most_parts = std::max(most_parts, parts.size());
    ByteSource::read_each(parts, look);
  }

  mutable std::size_t calls = 0;
  mutable std::size_t most_parts = 0;

 private:
  std::uint64_t size_;
  std::string name_ = "repeated";
  std::vector<std::byte> bytes_;
};

// Records are checked in batches, so that notes about the records do not pile up.
TEST(CheckRecordsTest, OfVeryManyRecordsSomeAtATimeAreChecked) {
  constexpr std::size_t kRecords = 40'000;
  constexpr std::uint64_t kSize = 9000;
  const Repeated file(kRecords * (kSize + 8));
  std::vector<FileRecord> records;
  for (std::size_t i = 0; i < kRecords; ++i) {
    records.push_back({.name = "r", .offset = i * (kSize + 8) + 8, .size = kSize});
  }
  const std::uint64_t cut = records[std::size_t{16} << 10].offset;
  for (const bool reaches_over_it : {false, true}) {
    std::vector<std::byte> wanted(60'000);
    const std::span<std::byte> all(wanted);
    const std::uint64_t before = reaches_over_it ? 10'000 : 20'000;
    const std::vector<ByteSource::Range> places = {{3, all.first(20'000)},
                                                   {cut - before, all.subspan(20'000, 20'000)},
                                                   {file.size() - 20'000, all.last(20'000)}};
    file.calls = file.most_parts = 0;
    const auto crcs = crcs_of({.file = file, .places = places}, records);
    ASSERT_EQ(crcs.size(), records.size());
    std::vector<std::byte> bytes(kSize);
    for (std::size_t i = 0; i < records.size(); i += 7) {
      const ByteSource::Range range{records[i].offset, bytes};
      file.read({&range, 1});
      ASSERT_EQ(crcs[i], libdeflate_crc32(0, bytes.data(), bytes.size())) << i;
    }
    for (const ByteSource::Range& place : places) {
      std::vector<std::byte> expected(place.into.size());
      const ByteSource::Range range{place.offset, expected};
      file.read({&range, 1});
      EXPECT_TRUE(std::ranges::equal(place.into, expected));
    }
    EXPECT_EQ(file.calls, 2U);
    EXPECT_LT(file.most_parts, 24'000U);
  }
}

TEST(CheckRecordsTest, MemoryIsGivenBackAsItGoes) {
  static std::atomic<std::uint64_t> released;
  released = 0;
  const std::string content(10 << 20, 'x');
  const SharedBytes file = {as_bytes(content), nullptr,
                            [](ByteView part, const void*) { released += part.size(); }};
  const auto source = source_of(file, "f");
  crcs_of({.file = *source}, {{.name = "all", .offset = 0, .size = content.size()}});
  EXPECT_EQ(released, content.size());
}

}  // namespace
}  // namespace cairn
