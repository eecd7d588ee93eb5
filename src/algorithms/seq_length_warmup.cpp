#include "cairn/algorithms/seq_length_warmup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "algorithms/elapsed.h"
#include "algorithms/targets.h"
#include "core/text/float_text.h"

namespace cairn {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

// The second dimension of the first tensor that has one; 0 if none has.
std::int64_t sequence_length(const Batch& batch) {
  for (const at::Tensor& tensor : batch.tensors()) {
    if (tensor.dim() > 1) return tensor.size(1);
  }
  return 0;
}

const at::Tensor& require_tensor(const Batch& batch, const char* name, const char* option) {
  const at::Tensor* tensor = batch.find(name);
  if (tensor != nullptr) return *tensor;
  throw UsageError(fmt::format("SeqLengthWarmup: {} needs \"{}\" in the batch, which has {}",
                               option, name, fmt::join(batch.names(), ", ")));
}

Batch truncated(const Batch& batch, std::int64_t length, bool keep_end) {
  at::Tensor rows;
  at::Tensor ends;  // The last token of each sample.
  if (keep_end) {
    const at::Tensor& mask =
        require_tensor(batch, "attention_mask", "preserve_end_of_sequence = true");
    rows = at::arange(mask.size(0), mask.options().dtype(at::kLong));
    ends = mask.sum(1).to(at::kLong) - 1;
  }
  Batch result = batch;
  for (const std::string& name : batch.names()) {
    at::Tensor& tensor = result[name];
    if (tensor.dim() < 2) {
      throw UsageError(
          fmt::format("SeqLengthWarmup: truncate = true needs tensors of shape (N, length, ...), "
                      "and \"{}\" has {}",
                      name, shape_text(tensor)));
    }
    const at::Tensor whole = tensor;
    tensor = whole.slice(1, 0, length).contiguous();
    if (keep_end) {
      if (tensor.is_alias_of(whole)) tensor = tensor.clone();  // The caller's stays as it is.
      const at::Tensor last = whole.index({rows, ends});
      tensor.index_put_({rows, ends.clamp_max(length - 1)}, last);
    }
  }
  return result;
}

Batch reshaped(const Batch& batch, std::int64_t length) {
  const at::Tensor ids = require_tensor(batch, "input_ids", "truncate = false");
  const std::int64_t kept = ids.numel() / length * length;  // Whole sequences.
  Batch result = batch;
  for (const std::string& name : batch.names()) {
    at::Tensor& tensor = result[name];
    if (tensor.sizes() != ids.sizes()) {
      throw UsageError(
          fmt::format("SeqLengthWarmup: truncate = false needs tensors of one shape, and "
                      "\"input_ids\" has {}, \"{}\" has {}",
                      shape_text(ids), name, shape_text(tensor)));
    }
    tensor = tensor.reshape(-1).slice(0, 0, kept).view({-1, length});
  }
  return result;
}

std::int64_t batches_of_run(const State& state) {
  const bool has_duration = state.max_duration.has_value();
  if (has_duration && state.max_duration->unit() == TimeUnit::kBatch) {
    return state.max_duration->value();
  }
  if (!has_duration || state.max_duration->unit() != TimeUnit::kEpoch) {
    throw UsageError("SeqLengthWarmup: max_duration must be in epochs or batches, found " +
                     (has_duration ? state.max_duration->to_string() : "none"));
  }
  if (!state.dataloader_len) {
    throw UsageError(
        "SeqLengthWarmup: the train data loader does not say how long an epoch is: give "
        "max_duration in batches");
  }
  return *state.dataloader_len * state.max_duration->value();
}

// The length grows by a step in equal intervals. An interval has whole batches, so that the last
// step may come before the end of the warmup.
std::int64_t current_length(const State& state, const SeqLengthWarmupOptions& options) {
  const auto warmup =
      static_cast<std::int64_t>(static_cast<double>(batches_of_run(state)) * options.duration);
  const std::int64_t steps = (options.max_seq_length - options.min_seq_length) / options.step_size;
  const std::int64_t interval = steps == 0 ? 0 : warmup / steps;
  if (interval == 0) {
    throw UsageError(
        fmt::format("SeqLengthWarmup: the warmup of {} batches has {} steps, which must be at "
                    "least 1 and at most one in a batch: choose another step_size or duration",
                    warmup, steps));
  }
  const std::int64_t length =
      options.step_size * (state.timestamp.batch / interval) + options.min_seq_length;
  return std::clamp(length, options.min_seq_length, options.max_seq_length);
}

}  // namespace

Batch set_batch_sequence_length(const Batch& batch, std::int64_t curr_seq_len,
                                SequenceLengthOptions options) {
  if (!batch.is_named()) {
    throw UsageError("SeqLengthWarmup: the tensors of a batch must have names (Batch::named)");
  }
  if (curr_seq_len < 1) {
    throw UsageError(fmt::format("SeqLengthWarmup: a sequence must have 1 or more tokens, found {}",
                                 curr_seq_len));
  }
  if (curr_seq_len >= sequence_length(batch)) return batch;
  return options.truncate ? truncated(batch, curr_seq_len, options.preserve_end_of_sequence)
                          : reshaped(batch, curr_seq_len);
}

SeqLengthWarmup::SeqLengthWarmup(SeqLengthWarmupOptions options) : options_(options) {
  check_fraction("SeqLengthWarmup: duration", options_.duration);
  if (options_.min_seq_length < 1 || options_.max_seq_length < options_.min_seq_length) {
    throw UsageError(
        fmt::format("SeqLengthWarmup: lengths must be 1 or more, and max_seq_length not less than "
                    "min_seq_length, found {} and {}",
                    options_.max_seq_length, options_.min_seq_length));
  }
  if (options_.step_size < 1) {
    throw UsageError(
        fmt::format("SeqLengthWarmup: step_size must be 1 or more, found {}", options_.step_size));
  }
}

std::string SeqLengthWarmup::repr() const {
  return fmt::format(
      "SeqLengthWarmup(duration={},min_seq_length={},max_seq_length={},step_size={},truncate={},"
      "preserve_end_of_sequence={})",
      python_float_repr(options_.duration), options_.min_seq_length, options_.max_seq_length,
      options_.step_size, python_bool(options_.truncate),
      python_bool(options_.preserve_end_of_sequence));
}

bool SeqLengthWarmup::match(Event event, const State& /*state*/) const {
  return event == Event::kAfterDataloader;
}

void SeqLengthWarmup::apply(Event /*event*/, State& state, Logger& logger) {
  const std::int64_t length = current_length(state, options_);
  state.batch =
      set_batch_sequence_length(state.batch, length,
                                {.truncate = options_.truncate,
                                 .preserve_end_of_sequence = options_.preserve_end_of_sequence});
  logger.log_metrics(Dict{{"seq_length_warmup/curr_seq_len", length},
                          {"seq_length_warmup/curr_bs", state.batch["input_ids"].size(0)}});
}

}  // namespace cairn
