// Checkpoints: saves and resumes a loop of your own, without the Trainer.
//
//   cairn::Checkpoints ck({.folder = "ckpt/gan", .keep = 3,
//                          .save_interval = std::chrono::minutes(10)});
//   ck.add("generator", G).add("opt_g", opt_g, G).add("pool", pool).add("step", step);
//   ck.resume();
//   while (step < n && !ck.stops()) {
//     train_on_a_batch();
//     ++step;
//     if (ck.due()) ck.save(step);
//   }
//   return ck.finish();
//
// It saves and resumes as a Trainer does (CheckpointSaver, autoresume), with what you name as the
// content. A checkpoint is a dict of what was added, which torch.load opens. The keys "rng" and
// "cairn" are taken: they hold torch's generators, and the list of this run's checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/checkpoint/keep_best.h"
#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/interval.h"
#include "cairn/value.h"

namespace at {
struct Generator;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace CAIRN_PUBLIC cairn {

struct CheckpointsOptions {
  std::string folder = {};                  // a path, or a URI of a store; required
  std::string filename = "step{batch}.pt";  // {batch}: the step; the extension as in save()
  std::optional<std::string> latest_filename = "latest.pt";  // nullopt: no link
  // Checkpoints of other runs in the folder are passed over. Default: the folder's last name.
  std::optional<std::string> run_name = std::nullopt;
  // Checkpoints to keep; the oldest are removed when a newer one is durable. nullopt: all.
  std::optional<int> keep = std::nullopt;
  // Keeps the best checkpoints beside these newest ones. `metric` is the name of an entry that was
  // added, a number: its value when save() is called counts.
  std::optional<KeepBest> keep_best = std::nullopt;
  // When due() says yes: steps ("100ba") or time (std::chrono::minutes(10), "600sec").
  Interval save_interval = std::chrono::minutes(10);
  // If false, save() returns when the checkpoint is durable. If true, a thread writes it from a
  // copy; the next save() or finish() throws the error of a save that failed.
  bool save_async = true;
  // Save and restore torch's generators, which makes a resumed run continue with the same bits.
  bool rng = true;
  // SIGTERM, SIGINT, SIGUSR1 and a file STOP in the folder: due() and stops() say yes. SIGUSR2 and
  // a file SAVE: due() says yes.
  bool handle_signals = true;
  int interrupted_exit_code = 75;  // finish()'s result after a request to stop
  // How long a store that does not answer is asked again, before its error is thrown.
  std::chrono::seconds store_patience{1800};
  std::shared_ptr<ObjectStore> store = nullptr;  // of `folder`; null: by the URI, or local_store()
  // For tests. Empty: the steady clock, in seconds.
  std::function<double()> now = nullptr;
};

// Not thread-safe. In a job of several processes (dist::initialize() was called), every rank makes
// the same calls. Rank 0 writes its own entries, which all ranks load, and torch's generators of
// all ranks. A generator that was added is an entry: after a resume it is rank 0's everywhere. All
// ranks read the folder, which must be in a file system or a store that they share.
class Checkpoints {
 public:
  using Save = std::function<Value()>;
  using Load = std::function<void(const Value& saved)>;

