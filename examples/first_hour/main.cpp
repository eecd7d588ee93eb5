#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "cairn/cairn.h"

int main(int argc, char** argv) try {
  const int width = argc > 1 ? std::atoi(argv[1]) : 256;
  torch::manual_seed(17);
  torch::Tensor x = torch::rand({102000, 2}) * 2 - 1;
  torch::Tensor y = (x.square().sum(1) < 0.6).to(torch::kInt64);  // inside a circle, or outside
  auto train = cairn::tensor_dataset({x.slice(0, 0, 100000), y.slice(0, 0, 100000)});
  auto test = cairn::tensor_dataset({x.slice(0, 100000), y.slice(0, 100000)});
  torch::nn::Sequential net(torch::nn::Linear(2, width), torch::nn::ReLU(),
                            torch::nn::Linear(width, width), torch::nn::ReLU(),
                            torch::nn::Linear(width, 2));

  cairn::Trainer trainer(cairn::TrainerOptions{
      .model = cairn::classifier(net, {.num_classes = 2}),
      .train_dataloader = cairn::DataLoader(train, {.batch_size = 500, .shuffle = true}),
      .max_duration = "10ep",
      .optimizers = cairn::AdamW({.lr = 1e-3}),
      .schedulers = cairn::CosineAnnealingScheduler(),
      .eval_dataloader = cairn::DataLoader(test, {.batch_size = 500}),
      .run_name = "circle",
      .save_folder = "ckpt/{run_name}",
      .save_num_checkpoints_to_keep = 3,
      .autoresume = true,
      .seed = 17,
  });
  const cairn::FitResult result = trainer.fit();
  cairn::save(cairn::state_dict(*net), "weights.pt");  // the weights alone
  return result.exit_code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "circle: %s\n", error.what());
  return cairn::exit_code_of(error);
}
