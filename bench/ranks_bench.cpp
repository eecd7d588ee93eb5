// Measures what averaging gradients over ranks adds to a step, and how much of it backward() hides.
//
//   cairn-run -n 2 ranks_bench [blocks] [steps per block] [layers] [MiB a bucket] [samples]
//
// An MLP of 24 layers of 1024 has 96 MiB of gradients, in several buckets of 25 MiB: a single
// bucket could not be hidden. 64 samples per rank, SGD, one thread per rank. Four kinds of steps
// take turns, block by block, so that other work on the machine affects all of them:
//   one      rank 0 trains, the others wait
//   apart    all train, each by itself: the cost of sharing the machine
//   behind   all average after backward() has ended (ddp_sync_strategy "forced_sync")
//   beside   all average buckets while backward() computes the next ones ("single_auto_sync")
// Averaging adds the time (behind - apart); backward() hides (behind - beside) of it.
//
//   cairn-run -n 2 ranks_bench trainer [blocks] [batches per block]
//
// measures what a Trainer's batch costs besides computation: one layer with 1 MiB of gradients. Run
// it with -n 1, too. The time beyond one process's, less that of one sum of 1 MiB, is that of the
// small messages between the ranks.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "dist/sharding/gradient_sync.h"

namespace {

using Clock = std::chrono::steady_clock;
using cairn::dist::GradientSync;

constexpr std::int64_t kWidth = 1024;

struct Sizes {
  int layers = 24;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  std::int64_t samples = 64;
};

enum class Averaging { kNone, kBehind, kBeside };

class Training {
 public:
  Training(cairn::dist::Group& group, const Sizes& sizes) {
    torch::manual_seed(1);
    for (int i = 0; i < sizes.layers; ++i) {
      net_->push_back(torch::nn::Linear(kWidth, kWidth));
      net_->push_back(torch::nn::ReLU());
    }
    optimizer_ = std::make_unique<torch::optim::SGD>(net_->parameters(), 1e-3);
    sync_ = std::make_unique<GradientSync>(
        group, net_->parameters(),
        cairn::dist::GradientSyncOptions{.bucket_bytes = sizes.bucket_bytes});
    x_ = torch::randn({sizes.samples, kWidth});
  }

  void step(Averaging averaging) {
    optimizer_->zero_grad();
    const at::Tensor loss = net_->forward(x_).square().mean();
    if (averaging == Averaging::kBeside) sync_->expect();
    loss.backward();
    if (averaging != Averaging::kNone) sync_->finish("averaging");
    optimizer_->step();
  }

 private:
  torch::nn::Sequential net_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::unique_ptr<GradientSync> sync_;
  at::Tensor x_;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Milliseconds per step on the slowest rank.
double time_of(Training& training, Averaging averaging, int steps, bool is_alone) {
  cairn::dist::barrier();
  const auto begin = Clock::now();
  if (!is_alone || cairn::dist::rank() == 0) {
    for (int i = 0; i < steps; ++i)
      training.step(averaging);
  }
  const double own = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  at::Tensor slowest = at::full({1}, own / steps, at::kDouble);
  cairn::dist::all_reduce(slowest, cairn::dist::ReduceOp::kMax);
  return slowest.item<double>();
}

void measure(int blocks, int steps, const Sizes& sizes) {
  Training training(*cairn::dist::required_group(), sizes);
  struct Kind {
    const char* name;
    Averaging averaging;
    bool is_alone;
    std::vector<double> times = {};
  };
  std::vector<Kind> kinds = {{"one", Averaging::kNone, true},
                             {"apart", Averaging::kNone, false},
                             {"behind", Averaging::kBehind, false},
                             {"beside", Averaging::kBeside, false}};
  for (int block = -1; block < blocks; ++block) {  // the first block warms up
    for (Kind& kind : kinds) {
      const double time = time_of(training, kind.averaging, steps, kind.is_alone);
      if (block >= 0) kind.times.push_back(time);
    }
  }
  if (cairn::dist::rank() != 0) return;
  for (const Kind& kind : kinds)
    std::printf("%-7s %8.1f ms a step\n", kind.name, median(kind.times));
  std::vector<double> hidden;
  std::vector<double> efficiency;
  for (std::size_t i = 0; i < kinds[0].times.size(); ++i) {
    const double added = kinds[2].times[i] - kinds[1].times[i];
    hidden.push_back((kinds[2].times[i] - kinds[3].times[i]) / added);
    efficiency.push_back(kinds[0].times[i] / kinds[3].times[i]);
  }
  std::printf("hidden %.2f of the averaging; one process's speed %.2f a process\n", median(hidden),
              median(efficiency));
}

void print_times(const char* what, std::vector<double> times) {
  if (cairn::dist::rank() != 0) return;
  std::printf("%-12s %8.3f ms (median), %8.3f ms (least)\n", what, median(times),
              *std::ranges::min_element(times));
}

void measure_trainer(int blocks, int batches) {
  constexpr std::int64_t kRows = 512;
  const auto data =
      cairn::tensor_dataset({torch::rand({4096, kRows}), torch::zeros({4096}, torch::kLong)});
  cairn::Trainer trainer(cairn::TrainerOptions{
      .model =
          cairn::classifier(torch::nn::Linear(torch::nn::LinearOptions(kRows, kRows).bias(false)),
                            {.num_classes = kRows,
                             .train_metrics = cairn::HandleList<cairn::Metric>(),
                             .val_metrics = cairn::HandleList<cairn::Metric>()}),
      .train_dataloader = cairn::DataLoader(
          data, {.batch_size = 4, .sampler = cairn::DistributedSamplerOptions{.shuffle = false}}),
      .optimizers = cairn::SGD({.lr = 1e-3}),
      .progress_bar = false});
  std::vector<double> of_batches;
  std::vector<double> of_sums;
  at::Tensor gradients = torch::zeros({kRows, kRows});
  for (int block = -1; block < blocks; ++block) {  // the first block warms up
    auto begin = Clock::now();
    const auto per_batch = [&] {
      return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / batches;
    };
    trainer.fit({.duration = cairn::Time::batches(batches)});
    if (block >= 0) of_batches.push_back(per_batch());
    begin = Clock::now();
    for (int i = 0; i < batches; ++i)
      cairn::dist::all_reduce(gradients);
    if (block >= 0) of_sums.push_back(per_batch());
  }
  print_times("a batch", of_batches);
  print_times("sum of 1 MiB", of_sums);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    torch::set_num_threads(1);
    cairn::dist::initialize();
    if (argc > 1 && std::string(argv[1]) == "trainer") {
      measure_trainer(argc > 2 ? std::atoi(argv[2]) : 20, argc > 3 ? std::atoi(argv[3]) : 200);
      cairn::dist::shutdown();
      return 0;
    }
    if (cairn::dist::world_size() == 1) {
      throw cairn::UsageError("start several of it: cairn-run -n 2 ranks_bench");
    }
    const auto number = [&](int i, int otherwise) {
      return argc > i ? std::atoi(argv[i]) : otherwise;
    };
    measure(number(1, 15), number(2, 5),
            {.layers = number(3, 24),
             .bucket_bytes = std::int64_t{number(4, 25)} << 20,
             .samples = number(5, 64)});
    cairn::dist::shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks_bench: %s\n", error.what());
    return 1;
  }
}
