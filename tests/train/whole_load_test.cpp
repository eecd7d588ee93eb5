// Loads that read the whole file while it is decoded (train/state/load/load_staging.h).

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"
#include "cairn/train/logger.h"
#include "cairn/train/model.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "testing/temp_folder.h"
#include "tests/format/raw_zip.h"
#include "train/state/device/mirror.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using testing::TempFolder;
using testing::write_file;

constexpr std::int64_t kLayers = 40;

// A model large enough that its file is read whole. Its tensors have sizes from one element to 1.5
// MiB.
struct Layers final : Model {
  explicit Layers(float first) {
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::int64_t size = i % 4 == 3 ? 390'000 : 1 + i * 97;
      const at::Tensor values = torch::arange(size, torch::kFloat32) + first;
      net->register_parameter("layer" + std::to_string(i), values, false);
    }
  }
  torch::nn::Module& module() override { return *net; }
  Outputs forward(const Batch& batch) override { return batch[0]; }
  Losses loss(const Outputs& outputs, const Batch& /*batch*/) override { return outputs.single(); }
  std::shared_ptr<torch::nn::Module> net = std::make_shared<torch::nn::Module>();
};

struct WholeLoad : ::testing::Test {
  WholeLoad() {
    State saved;
    saved.model = std::make_shared<Layers>(5.0F);
    save_checkpoint(saved, path, {.weights_only = true});
    state.model = std::make_shared<Layers>(0.0F);
  }

  void load() { load_checkpoint(path, state, logger, {.load_weights_only = true}); }
  void expect_weights(float first) {
    const auto parameters = state.model->module().parameters();
    ASSERT_EQ(parameters.size(), static_cast<std::size_t>(kLayers));
    for (const at::Tensor& tensor : parameters) {
      const at::Tensor expected = torch::arange(tensor.numel(), torch::kFloat32) + first;
      ASSERT_TRUE(torch::equal(tensor, expected));
    }
  }
  // Writes the file as tools other than PyTorch do: no record lies at a multiple of 64, as libtorch
  // expects.
  std::string write_at_odd_places() const {
    std::vector<testing::RawRecord> records;
    const std::string before = read_file(path);
    const TorchFile file(source_of({as_bytes(before), nullptr}, path));
    for (const FileRecord& record : file.records()) {
      if (record.name.starts_with(".")) continue;  // The manifest would contradict the new offsets.
      const SharedBytes bytes = file.bytes_of(record);
      records.push_back({"archive/" + record.name, std::string(as_text(bytes.view))});
    }
    std::string odd = testing::RawZip(records).bytes();
    write_file(path, odd);
    return odd;
  }
  // The last position in `bytes` of the last elements of a large layer.
  static std::size_t place_of_large(const std::string& bytes) {
    const at::Tensor end = torch::arange(389'990, 390'000, torch::kFloat32) + 5.0F;
    return bytes.rfind(std::string(static_cast<const char*>(end.data_ptr()), end.nbytes()));
  }

  TempFolder folder;
  std::string path = folder / "saved.pt";
  State state;
  Logger logger{state};
};

TEST_F(WholeLoad, TensorsArePartsOfOneMemoryThatLiesAsTheFileDoes) {
  load();
  expect_weights(5.0F);
  const std::string bytes = read_file(path);
  const auto parameters = state.model->module().parameters();
  const auto* const first = static_cast<const char*>(parameters[3].data_ptr());
  const auto* const last = static_cast<const char*>(parameters[39].data_ptr());
  // Two layers have the same elements. Their distance in the file equals their distance in memory.
  const std::string_view end(first + parameters[3].nbytes() - 40, 40);
  EXPECT_EQ(static_cast<std::size_t>(last - first), bytes.rfind(end) - bytes.find(end));
  for (const at::Tensor& tensor : parameters) {
    EXPECT_TRUE(Mirror::is_part(tensor.storage()));
  }
}

// Each load replaces the memory again, and releases the previous memory.
TEST_F(WholeLoad, OneAfterTheOther) {
  for (int i = 0; i < 3; ++i) {
    for (at::Tensor tensor : state.model->module().parameters()) {
      tensor.add_(1);
    }
    load();
    expect_weights(5.0F);
  }
}

TEST_F(WholeLoad, ABadByteAnywhereChangesNothing) {
  const std::string good = read_file(path);
  const std::size_t large = place_of_large(good);
  ASSERT_NE(large, std::string::npos);
  // In a tensor, in the padding before it, in the pickle, and in the directory.
  for (const std::size_t at : {large, std::size_t{40}, std::size_t{300}, good.size() - 200}) {
    std::string bad = good;
    bad[at] ^= 1;
    write_file(path, bad);
    EXPECT_THROW(load(), CorruptError) << at;
    expect_weights(0.0F);
  }
  write_file(path, good);
  load();
  expect_weights(5.0F);
}

