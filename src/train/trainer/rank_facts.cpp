#include "train/trainer/rank_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/trainer.h"

#include "core/hash/xxh3.h"
#include "core/text/class_name.h"
#include "core/text/float_text.h"
#include "core/text/writer.h"
#include "dist/team.h"
#include "train/trainer/deepspeed_config.h"

namespace cairn {
namespace {

const std::string kNotGiven = "none";
const std::string kAbsent = "not there";

std::string fact_text(bool value) { return value ? "true" : "false"; }
std::string fact_text(std::int64_t value) { return std::to_string(value); }
std::string fact_text(int value) { return std::to_string(value); }
std::string fact_text(double value) { return python_float_repr(value); }
std::string fact_text(const std::string& value) { return value; }
std::string fact_text(const Duration& value) { return value.time().to_string(); }
std::string fact_text(const Interval& value) {
  return value.time() == nullptr ? "a function" : value.time()->to_string();
}
// Ranks may have other numbers.
std::string fact_text(const MicrobatchSize& value) { return value.is_auto() ? "auto" : "a number"; }
std::string fact_text(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}
// The text of an optimizer's option.
std::string fact_text(const Value& value) {
  if (value.get_if<bool>() != nullptr) return fact_text(value.as_bool());
  if (value.is_int()) return fact_text(value.as_int());
  if (value.get_if<double>() != nullptr) return fact_text(value.as_float());
  if (value.is_str()) return value.as_str();
  if (!value.is_list() && !value.is_tuple()) return std::string(value.type_name());
  std::vector<std::string> items;
  for (const Value& item : value.as_items())
    items.push_back(fact_text(item));
  return fact_text(items);
}
template <class T>
std::string fact_text(const std::optional<T>& value) {
  return value ? fact_text(*value) : kNotGiven;
}

// Collects facts whose names begin alike.
class Group {
 public:
  Group(RankFacts& facts, std::string prefix) : facts_(facts), prefix_(std::move(prefix)) {}
  template <class T>
  void add(const std::string& name, const T& value) const {
    facts_.emplace_back(prefix_ + name, fact_text(value));
  }
  Group of(const std::string& name) const { return {facts_, prefix_ + name}; }

 private:
  RankFacts& facts_;
  std::string prefix_;
};

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("{} ({})", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().vec(), ", "));
}

void add_model(const Group& facts, const torch::nn::Module& module) {
  for (const auto& [name, parameter] : named_parameters(module))
    facts.add(name, shape_of(parameter) + (parameter.requires_grad() ? "" : ", frozen"));
  for (const auto& [name, buffer] : named_buffers(module))
    facts.add(name, shape_of(buffer));
}

// Adds no facts of the user's own loaders, nor of samplers for a number of ranks other than the
// job's. In these cases the user deals the samples, and ranks may have different numbers of
// samples.
void add_loader(const Group& facts, const DataSpec& spec) {
  facts.add("", std::string(spec ? "given" : kNotGiven));
  const auto* loader = dynamic_cast<const DataLoader*>(spec.dataloader.get());
  if (loader == nullptr) return;
  const Value state = loader->state_dict();
  const Value* const replicas = state.find("num_replicas");
  if (replicas == nullptr) return;
  facts.add(": num_replicas of the sampler", *replicas);
  if (replicas->as_int() != dist::world_size()) return;
  facts.add(": samples of the dataset", state.at("size"));
  facts.add(": shuffle of the sampler", state.at("shuffle"));
  // The seed as it was given: a rank without a seed takes the run's.
  if (state.at("shuffle").as_bool()) {
    facts.add(": seed of the sampler", loader->options().sampler->seed);
  }
  facts.add(": drop_last of the sampler", state.at("sampler_drop_last"));
  facts.add(": drop_last", state.at("drop_last"));
}

void add_evaluators(const Group& facts, const EvaluatorList& list) {
  for (const Evaluator& each : list.items()) {
    const Group own = facts.of(" '" + each.label + "'");
    add_loader(own, each.dataloader);
    own.add(": metric_names", each.metric_names);
    own.add(": subset_num_batches", each.subset_num_batches);
    own.add(": eval_interval", each.eval_interval);
  }
}

