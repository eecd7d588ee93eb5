// Every source gives the bytes that it was opened with, or an error that names the source.
#include "cairn/byte_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>

#include "cairn/error.h"

#include "io/bytes/read_ahead.h"
#include "io/bytes/source_part.h"
#include "io/bytes/windows.h"
#include "io/file.h"
#include "io/files/file_source.h"
#include "io/memory/page_memory.h"
#include "testing/counting_source.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::CountingSource;
using ::testing::HasSubstr;
using testing::message_of;
using testing::SimFileSystem;
using testing::TempFolder;
using testing::write_file;
using Range = ByteSource::Range;

constexpr std::size_t kSize = (std::size_t{20} << 20) + 3;  // several of FileSource's pieces

const std::string& content() {
  static const std::string bytes = testing::pattern(kSize);
  return bytes;
}

struct Subject {
  const char* name;
  std::shared_ptr<const ByteSource> (*open)(const TempFolder& folder);
};

std::shared_ptr<const ByteSource> open_file(const TempFolder& folder) {
  write_file(folder / "f", content());
  return posix_file_system().open(folder / "f");
}
std::shared_ptr<const ByteSource> open_memory(const TempFolder& /*folder*/) {
  return source_of({as_bytes(content()), nullptr}, "f");
}
std::shared_ptr<const ByteSource> open_simulated(const TempFolder& /*folder*/) {
  SimFileSystem disk;
  disk.make_folders("/d");
  disk.create("/d/f", {})->write(as_bytes(content()));
  return disk.open("/d/f");
}
std::shared_ptr<const ByteSource> open_windows(const TempFolder& folder) {
  auto windows =
      std::make_shared<Windows>(std::make_shared<const CountingSource>(open_file(folder)));
  windows->fetch({{0, 1000}, {kSize - 1000, 5000}, {kSize / 2, 100}});
  return windows;
}

std::shared_ptr<const ByteSource> open_part(const TempFolder& folder) {
  write_file(folder / "f", "before" + content() + "behind");
  return part_of(posix_file_system().open(folder / "f"), 6, kSize, "part f");
}
std::shared_ptr<const ByteSource> open_part_of_memory(const TempFolder& /*folder*/) {
  static const std::string all = "before" + content() + "behind";
  return part_of(source_of({as_bytes(all), nullptr}, "all"), 6, kSize, "part f");
}

void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

class ByteSourceTest : public ::testing::TestWithParam<Subject> {
 protected:
  // Checks the results of read() for ranges with the given offsets and sizes.
  static void expect_read(const ByteSource& source,
                          const std::vector<std::pair<std::uint64_t, std::size_t>>& asked) {
    std::vector<std::string> places;
    std::vector<Range> ranges;
    for (const auto& [offset, size] : asked) {
      places.emplace_back(size, '?');
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      ranges.push_back({asked[i].first, std::as_writable_bytes(std::span(places[i]))});
    }
    source.read(ranges);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      EXPECT_TRUE(places[i] == content().substr(asked[i].first, asked[i].second))
          << asked[i].second << " bytes at " << asked[i].first;
    }
  }

  TempFolder folder_;
  std::shared_ptr<const ByteSource> source_ = GetParam().open(folder_);
};

TEST_P(ByteSourceTest, KnowsItsSizeAndName) {
  EXPECT_EQ(source_->size(), kSize);
  EXPECT_EQ(source_->name().back(), 'f');
}

TEST_P(ByteSourceTest, FillsEveryRange) {
  expect_read(*source_, {});
  expect_read(*source_, {{0, 0}, {kSize, 0}});
  expect_read(*source_, {{0, kSize}});
  expect_read(*source_, {{kSize - 1, 1}, {0, 1}, {5000, 10}, {5010, 10}, {5030, 1}, {9000, 70}});
  expect_read(*source_, {{10, 100}, {50, 100}, {50, 100}, {0, kSize - 7}});
  expect_read(*source_, {{(8 << 20) - 1, 2}, {8 << 20, (8 << 20) + 1}, {kSize / 2, 100}});
}

