// One tensor under several names in safetensors: "cairn.tied", Hugging Face's form, and texts that
// only look like it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/format/safetensors.h"

#include "checkpoint/open/source.h"
#include "converted.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::floats;
using ::testing::IsEmpty;
using testing::keys_of;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Texts = SafetensorsFile::Metadata;

class TiesTest : public ::testing::Test {
 protected:
  // Writes a file as another program would, with tensors of the given names.
  std::string write(const std::vector<std::string>& names, const Texts& metadata) const {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) {
      tensors.emplace_back(name, floats({static_cast<float>(tensors.size())}));
    }
    const SafetensorsPlan plan(tensors, metadata);
    const auto file = local_store()->begin(folder_ / "in.safetensors");
    plan.write(*file);
    file->commit();
    return folder_ / "in.safetensors";
  }
  std::vector<std::string> loaded(const std::vector<std::string>& names,
                                  const Texts& metadata) const {
    return keys_of(load(write(names, metadata)));
  }

  testing::TempFolder folder_;
};

// safetensors.torch.load_file() reads such files without ties, too.
TEST_F(TiesTest, TextThatHappensToBeATensorsNameIsNoTie) {
  for (const Texts& metadata :
       {Texts{{"name", "emb_params"}, {"ss_output_name", "lora"}},
        Texts{{"format", "pt"}, {"modelspec.title", "lora"}},
        Texts{{"description", "lora"}, {"lora", "emb_params"}}, Texts{{"cairn.tied", "lora"}},
        Texts{{"cairn.tied", R"({"x":1})"}}, Texts{{"cairn.tied", R"(["lora"])"}}}) {
    EXPECT_THAT(loaded({"emb_params", "lora"}, metadata),
                UnorderedElementsAre("emb_params", "lora"));
    EXPECT_THAT(
        convert(folder_ / "in.safetensors", folder_ / "out.safetensors", {.overwrite = true}).tied,
        IsEmpty());
  }
}

// save_model() of safetensors.torch writes such files.
TEST_F(TiesTest, HuggingFacesFormTiesNamesThatEndInTheSamePart) {
  const Texts metadata = {{"format", "pt"},
                          {"lm_head.weight", "wte.weight"},
                          {"bias", "head.bias"},
                          {"note.weight", "gone.weight"}};
  const std::string path = write({"wte.weight", "head.bias"}, metadata);
  const Value value = load(path);
  EXPECT_THAT(keys_of(value),
              UnorderedElementsAre("wte.weight", "head.bias", "lm_head.weight", "bias"));
  EXPECT_EQ(value.at("lm_head.weight").as_tensor().storage,
            value.at("wte.weight").as_tensor().storage);
  const SourceInfo info = open_source(path)->info();
  EXPECT_THAT(info.tied,
              ElementsAre(Pair("lm_head.weight", "wte.weight"), Pair("bias", "head.bias")));
  EXPECT_THAT(info.notes, ElementsAre(Pair("format", "pt"), Pair("note.weight", "gone.weight")));
}

TEST_F(TiesTest, OurMarkerHasAllTiesWhateverTheNames) {
  const Texts metadata = {{"cairn.tied", R"({"z":"a","same":"a","a":"b.w","x":"gone"})"},
                          {"other.w", "b.w"}};
  EXPECT_THAT(loaded({"a", "b.w"}, metadata), UnorderedElementsAre("a", "b.w", "z", "same"));
}

TEST_F(TiesTest, ANameThatIsTheTextOfAnotherEntryIsNotLost) {
  const TensorView shared = floats({1, 2});
  save(Dict{{"format", shared}, {"a", shared}}, folder_ / "in.pt");
  convert(folder_ / "in.pt", folder_ / "out.safetensors");
  EXPECT_THAT(keys_of(load(folder_ / "out.safetensors")), UnorderedElementsAre("a", "format"));
}

// The input's metadata is copied, except for entries about tensors that have other names now.
TEST_F(TiesTest, ConvertingAnewWritesTheTiesOfTheResult) {
  const TensorView shared = floats({1, 2});
  save(Dict{{"z", shared}, {"b", shared}, {"c", floats({3})}}, folder_ / "in.pt");
  convert(folder_ / "in.pt", folder_ / "one.safetensors");
  const ConvertResult again = convert(folder_ / "one.safetensors", folder_ / "two.safetensors");
  EXPECT_THAT(again.tied, ElementsAre(Pair("z", "b")));
  const ConvertResult less =
      convert(folder_ / "two.safetensors", folder_ / "three.safetensors", {.exclude = {"z"}});
  EXPECT_THAT(less.tied, IsEmpty());
  EXPECT_THAT(keys_of(load(folder_ / "three.safetensors")), UnorderedElementsAre("b", "c"));
}

TEST_F(TiesTest, ShardsAndTheirIndexHaveTheirs) {
  const TensorView shared = floats({1, 2});
  save(Dict{{"z", shared}, {"b", shared}, {"c", floats({3, 4})}}, folder_ / "in.pt");
  convert(folder_ / "in.pt", folder_ / "shards", {.shard_bytes = 8});
  const Value value = load(folder_ / "shards");
  EXPECT_THAT(keys_of(value), UnorderedElementsAre("b", "c", "z"));
  EXPECT_EQ(value.at("z").as_tensor().storage, value.at("b").as_tensor().storage);
  EXPECT_THAT(open_source(folder_ / "shards")->info().tied, ElementsAre(Pair("z", "b")));
  EXPECT_TRUE(verify(folder_ / "shards").ok());
}

// huggingface_hub's save_torch_state_dict() writes such an index.
TEST_F(TiesTest, AnIndexMayTieNamesOfAllShards) {
  write({"wte.weight", "b"}, {{"format", "pt"}});
  testing::write_file(folder_ / "model.safetensors.index.json",
                      R"({"metadata": {"total_size": 8, "lm_head.weight": "wte.weight", "b": "c"},
                          "weight_map": {"wte.weight": "in.safetensors", "b": "in.safetensors"}})");
  EXPECT_THAT(keys_of(load(folder_ / "model.safetensors.index.json")),
              UnorderedElementsAre("wte.weight", "b", "lm_head.weight"));
}

}  // namespace
}  // namespace cairn
