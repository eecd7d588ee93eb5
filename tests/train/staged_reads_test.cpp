// The tensors of a load own the memory into which the checkpoint was read.

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <set>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/source.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "train/state/device/staging.h"

namespace cairn {
namespace {

using testing::kData;
using testing::shared;
using testing::TempFolder;

constexpr std::size_t kLargeBytes = std::size_t{10} << 20;  // Too large to share a slab.

bool any_storage(const Storage& /*storage*/) { return true; }

// All golden files and folders that are checkpoints.
std::vector<Checkpoint> golden_checkpoints() {
  std::vector<Checkpoint> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kData)) {
    try {
      found.push_back(open_checkpoint(entry.path().string()));
    } catch (const Error&) {
      // The file describes a checkpoint, or is a part of a checkpoint.
    }
  }
  return found;
}

// A slab is unmapped when its last owner releases it. A write to the slab would then crash the
// test.
TEST(StagedReadsTest, MemoryWhoseTreeIsGoneIsNotWrittenInAnyFormat) {
  std::set<std::string> formats;
  std::set<std::string> containers;
  for (const Checkpoint& opened : golden_checkpoints()) {
    StagedReads reads;
    try {
      Value tree = load(opened, {.verify = Verify::kQuick});
      const Value made = staged(std::move(tree), any_storage, reads);
    } catch (const Error&) {
      continue;  // A kind of tensor that libtorch cannot make.
    }
    const SourceInfo info = Checkpoint::Impl::source_of(opened).info();
    if (!reads.empty()) formats.insert(info.format);
    containers.insert(info.containers.begin(), info.containers.end());
    EXPECT_TRUE(read_staged(opened, std::move(reads), Verify::kFull).ok()) << opened.path();
  }
  EXPECT_THAT(formats, ::testing::IsSupersetOf({"torch_zip", "torch_legacy", "safetensors", "dcp",
                                                "dcp_safetensors", "deepspeed"}));
  EXPECT_THAT(containers, ::testing::IsSupersetOf({"gzip", "tar"}));
}

TEST(StagedReadsTest, WhatIsStillWantedIsFilledBesideWhatIsNot) {
  const TempFolder folder;
  Dict dict;
  for (int i = 0; i < 4; ++i) {
    dict.set("w" + std::to_string(i),
             make_tensor(DType::kUInt8, {std::int64_t{kLargeBytes}},
                         shared(std::string(kLargeBytes, static_cast<char>('a' + i)))));
  }
  save(dict, folder / "a.pt");
  const Checkpoint opened = open_checkpoint(folder / "a.pt");
  StagedReads reads;
  Value made = staged(load(opened, {.verify = Verify::kQuick}), any_storage, reads);
  const Value kept = made.at("w2");
  made = Value();
  ASSERT_TRUE(read_staged(opened, std::move(reads), Verify::kFull).ok());
  EXPECT_EQ(kept, dict.at("w2"));
}

}  // namespace
}  // namespace cairn
