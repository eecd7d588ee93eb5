#include "train/loop/microbatches.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/microbatch_size.h"
#include "cairn/train/parameters.h"
#include "cairn/train/rng.h"

#include "train/data/data_spec.h"
#include "train/loop/failure.h"
#include "train/loop/train_batch.h"

namespace cairn {
namespace {

using Weight = std::function<double(const Batch& part)>;

// The share of each part in the total weight. Empty if the total is 0.
std::vector<double> shares_by(const std::vector<Batch>& parts, const Weight& weight) {
  std::vector<double> shares;
  for (const Batch& part : parts) {
    shares.push_back(weight(part));
  }
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (all == 0) return {};
  for (double& share : shares) {
    share /= all;
  }
  return shares;
}

// If all parts weigh nothing, a part's share is its share of the samples, as if the batch were one
// part.
std::vector<double> shares_of(const std::vector<Batch>& parts, const DataSpec& spec,
                              const MicrobatchWork& work) {
  if (!work.weight) return std::vector<double>(parts.size(), 1.0);
  std::vector<double> shares = shares_by(parts, work.weight);
  if (shares.empty()) {
    shares = shares_by(parts, [&](const Batch& part) {
      return static_cast<double>(num_samples_in_batch(spec, part));
    });
  }
  if (shares.empty()) shares.assign(parts.size(), 1.0 / static_cast<double>(parts.size()));
  return shares;
}

void use_batch(LoopContext& context, const MicrobatchWork& work, double share) {
  context.state.outputs = Outputs();
  place_microbatch(context);
  work.use(share);
}

// Step 1 of microbatches.h.
class BatchStart {
 public:
  explicit BatchStart(const State& state) : batch_(state.batch), rng_(rng_states()) {
    for (const auto& [name, buffer] : named_buffers(state.model->module()))
      buffers_.emplace_back(buffer, buffer.detach().clone());
  }
  void restore(State& state) const {
    state.batch = batch_;
    restore_rng_states(rng_);
    const torch::NoGradGuard no_grad;
    for (const auto& [live, copy] : buffers_)
      live.copy_(copy);
  }

 private:
  Batch batch_;
  Value rng_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

// Null if the memory was enough. Other errors go on.
std::exception_ptr out_of_memory_in(const std::function<void()>& compute) {
  try {
    compute();
    return nullptr;
  } catch (const std::exception& error) {
    if (!is_out_of_device_memory(error)) throw;
    return std::current_exception();
  }
}

struct Vote {
  bool is_out_of_memory = false;
  std::int64_t samples = 0;  // The number in the batch.
};

// Step 3: the largest values of all ranks.
Vote vote(const LoopContext& context, const Vote& own) {
  if (context.group == nullptr) return own;
  at::Tensor most = at::tensor({std::int64_t{own.is_out_of_memory}, own.samples}, at::kLong);
  dist::all_reduce(most, dist::ReduceOp::kMax);
  return {most[0].item<std::int64_t>() != 0, most[1].item<std::int64_t>()};
}

[[noreturn]] void refuse_one_sample(const State& state, const std::exception_ptr& own) {
  const TrainingError error(fmt::format(
      "training failed in batch {} of epoch {} (counted from 0): not enough memory on a device for "
      "even one sample at a time (device_train_microbatch_size is auto). Take a smaller model",
      state.timestamp.batch_in_epoch, state.timestamp.epoch));
  if (!own) throw error;  // It was another rank's.
  try {
    std::rethrow_exception(own);
  } catch (...) {
    std::throw_with_nested(error);
  }
}

void halve_size(LoopContext& context, std::int64_t samples, const std::exception_ptr& own) {
  State& state = context.state;
  const std::int64_t size = std::min(state.device_train_microbatch_size.value_or(samples), samples);
  if (size <= 1) refuse_one_sample(state, own);
  state.device_train_microbatch_size = size / 2;
  if (dist::rank() != 0) return;
  context.logger.log_message(fmt::format(
      "warning: the memory of a device ran out in batch {}: device_train_microbatch_size "
      "\"auto\" was {}, and is {} from now on",
      state.timestamp.batch, size, size / 2));
}

}  // namespace

std::size_t count_microbatches(const LoopContext& context, std::optional<std::int64_t> size) {
  const State& state = context.state;
  const DataSpec& spec = *state.dataloader;
  if (!size || num_samples_in_batch(spec, state.batch) <= *size) return 1;
  return split_batch(spec, state.batch, *size).size();
}

void for_each_microbatch(LoopContext& context, std::optional<std::int64_t> size,
                         const MicrobatchWork& work) {
  State& state = context.state;
  const DataSpec& spec = *state.dataloader;
  if (!size || num_samples_in_batch(spec, state.batch) <= *size) {
    return use_batch(context, work, 1.0);
  }
  const Batch whole = state.batch;
  const std::vector<Batch> parts =
      in_batch(context, "split_batch()", [&] { return split_batch(spec, whole, *size); });
  const std::vector<double> shares = shares_of(parts, spec, work);
  const MicrobatchCount count(context, parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    state.batch = parts[i];
    context.microbatch = i;
    use_batch(context, work, shares[i]);
  }
  state.batch = whole;
}

MicrobatchSize::MicrobatchSize(const std::string& text) {
  if (text == "auto") return;
  throw UsageError("device_train_microbatch_size is '" + text +
                   "'; give a number of samples, or 'auto'");
}

void compute_in_parts_that_fit(LoopContext& context, const BatchAttempt& attempt) {
  State& state = context.state;
  const BatchStart start =
      in_batch(context, "a copy of the buffers", [&] { return BatchStart(state); });
  const std::int64_t samples = num_samples_in_batch(*state.dataloader, state.batch);
  for (;;) {
    attempt.begin();
    const std::exception_ptr own = out_of_memory_in(attempt.compute);
    const Vote all = vote(context, {own != nullptr, samples});
    if (!all.is_out_of_memory) return;
    drop_gradients(*state.optimizer);
    state.outputs = Outputs();
    state.loss = at::Tensor();
    start.restore(state);
    halve_size(context, all.samples, own);
  }
}

bool is_out_of_device_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  // The text is an error of CUDA's driver, which comes when the allocator was not asked.
  if (std::string(error.what()).find("CUDA error: out of memory") != std::string::npos) return true;
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    return is_out_of_device_memory(inner);
  } catch (...) {
  }
  return false;
}

std::string auto_microbatch_problem(bool on_cpu, bool is_sharded) {
  if (on_cpu) {
    return "device_train_microbatch_size 'auto' needs device gpu: a CPU does not report that its "
           "memory ran out; give a number of samples";
  }
  if (is_sharded) {
    return "device_train_microbatch_size 'auto' does not go with a sharded model, whose ranks "
           "compute together, so that one cannot begin again alone; give a number of samples";
  }
  return "";
}

}  // namespace cairn
