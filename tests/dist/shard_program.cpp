// One process of a job. shard_test.cpp starts several of them:
//   shard_program MODE...
// Each mode compares the ranks' common result with one model that this process trains on the
// batches of all ranks. At the end the program prints that all comparisons hold. The sharded module
// lies on the CPU. After the mode "device" it lies on a simulated device, after "cuda" on a GPU.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/parameters.h"
#include "cairn/train/scaler.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "collective_counts.h"
#include "testing/sim_device.h"

namespace {

using cairn::FSDPConfig;
using cairn::FSDPMixedPrecision;
using cairn::Sharded;

at::DeviceType device = at::kCPU;  // Where the sharded module lies.

void put_on_device(torch::nn::Module& module) {
  if (device == at::kCUDA) module.to(device);
  if (device == at::kCPU || device == at::kCUDA) return;
  for (const at::Tensor& parameter : module.parameters())
    cairn::testing::move_to_sim_device(parameter);
}

void print_line(const std::string& text) { std::cout << text << std::endl; }

void demand(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("not so: " + what);
}

template <class E>
void demand_error(const std::string& part, const std::function<void()>& act) {
  std::string found = "nothing was thrown";
  try {
    act();
  } catch (const E& error) {
    found = error.what();
    if (found.find(part) != std::string::npos) return;
  }
  throw std::runtime_error("no error with \"" + part + "\": " + found);
}

// Between two units, this block has parameters that belong to no unit.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width) {
    first = register_module("first", Sharded<torch::nn::Linear>(width, 7));
    scale = register_parameter("scale", torch::ones({7}));
    second = register_module("second", torch::nn::Linear(7, width));
  }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& input, bool doubles) {
    const at::Tensor hidden = torch::tanh(first(input)) * scale;
    return {second(hidden) * (doubles ? 2 : 1) + input, hidden};
  }
  Sharded<torch::nn::Linear> first{nullptr};
  torch::nn::Linear second{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  explicit NetImpl(at::ScalarType type = at::kDouble) {
    torch::manual_seed(3);
    words = register_module("words", Sharded<torch::nn::Embedding>(11, 6));
    block = register_module("block", Sharded<Block>(6));
    twice = register_module("twice", Sharded<torch::nn::Linear>(6, 6));
    layers = register_module(
        "layers", Sharded<torch::nn::Sequential>(torch::nn::Linear(6, 5), torch::nn::Tanh(),
                                                 torch::nn::LayerNorm(std::vector<int64_t>{5})));
    unused = register_module("unused", Sharded<torch::nn::Linear>(3, 3));
    last = register_module("last", torch::nn::Linear(5, 3));
    frozen = register_parameter("frozen", torch::rand({5}), /*requires_grad=*/false);
    to(type);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = words(tokens);
    x = twice(x);
    x = std::get<0>(block(x, true));
    // Called through the pointer, and the output is changed in place.
    x = twice->forward(x).relu_();
    x = layers->forward(x);
    return last(x * frozen).mean(1);
  }
  Sharded<torch::nn::Embedding> words{nullptr};
  Sharded<Block> block{nullptr};
  Sharded<torch::nn::Linear> twice{nullptr};
  Sharded<torch::nn::Sequential> layers{nullptr};
  Sharded<torch::nn::Linear> unused{nullptr};
  torch::nn::Linear last{nullptr};
  at::Tensor frozen;
};
TORCH_MODULE(Net);

std::pair<at::Tensor, at::Tensor> batch_of(std::int64_t rank, std::int64_t step) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + rank));
  return {at::randint(0, 11, {4, 2}, generator, at::kLong),
          at::randint(0, 3, {4}, generator, at::kLong)};
}

at::Tensor loss_of(Net& net, std::int64_t rank, std::int64_t step) {
  const auto [tokens, targets] = batch_of(rank, step);
  const at::Device to = net->last->weight.device();
  return torch::nn::functional::cross_entropy(net->forward(tokens.to(to)), targets.to(to));
}

double difference(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes()) throw std::runtime_error("shapes differ");
  if (one.numel() == 0) return 0;
  const at::Tensor from = other.to(at::kCPU, at::kDouble);
  return (one.to(at::kCPU, at::kDouble) - from).abs().max().item<double>();
}

