#include "train/state/replica_check.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "core/hash/xxh3.h"
#include "dist/team.h"
#include "io/threads/parallel.h"
#include "train/state/device/tensor_bridge.h"

namespace cairn {
namespace {

using Hashes = std::vector<std::uint64_t>;

std::uint64_t digest_of(const Hashes& hashes) { return xxh3_64(std::as_bytes(std::span(hashes))); }

std::int64_t as_number(std::uint64_t hash) { return std::bit_cast<std::int64_t>(hash); }

// Call it with `in_parallel` false for memory of a device. Then this thread reads all of it, and
// the storages have noted this thread's stream.
Hashes hashes_of(const std::vector<TensorView>& views, bool in_parallel) {
  Hashes hashes(views.size());
  std::uint64_t bytes = 0;
  for (const TensorView& view : views)
    bytes += view.storage == nullptr ? 0 : view.storage->size();
  for_each_parallel(
      views.size(), [&](std::size_t i) { hashes[i] = xxh3_64(views[i].contiguous_bytes().view); },
      in_parallel ? bytes : 0);
  return hashes;
}

// The tensors that other ranks also have: whole parameters, or this rank's rows of them.
std::vector<std::pair<std::string, at::Tensor>> replicated(const State& state) {
  if (state.sharding && state.sharding->replicas() == 1) return {};
  auto parameters = named_parameters(state.model->module());
  for (auto& [name, parameter] : parameters)
    if (state.sharding) parameter = state.sharding->local_rows(parameter);
  return parameters;
}

// A number that is equal on ranks whose processors and libtorch round alike.
std::int64_t rounding() { return as_number(xxh3_64(as_bytes(at::show_config()))); }

// A rank's facts about a save, for step 3.
struct RankFindings {
  bool has_hashes = false;
  std::int64_t rounding = 0;
  std::int64_t shard = 0;
  Hashes rates = {};
  Hashes hashes = {};
};

// A digest of a rank's findings. While nothing differs, ranks exchange only this digest.
at::Tensor digest_of(const RankFindings& own) {
  return at::tensor({std::int64_t{own.has_hashes}, own.rounding, own.shard,
                     as_number(digest_of(own.rates)), as_number(digest_of(own.hashes))},
                    at::kLong);
}

Value value_of(const Hashes& hashes) {
  List list;
  for (const std::uint64_t hash : hashes)
    list.emplace_back(as_number(hash));
  return list;
}

Hashes hashes_in(const Value& value) {
  Hashes hashes;
  for (const Value& hash : value.as_items())
    hashes.push_back(std::bit_cast<std::uint64_t>(hash.as_int()));
  return hashes;
}

std::vector<RankFindings> exchange(const RankFindings& own) {
  std::vector<RankFindings> all;
  for (const Value& of_rank : Team::of_job().gather_all(List{
           own.has_hashes, own.rounding, own.shard, value_of(own.rates), value_of(own.hashes)})) {
    const List& items = of_rank.as_items();
    all.push_back({.has_hashes = items.at(0).as_bool(),
                   .rounding = items.at(1).as_int(),
                   .shard = items.at(2).as_int(),
                   .rates = hashes_in(items.at(3)),
                   .hashes = hashes_in(items.at(4))});
  }
  return all;
}

bool have_same_rates(const RankFindings& one, const RankFindings& other) {
  return one.rounding == other.rounding;
}
bool have_same_weights(const RankFindings& one, const RankFindings& other) {
  return one.has_hashes && other.has_hashes && one.rounding == other.rounding &&
         one.shard == other.shard;
}

// The first index at which ranks differ from their first peer, and the ranks that differ.
struct Divergence {
  std::size_t index = 0;
  std::size_t first = 0;  // rank
  std::vector<std::size_t> ranks = {};
};

std::optional<Divergence> find_divergence(const std::vector<RankFindings>& all,
                                          Hashes RankFindings::*of,
                                          bool (*are_peers)(const RankFindings&,
                                                            const RankFindings&)) {
  std::optional<Divergence> found;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto first = static_cast<std::size_t>(
        std::ranges::find_if(all,
                             [&](const RankFindings& each) { return are_peers(each, all[rank]); }) -
        all.begin());
    if (first >= rank) continue;  // No earlier rank is a peer.
    const Hashes& others = all[first].*of;
    const Hashes& own = all[rank].*of;
    const auto at = std::ranges::mismatch(others, own).in1;
    if (at == others.end()) continue;
    const auto index = static_cast<std::size_t>(at - others.begin());
    if (!found || index < found->index) found = Divergence{.index = index, .first = first};
    if (index == found->index && first == found->first) found->ranks.push_back(rank);
  }
  return found;
}

std::string describe(const Divergence& found, const std::string& what) {
  return fmt::format("{} of rank{} {} differs from rank {}'s", what,
                     found.ranks.size() == 1 ? "" : "s", fmt::join(found.ranks, ", "), found.first);
}

}  // namespace

