// Weights of Hugging Face's libraries: tests/data/gpt2 has the names of the hub's "gpt2", and
// gpt2_scores.safetensors what GPT-2's formulas give for its weights (write_gpt2.py).
#include "cairn/models/huggingface.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "gpt2/net.h"
#include "models/name_map.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using cairn::testing::read_file;
using cairn::testing::TempFolder;
using cairn::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGpt2 = CAIRN_TEST_DATA "/gpt2";

gpt2::Config small_config() {
  return {.vocab_size = 29, .n_positions = 12, .n_embd = 8, .n_layer = 2, .n_head = 2};
}

gpt2::Net small_net() {
  gpt2::Net net(small_config());
  net->eval();
  return net;
}

template <class E>
std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_scores(gpt2::Net& net) {
  const Value expected = load(CAIRN_TEST_DATA "/gpt2_scores.safetensors");
  const torch::NoGradGuard no_grad;
  const at::Tensor scores = net->forward(tensor_of(expected.at("ids").as_tensor()));
  EXPECT_TRUE(scores.allclose(tensor_of(expected.at("scores").as_tensor()), 1e-4, 1e-4));
}

bool has_same_weights(const torch::nn::Module& one, const torch::nn::Module& other) {
  return state_dict(one) == state_dict(other);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST(HuggingFaceNames, AStarIsAPartOfAName) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(match_name("h.*.ln.*", "h.12.ln.bias"), (Parts{"12", "bias"}));
  EXPECT_EQ(match_name("layer*.w", "layer3.w"), (Parts{"3"}));
  EXPECT_EQ(match_name("*_w", "a_w_w"), (Parts{"a_w"}));
  EXPECT_EQ(match_name("h.*.w", "h.1.attn.w"), std::nullopt);
  EXPECT_EQ(match_name("h.*", "h."), std::nullopt);
  EXPECT_EQ(match_name("h", "hh"), std::nullopt);
  EXPECT_EQ(fill_name("layers.*.x.*", {"12", "bias"}), "layers.12.x.bias");
}

// The names and shapes of the hub's "gpt2", whose file has no base model's prefix. The network here
// is narrower, and has as many layers.
TEST(HuggingFaceNames, AllOfTheHubsGpt2AreThoseOfTheNetwork) {
  const std::map<std::string, Dims> of_layer = {{"ln_1.weight", {768}},
                                                {"ln_1.bias", {768}},
                                                {"attn.c_attn.weight", {768, 2304}},
                                                {"attn.c_attn.bias", {2304}},
                                                {"attn.c_proj.weight", {768, 768}},
                                                {"attn.c_proj.bias", {768}},
                                                {"ln_2.weight", {768}},
                                                {"ln_2.bias", {768}},
                                                {"mlp.c_fc.weight", {768, 3072}},
                                                {"mlp.c_fc.bias", {3072}},
                                                {"mlp.c_proj.weight", {3072, 768}},
                                                {"mlp.c_proj.bias", {768}},
                                                {"attn.bias", {1, 1, 1024, 1024}}};
  std::map<std::string, Dims> of_file = {{"wte.weight", {50257, 768}},
                                         {"wpe.weight", {1024, 768}},
                                         {"ln_f.weight", {768}},
                                         {"ln_f.bias", {768}}};
  for (int i = 0; i < 12; ++i) {
    for (const auto& [name, shape] : of_layer)
      of_file["h." + std::to_string(i) + "." + name] = shape;
  }
  ASSERT_EQ(of_file.size(), 160U);
  const std::map<std::int64_t, std::int64_t> smaller = {
      {768, 8}, {2304, 24}, {3072, 32}, {50257, 29}, {1024, 12}};
  gpt2::Config config = small_config();
  config.n_layer = 12;
  const gpt2::Net net(config);
  const HuggingFaceOptions options = gpt2::huggingface_options();
  std::map<std::string, Dims> expected;
  const Value state = state_dict(*net);
  for (const auto& [name, parameter] : state.as_dict())
    expected[name.as_str()] = parameter.as_tensor().shape;
  std::map<std::string, Dims> found;
  for (const auto& [name, shape] : of_file) {
    if (is_ignored(options, name)) continue;
    const MappedName mapped = name_in_module(options, name);
    Dims own = shape;
    if (mapped.is_transposed) std::ranges::reverse(own);
    for (std::int64_t& size : own)
      size = smaller.at(size);
    found[mapped.name] = own;
    EXPECT_EQ(name_in_file(options, mapped.name).name, "transformer." + name);
  }
  EXPECT_EQ(found, expected);
}