TEST_P(ByteSourceTest, FillsThousandsOfSmallRangesInAnyOrder) {
  std::vector<std::pair<std::uint64_t, std::size_t>> asked;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    asked.emplace_back((i * 7919 * 131) % (kSize - 64), i % 64);
  }
  expect_read(*source_, asked);
}

// For half of the parts, the test gives a destination.
TEST_P(ByteSourceTest, ShowsEveryByteOfEveryPartOnce) {
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> asked = {
      {0, kSize}, {5, 0}, {kSize, 0}, {7, 1}, {4096, 8192}, {(1 << 20) - 1, 2}, {100, 6'000'000}};
  std::vector<std::string> seen;
  std::vector<std::string> places;
  for (const auto& [offset, size] : asked) {
    seen.emplace_back(size, '?');
    places.emplace_back(places.size() % 2 == 0 ? size : 0, '?');
  }
  std::vector<ByteSource::Part> parts;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    parts.push_back(
        {asked[i].first, asked[i].second, std::as_writable_bytes(std::span(places[i]))});
  }
  std::mutex mutex;
  std::uint64_t bytes = 0;
  source_->read_each(parts, [&](std::size_t part, std::uint64_t begin, ByteView some) {
    const std::lock_guard lock(mutex);
    bytes += some.size();
    ASSERT_LE(begin + some.size(), seen[part].size());
    seen[part].replace(begin, some.size(), as_text(some));
  });
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    wanted += asked[i].second;
    EXPECT_TRUE(seen[i] == content().substr(asked[i].first, asked[i].second)) << i;
    if (!places[i].empty()) {
      EXPECT_TRUE(places[i] == seen[i]) << i;
    }
  }
  EXPECT_EQ(bytes, wanted);
}

TEST_P(ByteSourceTest, WhatTheOneWhoLooksThrowsIsThrown) {
  const ByteSource::Part all{0, kSize, {}};
  EXPECT_THROW(source_->read_each({&all, 1}, [](std::size_t, std::uint64_t,
                                                ByteView) { throw UsageError("enough"); }),
               UsageError);
  const ByteSource::Part outside{kSize, 1, {}};
  EXPECT_THROW(source_->read_each({&outside, 1}, [](std::size_t, std::uint64_t, ByteView) {}),
               UsageError);
}

TEST_P(ByteSourceTest, ViewsOutliveIt) {
  const SharedBytes all = source_->view(0, kSize);
  const SharedBytes part = source_->view(4097, 12345);
  source_.reset();
  EXPECT_TRUE(as_text(all.view) == content());
  EXPECT_TRUE(as_text(part.view) == content().substr(4097, 12345));
}

TEST_P(ByteSourceTest, GivesAllOfItInBlocks) {
  std::string all;
  read_in_blocks(*source_, [&](ByteView block) {
    EXPECT_LE(block.size(), std::size_t{8} << 20);
    all += as_text(block);
  });
  EXPECT_TRUE(all == content());
}

TEST_P(ByteSourceTest, RefusesWhatIsOutside) {
  std::byte place[2];
  for (const Range& range : {Range{kSize, std::span(place).first(1)}, Range{kSize - 1, place},
                             Range{~std::uint64_t{0}, place}}) {
    EXPECT_THAT(message_of<UsageError>([&] {
                  source_->read({&range, 1});
                }),
                HasSubstr(source_->name()));
    EXPECT_THROW(source_->view(range.offset, range.into.size()), UsageError);
  }
  EXPECT_THROW(source_->view(1, ~std::uint64_t{0}), UsageError);
}

INSTANTIATE_TEST_SUITE_P(
    Sources, ByteSourceTest,
    ::testing::Values(Subject{"file", open_file}, Subject{"memory", open_memory},
                      Subject{"simulated", open_simulated}, Subject{"windows", open_windows},
                      Subject{"part", open_part}, Subject{"part_of_memory", open_part_of_memory}),
    [](const auto& test) { return test.param.name; });

// --- Files --------------------------------------------------------------------------------------

class FileSourceTest : public ::testing::Test {
 protected:
  FileSourceTest() {
    write_file(path_, "what was there");
    source_ = posix_file_system().open(path_);
  }
  std::string read() const {
    std::string text(source_->size(), '?');
    const Range range{0, std::as_writable_bytes(std::span(text))};
    source_->read({&range, 1});
    return text;
  }

