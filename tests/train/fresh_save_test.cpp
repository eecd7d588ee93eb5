// A saver may remember its previous save. After any change of the model, its optimizer and the
// counters, the saver's file must still equal the file that a new saver writes of the same state.
// The bytes are equal if the checkpoint does not name earlier files. Otherwise the loaded values
// are equal.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <sstream>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/rng.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "io/bytes/source_part.h"
#include "storage/local/local_store.h"
#include "testing/sim_file_system.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::tiny_options;
using TorchAdamW = torch::optim::AdamW;
using TorchAdamWOptions = torch::optim::AdamWOptions;
using TorchAdamWState = torch::optim::AdamWParamState;

// A module whose tensors can be added under any name, and removed.
struct Bag : torch::nn::Module {
  torch::OrderedDict<std::string, at::Tensor>& table() { return parameters_; }
};

bool is_trained(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kFloat || parameter.scalar_type() == at::kDouble;
}

// A model that trains all of its parameters that libtorch's optimizers can train, whatever types
// they have.
struct BagModel final : Model {
  BagModel() {
    for (int i = 0; i < 5; ++i) {
      bag->register_parameter("p" + std::to_string(i), torch::rand({4, 3 + i}, at::kDouble));
    }
    bag->register_module("inner", inner);
    inner->register_parameter("w", torch::rand({6}, at::kDouble));
    inner->register_buffer("square", torch::rand({4, 4}, at::kDouble));
  }
  torch::nn::Module& module() override { return *bag; }
  Outputs forward(const Batch& batch) override {
    at::Tensor sum = batch[0].sum();
    for (const at::Tensor& each : bag->parameters()) {
      if (is_trained(each)) sum = sum + each.to(at::kDouble).sin().sum() * 0.1;
    }
    return sum;
  }
  Losses loss(const Outputs& outputs, const Batch& /*batch*/) override {
    return outputs.single().square();
  }

  std::shared_ptr<Bag> bag = std::make_shared<Bag>();
  std::shared_ptr<Bag> inner = std::make_shared<Bag>();
};

using StateKey = std::remove_cvref_t<decltype(std::declval<TorchAdamW&>().state())>::key_type;

// The key of a parameter's state: its address in newer versions of libtorch, the address as text in
// older ones.
template <class Key = StateKey>
Key key_of(const at::Tensor& parameter) {
  void* address = parameter.unsafeGetTensorImpl();
  if constexpr (std::is_pointer_v<Key>) {
    return address;
  } else {
    std::ostringstream text;
    text << address;
    return text.str();
  }
}

// Changes a run in every way that is possible between two saves.
class Disturbance {
 public:
  Disturbance(BagModel& model, std::uint64_t seed) : model_(model), random_(seed) {}

