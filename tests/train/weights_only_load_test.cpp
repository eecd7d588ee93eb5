// Loading only the weights, from files with more, fewer or none of the model's weights.

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/plan/write_dcp.h"
#include "storage/local/local_store.h"
#include "testing/message_of.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"
#include "train/state/load/name_misfits.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TempFolder;
using testing::TinyModel;

struct WeightsFile {
  const char* name;
  void (*write)(const Value& checkpoint, const std::string& path);
};

void write_pytorchs_dcp(const Value& checkpoint, const std::string& path) {
  write_dcp(*local_store(), checkpoint, path);
  std::filesystem::remove(path + "/.cairn_manifest.json");
}

const std::vector<WeightsFile> kWeightsFiles = {
    {"a.pt", [](const Value& value, const std::string& path) { save(value, path); }},
    {"a.pt.gz", [](const Value& value, const std::string& path) { save(value, path); }},
    {"a.tar", [](const Value& value, const std::string& path) { save(value, path); }},
    {"a.tar.gz", [](const Value& value, const std::string& path) { save(value, path); }},
    {"pytorchs.pt",
     [](const Value& value, const std::string& path) {
       testing::write_file(path, testing::encoded(value));
     }},
    {"dcp",
     [](const Value& value, const std::string& path) { write_dcp(*local_store(), value, path); }},
    {"pytorchs_dcp", write_pytorchs_dcp},
};

// A tensor so large that its memory is returned to the system when the last owner releases it.
at::Tensor large_tensor() { return torch::ones({std::int64_t{10} << 20}, torch::kUInt8); }

class WeightsOnly : public ::testing::TestWithParam<std::tuple<std::size_t, bool>> {
 protected:
  WeightsOnly() { state_.model = std::make_shared<TinyModel>(TinyModelOptions{.seed = 1}); }

  // Writes a checkpoint of the given weights, and returns its path.
  std::string write(const Value& model) const {
    const WeightsFile& file = kWeightsFiles[std::get<0>(GetParam())];
    file.write(Dict{{"state", Dict{{"model", model}}}}, folder_ / file.name);
    return folder_ / file.name;
  }
  void load(const std::string& path, bool is_strict) {
    load_checkpoint(path, state_, logger_,
                    {.load_weights_only = true,
                     .strict_model_weights = is_strict,
                     .in_place = std::get<1>(GetParam())});
  }
  Value weights() { return state_dict(state_.model->module()); }

  using TinyModelOptions = testing::TinyModelOptions;
  TinyModel other_{TinyModelOptions{.seed = 2}};
  TempFolder folder_;
  State state_;
  Logger logger_{state_};
};

TEST_P(WeightsOnly, NoneThatFitsIsAnErrorThatListsThemStrictOrNot) {
  Dict model = Dict::ordered();
  const Value of_other = state_dict(other_.module());
  for (const auto& [name, tensor] : of_other.as_dict()) {
    model.set("_orig_mod." + name.as_str(), tensor);
  }
  model.set("_orig_mod.large", view_of(large_tensor()));
  const std::string path = write(model);
  const at::Tensor before = testing::weights_of(*state_.model);
  for (const bool is_strict : {true, false}) {
    EXPECT_THAT(
        message_of<MismatchError>([&] { load(path, is_strict); }),
        AllOf(HasSubstr("nothing was changed"), HasSubstr("missing names: \"first.weight\""),
              HasSubstr("unexpected names: \"_orig_mod.first.weight\""),
              HasSubstr("4 of 4 missing names fit"),
              HasSubstr("load_ignore_keys = cairn::rename_weights(\"_orig_mod.\", \"\")")));
    EXPECT_TRUE(torch::equal(testing::weights_of(*state_.model), before));
  }
}