  TempFolder folder_;
  std::string path_ = folder_ / "f";
  std::shared_ptr<const ByteSource> source_;
};

TEST_F(FileSourceTest, IsTheFileThatWasOpened) {
  write_file(folder_ / "other", "something else");
  std::filesystem::rename(folder_ / "other", path_);
  EXPECT_EQ(read(), "what was there");
  EXPECT_EQ(as_text(source_->view(0, 4).view), "what");
  std::filesystem::remove(path_);
  EXPECT_EQ(read(), "what was there");
}

TEST_F(FileSourceTest, ThatIsCutOffIsAnErrorWithItsByte) {
  std::filesystem::resize_file(path_, 5);
  EXPECT_THAT(message_of<UnreadableError>([&] { read(); }),
              AllOf(HasSubstr(path_), HasSubstr("byte 5"), HasSubstr("cut off")));
}

TEST_F(FileSourceTest, ThatWasWrittenToIsAnError) {
  // Sets the time explicitly, because two changes within one tick of the kernel's clock have the
  // same time.
  std::filesystem::last_write_time(
      path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(1));
  EXPECT_THAT(message_of<UnreadableError>([&] { read(); }),
              AllOf(HasSubstr(path_), HasSubstr("written to")));
}

TEST_F(FileSourceTest, OfNoBytesCanBeReadAndViewed) {
  write_file(folder_ / "empty", "");
  const auto empty = posix_file_system().open(folder_ / "empty");
  EXPECT_EQ(empty->size(), 0U);
  empty->read({});
  EXPECT_TRUE(empty->view(0, 0).view.empty());
}

// The number of pages in the file, and how many of them are in the page cache.
struct CachedPages {
  std::size_t all = 0;
  std::size_t there = 0;
};

CachedPages cached_pages(const std::string& path) {
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path));
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((size + page - 1) / page);
  EXPECT_EQ(mincore(map, size, pages.data()), 0);
  munmap(map, size);
  ::close(fd);
  const auto there =
      std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1U) != 0; });
  return {pages.size(), static_cast<std::size_t>(there)};
}

bool is_in_page_cache(const std::string& path) {
  const CachedPages pages = cached_pages(path);
  return 2 * pages.there > pages.all;
}

void drop_from_page_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(fsync(fd), 0);
  EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(fd);
}

// Reads much of a file, in ranges that suit no disk: with gaps, and at odd offsets.
class ColdFileTest : public ::testing::Test {
 protected:
  ColdFileTest() {
    write_file(path_, bytes_);
    drop_from_page_cache(path_);
    source_ = posix_file_system().open(path_);
    std::uint64_t at = 3;
    for (std::size_t i = 0; at + 5'000'000 < bytes_.size(); ++i) {
      const std::size_t size = i % 3 == 0 ? 4'999'999 : 70'001;
      sizes_.emplace_back(at, size);
      at += size + (i % 2) * 100;
    }
    sizes_.emplace_back(at, bytes_.size() - at);
  }
  void expect_read() {
    std::vector<std::string> places;
    std::vector<Range> ranges;
    for (const auto& [offset, size] : sizes_) {
      places.emplace_back(size, '?');
    }
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      ranges.push_back({sizes_[i].first, std::as_writable_bytes(std::span(places[i]))});
    }
    source_->read(ranges);
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      EXPECT_TRUE(places[i] == bytes_.substr(sizes_[i].first, sizes_[i].second)) << i;
    }
  }

  TempFolder folder_;
  std::string path_ = folder_ / "f";
  std::string bytes_ = testing::pattern((std::size_t{40} << 20) + 12'345);
  std::vector<std::pair<std::uint64_t, std::size_t>> sizes_;
  std::shared_ptr<const ByteSource> source_;
};

TEST_F(ColdFileTest, IsReadPastThePageCache) {
  if (is_in_page_cache(path_)) GTEST_SKIP() << "it lies in memory";
  expect_read();
  const int direct = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (direct < 0) GTEST_SKIP() << "a file system without O_DIRECT";
  ::close(direct);
  EXPECT_FALSE(is_in_page_cache(path_));
}

