// Where dist_program keeps the files of a run, and how its arguments disturb access to them.
#pragma once

#include <c10/util/Exception.h>

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/callbacks/memory_monitor.h"
#include "cairn/callbacks/optimizer_monitor.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/loggers/in_memory_logger.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/loggers/run_directory_uploader.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/callback.h"
#include "cairn/train/options.h"
#include "cairn/train/state.h"
#include "cairn/train/trainer.h"

#include "arguments.h"
#include "outage.h"
#include "testing/watched_store.h"

// A callback that cannot give its state on one rank.
class StatelessOnRank final : public cairn::Callback {
 public:
  explicit StatelessOnRank(std::int64_t rank) : rank_(rank) {}
  std::string name() const override { return "StatelessOnRank"; }
  cairn::Value state_dict() const override {
    if (cairn::dist::rank() == rank_) throw cairn::UsageError("it cannot be told");
    return {};
  }

 private:
  std::int64_t rank_;
};

// Turns on State::auto_microbatching, as "auto" does on a GPU. On rank 1, forward of more samples
// has no memory.
class SmallMemory final : public cairn::Callback {
 public:
  explicit SmallMemory(std::int64_t samples) : samples_(samples) {}
  std::string name() const override { return "SmallMemory"; }
  void fit_start(cairn::State& state, cairn::Logger& /*logger*/) override {
    state.auto_microbatching = true;
  }
  void after_forward(cairn::State& state, cairn::Logger& /*logger*/) override {
    TORCH_CHECK_WITH(OutOfMemoryError,
                     cairn::dist::rank() != 1 || state.batch[0].size(0) <= samples_, "no memory");
  }
  void fit_end(cairn::State& state, cairn::Logger& /*logger*/) override {
    print_line("fits " + std::to_string(state.device_train_microbatch_size.value_or(0)));
  }

 private:
  std::int64_t samples_;
};

class Surroundings {
 public:
  explicit Surroundings(const Arguments& arguments)
      : arguments_(arguments), folder_(arguments.text("folder")) {}

  // Applies these arguments:
  //  - slow_ms=N: rank 0 takes N ms to begin the save of batch 2. slow_line=1: rank 0 waits before
  //    that save until it reads a line.
  //  - far=1: the folder is in a store that counts the bytes read.
  //  - away_from=BATCH away_to=BATCH: an Outage of rank 0's store.
  //  - patience=SECONDS: save_store_patience.
  //  - saves=1: prints the saved checkpoints.
  //  - uploads=1: only rank 0 uploads its checkpoints to another place, and keeps none.
  //  - sends=FOLDER: each rank (sender=R: only rank R) has a logger that keeps files in FOLDER, as
  //    in a far store. fails=PART: rank 1 cannot write names that contain PART to FOLDER; with
  //    fails_times=N it cannot the first N times.
  //  - run_directory=1: each rank sends its own folder.
  //  - events=1: two savers, one after batches, the other after epochs.
  //  - nodes=1: prints the hyperparameters that describe the machines.
  //  - memory=SAMPLES: a SmallMemory.
  //  - monitors=1: rank 0 prints the norms of the last batch, and the figures of memory over ranks.
  //  - no_state=R: rank R cannot give the state of a callback.
  //  - swap=FILE over=NAME, with load_path: after rank 0 has opened something, and before the other
  //    ranks do, FILE gets the name NAME.
  //  - fails_open=1, with load_path: rank 0's first open fails, and the next one succeeds.
  void change(cairn::TrainerOptions& options) {
    const bool is_first = cairn::dist::rank() == 0;
    const bool is_slow = arguments_.has("slow_ms") || arguments_.has("slow_line");
    if (is_slow && is_first) options.save_object_store = slow_store();
    if (arguments_.has("far")) {
      counted_ = std::make_shared<cairn::testing::WatchedStore>(cairn::local_store());
      options.save_object_store = counted_;
    }
    if (arguments_.has("patience"))
      options.save_store_patience = std::chrono::seconds(arguments_.number("patience", 0));
    if (arguments_.has("away_from") && is_first) {
      outage_ = std::make_unique<Outage>(arguments_.number("away_from", 0),
                                         arguments_.number("away_to", -1));
      outage_->change(options);
    }
    if ((arguments_.has("swap") || arguments_.has("fails_open")) && options.load_path) {
      options.load_object_store = is_first ? disturbed_store() : plain_store();
    }
    if (arguments_.has("uploads")) {
      options.autoresume = false;
      options.save_num_checkpoints_to_keep = 0;
      if (is_first) {
        options.loggers.push_back(cairn::RemoteUploaderDownloader(
            {.bucket_uri = folder_, .file_path_format_string = "sent/{remote_file_name}"}));
      }
    }
    if (arguments_.has("sends")) send(options);
    if (arguments_.has("run_directory")) send_run_directory(options);
    if (arguments_.has("events")) {
      for (const char* interval : {"1ep", "4ba"}) {
        options.callbacks.push_back(cairn::CheckpointSaver(
            {.folder = folder_ + "/" + interval, .save_interval = interval}));
      }
      options.save_folder.reset();
      options.autoresume = false;
    }
    if (arguments_.has("memory")) {
      options.callbacks.push_back(std::make_shared<SmallMemory>(arguments_.number("memory", 0)));
    }
    if (arguments_.has("no_state")) {
      options.callbacks.push_back(
          std::make_shared<StatelessOnRank>(arguments_.number("no_state", 0)));
    }
    if (arguments_.has("monitors")) {
      options.callbacks.push_back(cairn::OptimizerMonitor({.batch_log_interval = 1}));
      options.callbacks.push_back(cairn::MemoryMonitor({.dist_aggregate_batch_interval = 1}));
    }
    if ((arguments_.has("nodes") || arguments_.has("monitors")) && is_first) {
      log_ = std::make_shared<cairn::InMemoryLogger>();
      options.loggers.push_back(log_);
    }
  }

