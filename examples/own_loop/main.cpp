#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "cairn/cairn.h"
#include "cairn/exit_code.h"

int main() try {
  torch::manual_seed(17);
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::ReLU(), torch::nn::Linear(32, 2));
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  std::int64_t step = 0;

  // The newest checkpoint that is whole, or none.
  if (const auto found = cairn::find_latest("ckpt", {.filename = "step{batch}.pt"})) {
    const cairn::Value state = cairn::load(found->checkpoint);
    cairn::load_state_dict(*net, state.at("model"));
    cairn::load_optimizer_state_dict(optimizer, *net, state.at("optimizer"));
    cairn::restore_rng_states(state.at("rng"));
    step = state.at("step").as_int();
    std::printf("going on from %s\n", found->path.c_str());
  }

  while (step < 200) {
    const torch::Tensor x = torch::rand({50, 2});
    const torch::Tensor y = (x.sum(1) > 1).to(torch::kInt64);  // above or below the diagonal
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(x), y).backward();
    optimizer.step();
    if (++step % 50 != 0) continue;
    const cairn::Dict state = {{"model", cairn::state_dict(*net)},
                               {"optimizer", cairn::optimizer_state_dict(optimizer, *net)},
                               {"rng", cairn::rng_states()},
                               {"step", step}};
    cairn::save(state, "ckpt/step" + std::to_string(step) + ".pt",
                {.info = {.timestamp = cairn::Timestamp{.batch = step}}});
  }
  return cairn::kDone;
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_loop: %s\n", e.what());
  return cairn::exit_code_of(e);
}