// This rank's rows of `whole`.
at::Tensor rows_of(const cairn::ShardedModule& sharded, const at::Tensor& parameter,
                   const at::Tensor& whole) {
  const auto rows = sharded.find(parameter);
  return rows ? whole.narrow(0, rows->begin, rows->count) : whole;
}

void compare(const cairn::ShardedModule& sharded, const Net& net, const Net& plain,
             double tolerance) {
  const auto own = cairn::named_parameters(*net);
  const auto all = cairn::named_parameters(*plain);
  demand(own.size() == all.size(), "the names are those of the plain one");
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto& [name, parameter] = own[i];
    demand(name == all[i].first, name + " keeps its name");
    const at::Tensor& whole = all[i].second;
    const double of_rows = difference(parameter.detach(), rows_of(sharded, parameter, whole));
    demand(of_rows <= tolerance, name + " differs by " + std::to_string(of_rows));
    demand(parameter.grad().defined() == whole.grad().defined(), name + "'s gradient is there");
    if (!whole.grad().defined()) continue;
    const double of_gradients =
        difference(parameter.grad(), rows_of(sharded, parameter, whole.grad()));
    demand(of_gradients <= tolerance,
           name + "'s gradient differs by " + std::to_string(of_gradients));
  }
}

void train(const FSDPConfig& config, double tolerance, at::ScalarType type = at::kDouble) {
  Net plain(type);
  Net net(type);
  put_on_device(*net);
  for (at::Tensor& parameter : net->parameters()) {  // Rank 0's weights count.
    if (cairn::dist::rank() != 0) parameter.set_data(torch::rand_like(parameter));
  }
  const auto sharded = cairn::fully_shard(net.ptr(), config);
  torch::optim::AdamW optimizer(cairn::parameters(*net), torch::optim::AdamWOptions(0.01));
  torch::optim::AdamW reference(cairn::parameters(*plain), torch::optim::AdamWOptions(0.01));
  const std::int64_t world = cairn::dist::world_size();
  for (std::int64_t step = 0; step < 3; ++step) {
    for (const Net& each : {net, plain}) {
      for (at::Tensor& parameter : each->parameters())
        parameter.mutable_grad().reset();
    }
    sharded->record_forward_order();
    for (std::int64_t part = 0; part < 2; ++part) {  // Two microbatches.
      sharded->begin();
      const at::Tensor loss = loss_of(net, cairn::dist::rank(), 2 * step + part);
      sharded->backward(loss);
      sharded->end();
      for (std::int64_t rank = 0; rank < world; ++rank)
        (loss_of(plain, rank, 2 * step + part) / static_cast<double>(world)).backward();
    }
    compare(*sharded, net, plain, tolerance);
    optimizer.step();
    reference.step();
  }
  compare(*sharded, net, plain, tolerance);
  sharded->begin();
  {
    const torch::NoGradGuard no_grad;  // An evaluation.
    demand(difference(loss_of(net, 1, 9), loss_of(plain, 1, 9)) <= tolerance, "an evaluation");
  }
  sharded->end();
  demand(sharded->bytes().whole == 0, "nothing is whole between passes");
}

void try_strategies() {
  const std::int64_t world = cairn::dist::world_size();
  const double exact = 1e-12;
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"})
    train({.sharding_strategy = strategy}, exact);
  for (const char* prefetch : {"BACKWARD_PRE", "NONE"})
    train({.backward_prefetch = prefetch, .forward_prefetch = true}, exact);
  train({.auto_wrap = false}, exact);
  if (world % 2 == 0) {
    for (const char* strategy : {"HYBRID_SHARD", "_HYBRID_SHARD_ZERO2", "FULL_SHARD"}) {
      train({.sharding_strategy = strategy, .data_parallel_replicate_degree = world / 2}, exact);
    }
  }
  for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"}) {
    for (const char* prefetch : {"BACKWARD_PRE", "BACKWARD_POST"}) {
      train({.sharding_strategy = strategy,
             .backward_prefetch = prefetch,
             .forward_prefetch = true,
             .activation_checkpointing = true},
            exact);
    }
  }
  train({}, 1e-4, at::kFloat);
  train({.mixed_precision = FSDPMixedPrecision{.param_dtype = "bf16", .reduce_dtype = "fp32"}}, 0.1,
        at::kFloat);
  print_line("all of it holds");
}