  // Call it after the Trainer is constructed.
  void describe() const {
    if (counted_) print_line("read " + std::to_string(counted_->bytes_read()));
    for (const char* name : {"num_nodes", "num_cpus_per_node"}) {
      if (!arguments_.has("nodes") || !log_) break;
      print_line(name + (" " + std::to_string(log_->hyperparameters().find(name)->as_int())));
    }
  }

  // saves_first=1: saves before the first batch, unless that state is saved already.
  void save_first(cairn::Trainer& trainer) const {
    if (!arguments_.has("saves_first")) return;
    for (const auto& callback : trainer.state().callbacks) {
      auto* const saver = dynamic_cast<cairn::CheckpointSaver*>(callback.get());
      if (saver != nullptr) saver->save_unless_saved(trainer.state(), trainer.logger());
    }
  }

  // Call it after the Trainer is closed.
  void describe_files(cairn::Trainer& trainer) const {
    if (arguments_.has("monitors") && log_) describe_metrics();
    if (arguments_.has("saves")) {
      for (const std::string& path : trainer.saved_checkpoints())
        print_line("kept " + path.substr(folder_.size() + 1));
    }
    for (const char* kind : {"uploads", "run_directory", "events"}) {
      if (!arguments_.has(kind) || cairn::dist::rank() != 0) continue;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
        if (entry.is_regular_file())
          print_line("file " + entry.path().string().substr(folder_.size()));
      }
    }
  }

 private:
  void describe_metrics() const {
    for (const auto& [name, series] : log_->data()) {
      if (!name.starts_with("l2_norm/") && !name.starts_with("memory/")) continue;
      char line[160];
      std::snprintf(line, sizeof line, "metric %s %.12g", name.c_str(),
                    series.back().second.as_float());
      print_line(line);
    }
  }

  std::shared_ptr<cairn::ObjectStore> slow_store() {
    using cairn::testing::StoreCall;
    return std::make_shared<cairn::testing::WatchedStore>(
        cairn::local_store(),
        cairn::testing::StoreHooks{.before = [this](StoreCall call, const std::string& name) {
          if (call != StoreCall::kBegin || name.find("ba2-") == std::string::npos) return;
          print_line("saves slowly");
          if (arguments_.has("slow_line")) return wait_for_line();
          std::mutex mutex;  // A disk that is slow.
          std::unique_lock lock(mutex);
          std::condition_variable never;
          never.wait_for(lock, std::chrono::milliseconds(arguments_.number("slow_ms", 0)));
        }});
  }

  // A store without hooks. cairn takes it for a far store, like the stores of the other ranks.
  static std::shared_ptr<cairn::ObjectStore> plain_store() {
    return std::make_shared<cairn::testing::WatchedStore>(cairn::local_store());
  }

  std::shared_ptr<cairn::ObjectStore> disturbed_store() const {
    using cairn::testing::StoreCall;
    return std::make_shared<cairn::testing::WatchedStore>(
        cairn::local_store(),
        cairn::testing::StoreHooks{
            .before =
                [fails = arguments_.has("fails_open")](StoreCall call, const std::string&) mutable {
                  if (call != StoreCall::kOpen || !std::exchange(fails, false)) return;
                  throw cairn::StorageError("the line is cut", 0);
                },
            .after =
                [from = arguments_.text("swap"), to = arguments_.text("over")](StoreCall call,
                                                                               const std::string&) {
                  if (call != StoreCall::kOpen || !std::filesystem::exists(from)) return;
                  std::filesystem::rename(from, to);
                }});
  }

  void send(cairn::TrainerOptions& options) const {
    const std::int64_t rank = cairn::dist::rank();
    options.save_num_remote_checkpoints_to_keep =
        static_cast<int>(arguments_.number("remote_keep", -1));
    if (arguments_.number("sender", rank) != rank) return;
    const std::string fails = rank == 1 ? arguments_.text("fails") : "";
    const auto store = std::make_shared<cairn::testing::WatchedStore>(
        cairn::local_store(),
        cairn::testing::StoreHooks{
            .before = [fails, left = arguments_.number("fails_times", -1)](
                          cairn::testing::StoreCall call, const std::string& name) mutable {
              const bool is_write = call == cairn::testing::StoreCall::kBegin;
              if (fails.empty() || !is_write || name.find(fails) == std::string::npos) return;
              if (left == 0) return;
              if (left > 0) --left;
              throw cairn::StorageError("the line is cut", 0);
            }});
    options.loggers.push_back(
        cairn::RemoteUploaderDownloader({.bucket_uri = arguments_.text("sends"), .store = store}));
  }

  void send_run_directory(cairn::TrainerOptions& options) const {
    const std::string own = folder_ + "/of" + std::to_string(cairn::dist::rank());
    std::filesystem::create_directories(own);
    std::ofstream(own + "/note") << "x";
    options.loggers.push_back(cairn::RunDirectoryUploader(
        {.bucket_uri = folder_, .run_directory = own, .object_name_prefix = "sent"}));
  }

  const Arguments arguments_;
  const std::string folder_;
  std::shared_ptr<cairn::testing::WatchedStore> counted_;
  std::shared_ptr<cairn::InMemoryLogger> log_;
  std::unique_ptr<Outage> outage_;
};
