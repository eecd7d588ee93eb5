// Common mistakes. The compiler's message for each line must contain the text after "says:" above
// it (expect_errors.py), which names what to write instead.
#include <torch/torch.h>

#include "cairn/cairn.h"

namespace cairn {
namespace {

struct Net : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x; }
};
struct Rows : Dataset {
  std::int64_t size() const override { return 1; }
  Batch get_batch(std::span<const std::int64_t>) const override { return {}; }
};

// clang-format off
void model(const torch::nn::Sequential& net, const Net& module, Trainer& trainer) {
  // says: for a torch::nn module classifier(net)
  TrainerOptions{.model = net};
  // says: for a torch::nn module classifier(net)
  TrainerOptions{.model = std::make_shared<Net>()};
  // says: classifier(net, {.num_classes = 10})
  classifier(net, 10);
  // says: make_shared<Net>()
  classifier(module);
  // says: make_shared<Net>()
  classifier(Net());
  // says: forward
  classifier(std::make_shared<torch::nn::Module>());
  // says: Trainer trainer(TrainerOptions{.model = ...})
  Trainer({.save_dir = "ckpt"});
  // says: fit({.duration = "1ep"})
  trainer.fit("1ep");
  // says: save_dir
  TrainerOptions{.save_dir = "ckpt"};
}

void optimizers(torch::nn::Sequential net) {
  // says: torch's by std::make_shared<...>()
  TrainerOptions{.optimizers = torch::optim::AdamW(net->parameters(), 1e-3)};
  // says: AdamW({.lr = 1e-3})
  TrainerOptions{.optimizers = torch::optim::AdamWOptions(1e-3)};
  // says: std::make_shared<...>()
  TrainerOptions{.optimizers = new torch::optim::AdamW(net->parameters())};
  // says: AdamW({.lr = 1e-3})
  TrainerOptions{.optimizers = "AdamW"};
  // says: AdamW({.lr = 1e-3})
  AdamW(1e-3);
  // says: AdamW({.lr = 1e-3})
  AdamW(net->parameters(), 1e-3);
  // says: AdamW({.lr = 1e-3})
  AdamW({.learning_rate = 1e-3});
}

void lists(torch::nn::Sequential net, torch::optim::SGD& sgd) {
  // says: cairn's classes, not torch's
  TrainerOptions{.schedulers = torch::optim::StepLR(sgd, 1)};
  // says: cairn's classes, not torch's
  TrainerOptions{.schedulers = {torch::optim::StepLR(sgd, 1)}};
  // says: EMA({.half_life = "100ba"})
  TrainerOptions{.algorithms = EMA{.half_life = "100ba"}};
  // says: by value or std::make_shared<...>()
  TrainerOptions{.algorithms = new EMA()};
  // says: cairn's classes
  TrainerOptions{.callbacks = [](State&) {}};
  // says: cairn's classes
  TrainerOptions{.loggers = "log.txt"};
  // says: EMA({.half_life = "100ba"})
  EMA("100ba");
  // says: GradientClipping({.clipping_type = "norm", ...})
  GradientClipping("norm", 1.0);
  // says: GradientClipping({.clipping_type = "norm", ...})
  GradientClipping{.clipping_type = "norm"};
  // says: EarlyStopper({.monitor = "CrossEntropy", ...})
  EarlyStopper("accuracy", "eval", 3);
  // says: CheckpointSaver({.folder = "ckpt"})
  CheckpointSaver("ckpt");
  // says: EarlyStopper({.monitor = "CrossEntropy", ...})
  EarlyStopper{.monitor = "accuracy"};
  // says: LinearWithWarmupScheduler({.t_warmup = "1ep"})
  LinearWithWarmupScheduler("1ep");
  // says: CosineAnnealingScheduler({.t_max = "20ep"})
  CosineAnnealingScheduler("10ep");
  // says: StepLR({.step_size = 10})
  StepLR(10);
  // says: FileLogger({.filename = "log"})
  FileLogger("log.txt");
  // says: Accuracy({.num_classes = 10})
  Accuracy(10);
}

void data(at::Tensor x, at::Tensor y, const std::shared_ptr<Dataset>& rows,
          std::unique_ptr<Net> torch_loader) {
  // says: torch's: from_torch_data(*it)
  TrainerOptions{.train_dataloader = std::move(torch_loader)};
  // says: DataLoader(dataset, {...})
  TrainerOptions{.train_dataloader = rows};
  // says: DataLoader(dataset, {...})
  TrainerOptions{.train_dataloader = x};
  // says: eval_dataloader: DataLoader(dataset, {...})
  TrainerOptions{.eval_dataloader = rows};
  // says: eval_dataloader: DataLoader(dataset, {...})
  TrainerOptions{.eval_dataloader = std::make_unique<Net>()};
  // says: {.batch_size = 32}
  DataLoader(rows, 32);
  // says: tensor_dataset()
  DataLoader(x, {.batch_size = 32});
  // says: make_shared<Mine>()
  DataLoader(Rows(), {.batch_size = 32});
  // says: tensor_dataset({x, y})
  tensor_dataset(x, y);
}

void files(at::Tensor x, const torch::nn::Linear& net, const torch::optim::Adam& adam) {
  // says: view_of(tensor)
  Dict{{"w", x}};
  // says: view_of(tensor)
  Dict{{"step", 1}, {"w", x}};
  // says: state_dict(*net)
  Dict{{"net", net}};
  // says: optimizer_state_dict(optimizer, *net)
  Dict{{"w", net->weight}, {"o", adam}};
}

}  // namespace
}  // namespace cairn
