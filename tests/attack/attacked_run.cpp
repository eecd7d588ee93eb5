#include "attacked_run.h"

#include <torch/torch.h>

#include <algorithm>

#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"

namespace cairn::attack {
namespace {

class EventReporter final : public LoggerDestination {
 public:
  explicit EventReporter(const Report& report) : report_(report) {}
  std::string name() const override { return "EventReporter"; }
  void log_message(const std::string& message) override { report_.tell("message", message); }

 private:
  Report report_;
};

std::string hex(const at::Tensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.data_ptr());
  std::string text;
  for (std::size_t i = 0; i < tensor.nbytes(); ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[bytes[i] >> 4U];
    text += kDigits[bytes[i] & 15U];
  }
  return text;
}

TrainerOptions options_of(const std::string& folder, const Report& report) {
  TrainerOptions options = testing::tiny_options({.dropout = 0.2});
  options.train_dataloader = testing::tiny_loader(8, {.batch_size = 2, .shuffle = true});
  options.max_duration = "2ep";  // kBatches
  options.optimizers = AdamW({.lr = 0.01});
  options.run_name = "attacked";
  options.loggers = EventReporter(report);
  options.save_folder = folder + "/run";
  options.save_interval = "2ba";
  options.save_num_checkpoints_to_keep = 2;
  options.autoresume = true;
  options.callbacks = testing::CallAt(Event::kBatchStart, [report](State& state) {
    report.tell("reached", std::to_string(state.timestamp.batch));
  });
  return options;
}

int train(const std::string& folder, const Variant& variant, const Report& report) {
  torch::set_num_threads(1);  // no OpenMP threads in a forked process
  TrainerOptions options = options_of(folder, report);
  variant.change(options);
  Trainer trainer(std::move(options));
  report.tell("began", std::to_string(trainer.state().timestamp.batch));
  trainer.fit();
  trainer.close();
  report.tell("weights", hex(testing::weights_of(*trainer.state().model)));
  return 0;
}

}  // namespace

Outcome run(const std::string& folder, const Variant& variant, const Plan& plan) {
  Outcome outcome{
      run_child(plan, [&](const Report& report) { return train(folder, variant, report); })};
  for (const auto& [word, text] : outcome.told) {
    if (word == "began") outcome.began = std::stoll(text);
    if (word == "reached") outcome.reached = std::stoll(text);
    if (word == "weights") outcome.weights = text;
  }
  return outcome;
}

}  // namespace cairn::attack
