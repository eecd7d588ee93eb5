// Converts checkpoints that do not fit into memory: the memory that is used has a bound that no
// checkpoint exceeds.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"

#include "checkpoint/open/source.h"
#include "testing/child_process.h"
#include "testing/temp_folder.h"
#include "tests/format/safetensors_text.h"

namespace cairn::cli {
namespace {

constexpr long kMaxKib = 256L * 1024;

using testing::TempFolder;

// Runs the tool. Returns the peak memory of the largest child process so far.
long run(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {CAIRN_TOOL, "convert"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  testing::ChildProcess child(command);
  const auto ended = child.wait();
  EXPECT_EQ(ended.exit_code, 0) << child.output();
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss;
}

// A matrix that takes no space on the disk.
void write_sparse_matrix(const std::string& path, std::uint64_t side) {
  const std::string shape = "[" + std::to_string(side) + "," + std::to_string(side) + "]";
  const std::string offsets = "[0," + std::to_string(side * side * 4) + "]";
  const std::string head =
      testing::safetensors_file("{" + testing::safetensors_entry("w", "F32", shape, offsets) + "}");
  testing::write_file(path, head);
  std::filesystem::resize_file(path, head.size() + side * side * 4);
}

TEST(ConvertMemoryTest, WhatIsTransposedAndMuchLargerInAnotherPrecisionStaysBelowTheBound) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need memory of their own";
#endif
  constexpr std::uint64_t kSide = 12'288;  // 576 MiB
  const TempFolder temp;
  write_sparse_matrix(temp / "in.safetensors", kSide);
  TensorView transposed = open_source(temp / "in.safetensors")->read().at("w").as_tensor();
  std::swap(transposed.strides[0], transposed.strides[1]);
  save(Dict{{"w", transposed}}, temp / "in.pt");
  EXPECT_LE(run({temp / "in.pt", temp / "out.safetensors"}), kMaxKib);
  EXPECT_LE(run({temp / "out.safetensors", temp / "half.safetensors", "--dtype", "bf16"}), kMaxKib);
  EXPECT_LE(run({temp / "in.pt", temp / "half.pt", "--dtype", "fp16"}), kMaxKib);
  EXPECT_LE(run({temp / "half.pt", temp / "shards", "--shard-size", "100MB"}), kMaxKib);
  EXPECT_LE(run({temp / "shards", temp / "back.pt", "--dtype", "fp32"}), kMaxKib);
  EXPECT_LE(run({temp / "in.pt", temp / "dcp/"}), kMaxKib);
  const long most = run({temp / "dcp", temp / "back.pt.zst"});
  EXPECT_LE(most, kMaxKib);
  std::printf("at most %ld MiB\n", most / 1024);
}

// Views of one storage stay views of one storage. A large tensor goes through a scratch file.
TEST(ConvertMemoryTest, PrecisionIsChangedStorageByStorage) {
  const TempFolder temp;
  constexpr std::int64_t kMany = (std::int64_t{32} << 20) / 2 + 3;  // more than is kept in memory
  const std::vector<float> halves(static_cast<std::size_t>(kMany), 0.5F);
  const TensorView large =
      make_tensor(DType::kFloat32, {kMany}, {std::as_bytes(std::span(halves)), nullptr});
  TensorView part = large;
  part.shape = {2, 3};
  part.strides = {1, 2};
  part.storage_offset = kMany - 6;
  save(Dict{{"large", large}, {"part", part}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.dtype = DType::kFloat16});
  const Value out = open_source(temp / "out.pt")->read();
  EXPECT_EQ(out.at("large").as_tensor().storage, out.at("part").as_tensor().storage);
  EXPECT_EQ(out.at("part").as_tensor().strides, part.strides);
  EXPECT_EQ(as_text(out.at("part").as_tensor().contiguous_bytes().view),
            std::string_view("\0\x38\0\x38\0\x38\0\x38\0\x38\0\x38", 12));
}

}  // namespace
}  // namespace cairn::cli
