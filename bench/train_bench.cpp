// Compares batches per second of the Trainer with a hand-written libtorch loop of the same work: an
// MLP 64-128-10, batches of 32 drawn in a new random order each epoch, AdamW. Both take turns,
// block by block, so that other work on the machine affects both. The result is the median of the
// blocks' ratios.
//
//   train_bench [blocks] [batches per block] [cpu | gpu]

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "mlp.h"

namespace {

using Clock = std::chrono::steady_clock;

using cairn::bench::kBatchSize;
using cairn::bench::kSamples;
using cairn::bench::make_net;
using cairn::bench::Mlp;
using cairn::bench::Samples;

class HandWritten {
 public:
  HandWritten(const Samples& data, at::Device device) : data_(data), device_(device) {
    net_->to(device);
    optimizer_ =
        std::make_unique<torch::optim::AdamW>(net_->parameters(), torch::optim::AdamWOptions(1e-3));
  }

  void train(std::int64_t batches) {
    for (std::int64_t i = 0; i < batches; ++i) {
      const std::int64_t begin = next_ * kBatchSize % kSamples;
      if (begin == 0) order_ = torch::randperm(kSamples, torch::kLong);
      ++next_;
      const at::Tensor rows = order_.narrow(0, begin, kBatchSize);
      optimizer_->zero_grad();
      const at::Tensor outputs = net_->forward(data_.x.index_select(0, rows).to(device_));
      const at::Tensor targets = data_.y.index_select(0, rows).to(device_);
      torch::nn::functional::cross_entropy(outputs, targets).backward();
      optimizer_->step();
    }
  }

 private:
  const Samples& data_;
  at::Device device_;
  torch::nn::Sequential net_ = make_net();
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  at::Tensor order_;
  std::int64_t next_ = 0;
};

class WithTrainer {
 public:
  WithTrainer(const Samples& data, int workers, at::Device device)
      : trainer_({.model = std::make_shared<Mlp>(),
                  .train_dataloader = cairn::DataLoader(
                      cairn::tensor_dataset({data.x, data.y}),
                      {.batch_size = kBatchSize, .shuffle = true, .num_workers = workers}),
                  .optimizers = cairn::AdamW({.lr = 1e-3}),
                  .run_name = "bench",
                  .progress_bar = false,
                  .device = device.is_cpu() ? "cpu" : "gpu",
                  .precision = "fp32"}) {}

  void train(std::int64_t batches) { trainer_.fit({.duration = cairn::Time::batches(batches)}); }

 private:
  cairn::Trainer trainer_;
};

struct Cost {
  double wall = 0;
  double cpu = 0;
};

template <class Work>
Cost cost_of(Work work, at::Device device) {
  const std::clock_t cpu = std::clock();
  const Clock::time_point start = Clock::now();
  work();
  if (device.is_cuda()) torch::cuda::synchronize();
  return {std::chrono::duration<double>(Clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void compare(int workers, int blocks, std::int64_t batches, at::Device device) {
  const Samples data;
  HandWritten by_hand(data, device);
  WithTrainer trainer(data, workers, device);
  by_hand.train(batches);  // warm up
  trainer.train(batches);
  std::vector<double> wall;
  std::vector<double> cpu;
  std::vector<double> rates;
  for (int i = 0; i < blocks; ++i) {
    const Cost hand = cost_of([&] { by_hand.train(batches); }, device);
    const Cost with = cost_of([&] { trainer.train(batches); }, device);
    wall.push_back(hand.wall / with.wall);
    cpu.push_back(hand.cpu / with.cpu);
    rates.push_back(static_cast<double>(batches) / with.wall);
  }
  std::printf(
      "%d loader threads: Trainer %.0f batches/s; of the hand-written loop's speed: %.3f (by CPU "
      "seconds: %.3f)\n",
      workers, median(rates), median(wall), median(cpu));
}

}  // namespace

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? std::atoi(argv[1]) : 41;
  const std::int64_t batches = argc > 2 ? std::atoll(argv[2]) : 500;
  const bool is_on_gpu = argc > 3 && std::string(argv[3]) == "gpu";
  for (const int workers : {0, 1, 2})
    compare(workers, blocks, batches, is_on_gpu ? at::kCUDA : at::kCPU);
  return 0;
}
