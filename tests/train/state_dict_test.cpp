#include "cairn/train/state_dict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cairn/error.h"

#include "testing/counting_source.h"
#include "testing/keys.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::keys;

torch::nn::Sequential small_net() {
  return torch::nn::Sequential(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3),
                               torch::nn::Linear(3, 2));
}

struct TiedNet : torch::nn::Module {
  TiedNet() {
    const at::Tensor weight = torch::ones({3, 2});
    encoder = register_parameter("encoder", weight);
    decoder = register_parameter("decoder", encoder);
    transposed = register_buffer("transposed", encoder.detach().t());
    register_parameter("absent", at::Tensor());
  }
  at::Tensor encoder, decoder, transposed;
};

TEST(TensorBridgeTest, ViewsShareMemoryWithTheTensorAndKeepItAlive) {
  at::Tensor tensor = torch::arange(6, at::kFloat).reshape({2, 3});
  const TensorView view = view_of(tensor);
  EXPECT_EQ(view.storage->bytes().view.data(), static_cast<const std::byte*>(tensor.data_ptr()));
  tensor[0][0] = 9;
  tensor = at::Tensor();
  EXPECT_EQ(tensor_of(view)[0][0].item<float>(), 9);
}

TEST(TensorBridgeTest, ShapesCompareWithLibtorchs) {
  const at::Tensor tensor = torch::ones({2, 3});
  const TensorView view = view_of(tensor);
  EXPECT_TRUE(tensor.sizes() == view.shape);
  EXPECT_TRUE(view.strides == tensor.strides());
  EXPECT_FALSE(tensor.sizes() != view.shape);
  EXPECT_TRUE(view.shape != tensor.strides());
  EXPECT_EQ(torch::ones(view.shape).sizes(), view.shape);
}

TEST(TensorBridgeTest, TensorsOfOneStorageShareOneStorage) {
  const at::Tensor base = torch::rand({4, 5});
  const TensorView whole = view_of(base);
  const TensorView column = view_of(base.select(1, 2));
  EXPECT_EQ(whole.storage, column.storage);
  EXPECT_EQ(column.storage_offset, 2);
  EXPECT_THAT(column.strides, ElementsAre(5));
  EXPECT_NE(view_of(base.clone()).storage, whole.storage);
  EXPECT_TRUE(torch::equal(tensor_of(column), base.select(1, 2)));
}

TEST(TensorBridgeTest, StorageThatWasFreedAndUsedAgainIsAnotherStorage) {
  for (int i = 0; i < 1000; ++i) {  // Allocators reuse addresses.
    const TensorView view = view_of(torch::full({3}, i, at::kInt));
    EXPECT_EQ(tensor_of(view)[2].item<int>(), i);
  }
}

TEST(TensorBridgeTest, EveryDTypeOfThisLibtorchComesBackUnchanged) {
  int supported = 0;
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<at::ScalarType>(i);
    at::Tensor tensor;
    try {
      tensor = torch::empty({2, 3}, type);
      view_of(tensor);
    } catch (const std::exception&) {
      continue;  // Quantized and bit types.
    }
    ++supported;
    EXPECT_EQ(tensor_of(view_of(tensor)).scalar_type(), type) << c10::toString(type);
    EXPECT_EQ(item_size(view_of(tensor).dtype), tensor.element_size()) << c10::toString(type);
  }
  EXPECT_GE(supported, 13);
}

TEST(TensorBridgeTest, DTypeThatThisLibtorchLacksIsNamed) {
  static const std::byte zero[8] = {};
  const TensorView packed = make_tensor(DType::kBits8, {8}, {zero, nullptr});
  try {
    tensor_of(packed);
    FAIL() << "no error";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("bits8"));
  }
}

TEST(TensorBridgeTest, SparseAndQuantizedTensorsAreRefusedByName) {
  EXPECT_THROW(view_of(torch::eye(3).to_sparse()), UnsupportedError);
  EXPECT_THROW(view_of(torch::quantize_per_tensor(torch::rand({3}), 0.1, 0, at::kQInt8)),
               UnsupportedError);
  EXPECT_THROW(view_of(at::Tensor()), UsageError);
}

TEST(TensorBridgeTest, UnalignedBytesOfForeignFilesAreCopied) {
  auto bytes = std::make_shared<std::vector<std::byte>>(4 * 4 + 1);
  const float values[] = {1, 2, 3, 4};
  std::memcpy(bytes->data() + 1, values, sizeof values);
  const TensorView view = make_tensor(DType::kFloat32, {4}, {ByteView(*bytes).subspan(1), bytes});
  EXPECT_TRUE(torch::equal(tensor_of(view, true), torch::tensor({1.F, 2.F, 3.F, 4.F})));
}

TEST(TensorBridgeTest, APartOfAFilesStorageTakesThatPart) {
  const std::string bytes(1 << 20, 'x');
  const auto source = std::make_shared<const testing::CountingSource>(
      source_of({as_bytes(bytes), nullptr}, "a file"));
  const TensorView part = {.dtype = DType::kUInt8,
                           .shape = {7},
                           .strides = {1},
                           .storage_offset = 100,
                           .storage = storage_of(source, 0, bytes.size())};
  for (const bool share : {false, true}) {
    EXPECT_TRUE(tensor_of(part, share).equal(torch::full({7}, 'x', at::kByte)));
  }
  EXPECT_EQ(source->bytes, 14U);
}

