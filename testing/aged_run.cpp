#include "testing/aged_run.h"

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/train/trainer.h"

#include "io/bytes/source_part.h"
#include "testing/tiny_model.h"

namespace cairn::testing {
namespace {

constexpr std::int64_t kBatchesInEpoch = 5;  // Batches per epoch of tiny_options().
constexpr std::int64_t kBatchSize = 2;

Timestamp timestamp_at(std::int64_t batch) {
  Timestamp timestamp;
  timestamp.epoch = batch / kBatchesInEpoch;
  timestamp.batch = batch;
  timestamp.sample = batch * kBatchSize;
  timestamp.batch_in_epoch = batch % kBatchesInEpoch;
  timestamp.sample_in_epoch = timestamp.batch_in_epoch * kBatchSize;
  return timestamp;
}

}  // namespace

std::string aged_run_name(std::int64_t batch) {
  return "ep" + std::to_string(batch / kBatchesInEpoch) + "-ba" + std::to_string(batch) +
         "-rank0.pt";
}

TrainerOptions aged_run_options(const std::string& duration) {
  TrainerOptions made = tiny_options();
  made.max_duration = duration;
  made.run_name = "run";
  made.save_folder = "run";
  made.save_interval = "1ba";
  made.autoresume = true;
  return made;
}

std::string aged_run_file(std::int64_t batch, const std::string& saved_in) {
  const auto store = memory_store();
  TrainerOptions made = aged_run_options("1ba");
  made.save_object_store = store;
  {
    Trainer trainer(std::move(made));
    trainer.fit();
  }
  Value value = load("run/" + aged_run_name(1), {.store = store});
  Dict& state = value.mutable_dict()["state"].mutable_dict();
  const Timestamp timestamp = timestamp_at(batch);
  state["timestamp"].mutable_dict().set("Timestamp", timestamp.state_dict());
  List saved;
  for (std::int64_t each = 1; each <= batch; ++each) {
    saved.emplace_back(
        Tuple{{saved_in + "/" + aged_run_name(each), timestamp_at(each).state_dict()}});
  }
  state["callbacks"].mutable_dict()["CheckpointSaver"].mutable_dict().set(
      "all_saved_checkpoints_to_timestamp", std::move(saved));
  const std::string path = "run/" + aged_run_name(batch);
  save(value, path,
       {.info = {.kind = "full", .run_name = "run", .timestamp = timestamp}, .store = store});
  return std::string(as_text(read_all(*store->open(path)).view));
}

}  // namespace cairn::testing
