#include <torch/torch.h>

#include <cstdint>
#include <cstdio>

#include "cairn/checkpoints.h"
#include "cairn/exit_code.h"

int main() try {
  namespace nn = torch::nn;
  torch::manual_seed(17);
  nn::Sequential generator(nn::Linear(4, 32), nn::ReLU(), nn::Linear(32, 2));
  nn::Sequential critic(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 1));
  torch::optim::Adam of_generator(generator->parameters(), 1e-3);
  torch::optim::Adam of_critic(critic->parameters(), 1e-3);
  double mean_loss = 0;
  std::int64_t step = 0;

  cairn::Checkpoints ck({.folder = "ckpt/gan", .keep = 3, .save_interval = "100ba"});
  ck.add("generator", generator).add("critic", critic);
  ck.add("opt_g", of_generator, generator).add("opt_c", of_critic, critic);
  ck.add("mean_loss", mean_loss).add("step", step);
  ck.resume();

  while (step < 1000 && !ck.stops()) {
    const torch::Tensor real = torch::randn({16, 2}) * 0.1 + 1;
    const torch::Tensor fake = generator->forward(torch::randn({16, 4}));
    of_critic.zero_grad();
    const torch::Tensor loss = critic->forward(fake.detach()).mean() - critic->forward(real).mean();
    loss.backward();
    of_critic.step();
    of_generator.zero_grad();
    (-critic->forward(fake).mean()).backward();
    of_generator.step();
    mean_loss = 0.99 * mean_loss + 0.01 * loss.item<double>();
    ++step;
    if (ck.due()) ck.save(step);
  }
  const int code = ck.finish();
  std::printf("mean loss %.6f\n", mean_loss);
  return code;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gan: %s\n", e.what());
  return cairn::exit_code_of(e);
}