TEST(HuggingFaceWeights, LoadAndComputeWhatGpt2Computes) {
  gpt2::Net net = small_net();
  const HuggingFaceWeights weights(gpt2::huggingface_options());
  const IncompatibleKeys keys = weights.load(*net, kGpt2);
  EXPECT_TRUE(keys.missing.empty() && keys.unexpected.empty());
  expect_scores(net);
  EXPECT_THAT(weights.config(kGpt2), HasSubstr("\"n_embd\": 8"));
}

TEST(HuggingFaceWeights, AreSavedAsOneFileOrAsShards) {
  gpt2::Net net = small_net();
  HuggingFaceOptions options = gpt2::huggingface_options();
  const HuggingFaceWeights weights(options);
  weights.load(*net, kGpt2);
  const TempFolder temp;
  const std::string one = temp / "one";
  EXPECT_THAT(weights.save(*net, one, weights.config(kGpt2)),
              ElementsAre(one + "/config.json", one + "/model.safetensors"));
  EXPECT_EQ(read_file(one + "/config.json"), read_file(kGpt2 + "/config.json"));
  EXPECT_THAT(read_file(one + "/model.safetensors"), HasSubstr("\"format\":\"pt\""));
  EXPECT_TRUE(verify(one).ok());
  const Value saved = load(one);
  EXPECT_EQ(saved.at("transformer.h.1.mlp.c_fc.weight").as_tensor().shape, (Dims{8, 32}));
  EXPECT_EQ(saved.find("lm_head.weight"), nullptr);
  options.max_shard_size = 3000;
  const HuggingFaceWeights in_shards(options);
  const std::string several = temp / "several";
  in_shards.save(*net, several);
  EXPECT_TRUE(verify(several).ok());
  const std::vector<std::string> names = names_in(several);
  EXPECT_EQ(names.back(), "model.safetensors.index.json");
  EXPECT_GT(names.size(), 3U);
  for (const std::string& folder : {one, several}) {
    gpt2::Net again = small_net();
    EXPECT_FALSE(has_same_weights(*again, *net));
    weights.load(*again, folder);
    EXPECT_TRUE(has_same_weights(*again, *net)) << folder;
  }
}

TEST(HuggingFaceWeights, APytorchModelBinIsReadToo) {
  const TempFolder temp;
  save(load(kGpt2), temp / "pytorch_model.bin.pt");
  std::filesystem::rename(temp / "pytorch_model.bin.pt", temp / "pytorch_model.bin");
  gpt2::Net net = small_net();
  HuggingFaceWeights(gpt2::huggingface_options()).load(*net, temp.path());
  expect_scores(net);
}

std::vector<at::Tensor> copies_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : module.parameters())
    copies.push_back(parameter.detach().clone());
  return copies;
}

TEST(HuggingFaceWeights, MisfitsAreListedAndChangeNothing) {
  gpt2::Config config = small_config();
  config.n_layer = 3;
  config.vocab_size = 30;
  gpt2::Net net(config);
  const std::vector<at::Tensor> before = copies_of(*net);
  HuggingFaceOptions options = gpt2::huggingface_options();
  options.ignored.clear();
  const HuggingFaceWeights weights(options);
  EXPECT_THAT(
      error_of<MismatchError>([&] { weights.load(*net, kGpt2); }),
      AllOf(HasSubstr("loading " + kGpt2), HasSubstr("\"layers.2.norm1.weight\""),
            HasSubstr("unexpected names: \"h.0.attn.bias\", \"h.1.attn.bias\""),
            HasSubstr("size mismatch for tokens.weight: [29, 8] in the checkpoint, [30, 8]"),
            Not(HasSubstr("\"layers.1.norm1.weight\""))));
  const std::vector<at::Tensor> after = copies_of(*net);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(after[i].equal(before[i]));
  // Without strict, names may differ, and shapes may not.
  config.vocab_size = 29;
  gpt2::Net deeper(config);
  const IncompatibleKeys keys = weights.load(*deeper, kGpt2, {.strict = false});
  EXPECT_EQ(keys.missing.size(), 12U);
  EXPECT_THAT(keys.unexpected, ElementsAre("h.0.attn.bias", "h.1.attn.bias"));
}

