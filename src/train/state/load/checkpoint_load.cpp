// Loads a whole checkpoint: all of it is applied, or nothing.
//
// clang-format off
//  1. Decode it: check structure, manifest and pickle; read no tensor. Remove what load_ignore_keys
//     names.
//  2. Read every tensor that may be needed, once, into fresh memory, and check every byte of the
//     file on the way (load_staging.h). The load waits for the end of reading before it first uses
//     elements: while the disk works, step 1 finishes and the model is planned. After that, nothing
//     reads the file again: the bytes that were checked are applied.
//  3. Bring layouts of older Composers to the present layout, and compare with the live objects.
//     Plan model, optimizer and plain values, which changes nothing. Plan metrics, too, on a copy.
//     Schedulers, algorithms, callbacks, scaler and metrics can only be tried: save the present
//     state of each, then load it.
//  4. Allocate everything that applying needs: conversions, tables, copies of shared memory.
//  5. Apply the plans: moves, swaps, and copies from memory to memory. None of these can fail. With
//     in_place, weights that can be read straight into the model are left out of step 2. They are
//     read in this step, before the plans are applied. This read can fail; the error then says that
//     the weights are lost.
//  6. If something did not fit in step 3, or anything was thrown before step 5 (out of memory, or
//     by a logger that cannot write), undo. Release the plans' memory, restore the state of all
//     tried objects, and throw one error, which names the file. It is a MismatchError that lists
//     everything that did not fit.
// clang-format on
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <functional>
#include <new>
#include <set>

#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/open/checkpoint.h"
#include "core/out_of_memory.h"
#include "io/memory/mapped_file.h"
#include "train/optimizer/load.h"
#include "train/state/device/device_targets.h"
#include "train/state/device/in_place.h"
#include "train/state/device/tensor_bridge.h"
#include "train/state/gather/rank_saves.h"
#include "train/state/gather/run_checkpoint.h"
#include "train/state/gather/sharded_state.h"
#include "train/state/load/checkpoint_migration.h"
#include "train/state/load/foreign_parts.h"
#include "train/state/load/load_advice.h"
#include "train/state/load/load_findings.h"
#include "train/state/load/load_job.h"
#include "train/state/load/load_staging.h"
#include "train/state/load/module_load.h"
#include "train/state/load/name_misfits.h"
#include "train/state/load/object_loads.h"
#include "train/state/load/old_schedules.h"
#include "train/state/load/run_objects.h"
#include "train/state/load/run_values.h"
#include "train/state/random/rng_check.h"

namespace cairn {
namespace {

struct Refused {};  // Thrown if something does not fit.

class CheckpointLoad {
 public:
  CheckpointLoad(State& state, Logger& logger, const LoadJob& job)
      : state_(state),
        logger_(logger),
        options_(job.options),
        weights_are_lost_(job.weights_are_lost),
        needs_all_weights_(weights_are_lost_ != nullptr && *weights_are_lost_),
        findings_(logger) {}

  // Does steps 1 (except decoding) to 6. Returns the entry "rng".
  std::optional<Value> run(const std::string& path, LoadStaging& staging, Value checkpoint);

 private:
  void filter(Value& checkpoint, const std::string& path);
  void cut(Value& checkpoint);
  void stage(LoadStaging& staging, Value& checkpoint);  // Step 2, except the end of reading.
  void place_model(Value& saved, bool with_devices);    // Step 2, in place.
  void read_in_place(LoadStaging& staging);             // Step 5.
  Verify how_to_read() const;
  bool may_need(const std::string& key) const;
  void check(const Value& checkpoint);
  void check_weights(const Value& checkpoint);
  void refuse_misfits() const;  // Throws Refused.
  std::string listed_misfits() const;
  // Step 6: restores the live objects. Returns a text about their state.
  std::string undo();
  void prepare();
  void apply_plans() noexcept;

  void pass_over(Value& saved, const std::vector<std::string>& needed);
  void plan_model(const Value& model);
  void plan_optimizer(const Value& saved);

  State& state_;
  Logger& logger_;
  const LoadCheckpointOptions& options_;
  bool* const weights_are_lost_;  // LoadJob's.
  const bool needs_all_weights_;

