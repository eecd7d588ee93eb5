// Runs that save on this machine, and whose loggers upload the checkpoints to a store.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/optim/optimizers.h"
#include "cairn/train/trainer.h"

#include "storage/listing.h"
#include "storage/local/local_store.h"
#include "testing/resumable_state.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn::testing {

struct Uploader : ::testing::Test {
  TrainerOptions options(const std::string& duration) {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = duration;
    made.run_name = "run";
    made.loggers = {RemoteUploaderDownloader({.store = store}), log};
    made.callbacks = {CheckpointSaver(saver())};
    made.autoresume = true;
    made.seed = 3;
    return made;
  }
  CheckpointSaverOptions saver() {
    return {.folder = folder / "ckpt", .save_interval = "1ba", .num_checkpoints_to_keep = keep};
  }
  Value remote(const std::string& name) {
    return resumable_state(load("run/checkpoints/" + name, {.store = store}));
  }
  std::vector<std::string> names() { return list_names(*store, "run/checkpoints"); }
  void damage(const std::string& name) {
    std::string bytes = read_file(folder / "ckpt/" + name);
    bytes[bytes.size() / 2] ^= 1;
    write_file(folder / "ckpt/" + name, bytes);
  }

  TempFolder folder;
  int keep = -1;
  std::shared_ptr<ObjectStore> store = memory_store();
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

// A logger that takes files, and reports them as uploaded when the test says so.
struct SlowDestination final : LoggerDestination {
  std::string name() const override { return "SlowDestination"; }
  bool can_upload_files() const override { return true; }
  void upload_file(const FileUpload& file) override {
    EXPECT_TRUE(local_store()->stat(file.file_path)) << file.file_path;
    files.push_back(file);
  }
  std::vector<FileUpload> files;
};

}  // namespace cairn::testing