struct TiedHeadImpl : torch::nn::Module {
  TiedHeadImpl() {
    words = register_parameter("words", torch::rand({5, 3}));
    head = register_parameter("head", words);
  }
  at::Tensor words, head;
};
TORCH_MODULE(TiedHead);

TEST(HuggingFaceWeights, TwoTensorsWithOneNameAreRefused) {
  const TiedHead net;
  const HuggingFaceWeights merges({.names = {{"w", "words"}, {"w", "head"}}});
  const TempFolder temp;
  EXPECT_THAT(error_of<UsageError>([&] { merges.save(*net, temp / "own"); }),
              HasSubstr("\"words\" and \"head\" of the module both get the name \"w\""));
  gpt2::Net other = small_net();
  HuggingFaceOptions options = gpt2::huggingface_options();
  options.names.insert(options.names.begin(), {"transformer.h.*.ln_1.bias", "layers.*.norm2.bias"});
  EXPECT_THAT(error_of<MismatchError>([&] { HuggingFaceWeights(options).load(*other, kGpt2); }),
              HasSubstr("of the file both are \"layers.0.norm2.bias\" of the module"));
}

TEST(HuggingFaceWeights, DamageIsFoundBeforeAnythingChanges) {
  const TempFolder temp;
  gpt2::Net net = small_net();
  const HuggingFaceWeights weights(gpt2::huggingface_options());
  weights.load(*net, kGpt2);
  weights.save(*net, temp / "own");
  std::string bytes = read_file(temp / "own/model.safetensors");
  bytes[bytes.size() - 5] ^= 1;
  write_file(temp / "own/model.safetensors", bytes);
  gpt2::Net other = small_net();
  const std::vector<at::Tensor> before = copies_of(*other);
  EXPECT_THAT(error_of<CorruptError>([&] { weights.load(*other, temp / "own"); }),
              HasSubstr("tensor transformer.wte.weight"));
  EXPECT_TRUE(copies_of(*other).front().equal(before.front()));
}

// The files have the tied tensor under either name.
TEST(HuggingFaceWeights, ATiedTensorIsWrittenOnceAndReadByAnyOfItsNames) {
  const TempFolder temp;
  const TiedHead net;
  const HuggingFaceWeights weights(
      {.names = {{"wte.weight", "words"}, {"lm_head.weight", "head"}}});
  weights.save(*net, temp / "own");
  const HuggingFaceWeights only_head(
      {.names = {{"wte.weight", "head"}}, .ignored = {"lm_head.weight"}});
  for (const HuggingFaceWeights* each : {&weights, &only_head}) {
    TiedHead other;
    each->load(*other, temp / "own");
    EXPECT_TRUE(other->words.equal(net->words));
    EXPECT_TRUE(other->head.is_same(other->words));
  }
}

TEST(HuggingFaceWeights, OnlyOwnFilesAreReplaced) {
  const TempFolder temp;
  const gpt2::Net net = small_net();
  const HuggingFaceWeights weights(gpt2::huggingface_options());
  const std::string folder = temp / "own";
  weights.save(*net, folder, "{}");
  EXPECT_THAT(error_of<AlreadyExistsError>([&] { weights.save(*net, folder, "{}"); }),
              HasSubstr("own"));
  weights.save(*net, folder, "{\"a\": 1}", {.overwrite = true});
  EXPECT_EQ(weights.config(folder), "{\"a\": 1}");
  write_file(folder + "/tokenizer.json", "somebody's");
  EXPECT_THAT(error_of<UsageError>([&] { weights.save(*net, folder, "{}", {.overwrite = true}); }),
              HasSubstr("tokenizer.json"));
  EXPECT_EQ(weights.config(folder), "{\"a\": 1}");
}

TEST(HuggingFaceWeights, WrongRulesAreRefused) {
  EXPECT_THAT(error_of<UsageError>([] {
                HuggingFaceWeights({.names = {{"h.*.w", "w"}}});
              }),
              HasSubstr("equally many"));
  EXPECT_THAT(error_of<UsageError>([] { HuggingFaceWeights({.max_shard_size = 0}); }),
              HasSubstr("max_shard_size is 0"));
}

}  // namespace
}  // namespace cairn
