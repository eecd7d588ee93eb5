// A model of runs, tested through the public Trainer: random sequences of training, failed saves,
// kills, restarts, moved folders, forks and foreign files. After each step the same promises hold:
//
//  1. Each place has the newest save that is known to be durable, or a newer save. That save is
//     whole, and `latest` leads to it.
//  2. A durable checkpoint is gone only if as many newer checkpoints exist as are to be kept. No
//     more checkpoints than that number are left, plus one for each failed save since then.
//  3. Foreign files, and files of other runs, keep their bytes.
//  4. A start resumes from the newest checkpoint.
//  5. Its model, optimizer and random state equal those of an undisturbed run, bit for bit.
//
// CAIRN_RUN_MODEL_SEED=7 runs only sequence 7.

#include "run_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/train/trainer.h"

#include "run_machine.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using testing::bare_options;
using testing::BrokenPromise;
using testing::CallAt;
using testing::check_place;
using testing::content_of;
using testing::draw_setup;
using testing::is_pointer;
using testing::is_run;
using testing::kEnd;
using testing::kEpoch;
using testing::KnownSaves;
using testing::LogRecorder;
using testing::Machine;
using testing::may_be_left_over;
using testing::require;
using testing::Run;
using testing::SeenSaves;
using testing::Session;
using testing::Setup;
using testing::SimulatedCrash;
using testing::Undisturbed;
using testing::weights_of;
using testing::Where;

constexpr int kMaxSteps = 12;

// --- The model -----------------------------------------------------------------------------------

class RunModel {
 public:
  RunModel(Where where, std::uint64_t seed)
      : random_(seed), setup_(draw_setup(where, random_)), machine_(where, setup_.link_error) {
    Undisturbed::get();  // Makes the undisturbed run before this run seeds the generators.
    runs_.push_back({.name = "run0", .folder = "folder0"});
  }

  void play() {
    for (int step = 0; step < kMaxSteps && !run().is_finished; ++step) {
      others_ = content_of_others();
      session_ == nullptr ? step_outside() : step_inside();
      check();
    }
    finish();
  }

  std::string describe() {
    std::string text = setup_.describe() + "\nsteps:" + history_.str() + "\nfiles:\n";
    for (const auto& [store, folder] : places()) {
      for (const auto& [path, bytes] : content_of(*store, folder)) {
        text += "  " + path + (bytes.starts_with("-> ") ? " " + bytes : "") + "\n";
      }
    }
    return text;
  }

 private:
  enum class Outcome : std::uint8_t { kDone, kFailed, kKilled };

  // --- Draws ---

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool odds(std::uint64_t one_of) { return below(one_of) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return *(all.begin() + below(all.size()));
  }

  // --- Places ---

  Run& run() { return runs_[active_]; }
  bool has_uploads() const { return setup_.where == Where::kUploads; }
  // All folders of any run, each with its store.
  std::vector<std::pair<std::shared_ptr<ObjectStore>, std::string>> places() {
    std::set<std::string> folders;
    std::vector<std::pair<std::shared_ptr<ObjectStore>, std::string>> found;
    for (const Run& each : runs_) {
      if (folders.insert(each.folder).second) {
        found.emplace_back(machine_.here(), machine_.path(each.folder));
      }
      if (has_uploads()) found.emplace_back(machine_.far(), each.name);
    }
    return found;
  }

  // Looks at a run's checkpoints in one place. Its files must be whole and of some run.
  SeenSaves look(ObjectStore& store, const std::shared_ptr<ObjectStore>& shared, const Run& of,
                 const std::string& folder) {
    SeenSaves seen;
    for (const ListedName& listed : list_all_if_any(store, folder)) {
      const std::string path = folder + "/" + listed.name;
      if (foreign_.contains(path) || is_pointer(setup_, runs_, listed.name)) continue;
      if (may_be_left_over(listed.name)) continue;
      const VerifyReport report = verify(path, Verify::kFull, shared);
      require(report.ok(), path, " is damaged: ", report.summary());
      require(report.info && report.info->timestamp, path, " is no checkpoint of a run");
      if (report.info->run_name != of.name) {
        require(is_run(runs_, report.info->run_name), path, " is of nobody");
        continue;
      }
      seen.batches[path] = report.info->timestamp->batch;
      seen.newest = std::max(seen.newest, report.info->timestamp->batch);
    }
    const std::string latest = folder + "/" + setup_.latest_of(of.name);
    if (!store.stat(latest, /*follow=*/true)) return seen;
    const VerifyReport report = verify(latest, Verify::kFull, shared);
    require(report.ok() && report.info && report.info->timestamp, latest, " leads to damage");
    if (report.info->run_name == of.name) seen.latest = report.info->timestamp->batch;
    return seen;
  }
  SeenSaves look_here(const Run& of) {
    return look(*machine_.here(), machine_.here(), of, machine_.path(of.folder));
  }
  SeenSaves look_far(const Run& of) { return look(*machine_.far(), machine_.far(), of, of.name); }