// Checks the memory of each rank between steps.
void try_memory() {
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i)
    net->push_back(Sharded<torch::nn::Linear>(torch::nn::LinearOptions(256, 256)));
  std::int64_t all = 0;
  for (const at::Tensor& parameter : net->parameters())
    all += static_cast<std::int64_t>(parameter.nbytes());
  put_on_device(*net);
  const auto sharded = cairn::fully_shard(net.ptr());
  torch::optim::Adam optimizer(cairn::parameters(*net), torch::optim::AdamOptions(0.01));
  sharded->begin();
  sharded->backward(
      net->forward(torch::rand({2, 256}).to(net->parameters().front().device())).sum());
  sharded->end();
  optimizer.step();
  std::int64_t state = 0;
  for (const auto& [key, values] : optimizer.state()) {
    const auto& adam = static_cast<const torch::optim::AdamParamState&>(*values);
    state += static_cast<std::int64_t>(adam.exp_avg().nbytes() + adam.exp_avg_sq().nbytes());
  }
  const auto bytes = sharded->bytes();
  const std::int64_t share = all / cairn::dist::world_size();
  demand(bytes.parameters == share, "parameters are a share");
  demand(bytes.gradients == share, "gradients are a share");
  demand(state == 2 * share, "so is the optimizer's state");
  demand(sharded->peak_whole_bytes() <= 2 * all / 6, "at most two units are whole at once");
  print_line("bytes " + std::to_string(bytes.parameters + bytes.gradients + state));
}

// A stack of blocks with dropout. Each is a unit with another unit inside.
struct DeepBlockImpl : torch::nn::Module {
  DeepBlockImpl() {
    inner = register_module("inner", Sharded<torch::nn::Linear>(16, 64));
    outer = register_module("outer", torch::nn::Linear(64, 16));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::dropout(torch::gelu(inner(x)), 0.2, is_training());
    return x + outer(hidden);
  }
  Sharded<torch::nn::Linear> inner{nullptr};
  torch::nn::Linear outer{nullptr};
};
TORCH_MODULE(DeepBlock);

struct DeepNetImpl : torch::nn::Module {
  // `by_hand`: pairs of blocks are computed again, and the units know nothing of it.
  explicit DeepNetImpl(bool is_by_hand) : by_hand(is_by_hand) {
    torch::manual_seed(4);
    for (int i = 0; i < 6; ++i)
      blocks.push_back(register_module(std::to_string(i), Sharded<DeepBlock>()));
  }
  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      const auto pair = [this, i](const at::Tensor& y) { return blocks[i + 1](blocks[i](y)); };
      x = by_hand ? cairn::checkpoint_activations(pair, x) : pair(x);
    }
    return x;
  }
  bool by_hand;
  std::vector<Sharded<DeepBlock>> blocks;
};
TORCH_MODULE(DeepNet);

// The gradients of two microbatches, and the most bytes that were whole.
std::pair<std::vector<at::Tensor>, std::int64_t> recomputed_gradients(FSDPConfig config,
                                                                      bool by_hand) {
  DeepNet net(by_hand);
  put_on_device(*net);
  const auto sharded = cairn::fully_shard(net.ptr(), config);
  const at::Device where = net->parameters().front().device();
  torch::manual_seed(20 + cairn::dist::rank());
  for (int part = 0; part < 2; ++part) {
    sharded->record_forward_order();
    const at::Tensor input = torch::rand({3, 16}).to(where);
    sharded->begin();
    sharded->backward(net->forward(input).pow(2).sum());
    sharded->end();
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : net->parameters())
    gradients.push_back(parameter.grad().to(at::kCPU));
  gradients.push_back(torch::rand({1}));  // The generator is where it was.
  return {gradients, sharded->peak_whole_bytes()};
}