TEST(TensorBridgeTest, AFewBytesAreNotCopiedAsMany) {
  TensorView view = view_of(torch::ones({1}));
  view.shape = {std::int64_t{1} << 40};
  view.strides = {0};
  EXPECT_THROW(tensor_of(view), CorruptError);
  EXPECT_EQ(tensor_of(view, /*share=*/true).numel(), std::int64_t{1} << 40);
}

TEST(StateDictTest, NamesAndOrderArePythons) {
  EXPECT_THAT(keys(state_dict(*small_net())),
              ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                          "1.running_var", "1.num_batches_tracked", "2.weight", "2.bias"));
  EXPECT_TRUE(state_dict(*small_net()).as_dict().is_ordered());
}

TEST(StateDictTest, TiedTensorsShareOneStorageAndUndefinedOnesAreLeftOut) {
  const TiedNet net;
  const Value state = state_dict(net);
  EXPECT_THAT(keys(state), ElementsAre("encoder", "decoder", "transposed"));
  EXPECT_EQ(state.at("encoder").as_tensor().storage, state.at("decoder").as_tensor().storage);
  EXPECT_EQ(state.at("encoder").as_tensor().storage, state.at("transposed").as_tensor().storage);
}

TEST(StateDictTest, LoadGivesTheSameBits) {
  auto from = small_net();
  auto into = small_net();
  from->forward(torch::rand({8, 4}));  // Changes the running statistics.
  load_state_dict(*into, state_dict(*from));
  EXPECT_EQ(state_dict(*into), state_dict(*from));
}

TEST(StateDictTest, LoadConvertsFloatsToTheModulesType) {
  auto from = small_net();
  auto into = small_net();
  into->to(at::kDouble);
  load_state_dict(*into, state_dict(*from));
  EXPECT_EQ(into->parameters()[0].scalar_type(), at::kDouble);
  EXPECT_TRUE(torch::equal(into->parameters()[0].to(at::kFloat), from->parameters()[0]));
}

// T37
TEST(StateDictTest, MisfitsAreListedTogetherAndNothingIsChanged) {
  auto net = small_net();
  const at::Tensor before = net->parameters()[0].clone();
  Value state = state_dict(*small_net());
  state.mutable_dict().erase("0.bias");
  state.mutable_dict()["extra"] = view_of(torch::rand({1}));
  state.mutable_dict()["2.weight"] = view_of(torch::rand({5, 3}));
  state.mutable_dict()["1.bias"] = "text";
  try {
    load_state_dict(*net, state);
    FAIL() << "no error";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), HasSubstr("Error(s) in loading state_dict"));
    EXPECT_THAT(e.what(), HasSubstr("missing names: \"0.bias\""));
    EXPECT_THAT(e.what(), HasSubstr("unexpected names: \"extra\""));
    EXPECT_THAT(e.what(), HasSubstr("2.weight: [5, 3] in the checkpoint, [2, 3] in the model"));
    EXPECT_THAT(e.what(), HasSubstr("1.bias is a str"));
  }
  EXPECT_TRUE(torch::equal(net->parameters()[0], before));
}

struct SparseNet : torch::nn::Module {
  SparseNet() { register_buffer("mask", torch::eye(3).to_sparse()); }
};

TEST(StateDictTest, SparseTensorsOfTheModelAreRefusedByName) {
  SparseNet net;
  try {
    load_state_dict(net, Dict{{"mask", view_of(torch::ones({3, 3}))}});
    FAIL() << "no error";
  } catch (const MismatchError& e) {
    EXPECT_THAT(e.what(), HasSubstr("mask of the model is a sparse tensor"));
  }
}

TEST(StateDictTest, NotStrictTakesWhatFitsAndReturnsTheRest) {
  auto net = small_net();
  Value state = state_dict(*small_net());
  const at::Tensor weight = tensor_of(state.at("0.weight").as_tensor());
  state.mutable_dict().erase("0.bias");
  state.mutable_dict()["extra"] = view_of(torch::rand({1}));
  const IncompatibleKeys keys = load_state_dict(*net, state, {.strict = false});
  EXPECT_THAT(keys.missing, ElementsAre("0.bias"));
  EXPECT_THAT(keys.unexpected, ElementsAre("extra"));
  EXPECT_TRUE(torch::equal(net->parameters()[0], weight));
}

TEST(StateDictTest, FloatsDoNotBecomeIntegersSilently) {
  auto net = small_net();
  Value state = state_dict(*net);
  state.mutable_dict()["1.num_batches_tracked"] = view_of(torch::tensor(1.5));
  EXPECT_THROW(load_state_dict(*net, state), MismatchError);
}

TEST(StateDictTest, ScalarsOfOldFilesAreOneElementVectors) {
  auto net = small_net();
  Value state = state_dict(*net);
  state.mutable_dict()["1.num_batches_tracked"] = view_of(torch::tensor({7}, at::kLong));
  load_state_dict(*net, state);
  EXPECT_EQ(net->buffers()[2].item<std::int64_t>(), 7);
}

}  // namespace
}  // namespace cairn
