// Every collective of cairn/dist/dist.h, with the result that each rank must get.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "cairn/dist/dist.h"
#include "cairn/train/state_dict.h"

#include "arguments.h"
#include "testing/sim_device.h"

// The device of the tensors. device=sim: a simulated device, device=cuda: a GPU.
inline at::TensorOptions tensors_of(const Arguments& arguments) {
  if (!arguments.has("device")) return {};
  if (arguments.text("device") == "cuda") return at::TensorOptions(at::Device(at::kCUDA, 0));
  cairn::testing::let_sim_device_compute();
  return at::TensorOptions(cairn::testing::sim_device());
}

inline void try_collectives(const Arguments& arguments) {
  namespace dist = cairn::dist;
  initialize(arguments);
  const std::int64_t rank = dist::rank();
  const std::int64_t world = dist::world_size();
  const at::TensorOptions there = tensors_of(arguments);
  at::Tensor sum = at::full({3}, rank + 1, there.dtype(at::kLong));
  dist::all_reduce(sum);
  demand(sum[0].item<std::int64_t>() == world * (world + 1) / 2, "the sum");
  at::Tensor most = at::full({2, 2}, static_cast<double>(rank), there).t();
  dist::all_reduce(most, dist::ReduceOp::kMax);
  demand(most.eq(static_cast<double>(world - 1)).all().item<bool>(), "the maximum");
  at::Tensor flags = at::full({5}, rank == 1, there.dtype(at::kBool));
  dist::broadcast(flags, 1);
  demand(flags.all().item<bool>(), "what rank 1 sent");
  const auto all = dist::all_gather(at::full({1}, rank, there.dtype(at::kInt)));
  for (std::int64_t r = 0; r < world; ++r) {
    demand(all.at(static_cast<std::size_t>(r)).item<std::int64_t>() == r, "what was gathered");
    demand(all.at(static_cast<std::size_t>(r)).device() == sum.device(), "where it is");
  }
  const std::string long_text(static_cast<std::size_t>(1 + rank * 1000), 'x');
  const auto values = dist::all_gather_values(
      cairn::Dict{{"text", long_text}, {"tensor", cairn::view_of(at::arange(rank))}});
  for (std::int64_t r = 0; r < world; ++r) {
    const cairn::Value& value = values.at(static_cast<std::size_t>(r));
    demand(value.at("text").as_str().size() == static_cast<std::size_t>(1 + r * 1000), "a text");
    demand(cairn::tensor_of(value.at("tensor").as_tensor()).equal(at::arange(r)), "a tensor");
  }
  demand(dist::broadcast_value(cairn::List{rank, "root"}, world - 1).as_items()[0] ==
             cairn::Value(world - 1),
         "the last rank's value");
  dist::barrier();
  print_line("all of it holds");
}
