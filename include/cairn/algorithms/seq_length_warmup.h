// SeqLengthWarmup: trains on short sequences first (composer/algorithms/seq_length_warmup).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "cairn/export.h"
#include "cairn/train/algorithm.h"
#include "cairn/train/batch.h"
#include "cairn/train/empty_braces.h"

namespace CAIRN_PUBLIC cairn {

struct SeqLengthWarmupOptions {
  double duration = 0.3;               // fraction of the run until max_seq_length
  std::int64_t min_seq_length = 8;     // tokens
  std::int64_t max_seq_length = 1024;  // tokens
  std::int64_t step_size = 8;          // tokens; GPUs are fastest with multiples of 8
  // Cuts the rest of a sequence off. If false, the rest makes further samples.
  bool truncate = true;
  // A truncated sequence keeps its last token. Needs "attention_mask" in the batch.
  bool preserve_end_of_sequence = false;
};

// Shortens each batch by set_batch_sequence_length() when it comes from the loader. The batch must
// have "input_ids", and max_duration must be in epochs or batches. Samples and tokens are counted
// before the cut. Logs seq_length_warmup/curr_seq_len and /curr_bs (samples). Unlike Composer's,
// works with every model, and does not run a batch of full length at the start.
class SeqLengthWarmup final : public Algorithm {
 public:
  // Throws UsageError for a duration outside of [0, 1], or lengths or a step out of range.
  explicit SeqLengthWarmup(SeqLengthWarmupOptions options = {});
  explicit SeqLengthWarmup(EmptyBraces)  // SeqLengthWarmup({.max_seq_length = 512})
      : SeqLengthWarmup(SeqLengthWarmupOptions()) {}
  template <detail::NeverMatches T>
  SeqLengthWarmup(std::initializer_list<T>) = delete;

  std::string name() const override { return "SeqLengthWarmup"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  std::string repr() const override;
  bool match(Event event, const State& state) const override;
  void apply(Event event, State& state, Logger& logger) override;

 private:
  SeqLengthWarmupOptions options_;
};

struct SequenceLengthOptions {  // as in SeqLengthWarmupOptions
  bool truncate = true;
  bool preserve_end_of_sequence = false;
};
// Returns the batch with sequences of `curr_seq_len` tokens; the second dimension of each tensor is
// the token. A batch of shorter sequences is returned as it is. Throws UsageError for a batch
// without names, or without the tensors and shapes that the options need.
Batch set_batch_sequence_length(const Batch& batch, std::int64_t curr_seq_len,
                                SequenceLengthOptions options = {});

}  // namespace cairn