  // Makes a random change and returns its description.
  std::string disturb(State& state) {
    const torch::NoGradGuard no_grad;
    constexpr std::array kAll = {&Disturbance::replace,
                                 &Disturbance::resize,
                                 &Disturbance::set_data,
                                 &Disturbance::tie,
                                 &Disturbance::share_memory,
                                 &Disturbance::convert,
                                 &Disturbance::transpose,
                                 &Disturbance::reuse_address,
                                 &Disturbance::fill,
                                 &Disturbance::add_and_drop,
                                 &Disturbance::change_state,
                                 &Disturbance::drop_state,
                                 &Disturbance::change_in_place,
                                 &Disturbance::change_number,
                                 &Disturbance::change_optimizer,
                                 &Disturbance::change_in_place,
                                 &Disturbance::change_in_place};
    const std::size_t which = below(kAll.size());
    auto& optimizer = static_cast<TorchAdamW&>(*state.optimizer);
    const std::string what = (this->*kAll.at(which))(state, optimizer);
    follow(static_cast<TorchAdamW&>(*state.optimizer));
    return what;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  at::Tensor random_tensor(at::IntArrayRef sizes, at::ScalarType type = at::kDouble) {
    return torch::rand(sizes, at::kDouble).to(type);
  }
  at::IntArrayRef any_sizes() {
    static const std::vector<std::vector<std::int64_t>> all = {
        {4, 3}, {2, 6}, {12}, {3, 4}, {1}, {0, 3}, {5, 5, 2}, {700, 30}};
    return all[below(all.size())];
  }
  torch::OrderedDict<std::string, at::Tensor>& any_table() {
    return below(4) == 0 && !model_.inner->table().is_empty() ? model_.inner->table()
                                                              : model_.bag->table();
  }
  at::Tensor& any() {
    auto& table = any_table();
    return table[static_cast<std::size_t>(below(table.size()))].value();
  }
  // Makes the tensor a parameter: a leaf that requires a gradient if the tensor's type can have
  // one.
  static void put(at::Tensor& place, const at::Tensor& tensor) {
    place = tensor.detach();
    place.set_requires_grad(is_trained(place));
  }

  std::string replace(State&, TorchAdamW&) {
    at::Tensor& place = any();
    put(place, random_tensor(place.sizes(), place.scalar_type()));
    return "replace";
  }
  std::string resize(State&, TorchAdamW&) {
    put(any(), random_tensor(any_sizes()));
    return "resize";
  }
  std::string set_data(State&, TorchAdamW& optimizer) {
    at::Tensor& place = any();
    optimizer.state().erase(key_of(place));
    place.set_data(random_tensor(place.sizes(), place.scalar_type()));
    return "set_data";
  }
  std::string tie(State&, TorchAdamW&) {
    const at::Tensor other = any();
    any() = other;
    return "tie";
  }
  std::string share_memory(State&, TorchAdamW&) {
    const at::Tensor other = any();
    if (other.numel() == 0 || !other.is_contiguous()) return "nothing";
    const std::int64_t begin =
        static_cast<std::int64_t>(below(static_cast<std::uint64_t>(other.numel())));
    put(any(), other.detach().view({-1}).slice(0, begin));
    return "share_memory";
  }
  std::string convert(State&, TorchAdamW&) {
    constexpr std::array kTypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt};
    at::Tensor& place = any();
    put(place, place.detach().to(kTypes.at(below(kTypes.size())), false, /*copy=*/true));
    return "convert";
  }
  std::string transpose(State&, TorchAdamW&) {
    at::Tensor& place = any();
    if (place.dim() == 2) put(place, place.detach().t());
    return "transpose";
  }
  // Frees a tensor, and puts another tensor of the same size at the same address.
  std::string reuse_address(State&, TorchAdamW&) {
    if (reused_name_.empty() || model_.bag->table().find(reused_name_) == nullptr) {
      reused_name_ = "reused" + std::to_string(++numbers_);
      model_.bag->table().insert(reused_name_, at::Tensor());
    }
    at::Tensor& place = model_.bag->table()[reused_name_];
    place = at::Tensor();
    for (double& each : memory_)
      each = static_cast<double>(below(1000)) / 1000;
    constexpr std::int64_t kSide = 4;
    const std::array all = {
        torch::from_blob(memory_.data(), {kSide, kSide}, at::kDouble),
        torch::from_blob(memory_.data(), {kSide, kSide}, {1, kSide}, at::kDouble),
        torch::from_blob(memory_.data(), {kSide * kSide}, at::kDouble),
        torch::from_blob(memory_.data(), {kSide, 2 * kSide}, at::kInt),
    };
    put(place, all.at(below(all.size())));
    return "reuse_address";
  }
  // Gives the same tensor object another shape, other strides or another type over its memory.
  std::string change_in_place(State&, TorchAdamW&) {
    at::Tensor square = model_.inner->named_buffers()["square"];
    switch (below(4)) {
      case 0:
        square.t_();
        break;
      case 1:
        square.set_(square.storage(), static_cast<std::int64_t>(below(4)), {3, 3}, {4, 1});
        break;
      case 2:
        square.set_(square.storage(), 0, {4, 4}, {4, 1});
        break;
      default:
        square.set_data(square.view(square.scalar_type() == at::kDouble ? at::kLong : at::kDouble));
    }
    return "change_in_place";
  }
  std::string fill(State&, TorchAdamW&) {
    any().fill_(static_cast<double>(below(100)));
    return "fill";
  }
  std::string add_and_drop(State&, TorchAdamW&) {
    auto& table = model_.bag->table();
    if (table.size() > 4 && below(2) == 0) {
      table.erase(table[static_cast<std::size_t>(below(table.size()))].key());
      return "drop";
    }
    model_.bag->register_parameter("n" + std::to_string(++numbers_), random_tensor(any_sizes()));
    return "add";
  }