// Recomputing changes no bit, and keeps no more units whole.
void try_recomputing() {
  for (const bool is_mixed : {false, true}) {
    for (const char* strategy : {"FULL_SHARD", "SHARD_GRAD_OP"}) {
      FSDPConfig config{.sharding_strategy = strategy};
      if (is_mixed) config.mixed_precision = FSDPMixedPrecision{.param_dtype = "bf16"};
      const auto [expected, peak] = recomputed_gradients(config, /*by_hand=*/false);
      for (const bool by_hand : {false, true}) {
        config.activation_checkpointing = !by_hand;
        const auto [found, own_peak] = recomputed_gradients(config, by_hand);
        for (std::size_t i = 0; i < expected.size(); ++i)
          demand(found[i].equal(expected[i]), "gradient " + std::to_string(i) + " is the same");
        demand(own_peak <= peak,
               "no more is whole: " + std::to_string(own_peak) + " of " + std::to_string(peak));
      }
    }
  }
  print_line("all of it holds");
}

// Tries ranks that have less to do than others.
void try_uneven(bool recomputes) {
  Net plain;
  Net net;
  put_on_device(*net);
  const auto sharded = cairn::fully_shard(net.ptr(), {.activation_checkpointing = recomputes});
  const std::int64_t rank = cairn::dist::rank();
  const std::int64_t world = cairn::dist::world_size();
  for (std::int64_t part = 0; part < 2; ++part) {
    if (part == 1 && rank == 1) {
      sharded->replay_communication(/*with_backward=*/true);
      continue;
    }
    sharded->begin();
    // The second part of rank 0 has weight 0.
    sharded->backward(loss_of(net, rank, part), /*contributes=*/part == 0 || rank != 0);
    sharded->end();
  }
  for (std::int64_t part = 0; part < 2; ++part) {
    for (std::int64_t each = part == 0 ? 0 : 2; each < world; ++each)
      (loss_of(plain, each, part) / static_cast<double>(world)).backward();
  }
  compare(*sharded, net, plain, 1e-12);
  const torch::NoGradGuard no_grad;  // An evaluation in which rank 0 has no batch.
  if (rank == 0) {
    sharded->replay_communication(/*with_backward=*/false);
  } else {
    sharded->begin();
    demand(difference(loss_of(net, 1, 5), loss_of(plain, 1, 5)) < 1e-12, "an evaluation");
    sharded->end();
  }
  print_line("all of it holds");
}

void try_errors() {
  using cairn::UnsupportedError;
  using cairn::UsageError;
  const auto refused = [](const FSDPConfig& config) {
    return [config] { cairn::fully_shard(Net().ptr(), config); };
  };
  demand_error<UsageError>("sharding_strategy", refused({.sharding_strategy = "FULL"}));
  demand_error<UsageError>("number of ranks", refused({.data_parallel_shard_degree = 7}));
  demand_error<UsageError>("only one of", refused({.data_parallel_replicate_degree = -1}));
  demand_error<UsageError>("BACKWARD_PRE", refused({.backward_prefetch = "PRE"}));
  demand_error<UsageError>("bfloat16",
                           refused({.mixed_precision = FSDPMixedPrecision{.param_dtype = "int8"}}));
  demand_error<UsageError>("state_dict_type", refused({.state_dict_type = "local"}));
  struct ScalarImpl : torch::nn::Module {
    ScalarImpl() { register_parameter("alone", torch::tensor(1.0)); }
  };
  demand_error<UnsupportedError>("alone",
                                 [] { cairn::fully_shard(std::make_shared<ScalarImpl>()); });

  Net net;
  auto sharded = cairn::fully_shard(net.ptr());
  demand_error<UsageError>("begin()", [&] { loss_of(net, 0, 0); });
  sharded->begin();
  demand_error<UsageError>("ShardedModule::backward()", [&] { loss_of(net, 0, 0).backward(); });
  sharded->end();
  sharded->begin();
  demand_error<UsageError>("without its forward()", [&] {
    sharded->backward(loss_of(net, 0, 0) + net->unused->weight.sum());
  });
  sharded->end();
  for (at::Tensor& parameter : net->parameters())
    parameter.mutable_grad().reset();
  sharded->begin();  // The module still works after the errors.
  sharded->backward(loss_of(net, 0, 0));
  sharded->end();
  sharded.reset();
  demand_error<UsageError>("is gone", [&] { loss_of(net, 0, 0); });
  print_line("all of it holds");
}

