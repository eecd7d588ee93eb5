#include <torch/torch.h>

#include "cairn/cairn.h"

int main() {
  torch::manual_seed(17);
  torch::Tensor x = torch::rand({1000, 2});
  torch::Tensor y = (x.sum(1) > 1).to(torch::kInt64);  // above or below the diagonal
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::ReLU(), torch::nn::Linear(32, 2));

  cairn::Trainer trainer(cairn::TrainerOptions{
      .model = cairn::classifier(net, {.num_classes = 2}),
      .train_dataloader =
          cairn::DataLoader(cairn::tensor_dataset({x, y}), {.batch_size = 50, .shuffle = true}),
      .max_duration = "20ep",
      .optimizers = cairn::AdamW({.lr = 1e-2}),
      .schedulers = cairn::CosineAnnealingScheduler(),
      .loggers = cairn::FileLogger({.filename = "ckpt/{run_name}/log.jsonl"}),
      .run_name = "diagonal",
      .save_folder = "ckpt/{run_name}",
      .save_interval = "30ba",
      .autoresume = true,
      .seed = 17,
  });
  const cairn::FitResult result = trainer.fit();
  cairn::save(cairn::state_dict(*net), "weights.pt");  // the weights alone
  return result.exit_code;
}
