// DTensors in torch.save files that lie about their shapes, meshes and placements.
#include "tests/format/dtensor_text.h"
#include "tests/hostile/corpus.h"

namespace cairn::testing {
namespace {

using Cases = std::vector<HostileCase>;

void add_dtensor(Cases& cases, const std::string& name, const DTensorText& text, Answer answer) {
  cases.push_back({"dtensor_" + name, {{"", torch_file_of(pickle(dtensor(text)))}}, answer});
}

// Lying numbers, as opcodes, for a shape, a mesh or a placement.
void add_lying_numbers(Cases& cases) {
  struct Number {
    const char* name;
    std::string code;
  };
  const std::vector<Number> numbers = {{"minus_one", int32(-1)},
                                       {"two_to_40", int64(std::int64_t{1} << 40)},
                                       {"largest", int64(INT64_MAX)},
                                       {"smallest", int64(INT64_MIN)}};
  for (const Number& n : numbers) {
    const std::string name = n.name;
    add_dtensor(cases, "shape_" + name, {.shape = n.code + n.code + "\x86"}, Answer::kCorrupt);
    // A mesh of that many ranks, all of which are one element, shows more than load() allows.
    const bool is_shown = name == "two_to_40" || name == "largest";
    add_dtensor(cases, "mesh_" + name, {.mesh_shape = n.code + "\x85", .mesh_strides = "K\0\x85"s},
                is_shown ? Answer::kUnsupported : Answer::kCorrupt);
    add_dtensor(cases, "dim_" + name, {.placements = shard(n.code) + "\x85"}, Answer::kCorrupt);
    add_dtensor(cases, "split_factor_" + name,
                {.placements = strided_shard("K\0"s, n.code) + "\x85"}, Answer::kCorrupt);
    add_dtensor(cases, "coordinate_" + name, {.coordinate = "]" + n.code + "a"}, Answer::kCorrupt);
    add_dtensor(cases, "shard_order_" + name,
                {.more = unicode("shard_order") + "K\0"s + n.code + "\x85\x86\x85"},
                Answer::kCorrupt);
  }
}

// A mesh in the form of newer releases: sizes and strides that describe a list of ranks.
std::string layout(const std::string& sizes, const std::string& strides) {
  return with_attributes(global("torch.distributed._mesh_layout", "_MeshLayout"),
                         unicode("shape") + sizes + unicode("stride") + strides);
}

void add_meshes(Cases& cases) {
  const std::string huge = int64(std::int64_t{1} << 62);
  const auto with_layout = [](const std::string& code) {
    return DTensorText{.ranks = "K\0K\1\x86"s + unicode("_layout") + code +
                                unicode("_flatten_rank_map") + "K\0K\1\x86"s};
  };
  add_dtensor(cases, "layout_that_overflows",
              with_layout(layout(huge + huge + huge + "\x87", "K\1K\1K\1\x87")), Answer::kCorrupt);
  add_dtensor(cases, "layout_of_nested_factors_that_overflows",
              with_layout(layout(huge + huge + "\x86\x85", "K\1K\1\x86\x85")), Answer::kCorrupt);
  add_dtensor(cases, "layout_with_strides_outside", with_layout(layout("K\2\x85", huge + "\x85")),
              Answer::kRead);
  add_dtensor(cases, "layout_of_texts", with_layout(layout(unicode("2") + "\x85", "K\1\x85")),
              Answer::kRead);
  add_dtensor(cases, "mesh_of_a_thousand_dimensions",
              {.mesh_shape = "(" + repeated("K\1", 1000) + "t",
               .mesh_strides = "(" + repeated("K\1", 1000) + "t"},
              Answer::kCorrupt);
}

void add_shards(Cases& cases) {
  add_dtensor(cases, "whose_shard_is_a_text", {.local = unicode("w")}, Answer::kRead);
  add_dtensor(cases, "whose_shard_is_a_dtensor", {.local = dtensor({})}, Answer::kRead);
  std::string nested = dtensor({});
  for (int i = 0; i < 400; ++i) {
    nested = with_attributes(global("torch.distributed.tensor", "DTensor"),
                             unicode("_local_tensor") + nested);
  }
  cases.push_back({"dtensor_nested", {{"", torch_file_of(pickle(nested))}}, Answer::kRead});
  add_dtensor(cases, "of_another_dtype", {.dtype = global("torch", "int64")}, Answer::kCorrupt);
  add_dtensor(cases, "whose_copy_is_smaller",
              {.mesh_shape = "K\1\x85",
               .placements = placement("Replicate") + "\x85",
               .coordinate = "]K\0a"s},
              Answer::kCorrupt);
  add_dtensor(cases, "whose_shard_is_smaller", {.mesh_shape = "K\1\x85", .coordinate = "]K\0a"s},
              Answer::kCorrupt);
  add_dtensor(cases, "whose_shard_is_outside_of_its_storage",
              {.local = tensor(float_storage() + "K\3" + kShardedRows + "K\2K\1\x86")},
              Answer::kCorrupt);
  add_dtensor(cases, "with_a_thousand_placements",
              {.placements = "(" + repeated(shard(), 1000) + "t"}, Answer::kCorrupt);
}

}  // namespace

std::vector<HostileCase> hostile_dtensors() {
  Cases cases;
  add_lying_numbers(cases);
  add_meshes(cases);
  add_shards(cases);
  return cases;
}

}  // namespace cairn::testing
