// One process of a job. dist_test.cpp starts several of them:
//   dist_program MODE KEY=VALUE... [-- MODE KEY=VALUE...]...
// Several cases run one after the other, in one group of processes. The exit code is that of the
// last case. An argument R:KEY=VALUE is only for rank R.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cairn/algorithms/ema.h"
#include "cairn/algorithms/gradient_clipping.h"
#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/exit_code.h"
#include "cairn/metrics/classification.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/logger.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "../../examples/digits/digits_data.h"
#include "../../examples/digits/net.h"
#include "arguments.h"
#include "batch_callbacks.h"
#include "checkpoint/ranks/commit_over_ranks.h"
#include "collectives.h"
#include "composer_net.h"
#include "core/hash/xxh3.h"
#include "dist/rank_tables.h"
#include "listeners.h"
#include "meetings.h"
#include "outage.h"
#include "peak_memory.h"
#include "surroundings.h"
#include "team_calls.h"
#include "testing/tiny_model.h"

namespace {

using cairn::testing::CallAt;

// All ranks except one come to a barrier; with device=sim, to a sum of tensors on a simulated
// device.
void miss_a_barrier(const Arguments& arguments) {
  initialize(arguments);
  at::Tensor ones = at::ones({3}, tensors_of(arguments));
  cairn::dist::all_reduce(ones);
  if (cairn::dist::rank() == arguments.number("rank", 1)) {
    print_line("away");
    if (arguments.text("how") == "dead") raise(SIGKILL);
    if (arguments.text("how") == "stopped") raise(SIGSTOP);
    for (;;)
      pause();
  }
  if (arguments.has("device")) return cairn::dist::all_reduce(ones);
  cairn::dist::barrier("the second barrier");
}

std::string digest_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : module.parameters())
    all.push_back(tensor.detach().reshape({-1}).to(at::kDouble));
  for (const at::Tensor& tensor : module.buffers())
    all.push_back(tensor.detach().reshape({-1}).to(at::kDouble));
  const at::Tensor flat = at::cat(all).cpu();
  const auto* bytes = reinterpret_cast<const std::byte*>(flat.data_ptr<double>());
  char text[64];
  std::snprintf(
      text, sizeof text, "%016lx",
      static_cast<unsigned long>(cairn::xxh3_64({bytes, static_cast<std::size_t>(flat.nbytes())})));
  return text;
}

cairn::DataLoader loader_of(const Arguments& arguments, bool is_train) {
  cairn::DataLoaderOptions options{
      .batch_size = arguments.number("batch", 2),
      .sampler = cairn::DistributedSamplerOptions{.shuffle = is_train,
                                                  .seed = arguments.number("data_seed", 3)}};
  if (arguments.text("sampler") == "none") options.sampler.reset();
  if (arguments.has("composer")) {
    return cairn::DataLoader(composer_data(arguments.text("composer")), options);
  }
  const bool is_uneven = arguments.has("uneven") && is_train;
  // Each rank uses all samples of its own loader. Before the division by the number of ranks, each
  // rank has 4 samples more than the previous rank.
  if (is_uneven) {
    const std::int64_t ranks = cairn::dist::world_size();
    const std::int64_t samples = arguments.number("samples", 24) + 4 * cairn::dist::rank();
    options.sampler->num_replicas = 1;
    options.sampler->rank = 0;
    return cairn::testing::tiny_loader((samples + ranks - 1) / ranks, options);
  }
  if (arguments.text("data") == "digits") {
    const digits::Scans scans = digits::load_scans();
    return cairn::DataLoader(is_train ? scans.train : scans.test, options);
  }
  return cairn::testing::tiny_loader((is_train ? arguments.number("samples", 24) : 11), options);
}

// Batches that say they have no tokens, on rank 1 or on all ranks.
cairn::DataSpec weightless(const Arguments& arguments, cairn::DataLoader loader) {
  const bool is_of_all = arguments.text("weightless") == "all";
  return {.dataloader = std::move(loader),
          .get_num_tokens_in_batch = [is_of_all](const cairn::Batch&) -> std::int64_t {
            return is_of_all || cairn::dist::rank() == 1 ? 0 : 3;
          }};
}

