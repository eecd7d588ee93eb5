// Runs a CheckpointSaver on a State that holds no model: the saver takes names, time and the list
// of saved checkpoints from the State, and the content from State::CheckpointForm.
//
// resume(), on all ranks together:
//  1. Rank 0 finds the newest whole checkpoint (find_latest), and tells the others its path.
//  2. Each rank reads it once into memory, and checks every byte.
//  3. Each entry plans its load: modules, optimizers and tensors, which changes nothing. Then the
//     other objects are loaded, in a way that can be undone (ObjectLoads).
//  4. If anything did not fit on any rank, the objects are restored, and one error lists it all.
//     Otherwise the plans are applied, which cannot fail.
#include "cairn/checkpoints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/exit_code.h"
#include "cairn/train/logger.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/rng.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/open/verify/check_whole.h"
#include "core/text/printable.h"
#include "core/text/run_messages.h"
#include "dist/team.h"
#include "io/file.h"
#include "resuming/load_run.h"
#include "saving/trainer_calls.h"
#include "storage/local/local_store.h"
#include "storage/place.h"
#include "terminal/progress_line.h"
#include "train/engine/signal_watch.h"
#include "train/engine/stop_request.h"
#include "train/optimizer/load.h"
#include "train/state/checkpoint_form.h"
#include "train/state/device/staging.h"
#include "train/state/load/module_load.h"
#include "train/state/load/object_loads.h"
#include "train/trainer/ranks.h"

namespace cairn {
namespace {

constexpr const char* kRng = "rng";
constexpr const char* kOwn = "cairn";  // The saver's list of checkpoints.

// Step 3, for all entries.
struct PlannedLoad {
  std::vector<TensorLoad> tensors = {};
  std::vector<std::unique_ptr<OptimizerLoad>> optimizers = {};
  ObjectLoads objects = {};
  std::vector<std::string> misfits = {};

  void add_misfits(const std::string& name, const std::vector<std::string>& found) {
    for (const std::string& misfit : found)
      misfits.push_back(name + ": " + misfit);
  }
};

struct Entry {
  std::string name;
  Checkpoints::Save save;
  std::function<void(const Value& saved, PlannedLoad& load)> plan;
  bool is_object = false;  // It can only be tried: after all others fit.
};

std::string folder_name(std::string folder) {
  while (folder.ends_with('/'))
    folder.pop_back();
  return folder.empty() ? "run" : base_name(folder);
}

void check(const CheckpointsOptions& options) {
  if (options.folder.empty()) throw UsageError("Checkpoints: set folder");
  if (options.folder.find('{') != std::string::npos && !options.run_name) {
    throw UsageError("Checkpoints: the folder " + options.folder + " has braces: set run_name");
  }
  const Time* interval = options.save_interval.time();
  if (interval == nullptr) return;
  if (interval->unit() == TimeUnit::kBatch || interval->unit() == TimeUnit::kSecond) return;
  throw UsageError("Checkpoints: save_interval is " + interval->to_string() +
                   "; give steps (\"100ba\"), seconds (\"600sec\") or a std::chrono duration");
}

CheckpointSaverOptions saver_options(const CheckpointsOptions& options) {
  const bool is_here = store_of(options.folder, options.store)->names_are_paths();
  return {.folder = options.folder,
          .filename = options.filename,
          .remote_file_name = std::nullopt,
          .latest_filename = options.latest_filename,
          .latest_remote_file_name = std::nullopt,
          .save_interval = options.save_interval,
          .num_checkpoints_to_keep = is_here ? options.keep : std::nullopt,
          .store_patience = options.store_patience,
          .num_remote_checkpoints_to_keep = is_here ? std::nullopt : options.keep,
          .keep_best = options.keep_best,
          .save_async = options.save_async,
          .store = options.store};
}

}  // namespace

struct Checkpoints::Impl {
  explicit Impl(CheckpointsOptions given);

