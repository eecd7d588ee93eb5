// Measures how long all ranks together take to save the state of a sharded model:
//
//   cairn-run -n 2 ranks_save_bench FOLDER [MiB] [rounds] [tensors]     (and alone: one process)
//
// Weights are square matrices (of 16 MiB by default), cut by rows over the ranks. The kinds of
// saves take turns, each time under a new name:
//   sharded  a folder that all ranks write, each rank its part
//   full     one file that rank 0 writes, with the other ranks' parts gathered in batches
// The time is that of the slowest rank, from a barrier on. The memory is the largest growth of a
// rank's resident set, compared with before the save.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "train/state/checkpoint_form.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Sizes {
  std::int64_t mib = 1024;
  int rounds = 5;
  std::int64_t tensors = 64;
};

bool is_of_several() { return cairn::dist::is_initialized() && cairn::dist::world_size() > 1; }

// A line of /proc/self/status, in MiB.
double memory_of(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    if (name != what + ":") continue;
    double kib = 0;
    status >> kib;
    return kib / 1024;
  }
  return 0;
}

double largest_of_ranks(double own) {
  if (!is_of_several()) return own;
  at::Tensor most = at::full({1}, own, at::kDouble);
  cairn::dist::all_reduce(most, cairn::dist::ReduceOp::kMax);
  return most.item<double>();
}

struct Kind {
  const char* name;
  const char* prefix;  // FSDPConfig::sharded_ckpt_prefix_dir
  std::vector<double> seconds = {};
  std::vector<double> first = {};   // MiB, of rank 0
  std::vector<double> others = {};  // the largest of the other ranks
};

void save_once(cairn::State& state, const std::string& folder, Kind& kind) {
  cairn::State::CheckpointForm::of(state).sharded_ckpt_prefix_dir = kind.prefix;
  std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
  const double before = memory_of("VmRSS");
  if (is_of_several()) cairn::dist::barrier();
  const auto begin = Clock::now();
  const std::string path =
      cairn::save_checkpoint(state, folder + "/file.pt", {.weights_only = true});
  const std::chrono::duration<double> time = Clock::now() - begin;
  const double grown = memory_of("VmHWM") - before;
  const bool is_first = !is_of_several() || cairn::dist::rank() == 0;
  const double others = largest_of_ranks(is_first ? 0 : grown);
  kind.seconds.push_back(largest_of_ranks(time.count()));
  kind.first.push_back(grown);
  kind.others.push_back(others);
  if (is_of_several()) cairn::dist::barrier();
  if (is_first) std::filesystem::remove_all(path);
  if (is_of_several()) cairn::dist::barrier();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const std::string& folder, const Sizes& sizes) {
  const double floats = static_cast<double>(sizes.mib << 20) / sizeof(float);
  const std::int64_t width = std::lround(std::sqrt(floats / static_cast<double>(sizes.tensors)));
  torch::nn::Sequential net;
  for (std::int64_t i = 0; i < sizes.tensors; ++i)
    net->push_back(torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)));
  cairn::State state;
  state.run_name = "bench";
  state.model = cairn::classifier(net, {.num_classes = width});
  if (is_of_several()) {
    const std::shared_ptr<torch::nn::Module> module(state.model, &state.model->module());
    state.sharding = cairn::fully_shard(module);
  }
  std::vector<Kind> kinds = {{"sharded", "folder"}, {"full", ""}};
  for (int round = -1; round < sizes.rounds; ++round) {  // the first round warms up
    for (Kind& kind : kinds) {
      save_once(state, folder, kind);
      if (round < 0) kind = Kind{kind.name, kind.prefix};
    }
  }
  if (is_of_several() && cairn::dist::rank() != 0) return;
  for (const Kind& kind : kinds) {
    std::printf("%-8s %6.2f s (%.2f to %.2f)   rank 0 +%.0f MiB, others +%.0f MiB\n", kind.name,
                median(kind.seconds), std::ranges::min(kind.seconds),
                std::ranges::max(kind.seconds), median(kind.first), median(kind.others));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw cairn::UsageError("ranks_save_bench FOLDER [MiB] [rounds] [tensors]");
    torch::set_num_threads(1);
    if (std::getenv("WORLD_SIZE") != nullptr) cairn::dist::initialize();
    const auto number = [&](int i, int otherwise) {
      return argc > i ? std::atoi(argv[i]) : otherwise;
    };
    const int mib = number(2, 1024);
    measure(argv[1], {.mib = mib, .rounds = number(3, 5), .tensors = number(4, mib / 16)});
    if (cairn::dist::is_initialized()) cairn::dist::shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks_save_bench: %s\n", error.what());
    return 1;
  }
}
