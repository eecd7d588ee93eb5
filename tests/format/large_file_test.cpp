// Files of more than 4 GiB, without 4 GiB of memory or disk. The tensor is an allocation of zeros
// that the kernel never backs, and the zeros in the file are holes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "cairn/format/torch_file.h"

#include "io/file.h"
#include "io/memory/mapped_file.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

SharedBytes zeros(std::size_t size) {
  void* at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  const std::shared_ptr<const void> owner(at, [size](void* p) { munmap(p, size); });
  return {{static_cast<const std::byte*>(at), size}, owner};
}

// Seeks over pieces of zeros instead of writing the zeros.
class SparseFileSink final : public ByteSink {
 public:
  explicit SparseFileSink(const std::string& path)
      : file_(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) {}
  ~SparseFileSink() override { ::close(file_); }

  void write(ByteView bytes) override {
    const bool is_hole = bytes.size() >= 4096 && bytes[0] == std::byte{0} &&
                         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
    if (!is_hole) {
      ASSERT_EQ(::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(size)),
                static_cast<ssize_t>(bytes.size()));
    }
    size += bytes.size();
  }

  std::uint64_t size = 0;

 private:
  int file_;
};

TEST(LargeFileTest, StoragesAndOffsetsBeyond4GiBComeBack) {
  const testing::TempFolder folder;
  const std::string path = folder / "large.pt";
  const auto large_elements = static_cast<std::int64_t>(4 * kGiB + 4096);
  const auto small_bytes = std::make_shared<const std::string>("16 bytes of data");
  const Value value =
      Dict{{"large", make_tensor(DType::kUInt8, {large_elements},
                                 zeros(static_cast<std::size_t>(large_elements)))},
           {"small", make_tensor(DType::kUInt8, {16}, {as_bytes(*small_bytes), small_bytes})},
           {"empty", make_tensor(DType::kUInt8, {0}, {})}};
  std::uint64_t size = 0;
  {
    SparseFileSink sink(path);
    const TorchFilePlan plan(value);
    plan.write(sink);
    size = sink.size;
    EXPECT_EQ(plan.size(), size);
  }
  EXPECT_GT(size, 4 * kGiB);

  const GuardedReads guard;  // without it, the whole file would be read
  const TorchFile file(testing::file_bytes(posix_file_system(), path), path);
  const Value again = file.read();
  EXPECT_EQ(again.at("large").as_tensor().shape, value.at("large").as_tensor().shape);
  EXPECT_EQ(again.at("small"), value.at("small"));
  const FileRecord& small = *file.find_record("data/1");
  EXPECT_GT(small.offset, 4 * kGiB);
  EXPECT_EQ(small.offset % 64, 0U);
  EXPECT_TRUE(file.matches_crc(small));
  std::uint64_t offset = 0;
  EXPECT_TRUE(file.has_canonical_layout(&offset)) << offset;
}

}  // namespace
}  // namespace cairn