// A user's algorithm may differ between ranks, for example in a seed. cairn's algorithms must not.
std::vector<std::string> texts_of(const HandleList<Algorithm>& algorithms) {
  std::vector<std::string> texts;
  for (const auto& algorithm : algorithms) {
    const bool is_ours = full_class_name(typeid(*algorithm)).starts_with("cairn::");
    texts.push_back(is_ours ? algorithm->repr() : algorithm->name());
  }
  return texts;
}

std::vector<std::string> texts_of(const HandleList<Scheduler>& schedulers) {
  std::vector<std::string> texts;
  for (const auto& scheduler : schedulers) {
    const Scheduler& object = *scheduler;
    texts.push_back(class_name(typeid(object)));
  }
  return texts;
}

std::string text_of(const std::optional<KeepBest>& best) {
  return best ? fmt::format("{}:{} {}", best->metric, best->count, best->mode) : kNotGiven;
}

void add_savers(const Group& facts, const TrainerOptions& options) {
  int count = 0;
  for (const auto& callback : options.callbacks) {
    const auto* saver = dynamic_cast<const CheckpointSaver*>(callback.get());
    if (saver == nullptr) continue;
    const CheckpointSaverOptions& of = saver->options();
    const Group own = facts.of("CheckpointSaver " + std::to_string(++count) + " of callbacks: ");
    own.add("save_interval", of.save_interval);
    own.add("weights_only", of.weights_only);
    own.add("num_checkpoints_to_keep", of.num_checkpoints_to_keep.value_or(-1));
    own.add("keep_best", text_of(of.keep_best));
    own.add("overwrite", of.overwrite);
  }
  facts.add("CheckpointSavers of callbacks", count);
  facts.add("save_folder", std::string(options.save_folder ? "given" : kNotGiven));
  if (!options.save_folder || count > 0) return;  // The other save_ options are not used.
  facts.add("save_latest_filename",
            std::string(options.save_latest_filename ? "given" : kNotGiven));
  facts.add("save_overwrite", options.save_overwrite);
  facts.add("save_interval", options.save_interval);
  facts.add("save_weights_only", options.save_weights_only);
  facts.add("save_num_checkpoints_to_keep", options.save_num_checkpoints_to_keep.value_or(-1));
  facts.add("save_num_remote_checkpoints_to_keep",
            options.save_num_remote_checkpoints_to_keep.value_or(-1));
  facts.add("save_keep_best", text_of(options.save_keep_best));
  facts.add("save_metrics", options.save_metrics);
}

void add_loading(const Group& facts, const TrainerOptions& options) {
  facts.add("autoresume", options.autoresume);
  facts.add("load_path", std::string(options.load_path ? "given" : kNotGiven));
  facts.add("load_weights_only", options.load_weights_only);
  facts.add("load_strict_model_weights", options.load_strict_model_weights);
  facts.add("load_exclude_algorithms", options.load_exclude_algorithms);
}

void add_sharding(const Group& facts, const TrainerOptions& options) {
  std::optional<std::int64_t> stage;
  if (options.deepspeed_config) stage = deepspeed_stage(*options.deepspeed_config);
  facts.add("deepspeed_config: stage", stage);
  const bool is_sharded = options.parallelism_config && options.parallelism_config->fsdp;
  facts.add("parallelism_config", std::string(is_sharded ? "given" : kNotGiven));
  if (!is_sharded) return;
  const FSDPConfig& config = *options.parallelism_config->fsdp;
  const Group own = facts.of("parallelism_config: ");
  own.add("sharding_strategy", config.sharding_strategy);
  own.add("state_dict_type", config.state_dict_type);
  own.add("sharded_ckpt_prefix_dir", config.sharded_ckpt_prefix_dir);
  if (const auto* name = std::get_if<Word<MixedPrecision>>(&config.mixed_precision)) {
    own.add("mixed_precision", *name);
  } else {
    const auto& dtypes = std::get<FSDPMixedPrecision>(config.mixed_precision);
    own.add("mixed_precision: param_dtype", dtypes.param_dtype.value_or(""));
    own.add("mixed_precision: reduce_dtype", dtypes.reduce_dtype.value_or(""));
  }
  own.add("backward_prefetch", config.backward_prefetch);
  own.add("forward_prefetch", config.forward_prefetch);
  own.add("data_parallel_shard_degree", config.data_parallel_shard_degree);
  own.add("data_parallel_replicate_degree", config.data_parallel_replicate_degree);
  own.add("activation_checkpointing", config.activation_checkpointing);
  own.add("auto_wrap", config.auto_wrap);
}