TEST_F(ColdFileTest, ComesIntoThePageCacheAheadOfItsReader) {
  if (cached_pages(path_).there > 0) GTEST_SKIP() << "it lies in memory";
  const std::atomic<bool> is_over = true;
  bring_into_page_cache(*source_, is_over);
  EXPECT_EQ(cached_pages(path_).there, 0);
  const std::atomic<bool> goes_on = false;
  bring_into_page_cache(Windows(source_), goes_on);
  EXPECT_TRUE(is_in_page_cache(path_));  // except pages that are still being read
  expect_read();
  bring_into_page_cache(*source_of({as_bytes(bytes_), nullptr}, "memory"), goes_on);
}

TEST_F(ColdFileTest, IsReadAsWellWhenAPartOfItIsCached) {
  for (std::uint64_t at = 0; at < bytes_.size(); at += std::uint64_t{8} << 20) {
    read_bytes(*source_, at, std::min<std::uint64_t>(4 << 20, bytes_.size() - at));
  }
  expect_read();
  expect_read();
}

// Each piece is read once, in whatever order cached and other pieces take turns.
TEST_F(ColdFileTest, IsReadAsWellHoweverMuchOfItsBeginningIsCached) {
  for (const std::uint64_t mib : {1, 4, 12, 20, 28, 37, 40}) {
    drop_from_page_cache(path_);
    for (std::uint64_t at = 0; at < mib << 20; at += std::uint64_t{1} << 20) {
      read_bytes(*source_, at, std::uint64_t{1} << 20);
    }
    expect_read();
  }
}

// A destination that is aligned in its page as the bytes are in the file needs no copy; other
// destinations need one.
TEST_F(ColdFileTest, IsReadIntoAnyPlace) {
  constexpr std::size_t kPage = 4096;
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, kPage - 3}) {
    drop_from_page_cache(path_);
    const PageMemory memory(bytes_.size() + 2 * kPage);
    const std::span<std::byte> place(memory.data() + shift, bytes_.size() - 3);
    const ByteSource::Part part{3, place.size(), place};
    std::atomic<std::uint64_t> seen = 0;
    source_->read_each({&part, 1}, [&](std::size_t, std::uint64_t begin, ByteView some) {
      EXPECT_EQ(some.data(), place.data() + begin);
      seen += some.size();
    });
    EXPECT_EQ(seen, place.size());
    EXPECT_TRUE(as_text(ByteView(place)) == std::string_view(bytes_).substr(3)) << shift;
  }
}

// Tensors whose destinations are aligned as in the file, and headers between them, as a load
// requests them. No byte needs its own call through the page cache.
TEST_F(ColdFileTest, LeavesNothingInThePageCacheWhereAllLiesInPlace) {
  if (cached_pages(path_).there > 0) GTEST_SKIP() << "it lies in memory";
  constexpr std::size_t kTensor = std::size_t{4} << 20;
  constexpr std::size_t kHeader = 187;
  const PageMemory memory(bytes_.size());
  std::string headers(bytes_.size() / kTensor * kHeader, '?');
  std::vector<ByteSource::Part> parts;
  std::span<std::byte> left = std::as_writable_bytes(std::span(headers));
  for (std::size_t at = 777; at + kTensor + kHeader <= bytes_.size(); at += kTensor + kHeader) {
    parts.push_back({at, kTensor, {memory.data() + at, kTensor}});
    parts.push_back({at + kTensor, kHeader, left.first(kHeader)});
    left = left.subspan(kHeader);
  }
  std::vector<std::uint64_t> seen(parts.size());
  std::mutex mutex;
  source_->read_each(parts, [&](std::size_t part, std::uint64_t begin, ByteView some) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(some.data(), parts[part].into.data() + begin);
    seen[part] += some.size();
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(seen[i], parts[i].size) << i;
    EXPECT_TRUE(as_text(ByteView(parts[i].into)) ==
                std::string_view(bytes_).substr(parts[i].offset, parts[i].size))
        << i;
  }
  const int direct = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (direct < 0) GTEST_SKIP() << "a file system without O_DIRECT";
  ::close(direct);
  EXPECT_EQ(cached_pages(path_).there, 0U);
}

