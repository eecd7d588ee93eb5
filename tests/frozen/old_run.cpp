// Frozen: a user's program, see CMakeLists.txt. A run of one or several ranks, in every form of
// checkpoint:
//   old_run one_file|async|uploads|disk|wrapped|sharded|disk_sharded|tars [stop=BATCH]
//           [folder=FOLDER] [duration=DURATION]
// It saves in the folder "run" of the working directory, or in FOLDER. With stop= it kills itself
// before that batch. tests/data/run-354b4a8e/README.md says which files it made.
#include <torch/torch.h>

#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cairn/cairn.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"

#include "stores.h"

namespace {

using Words = std::map<std::string, std::string>;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(17);
    first = register_module("first", cairn::Sharded<torch::nn::Linear>(4, 6));
    second = register_module("second", cairn::Sharded<torch::nn::Linear>(6, 3));
    to(torch::kFloat);
  }
  at::Tensor forward(const at::Tensor& input) { return second(torch::tanh(first(input))); }
  cairn::Sharded<torch::nn::Linear> first{nullptr};
  cairn::Sharded<torch::nn::Linear> second{nullptr};
};
TORCH_MODULE(Net);

// Counts batches over all starts.
struct Counter final : cairn::Callback {
  std::string name() const override { return "Counter"; }
  void batch_end(cairn::State& /*state*/, cairn::Logger& /*logger*/) override { ++count; }
  cairn::Value state_dict() const override { return cairn::Dict{{"count", count}}; }
  void load_state_dict(const cairn::Value& state) override { count = state.at("count").as_int(); }
  std::int64_t count = 0;
};

struct Stop final : cairn::Callback {
  explicit Stop(std::int64_t at) : batch(at) {}
  std::string name() const override { return "Stop"; }
  void batch_start(cairn::State& state, cairn::Logger& /*logger*/) override {
    if (state.timestamp.batch == batch) std::raise(SIGKILL);
  }
  std::int64_t batch;
};

cairn::DataLoader old_loader() {
  const at::Tensor x = torch::sin(torch::arange(64, torch::kFloat)).reshape({16, 4});
  return cairn::DataLoader(
      cairn::tensor_dataset({x, torch::arange(16, torch::kLong) % 3}),
      {.batch_size = 2, .sampler = cairn::DistributedSamplerOptions{.shuffle = true, .seed = 3}});
}

cairn::TrainerOptions old_options(const std::string& form, Words& words, const Net& net,
                                  const std::shared_ptr<Counter>& counter) {
  cairn::TrainerOptions options;
  options.model = cairn::classifier(net, {.num_classes = 3});
  options.train_dataloader = old_loader();
  options.max_duration = words.contains("duration") ? words["duration"] : "2ep";
  options.optimizers = cairn::AdamW({.lr = 0.05});
  options.schedulers = cairn::LinearScheduler();
  options.callbacks = {counter};
  if (words.contains("stop")) options.callbacks.push_back(Stop(std::stoll(words["stop"])));
  options.run_name = "old";
  options.progress_bar = false;
  options.save_folder = words.contains("folder") ? words["folder"] : "run";
  options.save_interval = "2ba";
  options.save_num_checkpoints_to_keep = 2;
  options.save_num_remote_checkpoints_to_keep = 2;
  options.save_async = form == "async";
  options.autoresume = true;
  options.device = "cpu";
  options.seed = 7;
  options.handle_signals = false;

  if (form == "uploads") {  // kept on this machine only until they are uploaded
    options.loggers = {cairn::RemoteUploaderDownloader(
        {.file_path_format_string = "archive/{remote_file_name}", .store = cairn::local_store()})};
    options.save_num_checkpoints_to_keep = 0;
  }
  if (form.starts_with("disk")) {
    options.save_object_store = std::make_shared<frozen::DiskStore>("disk");
  }
  if (form == "wrapped") {
    options.save_object_store = std::make_shared<frozen::CountingStore>(cairn::local_store());
  }
  if (form.ends_with("sharded")) {
    options.parallelism_config = cairn::ParallelismConfig{
        .fsdp = cairn::FSDPConfig{.sharding_strategy = "FULL_SHARD", .state_dict_type = "sharded"}};
  }
  if (form == "tars") {
    options.deepspeed_config = cairn::Dict{{"zero_optimization", cairn::Dict{{"stage", 3}}}};
  }
  return options;
}

// Prints a hash (FNV-1a) of every bit of this rank's weights, and their sum.
void say_weights(const torch::nn::Module& net, const char* when) {
  std::uint64_t hash = 14695981039346656037U;
  double sum = 0;
  for (const auto& [name, parameter] : cairn::named_parameters(net)) {
    const at::Tensor tensor = parameter.detach().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(tensor.data_ptr());
    for (std::size_t i = 0; i < tensor.nbytes(); ++i)
      hash = (hash ^ bytes[i]) * 1099511628211U;
    sum += tensor.abs().sum().item<double>();
  }
  char line[128];
  std::snprintf(line, sizeof line, "%s weights %016" PRIx64 " sum %.12f", when, hash, sum);
  say(line);
}

void run(const std::string& form, Words& words) {
  const Net net;
  const auto counter = std::make_shared<Counter>();
  cairn::Trainer trainer(old_options(form, words, net, counter));
  say("begins at batch " + std::to_string(trainer.state().timestamp.batch) + ", counted " +
      std::to_string(counter->count));
  say_weights(*net, "first");
  trainer.fit();
  trainer.close();
  say("ends at batch " + std::to_string(trainer.state().timestamp.batch) + ", counted " +
      std::to_string(counter->count));
  say_weights(*net, "last");
  for (const std::string& path : trainer.saved_checkpoints())
    say("saved " + path);
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  if (argc < 2) return 2;
  Words words;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    words[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  try {
    run(argv[1], words);
    return 0;
  } catch (const std::exception& error) {
    say(std::string("error: ") + error.what());
    return 1;
  }
}
