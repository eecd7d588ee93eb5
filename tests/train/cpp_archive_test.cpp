// Files of C++'s torch::save are read without libtorch. docs/formats/torchscript.md describes these
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "testing/keys.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::TempFolder;

torch::nn::Sequential archive_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                               torch::nn::Linear(4, 2));
}

// The weights of the archive, converted to a file that load() reads.
Value weights_in(const std::string& archive, const TempFolder& temp) {
  convert(archive, temp / "weights.pt", {.weights_only = true, .overwrite = true});
  return load(temp / "weights.pt");
}

TEST(CppArchiveTest, AModuleGivesItsStateDict) {
  const TempFolder temp;
  torch::nn::Sequential net = archive_net();
  torch::save(net, temp / "net.pt");
  torch::nn::Sequential other = archive_net();
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : other->parameters()) {
      parameter.zero_();
    }
  }
  load_state_dict(*other, weights_in(temp / "net.pt", temp), {.strict = true});
  for (const auto& parameter : net->named_parameters()) {
    EXPECT_TRUE(other->named_parameters()[parameter.key()].equal(parameter.value()))
        << parameter.key();
  }
  for (const auto& buffer : net->named_buffers()) {
    EXPECT_TRUE(other->named_buffers()[buffer.key()].equal(buffer.value())) << buffer.key();
  }
}

TEST(CppArchiveTest, TensorsAndOptimizersAreRead) {
  const TempFolder temp;
  torch::save(std::vector<at::Tensor>{torch::arange(6).view({2, 3}), torch::ones({2})},
              temp / "tensors.pt");
  const Value tensors = weights_in(temp / "tensors.pt", temp);
  EXPECT_THAT(testing::keys(tensors), ::testing::UnorderedElementsAre("0", "1"));
  EXPECT_EQ(tensors.at("0").as_tensor().shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors.at("1").as_tensor().dtype, DType::kFloat32);

  torch::nn::Sequential net = archive_net();
  torch::optim::Adam adam(net->parameters());
  net->forward(torch::ones({2, 3})).sum().backward();
  adam.step();
  torch::save(adam, temp / "adam.pt");
  // The archive of an optimizer has no weights.
  EXPECT_THROW(weights_in(temp / "adam.pt", temp), UsageError);
  convert(temp / "adam.pt", temp / "state.pt");
  EXPECT_GE(tensors_of(load(temp / "state.pt")).size(), 2 * net->parameters().size());
}

TEST(CppArchiveTest, LoadSaysHowToConvertOne) {
  const TempFolder temp;
  torch::save(torch::ones({2}), temp / "tensor.pt");
  EXPECT_THROW(load(temp / "tensor.pt"), UnsupportedError);
}

}  // namespace
}  // namespace cairn