  // All files that the active run must not touch. In its folder of uploads: the foreign files.
  std::map<std::string, std::string> content_of_others() {
    std::map<std::string, std::string> all;
    for (const auto& [store, folder] : places()) {
      for (auto& [path, bytes] : content_of(*store, folder))
        all["at " + path] = std::move(bytes);
    }
    const std::string folder = machine_.path(run().folder);
    const std::string latest = "at " + folder + "/" + setup_.latest_of(run().name);
    all.erase(latest);
    all.erase(latest + ".symlink");
    for (const auto& [path, batch] : look_here(run()).batches)
      all.erase("at " + path);
    std::erase_if(all, [&](const auto& each) {
      const std::string path = each.first.substr(3);
      return has_uploads() && path.starts_with(run().name + "/") && !foreign_.contains(path);
    });
    return all;
  }

  // --- Steps between two processes ---

  void step_outside() {
    switch (below(12)) {
      case 0:
        return move();
      case 1:
        return fork();
      case 2:
        return change_run();
      case 3:
        return add_foreign();
      case 4:
        return start_killed();
      default:
        return start();
    }
  }

  void move() {
    const std::string from = run().folder;
    if (!is_folder(*machine_.here(), machine_.path(from))) return;
    const std::string to = "moved" + std::to_string(++numbers_);
    history_ << " move(" << to << ")";
    machine_.move(from, to);
    for (Run& each : runs_) {
      if (each.folder == from) each.folder = to;
    }
    std::set<std::string> foreign;
    for (const std::string& path : foreign_) {
      const std::string old_folder = machine_.path(from) + "/";
      foreign.insert(path.starts_with(old_folder)
                         ? machine_.path(to) + "/" + path.substr(old_folder.size())
                         : path);
    }
    foreign_ = std::move(foreign);
    others_ = content_of_others();
  }

  // Another run begins from the newest checkpoint of this run.
  void fork() {
    if (run().here.newest() == 0 || runs_.size() > 3) return;
    Run made{.name = "run" + std::to_string(runs_.size()), .folder = run().folder};
    if (!setup_.has_run_name || odds(2)) made.folder = "folder" + std::to_string(++numbers_);
    made.parent = active_;
    history_ << " fork(" << made.name << " in " << made.folder << ")";
    runs_.push_back(made);
    active_ = runs_.size() - 1;
    others_ = content_of_others();
  }

  void change_run() {
    const std::size_t other = below(runs_.size());
    if (other == active_ || runs_[other].is_finished) return;
    active_ = other;
    history_ << " change(" << run().name << ")";
    others_ = content_of_others();
  }

  void add_foreign() {
    const bool is_far = has_uploads() && odds(2);
    const auto store = is_far ? machine_.far() : machine_.here();
    const std::string folder = is_far ? run().name : machine_.path(run().folder);
    const std::string path =
        folder + "/" +
        one_of<std::string>({"notes.txt", "best.pt", "ep1-ba3-rank0.pt.bak", "epoch.pt", ".keep",
                             "plots/loss.png", "latest.txt", "run0-notes.pt"});
    if (foreign_.contains(path)) return;
    history_ << " foreign(" << path << ")";
    if (path.ends_with(".pt")) {
      save(Dict{{"weights", static_cast<std::int64_t>(below(1000))}}, path, {.store = store});
    } else {
      const auto object = store->begin(path);
      object->write(as_bytes("notes " + std::to_string(below(1000))));
      object->commit();
    }
    foreign_.insert(path);
    foreign_.insert(folder + "/plots");
    others_ = content_of_others();
  }

  // --- A process begins ---

