// A rank that trains a loop of its own with cairn::Checkpoints: FOLDER STEPS [the step that kills
// it].
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cairn/checkpoints.h"
#include "cairn/dist/dist.h"
#include "cairn/exit_code.h"

int main(int argc, char** argv) try {
  if (argc < 3) return cairn::kFailed;
  const std::int64_t steps = std::atoll(argv[2]);
  const std::int64_t killed = argc > 3 ? std::atoll(argv[3]) : -1;
  cairn::dist::initialize();
  torch::manual_seed(3);
  torch::nn::Linear net(4, 2);
  torch::optim::Adam optimizer(net->parameters(), 1e-2);
  torch::manual_seed(static_cast<std::uint64_t>(100 + cairn::dist::rank()));
  std::int64_t step = 0;
  cairn::Checkpoints ck({.folder = argv[1], .save_interval = "2ba"});
  ck.add("net", net).add("optimizer", optimizer, net).add("step", step);
  const bool has_resumed = ck.resume();
  const std::int64_t first = step;
  while (step < steps && !ck.stops()) {
    optimizer.zero_grad();
    net->forward(torch::randn({8, 4})).square().mean().backward();
    for (torch::Tensor& parameter : net->parameters()) {
      cairn::dist::all_reduce(parameter.mutable_grad());
      parameter.mutable_grad() /= cairn::dist::world_size();
    }
    optimizer.step();
    if (++step == killed) _exit(1);
    if (ck.due()) ck.save(step);
  }
  const int code = ck.finish();
  std::printf("resumed %d from %lld\n", has_resumed ? 1 : 0, static_cast<long long>(first));
  std::printf("weights %a\n", net->weight.sum().item<double>());
  std::printf("random %a\n", torch::rand({1}).item<double>());
  cairn::dist::barrier();
  return code;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return cairn::exit_code_of(e);
}
