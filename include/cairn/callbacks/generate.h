// Generate: logs what the model makes of a few prompts, from time to time
// (composer/callbacks/generate.py).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/interval.h"

namespace CAIRN_PUBLIC cairn {

//   Generate({.prompts = {"Once upon"}, .interval = "100ba",
//             .generate = [net](const std::vector<std::string>& prompts) { ... }})
struct GenerateOptions {
  std::vector<std::string> prompts = {};
  // When to generate; also at the end of training. In epochs, batches, tokens or samples.
  Interval interval = 1;
  // Prompts in one call of `generate`. nullopt: all.
  std::optional<std::int64_t> batch_size = std::nullopt;
  // Returns a text for each prompt, in order. Called on the training thread of every rank, with the
  // model in evaluation mode and without gradients.
  std::function<std::vector<std::string>(const std::vector<std::string>& prompts)> generate =
      nullptr;
};

// Logs a message for each prompt, with the text that `generate` made of it. `generate` takes the
// place of Composer's tokenizer and HuggingFaceModel::generate().
//
// Training goes on as it would without: the random generators and the mode of the model are put
// back. Throws UsageError if `generate` returns another number of texts. In a sharded run all ranks
// must run the model equally often.
class Generate final : public Callback {
 public:
  explicit Generate(GenerateOptions options);  // UsageError
  explicit Generate(EmptyBraces)               // Generate({.prompts = {...}, .generate = ...})
      : Generate(GenerateOptions()) {}

  std::string name() const override { return "Generate"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void run_event(Event event, State& state, Logger& logger) override;

 private:
  std::vector<std::string> generate(State& state) const;

  GenerateOptions options_;
  std::function<bool(const State& state, Event event)> is_due_;
  std::int64_t last_batch_ = -1;  // of the last generation
};

}  // namespace cairn