  CheckpointSaverOptions saver() {
    CheckpointSaverOptions made;
    made.folder = machine_.path(run().folder);
    made.filename = setup_.filename();
    made.latest_filename = setup_.latest();
    made.remote_file_name = "{run_name}/" + setup_.filename();
    made.latest_remote_file_name = "{run_name}/" + setup_.latest();
    made.save_interval = setup_.interval == kEpoch
                             ? Interval("1ep")
                             : Interval(std::to_string(setup_.interval) + "ba");
    made.num_checkpoints_to_keep = setup_.keep;
    made.num_remote_checkpoints_to_keep = setup_.keep;
    made.save_async = setup_.is_async;
    made.store = session_->process->here;
    return made;
  }
  TrainerOptions options() {
    Machine::Process& process = *session_->process;
    TrainerOptions made = bare_options();
    made.run_name = run().name;
    made.loggers = {log_};
    made.handle_signals = true;
    made.autoresume = true;
    if (process.far != nullptr) {
      made.loggers.push_back(RemoteUploaderDownloader({.store = process.far}));
    }
    made.callbacks = {CallAt(Event::kBatchStart, [this](State& state) { before_batch(state); }),
                      CallAt(Event::kBatchEnd, [this](State& state) { after_batch(state); }),
                      CheckpointSaver(saver())};
    if (run().parent) {
      const Run& parent = runs_[*run().parent];
      made.load_path = machine_.path(parent.folder) + "/" + setup_.latest_of(parent.name);
      made.load_object_store = process.here;
    }
    return made;
  }

  void before_batch(const State& state) {
    Session& session = *session_;
    const std::int64_t batch = state.timestamp.batch;
    if (batch % setup_.interval == 0 && batch > session.position) session.begun.push_back(batch);
    if (session.begun.size() > setup_.lag()) {
      run().here.add(session.begun[session.begun.size() - 1 - setup_.lag()]);
    }
    if (batch == session.stop_at) throw CancelledError("stopped by the model");
  }
  void after_batch(const State& state) {
    if (state.timestamp.batch == session_->ask_at) raise(session_->signal);
  }

  // The batch from which a start has to resume.
  std::int64_t expected_start() {
    const SeenSaves here = look_here(run());
    std::int64_t newest = setup_.where == Where::kFar ? here.newest_far() : here.newest;
    if (has_uploads()) newest = std::max(newest, look_far(run()).newest_far());
    if (newest == 0 && run().parent) newest = look_here(runs_[*run().parent]).latest;
    return newest;
  }

  Outcome construct() {
    return attempt([&] { session_->trainer.emplace(options()); });
  }
  void start() {
    const std::int64_t expected = expected_start();
    history_ << "\n  start(at " << expected << ")";
    session_ = std::make_unique<Session>(machine_.start());
    construct();
    State& state = session_->trainer->state();
    session_->first = session_->position = state.timestamp.batch;
    require(state.timestamp.batch == expected, "a start goes on from batch ", state.timestamp.batch,
            ", and not from ", expected);
    require(at::equal(weights_of(*state.model), Undisturbed::get().weights(expected)),
            "a start at batch ", expected, " has other weights");
    const SeenSaves here = look_here(run());
    const bool is_far = setup_.where == Where::kFar;
    if (expected > 0 && expected == (is_far ? here.latest : here.newest)) run().here.add(expected);
    session_->begun = run().here.durable;
  }
  void start_killed() {
    history_ << "\n  start";
    session_ = std::make_unique<Session>(machine_.start());
    session_->process->fate.kill_in(1 + below(60));
    construct();
    die();
  }

  // --- Steps of a process ---

  void step_inside() {
    is_far_quiet_ = false;
    switch (below(12)) {
      case 0:
        return end();
      case 1:
        return kill_later();
      case 2:
      case 3:
        return fail_later();
      case 4:
        return save_now();
      case 5:
        return add_foreign();
      case 6:
      case 7:
      case 8:
        return train_and_ask(SIGUSR1);
      case 9:
        return train_and_ask(SIGUSR2);
      default:
        return train("train");
    }
  }

  std::int64_t position() { return session_->trainer->state().timestamp.batch; }

