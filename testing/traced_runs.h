// Short runs whose saves are traced: the same starts for each layout and each kind of store.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/dist/dist.h"
#include "cairn/dist/sampler.h"
#include "cairn/dist/sharding.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/train/model.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"
#include "testing/trace.h"

namespace cairn::testing {

enum class TracedLayout : std::uint8_t { kOneFile, kShardedFolder, kTars };

// Float32, because tars need it.
struct TracedNet : torch::nn::Module {
  TracedNet() {
    torch::manual_seed(1);
    first = register_module("first", Sharded<torch::nn::Linear>(4, 8));
    second = register_module("second", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& input) { return second(first(input.to(at::kFloat)).tanh()); }
  Sharded<torch::nn::Linear> first{nullptr};
  torch::nn::Linear second{nullptr};
};

struct TracedRuns {
  std::shared_ptr<Trace> trace = std::make_shared<Trace>();
  std::shared_ptr<ObjectStore> store = nullptr;
  std::string folder = "run";
  TracedLayout layout = TracedLayout::kOneFile;
  bool is_async = false;
  int keeps = 2;  // Checkpoints kept in the folder.
  // The store of an uploading logger. Null: no such logger.
  std::shared_ptr<ObjectStore> uploads_to = nullptr;
  // Whether the trace marks what the training thread begins. False if the training thread does not
  // wait for background threads.
  bool has_marks = true;

  // Saves after every second batch and after the last one. Keeps two checkpoints.
  TrainerOptions options(const std::string& duration) const {
    TrainerOptions made = tiny_options();
    made.model = classifier(std::make_shared<TracedNet>(), {.num_classes = 3});
    made.train_dataloader =
        tiny_loader(10 * dist::world_size(),
                    {.batch_size = 2, .sampler = DistributedSamplerOptions{.shuffle = false}});
    made.max_duration = duration;
    made.run_name = "traced";
    made.save_folder = folder;
    made.save_interval = "2ba";
    made.save_num_checkpoints_to_keep = keeps;
    made.save_num_remote_checkpoints_to_keep = 2;
    made.save_async = is_async;
    made.save_object_store = store;
    if (layout == TracedLayout::kShardedFolder) {
      made.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig{.state_dict_type = "sharded"}};
    }
    if (layout == TracedLayout::kTars) {
      made.deepspeed_config = Dict{{"zero_optimization", Dict{{"stage", 1}}}};
    }
    return made;
  }

  TrainerOptions resuming_options(const std::string& duration) const {
    TrainerOptions made = options(duration);
    made.autoresume = true;
    return made;
  }

  // One start of a program. Waits for each save and its upload before the next batch, so that
  // background work has a fixed position in the trace.
  void start(const std::string& title, TrainerOptions made) const {
    trace->begin(title);
    std::shared_ptr<RemoteUploaderDownloader> uploader;
    if (uploads_to != nullptr) {
      uploader = std::make_shared<RemoteUploaderDownloader>(
          RemoteUploaderDownloaderOptions{.store = uploads_to});
      made.loggers.push_back(uploader);
    }
    Trainer* running = nullptr;
    const auto settle = [&](State& state) {
      wait_for_saves(state);
      if (uploader != nullptr) uploader->eval_standalone_end(state, running->logger());
    };
    made.callbacks.push_back(CallAt(Event::kBatchStart, [&](State& state) {
      settle(state);
      mark("batch " + std::to_string(state.timestamp.batch + 1));
    }));
    made.callbacks.push_back(CallAt(Event::kFitEnd, [&](State& state) {
      settle(state);
      mark("fit_end");
    }));
    try {
      Trainer trainer(std::move(made));
      running = &trainer;
      mark("fit");
      trainer.fit();
      mark("close");
      trainer.close();
    } catch (const AlreadyExistsError&) {
      mark("refused");
    } catch (const Error&) {  // The other ranks report that rank 0 was refused.
      if (dist::rank() == 0) throw;
      mark("refused");
    }
  }

  void all() const {
    start("a first start", options("5ba"));
    start("a second start, with autoresume", resuming_options("7ba"));
    start("a third start, which is finished", resuming_options("7ba"));
    start("a start that would write over these checkpoints", options("4ba"));
    TrainerOptions over = options("4ba");
    over.save_overwrite = true;
    start("the same with save_overwrite", std::move(over));
    save_by_hand();
  }

 private:
  void mark(const std::string& what) const {
    if (has_marks) trace->add("-- " + what);
  }

  static void wait_for_saves(const State& state) {
    for (const auto& callback : state.callbacks) {
      if (const auto saver = std::dynamic_pointer_cast<CheckpointSaver>(callback)) saver->wait();
    }
  }

  void save_by_hand() const {
    trace->begin("saves that the program asks for");
    TrainerOptions made = options("1ba");
    made.save_folder = folder + "/by_hand";
    made.save_interval = "100ba";
    Trainer trainer(std::move(made));
    mark("fit");
    trainer.fit();
    mark("save_checkpoint");
    trainer.save_checkpoint(folder + "/by_hand/kept-{batch}-rank{rank}.pt");
    mark("save_checkpoint_to_save_folder");
    trainer.save_checkpoint_to_save_folder();
    wait_for_saves(trainer.state());
    mark("close");
    trainer.close();
  }
};

}  // namespace cairn::testing
