// Compares batches per second of the Trainer with a hand-written libtorch loop of the same work.
// Both take turns, block by block, so that other work on the machine affects both. The results are
// medians.
//
//   train_bench MODEL OPTIMIZER [blocks] [cpu | gpu] [workers] [loggers]
//     MODEL: perceptron, layers, transformer, deep_transformer or convolutions
//     OPTIMIZER: adamw or sgd
//     loggers: also a Trainer with progress bar, SpeedMonitor and FileLogger
//   train_bench optimizer [blocks] [cpu | gpu]    AdamW's step alone: 10 million numbers in 150
//                                                 tensors
//
// With libcuda_calls.so loaded (cuda_calls.cpp), a GPU's kernels and the host's waits are counted.
//
// bench/train_bench.py runs this in turns with the same loop in Python.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "cairn/callbacks/speed_monitor.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "cuda_calls.h"
#include "models.h"

namespace {

using Clock = std::chrono::steady_clock;

using cairn::bench::make_task;
using cairn::bench::Net;
using cairn::bench::NetModel;
using cairn::bench::Task;

constexpr double kLr = 1e-3;
constexpr double kMomentum = 0.9;

std::shared_ptr<torch::optim::Optimizer> libtorchs(const std::string& name,
                                                   std::vector<at::Tensor> parameters) {
  if (name == "adamw") {
    return std::make_shared<torch::optim::AdamW>(std::move(parameters),
                                                 torch::optim::AdamWOptions(kLr));
  }
  return std::make_shared<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(kLr).momentum(kMomentum));
}

struct Setting {
  std::string model;
  std::string optimizer;
  at::Device device;
  int workers;
};

class HandWritten {
 public:
  HandWritten(const Task& task, const Setting& setting)
      : task_(task), device_(setting.device), net_(task.make()) {
    net_->to(device_);
    optimizer_ = libtorchs(setting.optimizer, net_->parameters());
  }

  void train() {
    const std::int64_t samples = task_.x.size(0);
    for (std::int64_t i = 0; i < task_.batches; ++i) {
      const std::int64_t begin = next_ * task_.batch_size % samples;
      if (begin == 0) order_ = torch::randperm(samples, torch::kLong);
      ++next_;
      const at::Tensor rows = order_.narrow(0, begin, task_.batch_size);
      optimizer_->zero_grad();
      const at::Tensor outputs = net_->forward(task_.x.index_select(0, rows).to(device_));
      cairn::bench::loss_of(outputs, task_.y.index_select(0, rows).to(device_)).backward();
      optimizer_->step();
    }
  }

 private:
  const Task& task_;
  at::Device device_;
  std::shared_ptr<Net> net_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  at::Tensor order_;
  std::int64_t next_ = 0;
};

class WithTrainer {
 public:
  WithTrainer(const Task& task, const Setting& setting, bool has_loggers)
      : batches_(task.batches), trainer_(options(task, setting, has_loggers)) {}

  void train() { trainer_.fit({.duration = cairn::Time::batches(batches_)}); }

 private:
  static cairn::TrainerOptions options(const Task& task, const Setting& setting, bool has_loggers) {
    cairn::TrainerOptions made{
        .model = std::make_shared<NetModel>(task.make()),
        .train_dataloader = cairn::DataLoader(
            cairn::tensor_dataset({task.x, task.y}),
            {.batch_size = task.batch_size, .shuffle = true, .num_workers = setting.workers}),
        .run_name = "bench",
        .progress_bar = has_loggers,
        .device = setting.device.is_cpu() ? "cpu" : "gpu",
        .precision = "fp32"};
    if (setting.optimizer == "adamw") {
      made.optimizers = cairn::AdamW({.lr = kLr});
    } else {
      made.optimizers = cairn::SGD({.lr = kLr, .momentum = kMomentum});
    }
    if (has_loggers) {
      made.callbacks = {cairn::SpeedMonitor()};
      made.loggers = {cairn::FileLogger({.filename = "/dev/null"})};
    }
    return made;
  }

  std::int64_t batches_;
  cairn::Trainer trainer_;
};

