// The ring between live memory and the disk.
#include "io/bytes/block_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "testing/pattern.h"

namespace cairn {
namespace {

// A sink that keeps the bytes that it is given, and writes them later.
class KeepingSink final : public PositionalSink {
 public:
  explicit KeepingSink(std::size_t most_kept) : most_kept_(most_kept) {}
  void write(std::uint64_t offset, const SharedBytes& bytes) override {
    EXPECT_EQ(offset, next_);
    next_ += bytes.view.size();
    kept_.push_back(bytes);
    while (kept_.size() > most_kept_) {
      let_go();
    }
  }
  std::string finish() {
    while (!kept_.empty()) {
      let_go();
    }
    return text_;
  }

 private:
  void let_go() {
    text_ += as_text(kept_.front().view);
    kept_.pop_front();
  }
  std::size_t most_kept_;
  std::uint64_t next_ = 0;
  std::deque<SharedBytes> kept_;
  std::string text_;
};

TEST(BlockSinkTest, WhatIsKeptStaysAsItWasWritten) {
  const std::string bytes = testing::pattern(300'000);
  for (const auto& [kept, block] : {std::pair{0, 4096}, {1, 65'536}, {2, 4096}, {2, 65'536}}) {
    KeepingSink to(static_cast<std::size_t>(kept));
    BlockSink sink(to, static_cast<std::size_t>(block));
    std::string_view left = bytes;
    for (std::size_t piece = 1; !left.empty(); piece = piece * 3 % 9973 + 1) {
      const std::string_view part = left.substr(0, piece);
      sink.write(as_bytes(part));
      left.remove_prefix(part.size());
    }
    EXPECT_EQ(sink.position(), bytes.size());
    sink.finish();
    EXPECT_EQ(to.finish(), bytes) << kept;
  }
}

TEST(BlockSinkTest, TheChecksumIsThatOfWhatWasWrittenAcrossBlocks) {
  const std::string bytes = testing::pattern(300'000);
  for (const auto& [piece, block] : {std::pair<std::size_t, std::size_t>{100, 49'152},
                                     {5000, 65'536},
                                     {70'000, 49'152},
                                     {70'000, 65'536},
                                     {70'000, 65'537},
                                     {300'000, 69'632}}) {
    KeepingSink to(2);
    BlockSink sink(to, block);
    sink.write(as_bytes("begin"));  // so that no piece begins where a block does
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      crc = sink.write_with_crc32(as_bytes(bytes).subspan(at, std::min(piece, bytes.size() - at)),
                                  crc);
    }
    EXPECT_EQ(sink.position(), bytes.size() + 5);
    sink.finish();
    EXPECT_EQ(crc, crc32(as_bytes(bytes))) << piece;
    EXPECT_EQ(to.finish(), "begin" + bytes) << piece;
  }
}

TEST(BlockSinkTest, BlocksOutliveTheSink) {
  KeepingSink to(3);
  {
    BlockSink sink(to, 64);
    sink.write(as_bytes(std::string_view("what is left of it")));
    sink.finish();
  }
  EXPECT_EQ(to.finish(), "what is left of it");
}

TEST(BlockSinkTest, BlocksOfLargeFilesSuitDirectWrites) {
  for (std::uint64_t file = 1; file < std::uint64_t{1} << 44; file = file * 3 + 1) {
    const std::size_t block = block_bytes(file);
    EXPECT_GE(block, 64U);
    EXPECT_LE(block, std::size_t{8} << 20);
    if (file >= std::uint64_t{16} << 20) {
      EXPECT_EQ(block % 4096, 0U) << file;
    }
  }
}

}  // namespace
}  // namespace cairn
