// The knowledge of a model of runs: how each run saves, which saves are durable, and the weights of
// an undisturbed run at each batch.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/optim/optimizers.h"
#include "cairn/schedulers/schedulers.h"
#include "cairn/train/trainer.h"

#include "run_machine.h"
#include "testing/resumable_state.h"
#include "testing/tiny_model.h"

namespace cairn::testing {

inline constexpr std::int64_t kEnd = 24;   // Batches of a whole run.
inline constexpr std::int64_t kEpoch = 5;  // Batches of an epoch.

// Thrown if the run breaks a promise.
struct BrokenPromise : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (holds) return;
  std::ostringstream text;
  (text << ... << parts);
  throw BrokenPromise(text.str());
}

inline TrainerOptions bare_options() {
  TrainerOptions made = tiny_options({.dropout = 0.3});
  made.train_dataloader = tiny_loader(10, {.batch_size = 2, .shuffle = true, .num_workers = 0});
  made.optimizers = AdamW({.lr = 0.01});
  made.schedulers = CosineAnnealingScheduler();
  made.max_duration = std::to_string(kEnd) + "ba";
  return made;
}

// A run without any disturbance.
class Undisturbed {
 public:
  static const Undisturbed& get() {
    static const Undisturbed run;
    return run;
  }
  at::Tensor weights(std::int64_t batch) const {
    return weights_.at(static_cast<std::size_t>(batch));
  }
  // The part of a checkpoint that must equal the undisturbed run's. At the end of an epoch, a
  // checkpoint may be saved before or after the epoch is counted. The clock and the random state of
  // that checkpoint depend on which, so they are left out.
  static Value comparable(const Value& checkpoint, std::int64_t batch) {
    const Value all = resumable_state(checkpoint);
    Dict kept;
    for (const char* key : {"model", "optimizers", "schedulers"})
      kept[key] = all.at(key);
    if (batch % kEpoch != 0 && batch != kEnd) {
      for (const char* key : {"timestamp", "rng", "dataset_state"})
        kept[key] = all.at(key);
    }
    return kept;
  }
  const Value& checkpoint(std::int64_t batch) const {
    return checkpoints_.at(static_cast<std::size_t>(batch));
  }

 private:
  Undisturbed() {
    const auto store = memory_store();
    TrainerOptions made = bare_options();
    made.run_name = "undisturbed";
    made.loggers = {std::make_shared<LogRecorder>()};
    made.save_folder = "run";
    made.save_filename = "{batch}.pt";
    made.save_interval = "1ba";
    made.save_object_store = store;
    made.callbacks = {CallAt(
        Event::kBatchEnd, [this](State& state) { weights_.push_back(weights_of(*state.model)); })};
    Trainer trainer(std::move(made));
    weights_.push_back(weights_of(*trainer.state().model));
    trainer.fit();
    trainer.close();
    checkpoints_.emplace_back();
    for (std::int64_t batch = 1; batch <= kEnd; ++batch) {
      const Value all = load("run/" + std::to_string(batch) + ".pt", {.store = store});
      checkpoints_.push_back(comparable(all, batch));
    }
  }
  std::vector<at::Tensor> weights_;
  std::vector<Value> checkpoints_;
};

struct Setup {
  Where where = Where::kLocal;
  // File names contain the run name, so that forks may save into the same folder.
  bool has_run_name = false;
  // File names contain a counter. Without it, each save replaces the previous one.
  bool has_counter = true;
  std::int64_t interval = 1;  // Batches; kEpoch: epochs.
  int keep = -1;
  bool is_async = true;
  int link_error = 0;

  std::string filename() const {
    if (has_run_name) return has_counter ? "{run_name}-ep{epoch}-ba{batch}.pt" : "{run_name}.pt";
    return has_counter ? "ep{epoch}-ba{batch}-rank{rank}.pt" : "last.pt";
  }
  std::string latest() const { return has_run_name ? "{run_name}-latest" : "latest-rank{rank}.pt"; }
  std::string latest_of(const std::string& run) const {
    return has_run_name ? run + "-latest" : "latest-rank0.pt";
  }
  // The number of saves that may be pending when an event returns.
  std::size_t lag() const { return !is_async ? 0 : where == Where::kFar ? 2 : 1; }

  std::string describe() const {
    std::ostringstream text;
    text << filename() << ", every " << interval << " batches, keeps " << keep
         << (is_async ? ", async" : ", sync") << (link_error != 0 ? ", without links" : "");
    return text.str();
  }
};

inline Setup draw_setup(Where where, std::mt19937_64& random) {
  constexpr std::array kIntervals = {std::int64_t{1}, std::int64_t{1}, std::int64_t{2},
                                     std::int64_t{3}, kEpoch};
  constexpr std::array kKept = {1, 1, 2, 3, -1};
  Setup made{.where = where};
  made.has_run_name = random() % 2 == 0;
  made.has_counter = random() % 4 != 0;
  made.interval = kIntervals.at(random() % kIntervals.size());
  made.keep = kKept.at(random() % kKept.size());
  made.is_async = random() % 3 != 0;
  if (where == Where::kLocal && random() % 4 == 0) made.link_error = EPERM;
  return made;
}

