#include "cairn/callbacks/generate.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/choices.h"
#include "cairn/train/logger.h"
#include "cairn/train/rng.h"
#include "cairn/train/state.h"

#include "callbacks/model_device.h"
#include "train/loop/loop_context.h"
#include "train/loop/precision.h"
#include "train/loop/sharded_pass.h"

namespace cairn {

Generate::Generate(GenerateOptions options)
    : options_(std::move(options)), is_due_(create_interval_scheduler(options_.interval)) {
  if (options_.prompts.empty() || !options_.generate) {
    throw UsageError("Generate needs prompts and a function generate");
  }
  if (options_.batch_size && *options_.batch_size < 1) {
    throw UsageError("Generate: batch_size must be at least 1");
  }
}

void Generate::run_event(Event event, State& state, Logger& logger) {
  if (!is_due_(state, event) || last_batch_ == state.timestamp.batch) return;
  last_batch_ = state.timestamp.batch;
  const Value generators = rng_states();
  const std::vector<std::string> texts = generate(state);
  restore_rng_states(generators);
  if (dist::rank() != 0) return;
  LoggedTable table{.columns = {"prompt", "generation"}, .rows = {}, .name = "generations"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    logger.log_message("Generate: \"" + options_.prompts[i] + "\": \"" + texts[i] + "\"");
    table.rows.push_back({options_.prompts[i], texts[i]});
  }
  logger.log_table(table);
}

std::vector<std::string> Generate::generate(State& state) const {
  const torch::NoGradGuard no_grad;
  const EvalMode eval_mode(state.model->module());
  const Word<Precision> precision = state.precision;
  const AutocastGuard autocast(precision.value().value(), model_device(state));
  ShardedPass pass(state);
  std::vector<std::string> texts;
  const auto all = static_cast<std::ptrdiff_t>(options_.prompts.size());
  const std::ptrdiff_t size = options_.batch_size.value_or(all);
  for (std::ptrdiff_t begin = 0; begin < all; begin += size) {
    const auto first = options_.prompts.begin() + begin;
    const std::vector<std::string> prompts(first, first + std::min(size, all - begin));
    for (std::string& text : options_.generate(prompts))
      texts.push_back(std::move(text));
  }
  pass.end();
  if (texts.size() != options_.prompts.size()) {
    throw UsageError("Generate: generate() returned " + std::to_string(texts.size()) +
                     " texts for " + std::to_string(options_.prompts.size()) + " prompts");
  }
  return texts;
}

}  // namespace cairn