// Makes two samples of each sample, like a transform that makes several views of an image.
cairn::DataSpec doubled(cairn::DataLoader loader) {
  return {.dataloader = std::move(loader), .batch_transforms = [](const cairn::Batch& batch) {
            return batch.map([](const at::Tensor& tensor) { return at::cat({tensor, tensor}); });
          }};
}

struct Net : torch::nn::Module {
  explicit Net(const Arguments& arguments) : dropout(arguments.number("dropout", 0) / 100.0) {
    torch::manual_seed(static_cast<std::uint64_t>(1 + cairn::dist::rank()));  // Ranks differ.
    const std::int64_t width = arguments.number("width", 8);
    first = register_module("first", cairn::Sharded<torch::nn::Linear>(4, width));
    if (arguments.has("norm")) norm = register_module("norm", torch::nn::BatchNorm1d(width));
    second = register_module("second", cairn::Sharded<torch::nn::Linear>(width, 3));
    unused = register_module("unused", torch::nn::Linear(2, 2));
    to(type = arguments.has("float") ? at::kFloat : at::kDouble);
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor hidden = first(input.to(type)).tanh();
    if (norm) hidden = norm(hidden);
    return second(torch::dropout(hidden, dropout, is_training()));
  }
  cairn::Sharded<torch::nn::Linear> first{nullptr}, second{nullptr};
  torch::nn::Linear unused{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  double dropout;
  at::ScalarType type;
};

// Sets deepspeed_config, and the options used with it.
void deepspeed_options(const Arguments& arguments, cairn::TrainerOptions& options) {
  if (arguments.has("deepspeed")) {
    options.deepspeed_config = cairn::Dict{
        {"zero_optimization", cairn::Dict{{"stage", arguments.number("deepspeed", 0)}}}};
  }
  options.save_filename = arguments.text("filename", options.save_filename);
  options.save_weights_only = arguments.has("weights_only");
  if (arguments.has("no_resume")) options.autoresume = false;
}

cairn::TrainerOptions options_of(const Arguments& arguments) {
  cairn::TrainerOptions options;
  options.train_dataloader = loader_of(arguments, /*is_train=*/true);
  if (arguments.has("weightless")) {
    options.train_dataloader = weightless(arguments, loader_of(arguments, /*is_train=*/true));
    options.accumulate_train_batch_on_tokens = true;
  }
  options.eval_dataloader = loader_of(arguments, /*is_train=*/false);
  if (arguments.has("views")) {
    options.eval_dataloader = doubled(loader_of(arguments, /*is_train=*/false));
  }
  options.optimizers = cairn::AdamW({.lr = 0.01 * static_cast<double>(arguments.number("lr", 5))});
  if (arguments.has("sgd")) options.optimizers = cairn::SGD({.lr = 0.05});
  if (arguments.has("rates")) options.schedulers = cairn::LinearScheduler();
  options.max_duration = arguments.text("duration", "2ep");
  options.progress_bar = false;
  options.run_name = arguments.text("name", "job");
  options.seed = 7;
  options.dist_timeout = static_cast<double>(arguments.number("timeout_ms", 60000)) / 1000;
  options.ddp_sync_strategy = arguments.text("strategy", "single_auto_sync");
  if (arguments.text("device") == "cuda") {
    options.device = "gpu";
    options.precision = arguments.text("precision", "fp32");
    options.deterministic_mode = true;
  }
  if (arguments.has("micro")) options.device_train_microbatch_size = arguments.number("micro", 1);
  if (arguments.has("clip")) {
    options.algorithms.push_back(
        cairn::GradientClipping({.clipping_type = arguments.text("clip"),
                                 .clipping_threshold = arguments.number("threshold", 5) / 100.0}));
  }
  if (arguments.has("ema")) options.algorithms.push_back(cairn::EMA({.half_life = "2ba"}));
  if (arguments.has("shard")) {
    cairn::FSDPConfig sharding{.sharding_strategy = arguments.text("shard")};
    if (arguments.has("replicas")) {
      sharding.data_parallel_replicate_degree = arguments.number("replicas", 1);
    }
    if (arguments.has("state")) sharding.state_dict_type = arguments.text("state");
    options.parallelism_config = cairn::ParallelismConfig{.fsdp = sharding};
  }
  if (arguments.has("folder")) {
    options.save_folder = arguments.text("folder");
    if (arguments.has("machines")) {  // Each machine has its own disk.
      *options.save_folder += "/" + std::to_string(cairn::dist::node_rank());
    }
    if (arguments.has("load_here")) {
      options.load_path = *options.save_folder + arguments.text("load_here");
    }
    options.save_interval = arguments.text("interval", "1ba");
    options.save_async = arguments.has("async");
    options.save_num_checkpoints_to_keep = static_cast<int>(arguments.number("keep", -1));
    if (arguments.has("best"))
      options.save_keep_best = cairn::KeepBest{.metric = arguments.text("best"), .mode = "max"};
    options.autoresume = !arguments.has("load") && !arguments.has("load_here");
  }
  if (arguments.has("load")) options.load_path = arguments.text("load");
  deepspeed_options(arguments, options);
  return options;
}

// For a test that waits for the line "waits" and then sends a signal. Any thread may get the
// signal. So the handler note_signal() notes the signal, and calls the previous handler.
std::array<int, 2> g_signalled = {-1, -1};  // A pipe.
std::map<int, struct sigaction> g_listened;

void note_signal(int number, siginfo_t* info, void* context) {
  const struct sigaction& before = g_listened.at(number);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else {
    before.sa_handler(number);
  }
  (void)!write(g_signalled[1], "", 1);
}

void wait_for_signal() {
  if (pipe(g_signalled.data()) != 0) throw std::runtime_error("no pipe");
  struct sigaction noting = {};
  noting.sa_sigaction = note_signal;
  noting.sa_flags = SA_SIGINFO;
  for (const int number : {SIGTERM, SIGUSR1})
    sigaction(number, nullptr, &g_listened[number]);
  for (const auto& [number, before] : g_listened)
    sigaction(number, &noting, nullptr);
  print_line("waits");
  char one = 0;
  while (read(g_signalled[0], &one, 1) != 1) {
  }
  for (const auto& [number, before] : g_listened)
    sigaction(number, &before, nullptr);
}

bool is_at(const Arguments& arguments, const cairn::State& state, const std::string& who) {
  return state.timestamp.batch == arguments.number("at_batch", -1) &&
         (!arguments.has(who) || cairn::dist::rank() == arguments.number(who, 0));
}

void act_at(const Arguments& arguments, cairn::State& state) {
  if (!is_at(arguments, state, "rank")) return;
  const std::string how = arguments.text("how");
  if (how == "dead") raise(SIGKILL);
  if (how == "term") raise(SIGTERM);
  if (how == "stop") state.stop_training();
  if (how == "wait") wait_for_signal();
  if (how == "line") wait_for_line();
  if (how == "mkdir") std::filesystem::create_directories(arguments.text("makes"));
}

// While this object lives, this process may run on only one processor, and each neighbour on
// another processor.
class Bound {
 public:
  Bound() {
    sched_getaffinity(0, sizeof before_, &before_);
    const int count = CPU_COUNT(&before_);
    const int wanted = static_cast<int>(cairn::dist::rank()) % count;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_) && seen++ == wanted) CPU_SET(cpu, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
  }
  ~Bound() { sched_setaffinity(0, sizeof before_, &before_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_{};
};

// Prints whether the last checkpoint of a run that was stopped at `batch` exists.
void look_for_last_save(const Arguments& arguments, std::int64_t batch) {
  const std::string name = "ep0-ba" + std::to_string(batch) + "-rank0.pt";
  print_line(std::filesystem::exists(arguments.text("folder") + "/" + name)
                 ? "the last save is there"
                 : "the last save is missing");
}

// Makes the network and its model for `options`. Returns the network.
std::shared_ptr<torch::nn::Module> make_network(const Arguments& arguments,
                                                cairn::TrainerOptions& options) {
  torch::manual_seed(17);
  if (arguments.text("net") == "digits") {
    const digits::Net net;
    options.model = cairn::classifier(net, {.num_classes = 10});
    return net.ptr();
  }
  if (arguments.has("composer")) return make_composer_net(options);
  if (arguments.text("data") == "digits") {  // Without batch norm and dropout.
    const torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(64, 32),
                                    torch::nn::ReLU(), torch::nn::Linear(32, 10));
    options.model = cairn::classifier(net, {.num_classes = 10});
    return net.ptr();
  }
  if (arguments.has("names")) {  // Rank 1's losses have other names.
    const auto model = std::make_shared<cairn::testing::TinyModel>(
        cairn::testing::TinyModelOptions{.by_name = cairn::dist::rank() == 1});
    options.model = model;
    return {model, &model->module()};
  }
  const auto net = std::make_shared<Net>(arguments);
  cairn::ClassifierOptions model = {.num_classes = 3};
  if (arguments.has("area")) model.val_metrics = cairn::MulticlassAUROC({.num_classes = 3});
  options.model = cairn::classifier(net, model);
  if (arguments.has("thaw")) {  // A layer that is trained from the second epoch on.
    const cairn::Event event = event_of(arguments.text("thaw"));
    options.callbacks.push_back(CallAt(event, [net](cairn::State& state) {
      net->first->weight.set_requires_grad(state.timestamp.epoch > 0);
    }));
  }
  return net;
}

// Evaluates with a Trainer that has trained. On rank 1 one sample is bad.
void evaluate_badly(const Arguments& arguments, cairn::Trainer& trainer, bool& is_bad) {
  try {
    trainer.eval(cairn::EvaluatorList{cairn::Evaluator{
        .label = "whole",
        .dataloader = cairn::testing::tiny_loader(11, cairn::DataLoaderOptions{.batch_size = 2})}});
  } catch (const cairn::UsageError& error) {
    print_line(std::string("refused: ") + error.what());
  }
  is_bad = cairn::dist::rank() == arguments.number("bad", 1);
  trainer.eval();
}

// Predicts different samples on each rank. Rank 1 has more samples than the other ranks.
void predict(cairn::Trainer& trainer) {
  const std::int64_t samples = cairn::dist::rank() == 1 ? 7 : 3;
  double sum = 0;
  std::size_t batches = 0;
  for (const auto& outputs : trainer.predict(cairn::testing::tiny_loader(samples))) {
    sum += outputs.single().abs().sum().item<double>();
    ++batches;
  }
  char line[128];
  std::snprintf(line, sizeof line, "predicted %zu batches, %.12g", batches, sum);
  print_line(line);
}

void say_losses(const cairn::State& state) {
  for (const auto& [name, value] : state.total_loss_dict)
    print_line("loss " + name.as_str() + " " + std::to_string(value.as_float()));
}

void say_metrics(const cairn::State& state) {
  const auto area = state.metric_value("eval", "MulticlassAUROC");
  if (area) print_line("area " + std::to_string(*area));
  if (!state.metric_value("eval", "MulticlassAccuracy")) return;
  char line[128];
  std::snprintf(line, sizeof line, "accuracy %.17g of %lld samples",
                state.metric_value("eval", "MulticlassAccuracy").value(),
                static_cast<long long>(state.eval_timestamp.sample));
  print_line(line);
}

// After rank 0 has found a checkpoint, and before the other ranks open it, another checkpoint gets
// its name.
void swap_when_found(const Arguments& arguments) {
  auto before = std::make_shared<cairn::MessageSink>();
  *before = cairn::set_message_sink([before, arguments](const std::string& message) {
    if (message.starts_with("autoresume: going on from ")) {
      std::filesystem::rename(arguments.text("swap"), arguments.text("over"));
    }
    if (*before) (*before)(message);
  });
}

int train(const Arguments& arguments) {
  if (arguments.has("gate")) initialize(arguments);
  if (arguments.has("swap") && cairn::dist::rank() == 0) swap_when_found(arguments);
  std::optional<Bound> bound;
  if (arguments.has("bind")) bound.emplace();
  cairn::TrainerOptions options = options_of(arguments);
  const auto net = make_network(arguments, options);
  BrokenOnce broken;
  const bool breaks = arguments.has("breaks") && cairn::dist::rank() == 0;
  if (breaks) options.save_object_store = broken.store();
  if (arguments.has("second")) {  // Two savers: the second one's store never fails.
    cairn::CheckpointSaverOptions first = {.folder = arguments.text("folder"),
                                           .save_interval = "1ba",
                                           .save_async = true,
                                           .store = options.save_object_store};
    if (first.store == nullptr) first.store = cairn::local_store();
    options.callbacks.push_back(cairn::CheckpointSaver(first));
    options.callbacks.push_back(cairn::CheckpointSaver(
        {.folder = arguments.text("folder") + "/second", .save_interval = "1ba"}));
    options.save_folder.reset();
    options.save_object_store.reset();
  }
  bool is_bad = false;
  std::int64_t eval_batches = 0;  // Batches that began and have not ended.
  bool is_balanced = true;
  const auto observe = [&options](cairn::Event event, std::function<void(cairn::State&)> action) {
    options.callbacks.push_back(CallAt(event, std::move(action), /*may_change_batch=*/false));
  };
  observe(cairn::Event::kEvalBatchStart, [&](cairn::State&) {
    ++eval_batches;
    if (is_bad) throw cairn::UsageError("a bad sample");
  });
  observe(cairn::Event::kEvalBatchEnd,
          [&](cairn::State&) { is_balanced = --eval_batches == 0 && is_balanced; });
  observe(cairn::Event::kBatchEnd, [&](cairn::State& state) {
    const double loss = state.total_loss_dict.at("loss/train/total").as_float();
    print_line(fmt::format("batch {} samples {} loss {:.17g}", state.timestamp.batch,
                           state.timestamp.sample, loss));
    if (breaks && state.timestamp.batch == 2) broken.wait();
    if (!arguments.has("at_event")) act_at(arguments, state);
  });
  if (arguments.has("keeps_gradients")) options.callbacks.push_back(KeepsGradients());
  if (arguments.has("at_event")) {
    options.callbacks.push_back(CallAt(
        event_of(arguments.text("at_event")),
        [&](cairn::State& state) { act_at(arguments, state); },
        /*may_change_batch=*/!arguments.has("observes")));
  }
  if (arguments.has("before_save")) {
    observe(cairn::Event::kBatchCheckpoint, [&](cairn::State& state) {
      if (is_at(arguments, state, "before_save")) raise(SIGKILL);
    });
  }
  if (arguments.has("drifts")) {  // Changes one element of one parameter.
    options.callbacks.push_back(CallAt(cairn::Event::kBatchStart, [&](cairn::State& state) {
      if (!is_at(arguments, state, "drifts")) return;
      const torch::NoGradGuard no_grad;
      net->parameters().at(1).data_ptr<double>()[0] += 1e-9;
    }));
  }
  PeakMemory peak;
  if (arguments.has("peak")) {  // Measures around a save: the saver runs after this callback.
    observe(cairn::Event::kBatchCheckpoint, [&](cairn::State&) { peak.begin(); });
    observe(cairn::Event::kFitEnd,
            [&](cairn::State&) { print_line("peak " + std::to_string(peak.bytes())); });
  }
  Surroundings surroundings(arguments);
  surroundings.change(options);
  cairn::Trainer trainer(std::move(options));
  surroundings.describe();
  print_line("begins at batch " + std::to_string(trainer.state().timestamp.batch));
  surroundings.save_first(trainer);
  const cairn::FitResult result = trainer.fit();
  if (arguments.has("look")) look_for_last_save(arguments, trainer.state().timestamp.batch);
  if (arguments.has("rates")) {
    print_line("rate " +
               std::to_string(trainer.state().optimizer->param_groups()[0].options().get_lr()));
  }
  if (arguments.has("keeps")) {
    print_line("kept " + trainer.save_checkpoint(arguments.text("folder") + "/kept-rank{rank}.pt"));
  }
  save_again(arguments, trainer);
  if (arguments.has("bad")) evaluate_badly(arguments, trainer, is_bad);
  if (arguments.has("predict")) predict(trainer);
  if (arguments.has("names")) say_losses(trainer.state());
  trainer.close();
  surroundings.describe_files(trainer);
  print_line("ends at batch " + std::to_string(trainer.state().timestamp.batch));
  print_line("weights " + digest_of(*net));
  if (result.exit_code != 0) return result.exit_code;
  say_metrics(trainer.state());
  if (!is_balanced) print_line("error: an evaluated batch ends that did not begin");
  const auto* tiny = dynamic_cast<const Net*>(net.get());
  if (tiny != nullptr) {
    print_line(tiny->unused->weight.grad().defined() ? "the unused has a gradient"
                                                     : "nothing for the unused");
  }
  return 0;
}

// All ranks write two checkpoints together. Rank `dies` is killed while it writes its part of the
// second checkpoint.
void commit_together(const Arguments& arguments) {
  initialize(arguments);
  const auto table = cairn::dist::rank_table();
  const auto store = cairn::local_store();
  for (const std::string& name : {std::string("ba1"), std::string("ba2")}) {
    cairn::RankCommitJob job{.path = arguments.text("folder") + "/" + name};
    job.write_part = [&](cairn::PartPlace& place) {
      const std::int64_t rank = cairn::dist::rank();
      if (name == "ba2" && rank == arguments.number("dies", -1)) raise(SIGKILL);
      const std::string text = name + " of rank " + std::to_string(rank);
      const std::string file = "__" + std::to_string(rank) + "_0.distcp";
      place.write({.name = file,
                   .fill = [&](cairn::ObjectWrite& out) { out.write(cairn::as_bytes(text)); }});
      return std::vector<cairn::ManifestFile>{
          {.name = place.stored_name(file), .bytes = text.size(), .xxh3_128 = "-"}};
    };
    job.metadata = [](const std::vector<cairn::RankPart>& parts) {
      return "of " + std::to_string(parts.size());
    };
    const auto begin = std::chrono::steady_clock::now();
    try {
      cairn::commit_over_ranks(*table, *store, job);
      print_line("saved " + name);
    } catch (const cairn::RankFailure& error) {
      const auto took = std::chrono::steady_clock::now() - begin;
      demand(took < std::chrono::seconds(30), "an error soon");
      print_line(std::string("failed: ") + error.what());
    }
  }
}

// Prints the error if training is refused. An error that all ranks throw alike leaves the group
// usable.
void say_refusal(const Arguments& arguments) {
  try {
    train(arguments);
    print_line("not refused");
  } catch (const cairn::UsageError& error) {
    print_line(std::string("refused: ") + error.what());
  }
}

int run(const std::string& mode, const Arguments& arguments) {
  if (mode == "refusal") say_refusal(arguments);
  if (mode == "listeners") say_listeners(arguments);
  if (mode == "commit") commit_together(arguments);
  if (mode == "tables") use_tables(arguments);
  if (mode == "team") call_as_team(arguments);
  if (mode == "train") return train(arguments);
  if (mode == "collectives") try_collectives(arguments);
  if (mode == "miss") miss_a_barrier(arguments);
  return 0;
}

// The words of each case, without the words for other ranks.
std::vector<std::vector<std::string>> cases_of(const std::vector<std::string>& words) {
  std::vector<std::vector<std::string>> cases(1);
  const std::string own = std::to_string(cairn::dist::rank()) + ":";
  for (const std::string& word : words) {
    const bool is_of_a_rank = word.size() > 2 && std::isdigit(word[0]) != 0 && word[1] == ':';
    if (word == "--") {
      cases.emplace_back();
    } else if (word.starts_with(own)) {
      cases.back().push_back(word.substr(own.size()));
    } else if (!is_of_a_rank) {
      cases.back().push_back(word);
    }
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  try {
    auto cases = cases_of({argv + 1, argv + argc});
    int code = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases.size() > 1) print_line("case " + std::to_string(i));
      const std::string mode = cases[i].at(0);
      cases[i].erase(cases[i].begin());
      try {
        code = run(mode, Arguments(cases[i]));
      } catch (const cairn::UsageError& error) {  // All ranks throw it.
        if (!Arguments(cases[i]).has("may_fail")) throw;
        print_line(std::string("error: ") + error.what());
      } catch (const cairn::StorageError& error) {
        if (!Arguments(cases[i]).has("may_fail")) throw;
        print_line(std::string("error: ") + error.what());
        code = cairn::exit_code_of(error);
      }
      if (cases.size() > 1) print_line("code " + std::to_string(code));
    }
    return code;
  } catch (const cairn::dist::DistError& error) {
    print_line(std::string("DistError: ") + error.what());
    return 3;
  } catch (const std::exception& error) {
    print_line(std::string("error: ") + error.what());
    return 2;
  }
}