// Very many parts that are adjacent in memory as in the file, as in a load that reads a whole file.
TEST_F(ColdFileTest, IsReadInLargePiecesWhereItsPartsLieAsInTheFile) {
  if (cached_pages(path_).there > 0) GTEST_SKIP() << "it lies in memory";
  const PageMemory memory(bytes_.size());
  std::vector<ByteSource::Part> parts;
  for (std::size_t at = 0; at < bytes_.size();) {
    const std::size_t size = std::min<std::size_t>(1 + at % 1399, bytes_.size() - at);
    parts.push_back({at, size, {memory.data() + at, size}});
    at += size;
  }
  std::vector<std::atomic<std::uint64_t>> seen(parts.size());
  source_->read_each(parts, [&](std::size_t part, std::uint64_t begin, ByteView some) {
    EXPECT_EQ(some.data(), parts[part].into.data() + begin);
    seen[part] += some.size();
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(seen[i], parts[i].size) << i;
  }
  EXPECT_TRUE(as_text({memory.data(), bytes_.size()}) == bytes_);
  const int direct = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (direct < 0) GTEST_SKIP() << "a file system without O_DIRECT";
  ::close(direct);
  EXPECT_LT(cached_pages(path_).there, cached_pages(path_).all / 4);
}

TEST_F(ColdFileTest, ThatIsCutOffIsAnErrorWithItsByte) {
  std::filesystem::resize_file(path_, 30'000'001);
  drop_from_page_cache(path_);
  EXPECT_THAT(message_of<UnreadableError>([&] { expect_read(); }),
              AllOf(HasSubstr(path_), HasSubstr("cut off")));
}

// --- Parts --------------------------------------------------------------------------------------

TEST(PartTest, ThatReachesOutsideIsRefused) {
  const auto source = source_of({as_bytes("0123456789"), nullptr}, "f");
  EXPECT_THROW(part_of(source, 5, 6, "part"), UsageError);
  EXPECT_THROW(part_of(source, ~std::uint64_t{0}, 1, "part"), UsageError);
  EXPECT_EQ(as_text(read_start(*part_of(source, 5, 5, "part"), 3).view), "567");
  EXPECT_EQ(as_text(read_start(*part_of(source, 5, 5, "part"), 30).view), "56789");
}

TEST(ReadAheadTest, NeighboursCostOneRead) {
  const auto far =
      std::make_shared<const CountingSource>(source_of({as_bytes(content()), nullptr}, "f"));
  ReadAhead ahead(*far, 1000);
  EXPECT_EQ(as_text(ahead.at(0, 10)), content().substr(0, 10));
  EXPECT_EQ(as_text(ahead.at(500, 500)), content().substr(500, 500));
  EXPECT_EQ(far->reads, 1U);
  EXPECT_EQ(as_text(ahead.at(501, 500)), content().substr(501, 500));
  EXPECT_EQ(far->reads, 2U);
  EXPECT_EQ(as_text(ahead.at(0, 5000)), content().substr(0, 5000)) << "more than it reads at once";
  EXPECT_EQ(as_text(ahead.at(kSize - 5, 10)), content().substr(kSize - 5)) << "what there is";
  EXPECT_TRUE(ahead.at(kSize, 10).empty());
  EXPECT_TRUE(ahead.at(~std::uint64_t{0}, 10).empty());
}

// --- Windows ------------------------------------------------------------------------------------

TEST(WindowsTest, FetchWithOneReadAndGiveWithNone) {
  const auto far =
      std::make_shared<const CountingSource>(source_of({as_bytes(content()), nullptr}, "f"));
  Windows windows(far);
  windows.fetch({{0, 100}, {kSize - 10, 100}, {kSize + 5, 100}});
  EXPECT_EQ(far->reads, 1U);
  EXPECT_EQ(far->bytes, 110U);
  windows.fetch({{5, 50}, {kSize - 10, 10}});
  EXPECT_EQ(as_text(windows.view(10, 90).view), content().substr(10, 90));
  EXPECT_EQ(far->reads, 1U) << "it was there";
  EXPECT_EQ(as_text(windows.view(10, 91).view), content().substr(10, 91));
  EXPECT_EQ(far->reads, 2U) << "a byte was not";
}

// A source that shows parts in order, half a part at a time.
class OrderedSource final : public ByteSource {
 public:
  std::uint64_t size() const override { return under_->size(); }
  const std::string& name() const override { return under_->name(); }
  void read(std::span<const Range> ranges) const override { under_->read(ranges); }
  bool shows_in_order() const override { return true; }
  void read_each(std::span<const Part> parts, const Look& look) const override {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const SharedBytes bytes = under_->view(parts[i].offset, parts[i].size);
      const std::uint64_t half = parts[i].size / 2;
      look(i, 0, bytes.view.first(half));
      look(i, half, bytes.view.subspan(half));
    }
  }

 private:
  std::shared_ptr<const ByteSource> under_ = source_of({as_bytes(content()), nullptr}, "o");
};