  std::set<std::string> ignored_names_;  // Names in the model that are not missing, whatever
                                         // `strict` says.
  LoadFindings findings_;
  ObjectLoads tried_;
  ModuleLoad model_;
  InPlace in_place_;
  std::function<void()> finish_reading_;  // The end of step 2. Does nothing when called again.
  bool is_overwriting_ = false;           // The old weights are being overwritten.
  std::unique_ptr<OptimizerLoad> optimizer_;
  RunValuesLoad values_;
  MetricsLoad metrics_;
};

void CheckpointLoad::pass_over(Value& saved, const std::vector<std::string>& needed) {
  for (const std::string& line : pass_over_foreign(saved, needed, "state/"))
    findings_.warn(line);
}

void CheckpointLoad::plan_model(const Value& model) {
  model_ = plan_module_load(state_.model->module(), model,
                            {.strict = options_.strict_model_weights || needs_all_weights_,
                             .left_out = ignored_names_,
                             .before_elements = finish_reading_});
  for (const std::string& reason : model_.misfits)
    findings_.misfit("model: " + reason);
  for (const std::string& name : model_.unfit)
    findings_.way_out("state/model/" + glob_of(name));
  if (!model_.misfits.empty()) return;
  // If load_ignore_keys has left out all weights, none has to fit.
  const bool has_weights = !model.as_dict().empty() || ignored_names_.empty();
  const bool none_fits = has_weights && model_.tensors.empty() && !model_.keys.missing.empty();
  if (!none_fits) {
    for (const std::string& line : summarize_misfits(model_.keys)) {
      findings_.warn(line);
    }
    return;
  }
  findings_.misfit("model: none of its weights is in the checkpoint");
  for (const std::string& line : list_misfits(model_.keys)) {
    findings_.misfit("model: " + line);
  }
}

void CheckpointLoad::plan_optimizer(const Value& saved) {
  const Dict* optimizers = findings_.dict_entry(saved, "optimizers");
  if (!state_.optimizer) return;
  const std::string name = optimizer_name(*state_.optimizer);
  if (optimizers == nullptr || optimizers->empty()) {
    return findings_.warn("the checkpoint has no optimizer state; " + name + " starts afresh");
  }
  const Value* entry = optimizers->find(name);
  if (entry == nullptr) {
    const Value& other = optimizers->begin()->first;
    return findings_.misfit("optimizer: the checkpoint has " +
                            (other.is_str() ? other.as_str() : "another") + ", this run " + name);
  }
  optimizer_ = plan_optimizer_load(*state_.optimizer, state_.model->module(), *entry);
  for (const std::string& reason : optimizer_->misfits)
    findings_.misfit("optimizer: " + reason);
  if (!optimizer_->misfits.empty()) findings_.way_out("state/optimizers*");
}

void CheckpointLoad::filter(Value& checkpoint, const std::string& path) {
  // A file that is not a dict has no keys. It is refused later, as it is not a checkpoint of a run.
  if (options_.ignore_keys.empty() || !checkpoint.is_dict()) return;
  const Value before = checkpoint;
  for (const std::string& pattern : options_.ignore_keys.apply(checkpoint)) {
    findings_.warn(fmt::format("load_ignore_keys \"{}\" matches nothing in {}", pattern, path));
  }
  ignored_names_ = names_left_out(before, checkpoint);
}

// In a sharded run, cuts tensors to this rank's rows, which needs the present names. Other runs
// refuse a tensor that is only a part.
void CheckpointLoad::cut(Value& checkpoint) {
  Value saved = checkpoint.at("state");
  if (is_sharded(state_)) migrate_state(saved);
  for (const std::string& text : cut_to_own_rows(state_, saved))
    findings_.misfit(text);
  refuse_misfits();
  if (is_sharded(state_)) checkpoint.mutable_dict().set("state", std::move(saved));
}

void CheckpointLoad::check(const Value& checkpoint) {
  Value saved = checkpoint.at("state");
  if (!saved.is_dict()) return findings_.misfit("its \"state\" is not a dict");
  migrate_state(saved);
  pass_over(saved, needed_parts(state_, saved));
  if (const Value* model = saved.find("model")) {
    plan_model(*model);
  } else {
    if (needs_all_weights_)
      return findings_.misfit("it has no model, and the present weights are lost");
    findings_.warn("the model was left out; the present weights stay");
  }
  finish_reading_();
  if (const auto unused = unused_parts(state_, saved, checkpoint); !unused.empty()) {
    findings_.log(fmt::format("the checkpoint also holds entries that this run does not use: {}",
                              fmt::join(unused, ", ")));
  }
  const Value* rng = checkpoint.find("rng");
  if (rng == nullptr && holds_only_weights(saved)) {
    return findings_.warn("the checkpoint holds only weights; everything else stays as it is");
  }
  values_.plan(saved, state_, findings_);
  saved = with_plain_numbers(saved);  // After plan(): the dataset keeps numpy's numbers.
  plan_optimizer(saved);
  RunObjectsLoad objects(saved, state_, findings_, tried_);
  objects.load_schedulers();
  if (const auto& time = values_.timestamp()) {
    values_.set_steps_after_time(steps_after_time(saved, *time, state_, logger_));
  }
  objects.load_algorithms(options_.exclude_algorithms);
  objects.load_callbacks();
  objects.load_scaler();
  metrics_.plan(saved, state_, findings_);
  if (rng == nullptr)
    return findings_.warn("the checkpoint has no random states; the present ones stay");
  const RngCheck found = check_rng_states(*rng, /*is_of_own_rank=*/saves_rank_tars(state_));
  for (const std::string& text : found.misfits)
    findings_.misfit(text);
  for (const std::string& text : found.warnings)
    findings_.warn(text);
}

void CheckpointLoad::check_weights(const Value& checkpoint) {
  Value saved = checkpoint.at("state");
  migrate_state(saved);
  if (saved.is_dict()) pass_over(saved, {"model"});
  const Value* model = saved.is_dict() ? saved.find("model") : nullptr;
  if (model == nullptr) return findings_.misfit("it holds no weights (no \"state/model\")");
  plan_model(*model);
}

void CheckpointLoad::refuse_misfits() const {
  if (!findings_.misfits().empty() || !tried_.misfits().empty()) throw Refused();
}

std::string CheckpointLoad::listed_misfits() const {
  std::string text = ":";
  for (const auto* misfits : {&findings_.misfits(), &tried_.misfits()}) {
    for (const std::string& reason : *misfits) {
      text += "\n  " + reason;
    }
  }
  const std::vector<std::string>& ways_out = findings_.ways_out();
  return ways_out.empty() ? text : text + "\n" + advice_to_ignore(ways_out);
}

std::string CheckpointLoad::undo() {
  model_ = {};
  optimizer_.reset();
  values_ = {};
  metrics_ = {};
  const std::vector<std::string> refused = tried_.undo();
  std::string text = is_overwriting_
                         ? "the weights, which were overwritten in place, are lost (load "
                           "another checkpoint, or make the model anew); nothing else "
                           "was changed"
                         : "nothing was changed";
  if (refused.empty()) return text;
  text += ", except objects that refused their own state";
  for (const std::string& object : refused) {
    text += " (" + object + ")";
  }
  return text;
}

void CheckpointLoad::prepare() {
  if (optimizer_) optimizer_->prepare();
  metrics_.prepare(state_);
}

void CheckpointLoad::apply_plans() noexcept {
  if (optimizer_) optimizer_->apply();
  values_.apply(state_);
  metrics_.apply(state_);
}

// Whether the load may need tensors of this entry of "state". `key` is as any version of Composer
// names the entry.
bool CheckpointLoad::may_need(const std::string& key) const {
  if (options_.load_weights_only) return key.find("model") != std::string::npos;
  return state_.optimizer || key.find("optimizers") == std::string::npos;
}

// Does nothing if the names are those of an older Composer, or if another entry is taken for the
// model.
void CheckpointLoad::place_model(Value& saved, bool with_devices) {
  const auto is_taken_as_it_is = [&] {
    const Value* const model = saved.find("model");
    Value present = saved;
    migrate_state(present);
    const Value* const taken = present.find("model");
    return model != nullptr && taken != nullptr && taken->identity() == model->identity();
  };
  if (!is_taken_as_it_is()) return;
  place_in(state_.model->module(), saved.mutable_dict()["model"], with_devices, in_place_);
}

void CheckpointLoad::stage(LoadStaging& staging, Value& checkpoint) try {
  const bool with_devices = staging.takes_targets();
  if (options_.in_place) place_model(checkpoint.mutable_dict()["state"], with_devices);
  DeviceTargets targets;
  if (with_devices) {
    targets.add_state(state_, checkpoint.at("state"), !options_.load_weights_only);
  }
  const auto is_needed = [&](const Value& key) { return !key.is_str() || may_need(key.as_str()); };
  const auto is_elsewhere = [&](const Storage& s) { return live_memory_of(s) == nullptr; };
  staging.stage(checkpoint, {.with_others = !options_.load_weights_only,
                             .of_state = is_needed,
                             .storage = is_elsewhere,
                             .targets = &targets});
} catch (const std::bad_alloc&) {
  checkpoint = Value();
  staging.refuse_size(options_.verify);
}

// With in_place the file is read in two parts, and in a sharded run each rank reads a part. Then
// only the bytes that are read are checked, each once.
Verify CheckpointLoad::how_to_read() const {
  const bool is_part = !in_place_.places.empty() || is_sharded(state_);
  return is_part && options_.verify == Verify::kFull ? Verify::kWhatIsRead : options_.verify;
}

void CheckpointLoad::read_in_place(LoadStaging& staging) {
  if (in_place_.places.empty()) return;
  in_place_.check();
  is_overwriting_ = true;
  if (weights_are_lost_ != nullptr) *weights_are_lost_ = true;
  staging.read(in_place_.reads(), how_to_read());
}

std::optional<Value> CheckpointLoad::run(const std::string& path, LoadStaging& staging,
                                         Value checkpoint) {
  std::optional<Value> rng;
  try {
    const std::string why = why_no_run(checkpoint);
    filter(checkpoint, path);
    if (!why.empty()) require_run(checkpoint, why);  // Unless load_ignore_keys turned it into one.
    cut(checkpoint);
    stage(staging, checkpoint);
    finish_reading_ = [&] { staging.finish(how_to_read()); };
    if (options_.load_weights_only) {
      check_weights(checkpoint);
      checkpoint = Value();
      finish_reading_();
    } else {
      check(checkpoint);
      finish_reading_();  // Also if nothing that was read is used: damage is reported first.
      if (const Value* found = checkpoint.find("rng")) rng = *found;
    }
    refuse_misfits();
    metrics_.load(tried_);
    refuse_misfits();
    check_mapped_reads(path);  // For bytes that are in no tensor.
    checkpoint = Value();      // So that the plans are the only owners of their memory.
    prepare();
    apply_all(model_.tensors, [&] { read_in_place(staging); });
  } catch (const Refused&) {
    checkpoint = Value();
    throw MismatchError(path + " does not fit this run, " + undo() + listed_misfits());
  } catch (const std::bad_alloc&) {
    checkpoint = Value();
    const std::string undone = undo();
    if (!is_overwriting_) throw;
    throw OutOfMemoryError("cannot load " + path + ", " + undone + ": there is no memory left");
  } catch (Error& e) {
    checkpoint = Value();
    e.add_context("cannot load " + path + ", " + undo());
    throw;
  } catch (const std::exception& e) {  // From libtorch or from user code.
    checkpoint = Value();
    throw Error("cannot load " + path + ", " + undo() + ": " + e.what());
  }
  apply_plans();
  if (weights_are_lost_ != nullptr) *weights_are_lost_ = false;
  return rng;
}

}  // namespace

std::optional<Value> load_now(const LoadJob& job, State& state, Logger& logger) try {
  if (!state.model) throw UsageError("a checkpoint cannot be loaded into a State without a model");
  const Checkpoint opened =
      job.checkpoint ? *job.checkpoint : open_checkpoint(job.path, job.options.store);
  const std::string& path = opened.path();
  if (!job.content.empty()) check_content(opened, job.content);
  const GuardedReads guard;
  LoadStaging staging(opened);
  if (!is_sharded(state)) staging.begin(state, job.options);  // Reads the whole file.
  Value checkpoint = load(opened, {.verify = Verify::kQuick});
  if (checkpoint.is_foreign()) {
    throw UnsupportedError(path + " holds an object of " + checkpoint.as_foreign().class_name() +
                           ", which only its Python class can read; save dicts of state_dict()s");
  }
  return CheckpointLoad(state, logger, job).run(path, staging, std::move(checkpoint));
} catch (const std::bad_alloc&) {
  throw_out_of_memory("loading", job.path);
}

std::optional<Value> load_checkpoint(const std::string& path, State& state, Logger& logger,
                                     const LoadCheckpointOptions& options) {
  return load_now({.path = path, .options = options}, state, logger);
}

std::optional<Value> load_checkpoint(const Checkpoint& opened, State& state, Logger& logger,
                                     const LoadCheckpointOptions& options) {
  return load_now({.path = opened.path(), .checkpoint = opened, .options = options}, state, logger);
}

}  // namespace cairn