  // Trains some batches, and waits for the saves.
  Outcome fit_some(std::int64_t batches) {
    Session& session = *session_;
    session.has_trained = true;
    session.position = position();
    session.stop_at = session.position + batches;
    // If a callback throws before the first batch of an epoch, the next fit() begins that epoch
    // again, with another order of batches.
    if (session.stop_at % kEpoch == 0) ++session.stop_at;
    return attempt([&] {
      try {
        session.trainer->fit();
        run().is_finished = position() == kEnd;
        if (run().is_finished) session.begun.push_back(kEnd);  // The end of a run saves.
      } catch (const CancelledError&) {
        if (session.process->fate.is_dead() || position() != session.stop_at) throw;
      }
      session.trainer->saved_checkpoints();  // Waits for the saves.
    });
  }
  // Marks all begun saves as durable here. `is_sent`: those since the last fault also far away.
  void all_ended_well(bool is_sent) {
    Session& session = *session_;
    const std::size_t before = run().here.durable.size();
    for (const std::int64_t batch : session.begun)
      run().here.add(batch);
    if (run().here.durable.size() > before) run().here.unfinished = 0;
    is_far_quiet_ = is_sent;
    if (!has_uploads() || !is_sent) return;
    for (const std::int64_t batch : session.begun) {
      if (batch > session.first && batch > session.failed_at) run().far.add(batch);
    }
  }
  void count_failure() {
    ++run().here.unfinished;
    ++run().far.unfinished;
    ++run().here.strays;
    session_->failed_at = position();
  }
  void note_failure() {
    count_failure();
    try {
      session_->trainer->saved_checkpoints();  // Waits for the saves after the failed save.
    } catch (const StorageError&) {            // NOLINT(bugprone-empty-catch): the same fault
    }
    session_->begun = run().here.durable;
    run().is_finished = position() == kEnd;
    history_ << "!" << position();
  }

  void train(const char* how) {
    const auto batches = static_cast<std::int64_t>(1 + below(5));
    history_ << " " << how << "(" << batches << ")";
    if (fit_some(batches) == Outcome::kFailed) return note_failure();
    all_ended_well(run().is_finished);
  }
  void train_and_ask(int signal) {
    const auto batches = static_cast<std::int64_t>(1 + below(4));
    session_->signal = signal;
    session_->ask_at = position() + batches;
    history_ << (signal == SIGUSR1 ? " stop(" : " ask(") << batches << ")";
    const Outcome outcome = fit_some(batches + 1);
    session_->ask_at = -1;
    if (outcome == Outcome::kFailed) return note_failure();
    if (signal == SIGUSR1) session_->begun.push_back(position());
    all_ended_well(!has_uploads() || run().is_finished);  // close() waits for the uploads.
  }
  void save_now() {
    // Until the first fit() of a process, the random state differs from the checkpoint's.
    if (!session_->has_trained) return;
    history_ << " save";
    const Outcome outcome = attempt([&] {
      session_->trainer->save_checkpoint_to_save_folder();
      session_->trainer->saved_checkpoints();
    });
    if (outcome == Outcome::kFailed) return note_failure();
    session_->begun.push_back(position());
    all_ended_well(false);
  }
  void fail_later() {
    testing::Fate& fate = session_->process->fate;
    fate.fail_in(1 + below(80), one_of({ENOSPC, EIO, EMFILE, EACCES}));
    train("fail");
    fate.spare();
    if (!fate.take_failed()) return;
    session_->may_fail = true;  // An upload's error arrives with a later event.
    count_failure();            // The failed call may have been a removal, which is retried later.
  }
  void kill_later() {
    const auto batches = static_cast<std::int64_t>(1 + below(4));
    session_->process->fate.kill_in(1 + below(100));
    history_ << " kill(" << batches << ")";
    fit_some(batches);
    die();
  }
  void end() {
    history_ << " end";
    const Outcome outcome = attempt([&] { session_->trainer->close(); });
    outcome == Outcome::kFailed ? note_failure() : all_ended_well(true);
    session_.reset();
    is_far_quiet_ = true;
  }

