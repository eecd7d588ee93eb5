// Converting checkpoints with Python objects. An object or tensor that occurs several times stays
// one object or tensor, inside and outside objects that only Python can make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <memory>

#include "cairn/checkpoint/convert.h"
#include "cairn/foreign.h"
#include "cairn/format/torch_file.h"

#include "converted.h"
#include "testing/file_bytes.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::floats;
using testing::keys_of;
using ::testing::Pair;
using testing::read;
using testing::TempFolder;

// An object of a class unknown to cairn, with the given attributes.
Value object_of(Value attributes) {
  const Value name(std::make_shared<const Foreign>(Foreign{.module = "models", .name = "Net"}));
  return Value(std::make_shared<const Foreign>(Foreign{.made = Foreign::Made::kNew,
                                                       .function = name,
                                                       .args = Tuple{},
                                                       .state = std::move(attributes),
                                                       .has_state = true}));
}

// One tensor in a state_dict, in its attributes, and in two objects that only Python can make.
Value tied_everywhere() {
  const Value w = floats({1, 2, 3, 4});
  Dict state = Dict::ordered({{"w", w}});
  state.set_attributes(Dict{{"kept", w}});
  const Value object = object_of(Dict{{"weight", w}});
  return Dict{
      {"state", state}, {"object", object}, {"again", object}, {object_of(Dict{{"w", w}}), 1}};
}

const TensorView& tensor_in(const Value& object) {
  return object.as_foreign().state.as_dict().begin()->second.as_tensor();
}

TEST(ConvertObjectsTest, WhoWatchesAConversionGetsTheSameFile) {
  const TempFolder temp;
  save(tied_everywhere(), temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.on_progress = [](auto...) {}});
  EXPECT_EQ(testing::read_file(temp / "out.pt"), testing::read_file(temp / "in.pt"));
}

TEST(ConvertObjectsTest, WhatIsOneTensorInsideAndOutsideOfObjectsIsOneInAnotherPrecision) {
  const TempFolder temp;
  save(tied_everywhere(), temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.dtype = DType::kBFloat16});
  const Value out = read(temp / "out.pt");
  const TensorView& tensor = out.at("state").at("w").as_tensor();
  EXPECT_EQ(tensor.dtype, DType::kBFloat16);
  EXPECT_EQ(out.at("object").identity(), out.at("again").identity());
  for (const TensorView* other :
       {&out.at("state").as_dict().attributes().at("kept").as_tensor(),
        &tensor_in(out.at("object")), &tensor_in(std::prev(out.as_dict().end())->first)}) {
    EXPECT_EQ(other->dtype, DType::kBFloat16);
    EXPECT_EQ(other->storage, tensor.storage);
  }
}

TEST(ConvertObjectsTest, AStorageByItselfChangesItsPrecisionWithItsTensors) {
  const TempFolder temp;
  const TensorView w = floats({1, 2, 3, 4});
  const Value name(
      std::make_shared<const Foreign>(Foreign{.module = "torch", .name = "FloatStorage"}));
  const Value storage(std::make_shared<const Foreign>(
      Foreign{.made = Foreign::Made::kStorage, .function = name, .args = Tuple{{w}}}));
  save(Dict{{"w", w}, {"storage", storage}}, temp / "in.pt");
  const ConvertResult result =
      convert(temp / "in.pt", temp / "out.pt", {.dtype = DType::kBFloat16});
  EXPECT_THAT(result.objects, ElementsAre(Pair("torch.BFloat16Storage", 1U)));
  const Value out = read(temp / "out.pt");
  EXPECT_EQ(out.at("storage").as_foreign().class_name(), "torch.BFloat16Storage");
  EXPECT_EQ(out.at("storage").as_foreign().args.as_items()[0].as_tensor().storage,
            out.at("w").as_tensor().storage);
}

// PyTorch's DTensor and XLA's tensors are such objects.
TEST(ConvertObjectsTest, AnObjectThatSaysItsPrecisionItselfStaysAsItIs) {
  const TempFolder temp;
  const Value rebuild(std::make_shared<const Foreign>(
      Foreign{.module = "torch._utils", .name = "_rebuild_device_tensor_from_cpu_tensor"}));
  const Value object(std::make_shared<const Foreign>(
      Foreign{.made = Foreign::Made::kCalled,
              .function = rebuild,
              .args = Tuple{{floats({1, 2}), DType::kFloat32, "xla:0", false}}}));
  save(Dict{{"w", floats({3})}, {"object", object}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.dtype = DType::kBFloat16});
  const Value out = read(temp / "out.pt");
  EXPECT_EQ(out.at("w").as_tensor().dtype, DType::kBFloat16);
  const List& args = out.at("object").as_foreign().args.as_items();
  EXPECT_EQ(args[0].as_tensor().dtype, DType::kFloat32);
  EXPECT_EQ(args[1], Value(DType::kFloat32));
}