TEST_P(WeightsOnly, LargeOnesOfALargerModelStandBesideThoseThatFit) {
  for (const int more : {1, 3}) {
    Value model = state_dict(other_.module());
    for (int i = 0; i < more; ++i) {
      model.mutable_dict().set("head" + std::to_string(i), view_of(large_tensor()));
    }
    const std::string path = write(model);
    EXPECT_THAT(message_of<MismatchError>([&] { load(path, /*is_strict=*/true); }),
                AllOf(HasSubstr("unexpected names: \"head0\""), Not(HasSubstr("missing names"))));
    EXPECT_NE(weights(), state_dict(other_.module()));
    load(path, /*is_strict=*/false);
    EXPECT_EQ(weights(), state_dict(other_.module()));
    state_.model = std::make_shared<TinyModel>(TinyModelOptions{.seed = 1});
    std::filesystem::remove_all(path);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, WeightsOnly,
                         ::testing::Combine(::testing::Range(std::size_t{0}, kWeightsFiles.size()),
                                            ::testing::Bool()),
                         [](const auto& tested) {
                           std::string name = kWeightsFiles[std::get<0>(tested.param)].name;
                           std::ranges::replace(name, '.', '_');
                           return name + (std::get<1>(tested.param) ? "_in_place" : "");
                         });

// --- Names ---------------------------------------------------------------------------------------

TEST(RenamingTest, IsTheOneAfterWhichMostNamesFit) {
  const auto rule = [](std::vector<std::string> missing, std::vector<std::string> unexpected) {
    const auto found = find_renaming({std::move(missing), std::move(unexpected)});
    return found ? found->from + " -> " + found->to + " " + std::to_string(found->fits) : "none";
  };
  EXPECT_EQ(rule({"0.weight", "0.bias"}, {"module.0.weight", "module.0.bias"}), "module. ->  2");
  EXPECT_EQ(rule({"module.0.weight", "module.0.bias"}, {"0.weight", "0.bias"}), " -> module. 2");
  EXPECT_EQ(rule({"module.0.weight", "module.2.weight"},
                 {"module._orig_mod.0.weight", "module._orig_mod.2.weight"}),
            "_orig_mod. ->  2");
  EXPECT_EQ(rule({"a.0.w", "a.1.w"}, {"a.0._orig_mod.w", "a.1._orig_mod.w"}), "_orig_mod. ->  2");
  EXPECT_EQ(rule({"bert.a.w", "bert.b.w", "bert.c.w", "head.w"},
                 {"roberta.a.w", "roberta.b.w", "roberta.c.w", "lm.w"}),
            "roberta. -> bert. 3");
  EXPECT_EQ(rule({"a.b.x", "a.b.y"}, {"a.c.b.x", "a.c.b.y"}), "c. ->  2");
  EXPECT_EQ(rule({"a", "b", "c"}, {"d", "e"}), "none");
  EXPECT_EQ(rule({"a"}, {}), "none");
  EXPECT_EQ(rule({"norm.w", "norm.b", "conv.w", "conv.b"}, {"1.w", "1.b", "3.w", "3.b"}), "none")
      << "another network";
  EXPECT_EQ(rule({"conv1.weight", "conv2.weight", "conv3.weight"}, {"_orig_mod.0.weight"}), "none")
      << "one name of many fits by chance";
}

TEST(RenamingTest, WhatIsProposedFitsAndIsLoaded) {
  const TempFolder folder;
  TinyModel saved({.seed = 2});
  Dict model = Dict::ordered();
  const Value named = state_dict(saved.module());
  for (const auto& [name, tensor] : named.as_dict()) {
    model.set("module._orig_mod." + name.as_str(), tensor);
  }
  save(Dict{{"state", Dict{{"model", model}}}}, folder / "wrapped.pt");
  State state;
  state.model = std::make_shared<TinyModel>();
  Logger logger(state);
  load_checkpoint(
      folder / "wrapped.pt", state, logger,
      {.load_weights_only = true, .ignore_keys = rename_weights("module._orig_mod.", "")});
  EXPECT_EQ(state_dict(state.model->module()), named);

  TinyModel plain;
  EXPECT_THAT(message_of<MismatchError>([&] { load_state_dict(plain.module(), model); }),
              HasSubstr("rename_weights(state_dict, \"module._orig_mod.\", \"\")"));
  load_state_dict(plain.module(), rename_weights(model, "module._orig_mod.", ""));
  EXPECT_EQ(state_dict(plain.module()), named);
}

TEST(RenamingTest, ARenamingAfterWhichNothingFitsIsAMisfitThatListsAllNames) {
  const TempFolder folder;
  TinyModel saved({.seed = 2});
  save(Dict{{"state", Dict{{"model", state_dict(saved.module())}}}}, folder / "saved.pt");
  State state;
  state.model = std::make_shared<TinyModel>();
  const Value before = state_dict(state.model->module());
  Logger logger(state);
  for (const bool is_strict : {true, false}) {
    const std::string said = message_of<MismatchError>([&] {
      load_checkpoint(folder / "saved.pt", state, logger,
                      {.load_weights_only = true,
                       .strict_model_weights = is_strict,
                       .ignore_keys = rename_weights("", "other.")});
    });
    EXPECT_THAT(said, AllOf(HasSubstr("missing names: "), HasSubstr("\"other.")));
    EXPECT_EQ(state_dict(state.model->module()), before);
  }
}

}  // namespace
}  // namespace cairn