void ReplicaCheck::begin(const State& state, bool hashes_copies) {
  compare();
  is_begun_ = true;
  hashes_ = {};
  batch_ = state.timestamp.batch;
  shard_ = state.sharding ? state.sharding->shard_index() : 0;
  rates_.clear();
  if (state.optimizer) {
    for (const double rate : learning_rates(*state.optimizer))
      rates_.push_back(std::bit_cast<std::uint64_t>(rate));
  }
  names_.clear();
  for (const auto& [name, tensor] : replicated(state))
    names_.push_back(name);
  if (!hashes_copies) hash_here(state);
}

void ReplicaCheck::hash_here(const State& state) {
  std::promise<Hashes> done;
  try {
    std::vector<TensorView> views;
    bool is_on_host = true;
    for (const auto& [name, tensor] : replicated(state)) {
      is_on_host = is_on_host && tensor.is_cpu();
      views.push_back(view_of(tensor));
    }
    done.set_value(hashes_of(views, is_on_host));
  } catch (const std::exception&) {  // On this rank alone; compare() then leaves the rank out.
    done.set_exception(std::current_exception());
  }
  hashes_ = done.get_future();
}

void ReplicaCheck::hash_copies(const State& state, SaveJob& job) {
  if (hashes_.valid()) return;
  const Value* const entries = job.value.find("state");
  const Value* const model = entries == nullptr ? nullptr : entries->find("model");
  std::vector<TensorView> views;
  for (const std::string& name : names_) {
    const Value* const saved = model == nullptr ? nullptr : model->find(name);
    // The file leaves this parameter out.
    if (saved == nullptr || !saved->is_tensor()) return hash_here(state);
    views.push_back(saved->as_tensor());
  }
  job.on_copied = [this, views = std::move(views)](const SaveJob::FindCopy& find) mutable {
    try {
      for (TensorView& view : views) {
        const SharedBytes copy = view.storage == nullptr ? SharedBytes() : find(*view.storage);
        if (!copy.view.empty()) view.storage = storage_of(copy);
      }
      hashes_ = std::async(std::launch::async, [views = std::move(views)] {
        return hashes_of(views, /*in_parallel=*/false);
      });
    } catch (const std::exception&) {  // No memory or no thread for it: this rank is not compared.
    }
  };
}

void ReplicaCheck::compare() {
  if (!std::exchange(is_begun_, false)) return;
  RankFindings own = {.rounding = rounding(), .shard = shard_, .rates = rates_};
  try {
    if (hashes_.valid()) own.hashes = hashes_.get();
    own.has_hashes = own.hashes.size() == names_.size() && !names_.empty();
  } catch (const std::exception&) {  // No memory, on this rank alone: this rank is not compared.
  }
  std::vector<RankFindings> digests;
  for (const at::Tensor& of_rank : dist::all_gather(digest_of(own))) {
    const auto* numbers = of_rank.data_ptr<std::int64_t>();
    digests.push_back({.has_hashes = numbers[0] != 0,
                       .rounding = numbers[1],
                       .shard = numbers[2],
                       .rates = {std::bit_cast<std::uint64_t>(numbers[3])},
                       .hashes = {std::bit_cast<std::uint64_t>(numbers[4])}});
  }
  if (!find_divergence(digests, &RankFindings::hashes, have_same_weights) &&
      !find_divergence(digests, &RankFindings::rates, have_same_rates)) {
    return;
  }
  const std::vector<RankFindings> all = exchange(own);
  std::string what;
  if (const auto weights = find_divergence(all, &RankFindings::hashes, have_same_weights)) {
    what = describe(*weights, "the parameter \"" + names_.at(weights->index) + "\"");
  } else if (const auto rates = find_divergence(all, &RankFindings::rates, have_same_rates)) {
    what = describe(*rates, fmt::format("the learning rate of group {}", rates->index));
  }
  throw TrainingError(fmt::format(
      "the ranks do not train the same model any more: in the save of batch {}, {}.\nLook for what "
      "changes weights, gradients or rates on some ranks only: algorithms, callbacks, hooks, or a "
      "broken machine. The checkpoints have rank 0's weights: resume from one that is older",
      batch_, what));
}

}  // namespace cairn