TEST(ConvertObjectsTest, WhatRenamingLeavesAsItIsStaysOneObject) {
  const TempFolder temp;
  const Value groups = List{Dict{{"lr", 0.1}}};
  save(Dict{{"module.w", floats({1})}, {"groups", groups}, {"object", object_of(groups)}},
       temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.rename = {{"module.", ""}}});
  const Value out = read(temp / "out.pt");
  EXPECT_TRUE(out.at("w").is_tensor());
  EXPECT_EQ(out.at("object").as_foreign().state.identity(), out.at("groups").identity());
}

TEST(ConvertObjectsTest, OfAKeyThatIsATensorSafetensorsSayThatItIsLeftOut) {
  const TempFolder temp;
  const Value key = floats({1});
  save(Dict{{"state", Dict{{key, floats({2})}}}, {"params", List{key}}}, temp / "in.pt");
  const ConvertResult result = convert(temp / "in.pt", temp / "out.safetensors");
  EXPECT_THAT(result.left_out, ElementsAre("state/tensor (key)"));
  EXPECT_THAT(keys_of(read(temp / "out.safetensors")), ElementsAre("params.0", "state.tensor"));
}

TEST(ConvertObjectsTest, ViewsInTwoDTypesStayViewsOfOneStorage) {
  const TempFolder temp;
  TensorView words = floats({1, 2});
  words.dtype = DType::kUInt16;
  TensorView bytes = words;
  bytes.dtype = DType::kUInt8;
  save(Dict{{"words", words}, {"bytes", bytes}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.on_progress = [](auto...) {}});
  EXPECT_EQ(testing::read_file(temp / "out.pt"), testing::read_file(temp / "in.pt"));
}

TEST(ConvertObjectsTest, TensorsOfAnObjectStayTiedToThoseOutsideOfIt) {
  const TempFolder temp;
  const Value weight = floats({1, 2});
  Foreign object{.made = Foreign::Made::kNew, .args = Tuple{}, .has_state = true};
  object.function =
      Value(std::make_shared<const Foreign>(Foreign{.module = "torch.optim.adam", .name = "Adam"}));
  object.state = Dict{{"params", List{weight, floats({3})}}};
  const Value optimizer(std::make_shared<const Foreign>(object));
  save(Dict{{"model", Dict{{"w", weight}}}, {"opt", optimizer}}, temp / "in.pt");
  std::uint64_t written = 0;
  convert(temp / "in.pt", temp / "out.pt",
          {.on_progress = [&](std::string_view stage, auto more, auto total) {
            if (stage != "writing") return;
            written += more;
            EXPECT_LE(written, total);
          }});
  EXPECT_EQ(testing::read_file(temp / "out.pt"), testing::read_file(temp / "in.pt"));
}

// A whole optimizer has tensors as keys: torch.save({"opt": torch.optim.Adam(...)}).
TEST(ConvertObjectsTest, TensorsThatAreKeysStayTheTensorsThatTheyAreElsewhere) {
  const TempFolder temp;
  const Value weight = floats({1, 2});
  const Value bias = floats({1, 2});
  Dict state(DictType::kDefaultDict);
  state.set(weight, Dict{{"step", 3}});
  state.set(bias, Dict{{"step", 4}});
  state.set(Tuple{{weight, 0}}, Set{{weight, bias}});
  save(Dict{{"state", state}, {"params", List{weight, bias}}}, temp / "in.pt");
  convert(temp / "in.pt", temp / "out.pt", {.on_progress = [](auto...) {}});
  EXPECT_EQ(testing::read_file(temp / "out.pt"), testing::read_file(temp / "in.pt"));
  EXPECT_TRUE(verify(temp / "out.pt").ok());
  const Value read = load(temp / "out.pt");
  const Dict& again = read.at("state").as_dict();
  ASSERT_EQ(again.size(), 3U);
  EXPECT_EQ(again.find(read.at("params").as_items()[1])->at("step"), Value(4));
}

}  // namespace
}  // namespace cairn