// The known saves of one run in one place.
struct KnownSaves {
  std::vector<std::int64_t> durable;  // Batches of saves that certainly succeeded, in order.
  // False if the process that removes counts only its own saves.
  bool are_all_counted = true;
  int strays = 0;      // Failed saves. Each may leave a checkpoint that is never removed.
  int unfinished = 0;  // Failed or killed saves since the last durable one.

  void add(std::int64_t batch) {
    if (durable.empty() || durable.back() < batch) durable.push_back(batch);
  }
  std::int64_t newest() const { return durable.empty() ? 0 : durable.back(); }
};

struct Run {
  std::string name;
  std::string folder;                                // A name in the machine.
  std::optional<std::size_t> parent = std::nullopt;  // The run from which it was forked.
  KnownSaves here = {};
  KnownSaves far = {.durable = {}, .are_all_counted = false};
  bool is_finished = false;
};

inline bool is_run(const std::vector<Run>& runs, const std::string& name) {
  return std::ranges::any_of(runs, [&](const Run& each) { return each.name == name; });
}
// Whether `name` is the pointer of one of the runs, in either of its forms.
inline bool is_pointer(const Setup& setup, const std::vector<Run>& runs, const std::string& name) {
  return std::ranges::any_of(runs, [&](const Run& each) {
    const std::string latest = setup.latest_of(each.name);
    return name == latest || name == latest + ".symlink";
  });
}

// The checkpoints of one run that the test found in one folder.
struct SeenSaves {
  std::map<std::string, std::int64_t> batches;  // By path.
  std::int64_t newest = 0;
  std::int64_t latest = 0;  // The target of the pointer. 0: there is none.

  // The batch from which a start resumes in a far store. The start trusts the pointer, if there is
  // one.
  std::int64_t newest_far() const { return latest != 0 ? latest : newest; }
};

// A process with its Trainer.
struct Session {
  explicit Session(std::unique_ptr<Machine::Process> started) : process(std::move(started)) {}

  std::unique_ptr<Machine::Process> process;
  std::vector<std::int64_t> begun = {};  // Batches of saves that events began.
  std::int64_t position = 0;             // The batch at which the current fit() began.
  std::int64_t stop_at = -1;             // Throws before this batch.
  std::int64_t ask_at = -1;              // Raises `signal` after this batch.
  int signal = 0;
  std::int64_t first = 0;      // The batch at which the session began.
  std::int64_t failed_at = 0;  // The batch of the last fault.
  bool has_trained = false;    // Whether fit() was called.
  bool may_fail = false;       // A call failed, and no error was thrown yet.
  std::optional<Trainer> trainer = std::nullopt;
};

// Checks promises 1, 2 and 5 for a run's checkpoints in one place.
inline void check_place(const Setup& setup, const KnownSaves& known, const SeenSaves& seen,
                        const std::shared_ptr<ObjectStore>& store, const char* where) {
  const std::int64_t must = known.newest();
  require(seen.newest >= must, where, ": the newest is ", seen.newest, ", and ", must,
          " was durable");
  require(seen.latest >= must, where, ": latest leads to ", seen.latest, ", and ", must,
          " was durable");
  for (const auto& [path, batch] : seen.batches) {
    if (batch != seen.newest && batch != seen.latest) continue;
    const Value checkpoint = Undisturbed::comparable(load(path, {.store = store}), batch);
    const Value& expected = Undisturbed::get().checkpoint(batch);
    for (const auto& [key, value] : expected.as_dict()) {
      require(checkpoint.at(key.as_str()) == value, path, " has another \"", key.as_str(),
              "\" than a run that was never interrupted");
    }
  }
  if (!setup.has_counter) return;
  const auto newer_than = [&](std::int64_t batch) {
    return std::ranges::count_if(seen.batches,
                                 [&](const auto& each) { return each.second > batch; });
  };
  for (const std::int64_t batch : known.durable) {
    const bool is_there =
        std::ranges::any_of(seen.batches, [&](const auto& each) { return each.second == batch; });
    require(is_there || (setup.keep >= 0 && newer_than(batch) >= setup.keep), where,
            ": the checkpoint of batch ", batch, " was removed too early");
  }
  if (setup.keep < 0 || !known.are_all_counted) return;
  require(
      seen.batches.size() <= static_cast<std::size_t>(setup.keep + known.unfinished + known.strays),
      where, ": ", seen.batches.size(), " checkpoints are left, ", known.unfinished + known.strays,
      " saves did not end well");
}

}  // namespace cairn::testing