  // Ends the threads of a Trainer whose process died. Each call of close() throws one of the
  // crashes that these threads met.
  void close_dead() {
    for (int i = 0; i < 5 && session_->trainer; ++i) {
      try {
        return session_->trainer->close();
      } catch (const SimulatedCrash&) {  // NOLINT(bugprone-empty-catch)
      } catch (const Error&) {           // NOLINT(bugprone-empty-catch)
      }
    }
  }
  // Ends the process at its next call, if it has not ended yet.
  void die() {
    session_->process->fate.kill();
    close_dead();
    session_.reset();
    is_far_quiet_ = true;
    run().is_finished = false;
    ++run().here.unfinished;
    ++run().far.unfinished;
    std::function<std::uint64_t(std::uint64_t)> draw;
    if (odds(2)) draw = [this](std::uint64_t n) { return below(n); };
    history_ << (draw ? " power-loss" : " killed");
    machine_.restart(draw);
  }

  Outcome attempt(const std::function<void()>& act) {
    testing::Fate& fate = session_->process->fate;
    try {
      act();
    } catch (const SimulatedCrash&) {
      return Outcome::kKilled;
    } catch (const StorageError& e) {
      if (fate.is_dead()) return Outcome::kKilled;
      const bool may_fail = fate.take_failed() || std::exchange(session_->may_fail, false);
      require(may_fail, "without a fault: ", e.what());
      session_->may_fail = false;
      return Outcome::kFailed;
    } catch (const Error& e) {
      if (fate.is_dead()) return Outcome::kKilled;
      throw BrokenPromise(std::string("unexpected: ") + e.what());
    }
    return fate.is_dead() ? Outcome::kKilled : Outcome::kDone;
  }

  // --- Promises ---

  void check() {
    const std::map<std::string, std::string> others = content_of_others();
    for (const auto& [path, bytes] : others_) {
      const auto there = others.find(path);
      require(there != others.end(), "gone, though it is of others: ", path);
      require(there->second == bytes, "changed, though it is of others: ", path);
    }
    check_place(setup_, run().here, look_here(run()), machine_.here(), "here");
    if (has_uploads() && is_far_quiet_)
      check_place(setup_, run().far, look_far(run()), machine_.far(), "there");
  }

  // Trains to the end without any disturbance.
  void finish() {
    others_ = content_of_others();
    if (session_ == nullptr) start();
    history_ << " to the end";
    // The error of an earlier upload may arrive now.
    for (int failures = 0; position() < kEnd; ++failures) {
      const Outcome outcome = fit_some(kEnd);
      require(outcome == Outcome::kDone || failures == 0, "the last fit() failed");
      if (outcome == Outcome::kDone) {
        all_ended_well(true);
      } else {
        note_failure();
      }
      check();
    }
    end();
    check();
  }

  std::mt19937_64 random_;
  const Setup setup_;
  Machine machine_;
  std::vector<Run> runs_;
  std::size_t active_ = 0;
  int numbers_ = 0;
  std::set<std::string> foreign_;
  std::map<std::string, std::string> others_;  // The files of content_of_others() before the step.
  std::ostringstream history_;
  bool is_far_quiet_ = true;  // No upload is pending.
  std::shared_ptr<LogRecorder> log_ = std::make_shared<LogRecorder>();
  std::unique_ptr<Session> session_;
};

// --- Tests ---------------------------------------------------------------------------------------

struct Sequences {
  const char* name;
  Where where;
  int count;
};

void PrintTo(const Sequences& all, std::ostream* out) { *out << all.name; }  // NOLINT: gtest's name

class RunModelTest : public ::testing::TestWithParam<Sequences> {};

INSTANTIATE_TEST_SUITE_P(Places, RunModelTest,
                         ::testing::Values(Sequences{"Local", Where::kLocal, 40},
                                           Sequences{"Recycling", Where::kRecycling, 20},
                                           Sequences{"Far", Where::kFar, 40},
                                           Sequences{"Uploads", Where::kUploads, 20}),
                         [](const auto& test) { return test.param.name; });

TEST_P(RunModelTest, WhateverHappensThePromisesHold) {
  const char* only = std::getenv("CAIRN_RUN_MODEL_SEED");  // NOLINT(concurrency-mt-unsafe)
  const int first = only != nullptr ? std::stoi(only) : 1;
  const int last = only != nullptr ? first : GetParam().count;
  for (int seed = first; seed <= last; ++seed) {
    RunModel model(GetParam().where, static_cast<std::uint64_t>(seed));
    try {
      model.play();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "sequence " << seed << ": " << e.what() << "\n" << model.describe();
    }
  }
}

}  // namespace
}  // namespace cairn