std::uint64_t digest_of(const RankFacts& facts) {
  Xxh3 hash;
  for (const auto& [name, value] : facts) {
    for (const std::string& text : {name, value})
      hash.write(as_bytes(text + '\n'));
  }
  return hash.digest64();
}

bool is_same_digest(const RankFacts& own) {
  const auto digest = static_cast<std::int64_t>(digest_of(own));
  const auto all = dist::all_gather(at::full({1}, digest, at::kLong));
  return std::ranges::all_of(
      all, [&](const at::Tensor& of_rank) { return of_rank.item<std::int64_t>() == digest; });
}

// Returns rank 0's facts, on all ranks.
RankFacts facts_of_first(const RankFacts& own) {
  List texts;
  for (const auto& [name, value] : own) {
    texts.emplace_back(name);
    texts.emplace_back(value);
  }
  const Value said = Team::of_job().broadcast_from_first(std::move(texts));
  RankFacts facts;
  for (std::size_t i = 0; i + 1 < said.as_items().size(); i += 2)
    facts.emplace_back(said.as_items()[i].as_str(), said.as_items()[i + 1].as_str());
  return facts;
}

std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string cut_short(const std::string& text) {
  constexpr std::size_t kMax = 300;
  return text.size() <= kMax ? text : text.substr(0, kMax) + "...";
}

// `differences`: how each rank differs from rank 0, as find_difference() returned it.
std::string describe(const std::vector<FactDifference>& differences) {
  const auto worst = std::ranges::find_if(
      differences, [](const FactDifference& each) { return !each.name.empty(); });
  std::map<std::string, std::vector<std::int64_t>> ranks_with;
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    const FactDifference& own = differences[rank];
    // This rank did not compare the fact.
    if (!own.name.empty() && own.name != worst->name) continue;
    ranks_with[own.name.empty() ? worst->first : own.own].push_back(
        static_cast<std::int64_t>(rank));
  }
  std::string text;
  for (const auto& [value, ranks] : ranks_with) {
    text += fmt::format("{}\"{}\" on {}", text.empty() ? "" : ", ", cut_short(value),
                        ranks_text(ranks));
  }
  return worst->name + " is " + text;
}

}  // namespace

RankFacts facts_of(const TrainerOptions& options) {
  RankFacts all;
  const Group facts(all, "");
  facts.add("run_name", options.run_name);
  facts.add("max_duration", options.max_duration);
  facts.add("precision", options.precision);
  facts.add("algorithms", texts_of(options.algorithms));
  facts.add("optimizers", std::string(options.optimizers ? "given" : kNotGiven));
  facts.add("schedulers", texts_of(options.schedulers));
  facts.add("scale_schedule_ratio", options.scale_schedule_ratio);
  facts.add("step_schedulers_every_batch", options.step_schedulers_every_batch);
  facts.add("train_subset_num_batches", options.train_subset_num_batches.value_or(-1));
  facts.add("spin_dataloaders", options.spin_dataloaders);
  facts.add("accumulate_train_batch_on_tokens", options.accumulate_train_batch_on_tokens);
  facts.add("deterministic_mode", options.deterministic_mode);
  facts.add("allow_tf32", options.allow_tf32);
  facts.add("cudnn_benchmark", options.cudnn_benchmark);
  facts.add("ddp_sync_strategy", options.ddp_sync_strategy);
  const auto& size = options.device_train_microbatch_size;
  facts.add("device_train_microbatch_size is auto", size && size->is_auto());
  add_sharding(facts, options);
  add_loading(facts, options);
  add_savers(facts, options);
  add_loader(facts.of("train_dataloader"), options.train_dataloader);
  facts.add("eval_interval", options.eval_interval);
  facts.add("eval_subset_num_batches", options.eval_subset_num_batches.value_or(-1));
  add_evaluators(facts.of("eval_dataloader"), options.eval_dataloader);
  return all;
}