TEST(WindowsTest, WhatTheyHaveIsShownInItsTurn) {
  Windows windows(std::make_shared<const OrderedSource>());
  windows.fetch({{100, 50}, {300, 100}, {kSize - 7, 7}});
  ASSERT_TRUE(windows.shows_in_order());
  const std::vector<ByteSource::Part> parts = {{.offset = 0, .size = 200},
                                               {.offset = 310, .size = 20},
                                               {.offset = 320, .size = kSize - 320},
                                               {.offset = 100, .size = 10}};
  std::string shown;
  windows.read_each(parts, [&](auto, auto, ByteView bytes) { shown += as_text(bytes); });
  std::string expected;
  for (const ByteSource::Part& part : parts) {
    expected += content().substr(part.offset, part.size);
  }
  EXPECT_TRUE(shown == expected);
}

TEST(WindowsTest, AnyThatWereGivenAreFound) {
  const auto far =
      std::make_shared<const CountingSource>(source_of({as_bytes(content()), nullptr}, "f"));
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> given = {
      {500, 100}, {100, 50}, {120, 100}, {510, 20}, {90, 200}, {590, 50}, {0, 10}, {10, 5}};
  Windows windows(far);
  std::string known(700, ' ');
  for (const auto& [offset, size] : given) {
    windows.add(offset, {as_bytes(content()).subspan(offset, size), nullptr});
    known.replace(offset, size, size, 'x');
    std::string place(700, '?');
    const Range range{0, std::as_writable_bytes(std::span(place))};
    const std::uint64_t before = far->bytes;
    windows.read({&range, 1});
    EXPECT_EQ(place, content().substr(0, 700));
    EXPECT_EQ(far->bytes - before,
              static_cast<std::uint64_t>(std::count(known.begin(), known.end(), ' ')));
    EXPECT_TRUE(windows.has(offset, size));
  }
  EXPECT_TRUE(windows.has(95, 195));
  EXPECT_FALSE(windows.has(89, 2));
}

TEST(WindowsTest, HaveWhatTheOneBelowHas) {
  const auto far =
      std::make_shared<const CountingSource>(source_of({as_bytes(content()), nullptr}, "f"));
  const auto below = std::make_shared<Windows>(far);
  below->fetch({{0, 100}});
  Windows above(below);
  below->forget();
  EXPECT_TRUE(above.has(0, 100));
  EXPECT_FALSE(below->has(0, 100));
  above.fetch({{0, 100}});
  EXPECT_EQ(far->reads, 1U);
  above.add(200, {as_bytes(content()).subspan(200, 10), nullptr});
  EXPECT_EQ(as_text(above.view(200, 10).view), content().substr(200, 10));
  EXPECT_EQ(far->reads, 1U);
}

TEST(WindowsTest, FetchNothingOfWhatIsInMemory) {
  Windows windows(source_of({as_bytes(content()), nullptr}, "f"));
  windows.fetch({{0, 100}});
  EXPECT_EQ(windows.view(0, 100).view.data(), as_bytes(content()).data());
}

}  // namespace
}  // namespace cairn