// An infinite gradient on one rank makes all ranks skip the step.
void try_scaler() {
  torch::nn::Linear net(4, 4);
  put_on_device(*net);
  const auto sharded = cairn::fully_shard(net.ptr());
  torch::optim::SGD optimizer(cairn::parameters(*net), 0.1);
  cairn::GradScaler scaler({.init_scale = 8});
  const auto step = [&](bool is_bad) {
    for (at::Tensor& parameter : net->parameters())
      parameter.mutable_grad() = at::full_like(parameter.detach(), is_bad ? INFINITY : 8.0);
    scaler.unscale_(optimizer);
    scaler.agree_over_ranks();
    scaler.step(optimizer);
    scaler.update();
  };
  const at::Tensor before = net->bias.detach().to(at::kCPU).clone();
  step(cairn::dist::rank() == 1);
  demand(difference(net->bias.detach(), before) == 0, "no rank steps");
  demand(scaler.get_scale() == 4, "the scale of all falls");
  step(false);
  demand(difference(net->bias.detach(), before - 0.2) < 1e-6, "the next step is taken");
  print_line("all of it holds");
}

// A line of /proc/self/status, in MiB.
std::int64_t memory_of(const std::string& what) {
  std::ifstream status("/proc/self/status");
  std::int64_t kib = 0;
  for (std::string name; status >> name && name != what + ":";) {
  }
  status >> kib;
  demand(kib > 0, what + " is known");
  return kib / 1024;
}

// Saves one file of 256 MiB. Each rank has a part of its content. No rank ever has all of the
// content in memory.
void try_full_save(const std::string& folder) {
  torch::nn::Sequential net;
  for (int i = 0; i < 64; ++i)
    net->push_back(Sharded<torch::nn::Linear>(torch::nn::LinearOptions(1024, 1024).bias(false)));
  cairn::State state;
  state.run_name = "memory";
  state.model = cairn::classifier(net, {.num_classes = 1024});
  state.sharding = cairn::fully_shard(net.ptr());
  for (int i = 0; i < 2; ++i) {                     // The first save only warms up.
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM begins anew.
    const std::int64_t before = memory_of("VmRSS");
    cairn::save_checkpoint(state, folder + "/" + std::to_string(i) + ".pt", {.weights_only = true});
    const std::int64_t grown = memory_of("VmHWM") - before;
    demand(i == 0 || grown < 48, "a rank takes little more: " + std::to_string(grown) + " MiB");
  }
  print_line("all of it holds");
}

// A state of many small tensors and a few large ones. Some ranks have no rows of some tensors. The
// optimizer lists the tensors in another order than the module.
void make_many(cairn::State& state, const FSDPConfig& config) {
  torch::nn::Sequential net;
  for (int i = 0; i < 300; ++i) {
    net->push_back(torch::nn::Linear(1 + i % 7, 1 + i % 5));
    if (i % 100 == 50) net->push_back(Sharded<torch::nn::Linear>(1000, 701 + i));
  }
  state.run_name = "many";
  state.model = cairn::classifier(net, {.num_classes = 2});
  put_on_device(*net);
  const std::shared_ptr<torch::nn::Module> module(state.model, &state.model->module());
  state.sharding = cairn::fully_shard(module, config);
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  for (const at::Tensor& parameter : cairn::parameters(*net))
    (parameter.dim() == 2 ? weights : biases).push_back(parameter);
  const std::vector<torch::optim::OptimizerParamGroup> groups = {
      torch::optim::OptimizerParamGroup(biases), torch::optim::OptimizerParamGroup(weights)};
  state.optimizer = std::make_shared<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.01));
  for (at::Tensor& parameter : net->parameters())
    parameter.mutable_grad() = parameter.detach().clone();  // This keeps replicas alike.
  state.optimizer->step();
}