  // Throws UsageError for its options. Handles signals from now on.
  explicit Checkpoints(CheckpointsOptions options);
  explicit Checkpoints(EmptyBraces) : Checkpoints(CheckpointsOptions()) {}
  // Waits for saves under way. Logs errors; finish() throws them.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Adds an entry to each checkpoint. Call it before resume() and save(), with a name of its own
  // (UsageError). The object that is added must live as long as this one.
  //
  // A module, by reference, by std::shared_ptr or in torch's holders (torch::nn::Linear).
  Checkpoints& add(const std::string& name, torch::nn::Module& module);
  template <class Holder>
  requires requires(Holder& holder) {
    { *holder.ptr() } -> std::convertible_to<torch::nn::Module&>;
  }
  Checkpoints& add(const std::string& name, Holder& holder) {
    return add(name, static_cast<torch::nn::Module&>(*holder.ptr()));
  }
  template <class Net>
  requires std::convertible_to<Net&, torch::nn::Module&> Checkpoints& add(
      const std::string& name, const std::shared_ptr<Net>& module) {
    return add(name, static_cast<torch::nn::Module&>(*module));
  }
  // An optimizer, whose parameters are all in `module`.
  Checkpoints& add(const std::string& name, torch::optim::Optimizer& optimizer,
                   const torch::nn::Module& module);
  template <class Holder>
  requires requires(Holder& holder) {
    { *holder.ptr() } -> std::convertible_to<torch::nn::Module&>;
  }
  Checkpoints& add(const std::string& name, torch::optim::Optimizer& optimizer, Holder& holder) {
    return add(name, optimizer, static_cast<const torch::nn::Module&>(*holder.ptr()));
  }
  template <class Net>
  requires std::convertible_to<Net&, torch::nn::Module&> Checkpoints& add(
      const std::string& name, torch::optim::Optimizer& optimizer,
      const std::shared_ptr<Net>& module) {
    return add(name, optimizer, static_cast<const torch::nn::Module&>(*module));
  }
  // A tensor, whose elements are loaded. Its shape must stay.
  Checkpoints& add(const std::string& name, at::Tensor& tensor);
  Checkpoints& add(const std::string& name, at::Generator& generator);
  Checkpoints& add(const std::string& name, bool& value);
  Checkpoints& add(const std::string& name, double& value);
  Checkpoints& add(const std::string& name, std::string& value);
  template <std::integral Int>
  Checkpoints& add(const std::string& name, Int& value) {
    return add(
        name, [&value] { return Value(static_cast<std::int64_t>(value)); },
        [&value](const Value& saved) { value = static_cast<Int>(saved.as_int()); });
  }
  // Anything with state_dict() and load_state_dict(): a scheduler, a GradScaler, an object of
  // yours. (A DataLoader's state has no position: add two numbers, and call start_epoch().)
  template <class Object>
  requires requires(Object& object, const Value& saved) {
    { object.state_dict() } -> std::convertible_to<Value>;
    object.load_state_dict(saved);
  }
  Checkpoints& add(const std::string& name, Object& object) {
    return add(
        name, [&object] { return Value(object.state_dict()); },
        [&object](const Value& saved) { object.load_state_dict(saved); });
  }
  // Anything else. If a later part of resume() fails, `load` is called again with what `save` had
  // returned before.
  Checkpoints& add(const std::string& name, Save save, Load load);

  // Loads the newest checkpoint that is whole, and returns true; false if there is none. Every byte
  // is verified. All entries are loaded, or none, if what is read does not fit or cannot be read. A
  // damaged checkpoint is passed over, and a line says so. Throws MismatchError, which lists what
  // does not fit; StorageError if the folder, or a checkpoint that might be the newest, cannot be
  // read now; BusyError if another process trains the run. Call it once, before the first save().
  bool resume();

  // Counts a step, and says whether to save now: by save_interval, or because a signal asks for it.
  // `step`: the number of the step that has just ended; without it, one more than last time.
  // Without resume(), throws AlreadyExistsError if saves would replace checkpoints in the folder.
  bool due(std::optional<std::int64_t> step = std::nullopt);
  // Saves. Does nothing if this step is saved already. Throws the error of an earlier save that
  // failed, and UsageError for a step before the last one. Training may go on after an error: the
  // older checkpoints stay.
  void save(std::int64_t step);
  // The checkpoints that keep_best keeps, the best first, each with its metric. Waits for saves
  // under way, and throws the error of a failed one. finish() may save once more, and replace one.
  std::vector<std::pair<std::string, double>> best_checkpoints();
  // Whether a signal or a file STOP has asked to stop.
  bool stops() const;

  // Saves the last step that due() counted, unless it is saved. Waits until everything is durable,
  // on all ranks, and throws the error of a save that failed. Returns what main() should return: 0,
  // or interrupted_exit_code.
  int finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