double seconds_of(auto work, at::Device device) {
  const Clock::time_point start = Clock::now();
  work();
  if (device.is_cuda()) torch::cuda::synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Prints how many kernels `work` starts, and how often it waits, each divided by `times`.
void print_calls(const char* name, std::int64_t times, auto work) {
  using cairn::bench::cuda_calls;
  const cairn::bench::CudaCalls before = cuda_calls();
  if (before.kernels == 0) return;
  work();
  const cairn::bench::CudaCalls after = cuda_calls();
  const auto each = [times](unsigned long count) {
    return static_cast<double>(count) / static_cast<double>(times);
  };
  std::printf("  %s: %.1f kernels, %.2f waits\n", name, each(after.kernels - before.kernels),
              each(after.waits - before.waits));
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void compare(const Setting& setting, int blocks, bool has_loggers) {
  const Task task = make_task(setting.model);
  HandWritten by_hand(task, setting);
  WithTrainer trainer(task, setting, /*has_loggers=*/false);
  std::unique_ptr<WithTrainer> logged;
  if (has_loggers) logged = std::make_unique<WithTrainer>(task, setting, /*has_loggers=*/true);
  by_hand.train();  // warm up
  trainer.train();
  if (logged) logged->train();
  std::vector<double> ratios;
  std::vector<double> rates;
  std::vector<double> logged_ratios;
  for (int i = 0; i < blocks; ++i) {
    const double hand = seconds_of([&] { by_hand.train(); }, setting.device);
    const double with = seconds_of([&] { trainer.train(); }, setting.device);
    ratios.push_back(hand / with);
    rates.push_back(static_cast<double>(task.batches) / with);
    if (logged)
      logged_ratios.push_back(with / seconds_of([&] { logged->train(); }, setting.device));
  }
  std::printf("%s %s: Trainer %.1f batches/s; of the hand-written loop's speed: %.3f",
              setting.model.c_str(), setting.optimizer.c_str(), median(rates), median(ratios));
  if (logged) std::printf("; with loggers / without: %.3f", median(logged_ratios));
  std::printf("\n");
  print_calls("a batch by hand", task.batches, [&] { by_hand.train(); });
  print_calls("a batch of the Trainer", task.batches, [&] { trainer.train(); });
  if (logged) print_calls("... with loggers", task.batches, [&] { logged->train(); });
}

// 150 parameters of two sizes, 10 million numbers together, with gradients.
std::vector<at::Tensor> many_parameters(at::Device device) {
  std::vector<at::Tensor> made;
  for (int i = 0; i < 150; ++i) {
    made.push_back(torch::randn({i % 2 == 0 ? 130'000 : 3'333}, device).set_requires_grad(true));
    made.back().mutable_grad() = torch::randn_like(made.back());
  }
  return made;
}

void compare_optimizers(int blocks, at::Device device) {
  const auto ours = cairn::AdamW({.lr = kLr}).create(many_parameters(device));
  const auto theirs = libtorchs("adamw", many_parameters(device));
  // A step reads parameter, gradient and two states, and writes three of them; a copy reads and
  // writes each byte.
  const std::int64_t numbers = 75 * (130'000 + 3'333);
  const at::Tensor from = at::ones({numbers * 7 / 2}, device);
  const at::Tensor to = at::empty_like(from);
  const auto copy = [&] {
    if (device.is_cpu()) {
      std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
    } else {
      to.copy_(from);
    }
  };
  copy();
  ours->step();
  theirs->step();
  std::vector<double> of_theirs;
  std::vector<double> of_copy;
  for (int i = 0; i < blocks; ++i) {
    const double copying = seconds_of(copy, device);
    const double other = seconds_of([&] { theirs->step(); }, device);
    const double own = seconds_of([&] { ours->step(); }, device);
    of_theirs.push_back(own / other);
    of_copy.push_back(own / copying);
  }
  std::printf("AdamW's step: %.3f of torch::optim's time, %.2f of a copy's\n", median(of_theirs),
              median(of_copy));
  print_calls("torch::optim's step", 1, [&] { theirs->step(); });
  print_calls("cairn's step", 1, [&] { ours->step(); });
}

}  // namespace

int main(int argc, char** argv) try {
  const auto device_of = [](const std::string& name) {
    return at::Device(name == "gpu" ? at::kCUDA : at::kCPU);
  };
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (argument(1, "") == "optimizer") {
    compare_optimizers(std::stoi(argument(2, "9")), device_of(argument(3, "cpu")));
    return 0;
  }
  compare({.model = argument(1, "perceptron"),
           .optimizer = argument(2, "adamw"),
           .device = device_of(argument(4, "cpu")),
           .workers = std::stoi(argument(5, "0"))},
          std::stoi(argument(3, "9")), argument(6, "") == "loggers");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_bench: %s\n", error.what());
  return 2;
}
