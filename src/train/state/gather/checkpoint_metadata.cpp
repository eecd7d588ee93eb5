#include "train/state/gather/checkpoint_metadata.h"

#include <sys/utsname.h>
#include <torch/torch.h>

#include <string>
#include <thread>

#include "cairn/dist/dist.h"
#include "cairn/train/state.h"

#include "checkpoint/open/run_options.h"
#include "core/text/writer.h"
#include "dist/group.h"
#include "train/state/checkpoint_form.h"

namespace cairn {
namespace {

std::string machine() {
  utsname names = {};
  return uname(&names) == 0 ? names.machine : "unknown";
}

Value environment() {
  const auto devices = static_cast<std::int64_t>(torch::cuda::device_count());
  return Dict{{"composer_version", kWriter},  // "cairn 0.1.0"
              {"composer_commit_hash", None{}},
              {"cpu_model", machine()},
              {"cpu_count", std::thread::hardware_concurrency()},
              {"num_nodes", dist::count_machines()},
              {"gpu_model", devices > 0 ? "CUDA" : "N/A"},
              {"num_gpus_per_node", devices},
              {"num_gpus", dist::world_size()},  // Composer's name for the number of processes.
              {"cuda_device_count", devices}};
}

// The options, with those that may have changed since the Trainer was made: a run that resumed has
// the seed of its checkpoint.
Dict options_now(const State& state) {
  Dict options = State::CheckpointForm::of(state).options;
  options.set("seed", std::to_string(state.rank_zero_seed));
  const DataSpec& spec = state.train_dataloader;
  if (const auto size = spec ? spec.dataloader->batch_size() : std::nullopt)
    options.set("train_dataloader: batch_size", std::to_string(*size));
  return options;
}

}  // namespace

std::optional<std::int64_t> microbatch_size(const State& state) {
  if (state.device_train_microbatch_size) return state.device_train_microbatch_size;
  const DataSpec& spec = state.train_dataloader;
  return spec ? spec.dataloader->batch_size() : std::nullopt;
}

Value checkpoint_metadata(const State& state) {
  Dict metadata = {{"composer_env_info", environment()},
                   {"torch_version", TORCH_VERSION},
                   {"device", state.device},
                   {"precision", state.precision},
                   {"world_size", dist::world_size()},
                   {"device_train_microbatch_size", None{}}};
  if (const auto size = microbatch_size(state)) metadata["device_train_microbatch_size"] = *size;
  if (state.train_dataloader) {
    if (const auto batch_size = state.train_dataloader.dataloader->batch_size()) {
      metadata.set("train_dataloader_batch_size", *batch_size);
    }
  }
  if (!State::CheckpointForm::of(state).options.empty())
    metadata.set(kRunOptions, options_now(state));
  return metadata;
}

}  // namespace cairn