  // The optimizer's state of a random parameter. Null if the parameter has no state.
  TorchAdamWState* any_state(TorchAdamW& optimizer) {
    const auto found = optimizer.state().find(key_of(any()));
    if (found == optimizer.state().end()) return nullptr;
    return static_cast<TorchAdamWState*>(found->second.get());
  }
  std::string change_state(State&, TorchAdamW& optimizer) {
    TorchAdamWState* state = any_state(optimizer);
    if (state == nullptr) return "nothing";
    switch (below(3)) {
      case 0:
        state->exp_avg(torch::rand_like(state->exp_avg()));
        break;
      case 1:
        state->exp_avg_sq(state->exp_avg_sq().clone());
        break;
      default:
        state->step(state->step() + 5);
    }
    return "change_state";
  }
  std::string drop_state(State&, TorchAdamW& optimizer) {
    optimizer.state().erase(key_of(any()));
    return "drop_state";
  }
  std::string change_number(State& state, TorchAdamW& optimizer) {
    switch (below(3)) {
      case 0:
        state.rank_zero_seed = static_cast<std::int64_t>(below(1000));
        break;
      case 1:
        state.timestamp.sample += 1000;
        break;
      default:
        static_cast<TorchAdamWOptions&>(optimizer.param_groups()[0].options())
            .lr(static_cast<double>(1 + below(9)) / 1000);
    }
    return "change_number";
  }
  // Replaces the optimizer by another one with the same parameters.
  std::string change_optimizer(State& state, TorchAdamW& optimizer) {
    if (below(3) != 0) return "nothing";
    std::vector<at::Tensor> all = optimizer.param_groups()[0].params();
    state.optimizer = std::make_shared<TorchAdamW>(std::move(all), TorchAdamWOptions(0.001));
    return "change_optimizer";
  }

  // Gives the optimizer the model's current parameters, and removes the state of all other
  // parameters.
  void follow(TorchAdamW& optimizer) {
    std::vector<at::Tensor> all;
    for (at::Tensor& each : model_.bag->parameters()) {
      const bool is_new =
          std::ranges::none_of(all, [&](const at::Tensor& known) { return known.is_same(each); });
      if (is_new && is_trained(each)) all.push_back(each);
    }
    for (auto each = optimizer.state().begin(); each != optimizer.state().end();) {
      const bool is_there = std::ranges::any_of(
          all, [&](const at::Tensor& known) { return key_of(known) == each->first; });
      each = is_there ? std::next(each) : optimizer.state().erase(each);
    }
    optimizer.param_groups()[0].params() = std::move(all);
  }

  BagModel& model_;
  std::mt19937_64 random_;
  std::array<double, 16> memory_ = {};
  std::string reused_name_;
  int numbers_ = 0;
};

struct SaverKind {
  const char* name;
  CheckpointSaverOptions options;
  bool has_equal_bytes;
  bool is_far = false;
};

std::vector<SaverKind> all_kinds() {
  const IgnoreKeys no_names = "state/callbacks/*";
  return {
      {"full", {.save_async = true}, false},
      {"full_sync", {.save_async = false}, false},
      {"full_far", {.save_async = true}, false, /*is_far=*/true},
      {"weights", {.weights_only = true, .save_async = true}, true},
      {"weights_sync", {.weights_only = true, .save_async = false}, true},
      {"no_names", {.ignore_keys = no_names, .save_async = true}, true},
      {"no_names_sync", {.ignore_keys = no_names, .save_async = false}, true},
      {"no_names_far", {.ignore_keys = no_names, .save_async = false}, true, /*is_far=*/true},
  };
}

class FreshSave : public ::testing::Test {
 protected:
  const std::shared_ptr<ObjectStore>& store_of(const SaverKind& kind) const {
    return kind.is_far ? far_ : here_;
  }
  // A saver that writes each save to the same file.
  CheckpointSaverOptions saver(const SaverKind& kind, const std::string& where) const {
    CheckpointSaverOptions made = kind.options;
    made.folder = where + "/" + kind.name;
    made.filename = "last.pt";
    made.remote_file_name = std::nullopt;
    made.latest_filename = std::nullopt;
    made.latest_remote_file_name = std::nullopt;
    made.save_interval = "1ba";
    made.overwrite = true;
    made.store = store_of(kind);
    return made;
  }

  // The checkpoint without the entries that name earlier checkpoints.
  static Value without_names(Value checkpoint) {
    if (Value* state = checkpoint.mutable_dict().find("state")) {
      state->mutable_dict().erase("callbacks");
    }
    return checkpoint;
  }

