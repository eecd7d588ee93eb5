// Writes the checkpoint that the ranks of a small model write together: sharded_files FOLDER RANKS
//
// Element number i of each tensor is i + its salt (sharded_test.py has the same list). The weights
// are cut by rows, as FSDP2 has them; "mesh" is cut by rows and columns; the rest is whole on every
// rank.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "testing/sharded_folder.h"

namespace cairn {
namespace {

using Shape = std::vector<std::int64_t>;

TensorView floats(const Shape& shape, const dcp::Box& box, std::int32_t salt) {
  const std::vector<std::int32_t> numbers = testing::box_of_numbers(shape, box, salt);
  const auto values = std::make_shared<const std::vector<float>>(numbers.begin(), numbers.end());
  TensorView part =
      make_tensor(DType::kFloat32, box.sizes, {std::as_bytes(std::span(*values)), values});
  part.part = std::make_shared<const TensorPart>(TensorPart{shape, box.offsets});
  return part;
}

dcp::Box rows_of(const Shape& shape, std::int64_t rank, std::int64_t ranks) {
  dcp::Box box{.offsets = Shape(shape.size(), 0), .sizes = shape};
  if (shape.empty()) return box;
  std::tie(box.offsets[0], box.sizes[0]) = testing::slice_of(shape[0], rank, ranks);
  return box;
}

Value tree_of(std::int64_t rank, std::int64_t ranks) {
  const auto rows = [&](const Shape& shape, std::int32_t salt) {
    return floats(shape, rows_of(shape, rank, ranks), salt);
  };
  const Dict model = {{"0.weight", rows({13, 7}, 100)},
                      {"0.bias", rows({13}, 200)},
                      {"2.weight", rows({1, 13}, 300)},
                      {"2.bias", rows({1}, 400)},
                      {"count", floats({}, {}, 500)}};
  const Dict moments = {{"step", floats({}, {}, 3)},
                        {"exp_avg", rows({13, 7}, 600)},
                        {"exp_avg_sq", rows({13, 7}, 700)}};
  const Dict optimizer = {{"state", Dict{{"0.weight", moments}}},
                          {"param_groups", List{Dict{{"lr", 0.5}, {"params", List{"0.weight"}}}}}};
  dcp::Box mesh = rows_of({8, 6}, rank / 2, (ranks + 1) / 2);
  if (ranks % 2 == 0) {
    mesh.offsets[1] = 3 * (rank % 2);
    mesh.sizes[1] = 3;
  } else {
    mesh = rows_of({8, 6}, rank, ranks);
  }
  return Dict{{"state", Dict{{"model", model},
                             {"optimizers", Dict{{"AdamW", optimizer}}},
                             {"mesh", floats({8, 6}, mesh, 800)},
                             {"run_name", "sharded"},
                             {"timestamp", Dict{{"Timestamp", Dict{{"batch", 3}}}}}}}};
}

void write(const std::string& folder, std::uint32_t ranks) {
  std::vector<sharded::RankState> states;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    states.emplace_back(sharded::RankPlace{.rank = rank, .world_size = ranks},
                        tree_of(rank, ranks));
    states.back().add_own("rng", Dict{{"torch", floats({4}, {{0}, {4}}, 1000 * (1 + rank))},
                                      {"python", static_cast<int>(rank)}});
  }
  testing::write_ranks(*local_store(), folder, states);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "sharded_files FOLDER RANKS\n";
    return 2;
  }
  cairn::write(argv[1], static_cast<std::uint32_t>(std::atoi(argv[2])));
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