RankFacts facts_of_program(const TrainerOptions& options) {
  RankFacts all;
  const Group facts(all, "");
  facts.add("the version", std::string(kWriter));
  add_model(facts.of("the model's "), options.model->module());
  return all;
}

RankFacts facts_of(const FitOptions& options) {
  RankFacts all;
  const Group facts(all, "fit(): ");
  facts.add("duration", options.duration);
  facts.add("reset_time", options.reset_time);
  add_loader(facts.of("train_dataloader"), options.train_dataloader);
  facts.add("train_subset_num_batches", options.train_subset_num_batches);
  facts.add("spin_dataloaders", options.spin_dataloaders);
  facts.add("schedulers",
            options.schedulers ? std::optional(texts_of(*options.schedulers)) : std::nullopt);
  facts.add("scale_schedule_ratio", options.scale_schedule_ratio);
  facts.add("step_schedulers_every_batch", options.step_schedulers_every_batch);
  facts.add("device_train_microbatch_size", options.device_train_microbatch_size);
  facts.add("eval_dataloader", std::string(options.eval_dataloader ? "given" : kNotGiven));
  if (!options.eval_dataloader) return all;
  facts.add("eval_interval", options.eval_interval);
  facts.add("eval_subset_num_batches", options.eval_subset_num_batches.value_or(-1));
  add_evaluators(facts.of("eval_dataloader"), *options.eval_dataloader);
  return all;
}

RankFacts facts_of_optimizer(const State& state) {
  RankFacts all;
  if (!state.optimizer) return all;
  const torch::optim::Optimizer& optimizer = *state.optimizer;
  const Group facts(all, "the optimizer's ");
  facts.add("class", full_class_name(typeid(optimizer)));
  if (!can_be_saved(optimizer)) return all;
  const Value saved = optimizer_state_dict(optimizer, state.model->module());
  const List& groups = saved.at("param_groups").as_items();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Group own = facts.of("group " + std::to_string(g) + ": ");
    for (const auto& [name, value] : groups[g].as_dict())
      own.add(fact_text(name), value);
  }
  return all;
}

FactDifference find_difference(const RankFacts& first, const RankFacts& own) {
  const auto has = [](const RankFacts& facts, const std::string& name) {
    return std::ranges::find(facts, name, &RankFacts::value_type::first) != facts.end();
  };
  const auto [at, there] = std::ranges::mismatch(first, own);
  if (at == first.end() && there == own.end()) return {};
  if (at == first.end() || (there != own.end() && !has(first, there->first))) {
    return {there->first, kAbsent, there->second};
  }
  if (there == own.end() || !has(own, at->first)) return {at->first, at->second, kAbsent};
  if (at->first == there->first) return {at->first, at->second, there->second};
  return {"number " + std::to_string(at - first.begin()) + " in order", at->first, there->first};
}

void require_same_on_ranks(const RankFacts& own) {
  if (dist::world_size() == 1 || is_same_digest(own)) return;
  const FactDifference difference = find_difference(facts_of_first(own), own);
  std::vector<FactDifference> all;
  for (const Value& of_rank :
       Team::of_job().gather_all(List{difference.name, difference.first, difference.own})) {
    const List& texts = of_rank.as_items();
    all.push_back({texts.at(0).as_str(), texts.at(1).as_str(), texts.at(2).as_str()});
  }
  throw UsageError("the ranks of this job differ: " + describe(all) +
                   ". All ranks must be started with the same program and options, except "
                   "paths and loggers (docs/distributed.md)");
}

}  // namespace cairn