  // Compares the saver's file with the file of a new saver, and with `plain`.
  void compare(const SaverKind& kind, CheckpointSaver& saves, State& state, Logger& logger,
               const Value& plain) {
    ++compared_;
    saves.wait();
    CheckpointSaver fresh(saver(kind, "/fresh"));
    fresh.init(state, logger);
    fresh.save(state, logger);
    fresh.wait();
    const std::string path = std::string("/old/") + kind.name + "/last.pt";
    const std::string fresh_path = std::string("/fresh/") + kind.name + "/last.pt";
    const std::shared_ptr<ObjectStore>& store = store_of(kind);
    ASSERT_TRUE(verify(path, Verify::kFull, store).ok());
    if (kind.has_equal_bytes) {
      const bool is_equal = as_text(read_all(*store->open(path)).view) ==
                            as_text(read_all(*store->open(fresh_path)).view);
      ASSERT_TRUE(is_equal) << "other bytes than a new saver writes";
    }
    const Value loaded = without_names(load(path, {.store = store}));
    ASSERT_TRUE(loaded == without_names(load(fresh_path, {.store = store})))
        << "differs from what a new saver writes";
    if (!kind.options.weights_only) {
      ASSERT_TRUE(loaded == plain) << "differs from a save() of the state";
    }
  }
  void compare_all(State& state, Logger& logger, const std::string& history) {
    const std::string path = "/plain.pt";
    save(Dict{{"state", state.state_dict()}, {"rng", rng_states()}}, path, {.store = here_});
    const Value plain = without_names(load(path, {.store = here_}));
    for (std::size_t i = 0; i < kinds_.size() && !HasFatalFailure(); ++i) {
      SCOPED_TRACE(std::string("saver ") + kinds_[i].name + ", " + history);
      compare(kinds_[i], *savers_[i], state, logger, plain);
    }
  }

  void run(std::uint64_t seed) {
    const auto model = std::make_shared<BagModel>();
    Disturbance disturbance(*model, seed);
    std::ostringstream history;
    history << "sequence " << seed << ":";
    TrainerOptions made = tiny_options();
    made.model = model;
    made.optimizers =
        std::make_shared<TorchAdamW>(model->bag->parameters(), TorchAdamWOptions(0.001));
    made.run_name = "run";
    made.loggers = {std::make_shared<testing::LogRecorder>()};
    std::mt19937_64 random(seed);
    made.callbacks.push_back(testing::CallAt(Event::kBatchStart, [&](State& state) {
      history << "\n  batch " << state.timestamp.batch << ":";
      for (std::uint64_t i = random() % 3; i > 0; --i)
        history << " " << disturbance.disturb(state);
    }));
    savers_.clear();
    for (const SaverKind& kind : kinds_) {
      savers_.push_back(std::make_shared<CheckpointSaver>(saver(kind, "/old")));
      made.callbacks.push_back(savers_.back());
    }
    made.callbacks.push_back(std::make_shared<Compare>(
        [&](State& state, Logger& logger) { compare_all(state, logger, history.str()); }));
    Trainer trainer(std::move(made));
    // The second fit() begins without remembered state.
    for (int i = 0; i < 2 && !HasFatalFailure(); ++i) {
      trainer.fit({.duration = "12ba"});
    }
  }

 private:
  struct Compare final : Callback {
    explicit Compare(std::function<void(State&, Logger&)> a) : act(std::move(a)) {}
    void batch_checkpoint(State& state, Logger& logger) override {
      if (!::testing::Test::HasFatalFailure()) act(state, logger);
    }
    std::function<void(State&, Logger&)> act;
  };

  testing::SimFileSystem disk_;
  const std::shared_ptr<ObjectStore> here_ = local_store(disk_);
  const std::shared_ptr<ObjectStore> far_ = memory_store();

 protected:
  const std::vector<SaverKind> kinds_ = all_kinds();
  std::size_t compared_ = 0;

 private:
  std::vector<std::shared_ptr<CheckpointSaver>> savers_;
};

TEST_F(FreshSave, IsWhatEachSaveOfARunEquals) {
  torch::manual_seed(11);
  for (std::uint64_t seed = 1; seed <= 8 && !HasFatalFailure(); ++seed) {
    run(seed);
  }
  EXPECT_GE(compared_, 8 * kinds_.size());
}

}  // namespace
}  // namespace cairn
