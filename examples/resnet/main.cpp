// resnet: a small ResNet on images of CIFAR's shape, trained with MixUp and SWA. Killed and started
// again, it ends with the same bits.
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "cairn/algorithms/mixup.h"
#include "cairn/algorithms/swa.h"
#include "cairn/cairn.h"
#include "cairn/exit_code.h"

namespace {

namespace nn = torch::nn;

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

// Two convolutions beside a shortcut (arXiv:1512.03385).
struct BlockImpl : nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", conv3x3(in, out, stride))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", conv3x3(out, out, 1))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {
    if (in == out && stride == 1) return;
    shortcut = register_module(
        "shortcut", nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor inner = bn2(conv2(torch::relu(bn1(conv1(x)))));
    return torch::relu(inner + (shortcut.is_empty() ? x : shortcut(x)));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d shortcut{nullptr};
};
TORCH_MODULE(Block);

nn::Sequential resnet(std::int64_t classes) {
  return nn::Sequential(conv3x3(3, 8, 1), nn::BatchNorm2d(8), nn::ReLU(), Block(8, 8, 1),
                        Block(8, 16, 2), Block(16, 32, 2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                        nn::Linear(32, classes));
}

// Images (N, 3, 32, 32) of ten classes. Each class is a pattern of colours, and each image the
// pattern with noise.
std::pair<torch::Tensor, torch::Tensor> coloured_patterns(std::int64_t samples,
                                                          std::int64_t classes) {
  const torch::Tensor patterns =
      torch::randn({classes, 3, 4, 4}).repeat_interleave(8, 2).repeat_interleave(8, 3);
  const torch::Tensor labels = torch::randint(classes, {samples}, torch::kLong);
  return {patterns.index_select(0, labels) + 2 * torch::randn({samples, 3, 32, 32}), labels};
}

}  // namespace

int main() try {
  constexpr std::int64_t kClasses = 10;
  torch::manual_seed(17);
  const auto [images, labels] = coloured_patterns(480, kClasses);
  const auto train = cairn::tensor_dataset({images.slice(0, 0, 320), labels.slice(0, 0, 320)});
  const auto test = cairn::tensor_dataset({images.slice(0, 320), labels.slice(0, 320)});
  nn::Sequential net = resnet(kClasses);

  cairn::Trainer trainer(cairn::TrainerOptions{
      .model = cairn::classifier(net, {.num_classes = kClasses}),
      .train_dataloader = cairn::DataLoader(train, {.batch_size = 32, .shuffle = true}),
      .max_duration = "5ep",
      .algorithms = {cairn::MixUp({.alpha = 0.2}),
                     cairn::SWA({.swa_start = "1ep", .swa_end = "4ep"})},
      .optimizers = cairn::DecoupledSGDW({.lr = 0.05, .momentum = 0.9}),
      .schedulers = cairn::CosineAnnealingScheduler(),
      .eval_dataloader = cairn::DataLoader(test, {.batch_size = 80}),
      .run_name = "resnet",
      .progress_bar = false,
      .save_folder = "ckpt/{run_name}",
      .save_interval = "4ba",
      .autoresume = true,
      .seed = 17,
  });
  const cairn::FitResult result = trainer.fit();
  std::printf("test accuracy %.3f\n",
              trainer.state().metric_value("eval", "MulticlassAccuracy").value_or(0));
  cairn::save(cairn::state_dict(*net), "weights.pt");
  return result.exit_code;
} catch (const std::exception& e) {
  std::fprintf(stderr, "resnet: %s\n", e.what());
  return cairn::exit_code_of(e);
}
