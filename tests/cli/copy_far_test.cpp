// Copying from a store that is far away reads the data once, and verifies the data meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/error.h"

#include "storage/listing.h"
#include "testing/fake_s3.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/s3_environment.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::read_file;

constexpr std::size_t kTensorBytes = 300'000;

Value large_model() {
  Dict dict;
  for (int i = 0; i < 40; ++i) {
    dict.set("w" + std::to_string(i),
             make_tensor(DType::kUInt8, {static_cast<std::int64_t>(kTensorBytes)},
                         testing::shared(testing::pattern(kTensorBytes + i).substr(i))));
  }
  return Dict{{"model", dict}};
}

class CopyFarTest : public ::testing::Test {
 protected:
  CopyFarTest() {
    fake_.watch([this](const testing::ReceivedRequest& asked, const testing::HttpReply& reply) {
      const std::scoped_lock lock(mutex_);
      if (asked.method == "GET") sent_ += reply.body.size();
    });
    save(large_model(), temp_ / "a.pt");
  }

  // Copies, and returns how many bytes the server sent.
  std::uint64_t copy(const std::string& from, const std::string& to, Verify verify) {
    sent_ = 0;
    copy_checkpoint(from, to, {.overwrite = true, .verify = verify});
    return sent_;
  }

  testing::TempFolder temp_;
  std::mutex mutex_;
  std::uint64_t sent_ = 0;
  testing::FakeS3 fake_;
  testing::S3Environment environment_{fake_};
};

TEST_F(CopyFarTest, AFileIsReadOnce) {
  copy_checkpoint(temp_ / "a.pt", "s3://bucket/a.pt");
  const std::string bytes = read_file(temp_ / "a.pt");
  for (const Verify how : {Verify::kFull, Verify::kQuick}) {
    EXPECT_LE(copy("s3://bucket/a.pt", temp_ / "b.pt", how), bytes.size() + (1 << 20));
    EXPECT_TRUE(read_file(temp_ / "b.pt") == bytes);
  }
}

TEST_F(CopyFarTest, AFolderIsReadOnce) {
  for (const char* format : {"dcp", "safetensors"}) {
    const std::string from = std::string("s3://bucket/") + format;
    const std::string local = temp_ / format;
    ConvertOptions options{.to = format};
    if (options.to == "safetensors") options.shard_bytes = 4 * kTensorBytes;
    convert(temp_ / "a.pt", local, options);
    copy_checkpoint(local, from);
    std::uint64_t size = 0;
    const auto names = list_names(*local_store(), local);
    for (const std::string& name : names) {
      size += read_file(local + "/" + name).size();
    }
    const std::string back = temp_ / (std::string("back-") + format);
    // Opening a file reads at most a MiB of its beginning.
    EXPECT_LE(copy(from, back, Verify::kFull), size + (names.size() << 20)) << format;
    EXPECT_EQ(list_names(*local_store(), back), names);
    for (const std::string& name : names) {
      EXPECT_TRUE(read_file(back + "/" + name) == read_file(local + "/" + name)) << name;
    }
  }
}

TEST_F(CopyFarTest, OfADamagedFileNothingIsThere) {
  std::string bytes = read_file(temp_ / "a.pt");
  bytes[bytes.size() / 2] ^= 1;
  fake_.put_object("bucket/a.pt", bytes);
  std::filesystem::create_directory(temp_ / "out");
  EXPECT_THAT(
      message_of<CorruptError>([&] { copy_checkpoint("s3://bucket/a.pt", temp_ / "out/b.pt"); }),
      HasSubstr("nothing was copied"));
  EXPECT_THAT(list_names(*local_store(), temp_ / "out"), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(temp_ / "out"));
}

TEST_F(CopyFarTest, WhatIsReplacedMeanwhileIsNotCopied) {
  fake_.put_object("bucket/a.pt", read_file(temp_ / "a.pt"));
  bool is_replaced = false;
  EXPECT_THAT(message_of<StorageError>([&] {
                copy_checkpoint("s3://bucket/a.pt", temp_ / "b.pt",
                                {.on_progress = [&](std::uint64_t) {
                                  if (!std::exchange(is_replaced, true))
                                    fake_.put_object("bucket/a.pt", "another");
                                }});
              }),
              HasSubstr("was replaced"));
  EXPECT_FALSE(std::filesystem::exists(temp_ / "b.pt"));
}

}  // namespace
}  // namespace cairn
