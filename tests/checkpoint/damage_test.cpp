// Truncates a small checkpoint at every byte, and flips every bit. The damaged file is never loaded
// and never found, and always gives a typed error that names the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;

std::string bytes_of_sample() {
  SimFileSystem disk;
  save(sample_checkpoint(3, 64), "/a.pt", {.info = sample_info(3), .store = local_store(disk)});
  return std::string(as_text(testing::file_bytes(disk, "/a.pt").view));
}

// The message of load() for a file with these bytes. "" if it loads.
std::string damage_error_of(const std::string& bytes) {
  SimFileSystem disk;
  disk.create("/a.pt", {})->write(as_bytes(bytes));
  try {
    (void)load("/a.pt", {.store = local_store(disk)});
    return "";
  } catch (const CorruptError& e) {
    EXPECT_EQ(e.file(), "/a.pt") << e.what();
    return e.what();
  } catch (const UnsupportedError& e) {
    return e.what();
  }
}

VerifyReport report_of(const std::string& bytes) {
  SimFileSystem disk;
  disk.create("/a.pt", {})->write(as_bytes(bytes));
  return verify("/a.pt", Verify::kFull, local_store(disk));
}

TEST(DamageTest, TheUndamagedFileLoads) {
  SimFileSystem disk;
  disk.create("/a.pt", {})->write(as_bytes(bytes_of_sample()));
  EXPECT_EQ(load("/a.pt", {.store = local_store(disk)}), sample_checkpoint(3, 64));
}

TEST(DamageTest, TruncationAtEveryByteIsAnError) {
  const std::string bytes = bytes_of_sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(damage_error_of(bytes.substr(0, size)), "") << size << " of " << bytes.size();
  }
}

TEST(DamageTest, AFlipOfEveryBitIsAnError) {
  const std::string bytes = bytes_of_sample();
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(damage_error_of(damaged), "") << "byte " << bit / 8 << " bit " << bit % 8;
  }
}

TEST(DamageTest, ADamagedFileIsNeverFound) {
  const std::string bytes = bytes_of_sample();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    SimFileSystem disk;
    disk.create("/a.pt", {})->write(as_bytes(damaged));
    ASSERT_FALSE(find_latest("/", {.filename = "a.pt", .store = local_store(disk)}).has_value())
        << at;
    try {
      ASSERT_FALSE(verify("/a.pt", Verify::kFull, local_store(disk)).ok()) << at;
    } catch (const UnsupportedError&) {  // It has become another kind of file.
    }
  }
}

TEST(DamageTest, ExtraBytesAtEitherEndAreAnError) {
  const std::string bytes = bytes_of_sample();
  EXPECT_NE(damage_error_of(bytes + '\0'), "");
  EXPECT_NE(damage_error_of('\0' + bytes), "");
  EXPECT_NE(damage_error_of(bytes + bytes), "");
}

TEST(DamageTest, AFlipInsideATensorNamesItsPathAndBytes) {
  const std::string bytes = bytes_of_sample();
  SimFileSystem disk;
  disk.create("/a.pt", {})->write(as_bytes(bytes));
  const SharedBytes mapped = testing::file_bytes(disk, "/a.pt");
  const Value value = TorchFile(mapped, "/a.pt").read();
  for (const auto& [path, tensor] : tensors_of(value)) {
    const ByteView storage = tensor->storage->bytes().view;
    const auto begin = static_cast<std::size_t>(storage.data() - mapped.view.data());
    for (std::size_t at = begin; at < begin + storage.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(~damaged[at]);
      const VerifyReport report = report_of(damaged);
      ASSERT_EQ(report.damage.size(), 1U);
      const Damage& damage = report.damage[0];
      ASSERT_THAT(damage.tensors, ::testing::Contains(path));
      ASSERT_EQ(damage.begin, begin);
      ASSERT_EQ(damage.end, begin + storage.size());
      ASSERT_THAT(damage.record, ::testing::StartsWith("data/"));
      ASSERT_THAT(damage_error_of(damaged), ::testing::HasSubstr(damage.tensors[0]));
    }
  }
}

}  // namespace
}  // namespace cairn