// Saves all ranks' rows into one file, with few messages. Each rank finds its rows in that file.
void try_many_tensors(const std::string& folder, const FSDPConfig& config) {
  cairn::State state;
  make_many(state, config);
  const torch::nn::Module& module = state.model->module();
  Collectives::count();
  Collectives::take();
  const std::string path = cairn::save_checkpoint(state, folder + "/many.pt");
  const int broadcasts = Collectives::of("broadcast");
  demand(broadcasts < 40, "few messages: " + std::to_string(broadcasts));
  const cairn::Value at_once = cairn::checkpoint_value(state, {}, nullptr);
  cairn::dist::barrier();  // After this, rank 0 has written the file.
  const auto model_in = [](const cairn::Value& value) { return value.at("state").at("model"); };
  const auto moments_in = [](const cairn::Value& value) {
    return value.at("state").at("optimizers").at("Adam").at("state");
  };
  const cairn::Value saved = cairn::load(path);
  const cairn::Value own_model = cairn::state_dict(module);
  const cairn::Value own_moments =
      cairn::optimizer_state_dict(*state.optimizer, module).at("state");
  for (const auto& [name, parameter] : cairn::named_parameters(module)) {
    const auto compare = [&](const cairn::Value& whole, const cairn::Value& own) {
      if (cairn::tensor_of(own.as_tensor()).numel() == 0) return;
      const at::Tensor rows =
          rows_of(*state.sharding, parameter, cairn::tensor_of(whole.as_tensor()));
      demand(rows.equal(cairn::tensor_of(own.as_tensor())), name + " is whole");
    };
    compare(model_in(saved).at(name), own_model.at(name));
    if (cairn::dist::rank() == 0) compare(model_in(at_once).at(name), own_model.at(name));
    for (const char* moment : {"exp_avg", "exp_avg_sq"})
      compare(moments_in(saved).at(name).at(moment), own_moments.at(name).at(moment));
  }
  print_line("all of it holds");
}

// Between passes only this rank's parameters and gradients stay resident: 64 MiB each of a model of
// 256 MiB on four ranks. Buffers of OpenBLAS and Gloo came to 70 MiB beside them.
void try_resident_memory() {
  constexpr int kUnits = 16;
  constexpr std::int64_t kWidth = 2048;
  // A first product, because OpenBLAS and libtorch keep some memory after it.
  torch::rand({2, kWidth}).mm(torch::rand({kWidth, kWidth}));
  const std::int64_t before = memory_of("VmRSS");
  torch::nn::Sequential net;
  for (int i = 0; i < kUnits; ++i)
    net->push_back(
        Sharded<torch::nn::Linear>(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
  const auto sharded = cairn::fully_shard(net.ptr());
  // The least of three passes: a thread of Gloo may still have a copy when a pass has ended.
  std::int64_t grown = std::numeric_limits<std::int64_t>::max();
  for (int pass = 0; pass < 3; ++pass) {
    sharded->begin();
    sharded->backward(net->forward(torch::rand({2, kWidth})).sum());
    sharded->end();
    grown = std::min(grown, memory_of("VmRSS") - before);
  }
  demand(grown < 256, "what was whole is given back: " + std::to_string(grown) + " MiB");
  print_line("all of it holds");
}

void run(const std::string& mode) {
  if (mode == "cuda") {
    device = at::kCUDA;
    return;
  }
  if (mode == "device") {
    device = cairn::testing::sim_device().type();
    return cairn::testing::let_sim_device_compute();
  }
  if (mode == "strategies") return try_strategies();
  if (mode == "recomputing") return try_recomputing();
  if (mode == "memory") return try_memory();
  if (mode == "resident") return try_resident_memory();
  if (mode == "uneven") return try_uneven(/*recomputes=*/false);
  if (mode == "uneven_recomputing") return try_uneven(/*recomputes=*/true);
  if (mode == "errors") return try_errors();
  if (mode == "scaler") return try_scaler();
  if (mode.starts_with("many=")) return try_many_tensors(mode.substr(5), {});
  if (mode.starts_with("replicated_many=")) {
    return try_many_tensors(mode.substr(16), {.data_parallel_replicate_degree = 2});
  }
  if (mode.starts_with("folder=")) return try_full_save(mode.substr(mode.find('=') + 1));
  throw std::runtime_error("there is no mode " + mode);
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  try {
    cairn::dist::initialize({.timeout = std::chrono::seconds(60)});
    for (int i = 1; i < argc; ++i)
      run(argv[i]);
    return 0;
  } catch (const std::exception& error) {
    print_line(std::string("error: ") + error.what());
    return 2;
  }
}