  void add(Entry entry);
  Value content(Value rng) const;
  void begin(bool resumes);
  bool resume();
  struct Found {
    std::string path;
    std::optional<Checkpoint> checkpoint;  // On rank 0, which has verified it.
  };
  std::optional<Found> find();
  void load(const Found& found);
  void plan(const Value& saved, PlannedLoad& planned);
  bool due(std::optional<std::int64_t> step);
  void save(std::int64_t step);
  void check_keep_best() const;
  void note_metric();
  int finish();
  std::shared_ptr<ObjectStore> store_to_read();

  const CheckpointsOptions options;
  std::string folder;  // With the run's name filled in.
  std::optional<SignalWatch> signals;
  std::optional<StopRequest> requests;  // From begin() to finish().
  std::vector<Entry> entries;
  State state;
  Logger logger{state};
  std::shared_ptr<CheckpointSaver> saver;
  std::function<bool(const State&, Event)> is_due;
  double last_step_at = 0;  // By options.now.
  bool has_begun = false;
  bool has_loaded = false;
  bool has_stopped = false;
  Requests unserved;
};

Checkpoints::Impl::Impl(CheckpointsOptions given) : options(std::move(given)) {
  check(options);
  state.run_name = options.run_name.value_or(folder_name(options.folder));
  folder = strict_format(NameFormat(options.folder), dist_variables(state.run_name));
  saver = std::make_shared<CheckpointSaver>(saver_options(options));
  state.callbacks = {saver};
  State::CheckpointForm::of(state).content = [this](Value rng) { return content(std::move(rng)); };
  is_due = create_interval_scheduler(options.save_interval);
  if (options.handle_signals) signals.emplace();
}

void Checkpoints::Impl::add(Entry entry) {
  if (has_begun) throw UsageError("Checkpoints: add(\"" + entry.name + "\") after the first use");
  const auto has_name = [&](const Entry& each) { return each.name == entry.name; };
  if (entry.name == kRng || entry.name == kOwn || std::ranges::any_of(entries, has_name)) {
    throw UsageError("Checkpoints: the name \"" + entry.name + "\" is taken");
  }
  entries.push_back(std::move(entry));
}

Value Checkpoints::Impl::content(Value rng) const {
  Dict dict;
  for (const Entry& entry : entries)
    dict.set(entry.name, entry.save());
  if (options.rng) dict.set(kRng, std::move(rng));
  dict.set(kOwn, Dict{{"checkpoints", saver->state_dict()}});
  return dict;
}

std::shared_ptr<ObjectStore> Checkpoints::Impl::store_to_read() {
  return patient_store(store_of(folder, options.store), {options.store_patience, "store_patience"},
                       logger);
}

// Before the first use of the folder. A run that resumes may replace what it wrote after the
// checkpoint that it resumes from. After an error, the program may begin again.
void Checkpoints::Impl::begin(bool resumes) try {
  check_keep_best();
  has_begun = true;
  if (signals) {
    StopRequestOptions watched;
    if (dist::rank() == 0) {
      watched.folder = folder;
      const auto store = store_of(folder, options.store);
      if (local_files_of(*store) == nullptr) watched.store = store;
    }
    requests.emplace(std::move(watched));
  }
  CheckpointSaver::TrainerCalls::rewrite_own_files(*saver, resumes);
  saver->init(state, logger);
  if (resumes) {
    if (const auto found = find()) load(*found);
  }
  try {
    saver->after_load(state, logger);
    saver->fit_start(state, logger);
  } catch (const AlreadyExistsError&) {
    if (resumes) throw;
    throw AlreadyExistsError("Checkpoints: saves would replace checkpoints that are in " + folder +
                             ": call resume() before the first due() or save(), give another "
                             "folder, or remove them");
  }
  if (signals) signals->expect_to_serve(true);
  last_step_at = options.now();
} catch (...) {
  has_begun = false;
  requests.reset();
  CheckpointSaver::TrainerCalls::rewrite_own_files(*saver, false);
  throw;
}

// Step 1.
std::optional<Checkpoints::Impl::Found> Checkpoints::Impl::find() {
  const Team team = Team::of_job();
  const auto store = store_to_read();
  Found found;
  const Value place = team.do_on_first("looking for a checkpoint", [&]() -> Value {
    const auto newest = find_latest(
        options.folder, {.filename = NameFormat(options.filename),
                         .run_name = state.run_name,
                         .latest_filename = NameFormat(options.latest_filename.value_or("")),
                         .on_skip =
                             [&](const std::string& path, const std::string& why) {
                               logger.log_message("skipped " + printable_line(path) + ": " + why);
                             },
                         .on_other_run =
                             [&](const std::string& path, const std::string& run_name) {
                               logger.log_message("skipped " + printable_line(path) +
                                                  ": it belongs to the run " +
                                                  printable_line(run_name));
                             },
                         .store = store});
    if (!newest) return None{};
    found.checkpoint = newest->checkpoint;
    return newest->path;
  });
  if (place.is_none()) return std::nullopt;
  found.path = place.as_str();
  return found;
}

// Step 3.
void Checkpoints::Impl::plan(const Value& saved, PlannedLoad& planned) {
  const auto plan_all = [&](bool objects) {
    for (const Entry& entry : entries) {
      if (entry.is_object != objects) continue;
      const Value* value = saved.find(entry.name);
      if (value != nullptr) entry.plan(*value, planned);
      if (value == nullptr) planned.misfits.push_back(entry.name + ": the checkpoint has none");
    }
  };
  plan_all(/*objects=*/false);
  if (!planned.misfits.empty()) return;
  plan_all(/*objects=*/true);
  if (const Value* own = saved.find(kOwn)) {
    if (const Value* list = own->is_dict() ? own->find("checkpoints") : nullptr)
      planned.objects.load(kOwn, *list, *saver);
  }
  const Value* rng = options.rng ? saved.find(kRng) : nullptr;
  const auto own_rng = rng == nullptr ? std::nullopt : rng_of_rank(*rng);
  if (own_rng) {
    planned.objects.load(kRng, *own_rng, ObjectLoads::Object{rng_states, [](const Value& states) {
                                                               restore_rng_states(states);
                                                             }});
  } else if (options.rng) {
    logger.log_message(
        "warning: the checkpoint has no random states of this rank; the present "
        "ones stay");
  }
}

// Steps 2 to 4.
void Checkpoints::Impl::load(const Found& found) {
  const std::string& path = found.path;
  Timestamp position;
  PlannedLoad planned;
  try {
    Team::of_job().run_on_all("loading " + printable_line(path), [&] {
      const Checkpoint checkpoint =
          found.checkpoint ? *found.checkpoint : open_checkpoint(path, store_to_read());
      position = checkpoint.info().timestamp.value_or(Timestamp());
      Value saved = cairn::load(checkpoint, {.verify = Verify::kQuick});
      if (!saved.is_dict()) throw MismatchError(path + " holds no dict");
      StagedReads reads;
      saved = staged(
          std::move(saved), [](const Storage&) { return true; }, reads);
      check_whole(read_staged(checkpoint, std::move(reads), Verify::kFull), path);
      plan(saved, planned);
      std::vector<std::string> misfits = planned.misfits;
      for (const std::string& misfit : planned.objects.misfits())
        misfits.push_back(misfit);
      if (!misfits.empty()) {
        throw MismatchError(fmt::format("{} does not fit this program, nothing was changed:\n  {}",
                                        path, fmt::join(misfits, "\n  ")));
      }
      saved = Value();  // So that the plans are the only owners of their memory.
      for (const auto& optimizer : planned.optimizers)
        optimizer->prepare();
    });
    apply_all(planned.tensors);
  } catch (...) {
    for (const std::string& object : planned.objects.undo())
      logger.log_message("warning: " + object + " refused the state that it had before");
    throw;
  }
  for (const auto& optimizer : planned.optimizers)
    optimizer->apply();
  state.timestamp = position;
  has_loaded = true;
  logger.log_message(
      fmt::format("resumed from {} (step {})", printable_line(path), state.timestamp.batch));
}

bool Checkpoints::Impl::resume() {
  if (has_begun) throw UsageError("Checkpoints: call resume() once, before the first save()");
  begin(/*resumes=*/true);
  return has_loaded;
}

bool Checkpoints::Impl::due(std::optional<std::int64_t> step) {
  if (!has_begun) begin(/*resumes=*/false);
  const double now = options.now();
  double elapsed = std::exchange(last_step_at, now);
  elapsed = now - elapsed;
  if (dist::world_size() > 1) elapsed = Team::of_job().broadcast_from_first(elapsed).as_float();
  state.previous_timestamp = state.timestamp;
  constexpr double kMicros = 1e6;
  state.timestamp = state.timestamp.to_next_batch(
      0, 0, TimeDelta::of(std::chrono::microseconds(static_cast<std::int64_t>(elapsed * kMicros))));
  if (step) state.timestamp.batch = *step;
  const Requests asked = of_all_ranks(requests ? requests->poll() : Requests());
  if (asked.save || asked.stop) {
    unserved = {.save = unserved.save || asked.save,
                .stop = unserved.stop || asked.stop,
                .reason = asked.reason};
  }
  has_stopped = has_stopped || asked.stop;
  const bool is_time = is_due(state, Event::kBatchCheckpoint);
  return is_time || unserved.save || unserved.stop;
}

void Checkpoints::Impl::save(std::int64_t step) {
  if (!has_begun) begin(/*resumes=*/false);
  if (step < state.timestamp.batch) {
    throw UsageError(fmt::format("Checkpoints: save({}) comes after step {}; steps must grow", step,
                                 state.timestamp.batch));
  }
  state.timestamp.batch = step;
  if (options.keep_best) note_metric();
  saver->save_unless_saved(state, logger);
  const Requests served = std::exchange(unserved, {});
  if (!served.reason.empty()) {
    logger.log_message(fmt::format("{}{}step {}, saved", served.reason,
                                   served.stop ? kStoppingMessage : ": going on at ", step));
  }
}

void Checkpoints::Impl::check_keep_best() const {
  const auto& best = options.keep_best;
  if (!best || std::ranges::find(entries, best->metric, &Entry::name) != entries.end()) return;
  throw UsageError("Checkpoints: keep_best is by \"" + best->metric +
                   "\", and no entry of that name was added: add(\"" + best->metric + "\", value)");
}

void Checkpoints::Impl::note_metric() {
  const std::string& name = options.keep_best->metric;
  const Value value = std::ranges::find(entries, name, &Entry::name)->save();
  if (value.kind() != Kind::kFloat && !value.is_int()) {
    throw UsageError("Checkpoints: keep_best is by \"" + name + "\", which is no number");
  }
  CheckpointSaver::TrainerCalls::note_metric(*saver, state, value.as_float());
}

int Checkpoints::Impl::finish() {
  if (!has_begun) return kDone;
  if (state.previous_timestamp) save(state.timestamp.batch);  // The last steps.
  // Launchers end a job when the first process exits. So all ranks wait for the save of rank 0.
  Team::of_job().run_on_all("ending the run", [&] { saver->fit_end(state, logger); });
  if (signals) signals->expect_to_serve(false);
  requests.reset();
  signals.reset();
  return has_stopped ? options.interrupted_exit_code : static_cast<int>(kDone);
}

Checkpoints::Checkpoints(CheckpointsOptions options)
    : impl_([&] {
        if (!options.now) options.now = steady_seconds;
        return std::make_unique<Impl>(std::move(options));
      }()) {}

Checkpoints::~Checkpoints() {
  try {
    impl_->saver->close(impl_->state, impl_->logger);
  } catch (const std::exception& error) {
    try {
      impl_->logger.log_message(std::string(kSaveFailedMessage) + error.what());
    } catch (const std::exception&) {  // For example, no memory for the message.
    }
  }
}

Checkpoints& Checkpoints::add(const std::string& name, torch::nn::Module& module) {
  impl_->add({.name = name,
              .save = [&module] { return state_dict(module); },
              .plan =
                  [&module, name](const Value& saved, PlannedLoad& load) {
                    ModuleLoad planned = plan_module_load(module, saved, {});
                    load.add_misfits(name, planned.misfits);
                    for (TensorLoad& tensor : planned.tensors)
                      load.tensors.push_back(std::move(tensor));
                  }});
  return *this;
}

Checkpoints& Checkpoints::add(const std::string& name, torch::optim::Optimizer& optimizer,
                              const torch::nn::Module& module) {
  impl_->add({.name = name,
              .save = [&optimizer, &module] { return optimizer_state_dict(optimizer, module); },
              .plan =
                  [&optimizer, &module, name](const Value& saved, PlannedLoad& load) {
                    load.optimizers.push_back(plan_optimizer_load(optimizer, module, saved));
                    load.add_misfits(name, load.optimizers.back()->misfits);
                  }});
  return *this;
}

Checkpoints& Checkpoints::add(const std::string& name, at::Tensor& tensor) {
  impl_->add({.name = name,
              .save = [&tensor]() -> Value { return view_of(tensor); },
              .plan =
                  [&tensor, name](const Value& saved, PlannedLoad& load) {
                    if (!saved.is_tensor()) {
                      return load.add_misfits(name, {"no tensor in the checkpoint"});
                    }
                    const TensorView& view = saved.as_tensor();
                    if (tensor.sizes() != at::IntArrayRef(view.shape)) {
                      return load.add_misfits(
                          name, {fmt::format("shape [{}] in the checkpoint, [{}] here",
                                             fmt::join(view.shape, ", "),
                                             fmt::join(tensor.sizes(), ", "))});
                    }
                    load.tensors.emplace_back(tensor, view);
                  }});
  return *this;
}

Checkpoints& Checkpoints::add(const std::string& name, at::Generator& generator) {
  return add(
      name, [&generator]() -> Value { return view_of(generator.get_state()); },
      [&generator](const Value& saved) { generator.set_state(tensor_of(saved.as_tensor())); });
}

Checkpoints& Checkpoints::add(const std::string& name, bool& value) {
  return add(
      name, [&value] { return Value(value); },
      [&value](const Value& saved) { value = saved.as_bool(); });
}
Checkpoints& Checkpoints::add(const std::string& name, double& value) {
  return add(
      name, [&value] { return Value(value); },
      [&value](const Value& saved) { value = saved.as_float(); });
}
Checkpoints& Checkpoints::add(const std::string& name, std::string& value) {
  return add(
      name, [&value] { return Value(value); },
      [&value](const Value& saved) { value = saved.as_str(); });
}

Checkpoints& Checkpoints::add(const std::string& name, Save save, Load load) {
  const ObjectLoads::Object object{save, std::move(load)};
  impl_->add(
      {.name = name,
       .save = std::move(save),
       .plan = [object, name](const Value& saved,
                              PlannedLoad& planned) { planned.objects.load(name, saved, object); },
       .is_object = true});
  return *this;
}

bool Checkpoints::resume() { return impl_->resume(); }
bool Checkpoints::due(std::optional<std::int64_t> step) { return impl_->due(step); }
void Checkpoints::save(std::int64_t step) { impl_->save(step); }
std::vector<std::pair<std::string, double>> Checkpoints::best_checkpoints() {
  return impl_->saver->best_checkpoints();
}
bool Checkpoints::stops() const { return impl_->has_stopped; }
int Checkpoints::finish() { return impl_->finish(); }

}  // namespace cairn
