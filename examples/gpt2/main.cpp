// gpt2: trains a small GPT-2 on the bytes of texts, and survives being killed. The weights are
// Transformers': from_pretrained() loads them, and this program continues from its files.
//   gpt2 --text ../../docs/*.md --out my-gpt2
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/loggers/file_logger.h"
#include "cairn/metrics/language.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/rng.h"
#include "cairn/train/trainer.h"

#include "command_line/run_main.h"
#include "command_line/trainer_flags.h"
#include "net.h"

namespace {

struct Options {
  std::vector<std::string> texts;
  std::string from;  // a folder of Transformers' weights
  std::string out;   // another one
  std::string log_file;
  std::int64_t batch_size = 16;
  double lr = 3e-3;
  gpt2::Config config;
};

// Each sample is a piece of the text, and the same piece one byte later.
std::shared_ptr<cairn::Dataset> pieces_of(const at::Tensor& text, std::int64_t length) {
  const std::int64_t count = (text.numel() - 1) / length;
  return cairn::tensor_dataset({text.narrow(0, 0, count * length).view({count, length}),
                                text.narrow(0, 1, count * length).view({count, length})});
}

at::Tensor bytes_of(const std::vector<std::string>& files) {
  std::string all;
  for (const std::string& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw cairn::NotFoundError("there is no text " + file);
    all.append(std::istreambuf_iterator<char>(stream), {});
  }
  return at::from_blob(all.data(), {static_cast<std::int64_t>(all.size())}, at::kByte)
      .to(at::kLong);
}

struct LanguageModel final : cairn::Model {
  explicit LanguageModel(gpt2::Net network) : net(std::move(network)) {}
  torch::nn::Module& module() override { return *net; }
  cairn::Outputs forward(const cairn::Batch& batch) override { return net->forward(batch[0]); }
  cairn::Losses loss(const cairn::Outputs& outputs, const cairn::Batch& batch) override {
    return torch::nn::functional::cross_entropy(outputs.single().flatten(0, 1), batch[1].flatten());
  }
  cairn::Metrics get_metrics(bool is_train) override {
    if (is_train) return {};
    return {{"LanguageCrossEntropy", std::make_shared<cairn::LanguageCrossEntropy>()},
            {"LanguagePerplexity", std::make_shared<cairn::LanguagePerplexity>()}};
  }
  gpt2::Net net;
};

int train(Options own, cairn::TrainerOptions options) {
  torch::set_num_threads(1);  // The layers are too small to share between threads.
  cairn::seed_all(*options.seed);
  const at::Tensor text = bytes_of(own.texts);
  const std::int64_t length = own.config.n_positions;
  if (text.numel() < 20 * length) {
    throw cairn::UsageError("--text has " + std::to_string(text.numel()) +
                            " bytes; give at least " + std::to_string(20 * length));
  }
  const std::int64_t trained = text.numel() / 10 * 9;
  gpt2::Net net(own.config);
  const cairn::HuggingFaceWeights weights(gpt2::huggingface_options());
  std::string config = own.config.json();
  if (!own.from.empty()) {
    weights.load(*net, own.from);
    config = weights.config(own.from);
  }
  options.model = std::make_shared<LanguageModel>(net);
  options.train_dataloader =
      cairn::DataLoader(pieces_of(text.narrow(0, 0, trained), length),
                        {.batch_size = own.batch_size, .shuffle = true, .seed = *options.seed});
  options.eval_dataloader =
      cairn::DataLoader(pieces_of(text.narrow(0, trained, text.numel() - trained), length),
                        {.batch_size = own.batch_size});
  options.optimizers = cairn::AdamW({.lr = own.lr, .weight_decay = 0.01});
  options.schedulers = cairn::CosineAnnealingWithWarmupScheduler({.t_warmup = "10ba"});
  if (!own.log_file.empty()) options.loggers = cairn::FileLogger({.filename = own.log_file});
  cairn::Trainer trainer(std::move(options));
  const cairn::FitResult result = trainer.fit();
  if (result.reason != cairn::FitResult::Reason::kInterrupted) {
    trainer.eval();
    const bool is_first = cairn::dist::rank() == 0;
    if (is_first && !own.out.empty()) weights.save(*net, own.out, config, {.overwrite = true});
    if (is_first)
      std::cout << "perplexity "
                << trainer.state().metric_value("eval", "LanguagePerplexity").value() << " after "
                << trainer.state().timestamp.batch << " batches\n";
  }
  trainer.close();
  return result.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a small GPT-2 on the bytes of texts.", "gpt2");
  Options own;
  app.add_option("--text", own.texts, "the files to train on")->required();
  app.add_option("--from", own.from, "begin with these weights (a folder of Transformers')");
  app.add_option("--log-file", own.log_file, "write the log here, for `cairn watch`");
  app.add_option("--out", own.out, "write the weights here (a folder for Transformers)");
  app.add_option("--batch-size", own.batch_size, "samples of a batch")->capture_default_str();
  app.add_option("--lr", own.lr, "highest learning rate")->capture_default_str();
  app.add_option("--dropout", own.config.dropout, "share of activations")->capture_default_str();
  app.add_flag("--recompute", own.config.activation_checkpointing,
               "compute the layers again in backward(), which takes less memory");
  cairn::TrainerOptions options{.max_duration = "2ep", .run_name = "gpt2", .seed = 17};
  examples::add_trainer_flags(app, options);
  return examples::run_main(app, argc, argv,
                            [&] { return train(std::move(own), std::move(options)); });
}