TEST_F(WholeLoad, WhatIsWrittenIntoTheFileMeanwhileIsAnError) {
  const Checkpoint opened = open_checkpoint(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(place_of_large(read_file(path))));
    file.write("overwritten", 11);
  }
  EXPECT_THROW(load_checkpoint(opened, state, logger, {.load_weights_only = true}), Error);
  expect_weights(0.0F);
  std::filesystem::resize_file(path, 100'000);
  EXPECT_THROW(load_checkpoint(opened, state, logger, {.load_weights_only = true}), StorageError);
  expect_weights(0.0F);
}

TEST_F(WholeLoad, WhatDoesNotFitChangesNothing) {
  state.model = std::make_shared<Layers>(0.0F);
  auto& net = *std::static_pointer_cast<Layers>(state.model)->net;
  net.register_parameter("another", torch::zeros({2}), false);
  EXPECT_THROW(load(), MismatchError);
}

// Planning the model reads the elements that have to be converted.
TEST_F(WholeLoad, AnotherDtypeIsConvertedWhenTheElementsAreThere) {
  state.model->module().to(torch::kFloat64);
  load();
  for (const at::Tensor& tensor : state.model->module().parameters()) {
    ASSERT_EQ(tensor.scalar_type(), torch::kFloat64);
    ASSERT_TRUE(torch::equal(tensor, torch::arange(tensor.numel(), torch::kFloat64) + 5.0));
  }
}

// How many bytes this process has read from files. Nullopt if the system does not count them.
std::optional<std::uint64_t> bytes_read() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  for (std::uint64_t count = 0; counts >> name >> count;) {
    if (name == "rchar:") return count;
  }
  return std::nullopt;
}

TEST_F(WholeLoad, WhatLiesAtOddPlacesIsReadOnce) {
  const std::string odd = write_at_odd_places();
  const Value saved = TorchFile(source_of({as_bytes(odd), nullptr}, path)).read();
  const auto& first = saved.at("state").at("model").at("layer3").as_tensor().storage;
  ASSERT_NE(first->source_offset() % 64, 0);

  const std::optional<std::uint64_t> begin = bytes_read();
  load();
  const std::optional<std::uint64_t> end = bytes_read();
  expect_weights(5.0F);
  if (begin) {
    EXPECT_LT(*end - *begin, odd.size() * 3 / 2);
  }
  std::string bad = odd;
  bad[first->source_offset()] ^= 1;
  write_file(path, bad);
  for (at::Tensor tensor : state.model->module().parameters()) {
    tensor.add_(1);
  }
  EXPECT_THROW(load(), CorruptError);
  expect_weights(6.0F);
}

// If the unused tensor were copied after everything is read, it would be copied into memory that
// has no owner any more.
TEST_F(WholeLoad, WhatNoModelWantsOfOddPlacesIsCopiedNowhere) {
  State saved;
  saved.model = std::make_shared<Layers>(5.0F);
  Value value = checkpoint_value(saved, {.weights_only = true});
  Value& model = value.mutable_dict()["state"].mutable_dict()["model"];
  model.mutable_dict().set("larger", view_of(torch::ones({std::int64_t{10} << 20}, torch::kUInt8)));
  save(value, path);
  write_at_odd_places();
  load_checkpoint(path, state, logger, {.load_weights_only = true, .strict_model_weights = false});
  expect_weights(5.0F);
}

// If a file holds much more than the weights, only the weights are kept in memory.
TEST_F(WholeLoad, WhatIsLittleOfAFileIsReadAlone) {
  State saved;
  saved.model = std::make_shared<Layers>(5.0F);
  Value value = checkpoint_value(saved, {.weights_only = true});
  value.mutable_dict()["state"].mutable_dict()["more"] =
      view_of(torch::zeros({std::int64_t{64} << 20}, torch::kUInt8));
  save(value, path);
  load();
  expect_weights(5.0F);
  EXPECT_FALSE(Mirror::is_part(state.model->module().parameters().front().storage()));
}

// --- The memory ----------------------------------------------------------------------------------

TEST(MirrorTest, PartsKeepTheirBytesAndOnlyThose) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  c10::Storage first;
  c10::Storage across;
  const std::byte* begin = nullptr;
  {
    Mirror mirror(100 * kMiB + 10);
    ASSERT_EQ(mirror.all().size(), 100 * kMiB + 10);
    begin = mirror.all().data();
    for (std::size_t at = 0; at < mirror.all().size(); at += 4096) {
      mirror.all()[at] = std::byte{7};
    }
    first = mirror.part(64, 4096);
    across = mirror.part(31 * kMiB, 2 * kMiB);
    EXPECT_TRUE(Mirror::is_part(mirror.part(100 * kMiB, 10)));
  }
  EXPECT_EQ(first.data(), begin + 64);
  EXPECT_EQ(*(begin + 4096), std::byte{7});
  EXPECT_EQ(*(begin + 32 * kMiB), std::byte{7});
  EXPECT_EQ(*(begin + 70 * kMiB), std::byte{0}) << "no part has it";
  across = c10::Storage();
  EXPECT_EQ(*(begin + 4096), std::byte{7});
  EXPECT_EQ(*(begin + 32 * kMiB), std::byte{0});
}

}  // namespace
}  // namespace cairn
