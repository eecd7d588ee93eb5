#include "train/loop/microbatches.h"

#include <functional>
#include <numeric>
#include <vector>

#include "train/data/data_spec.h"
#include "train/loop/failure.h"

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

}  // namespace cairn
