// A user's store around local_store() that forwards every call and reports the same properties.
// Runs that use this store behave as in local_store(). The store has no FileSystem, so there is no
// lock of the run, and ranks write the files of a folder one by one.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <regex>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/storage/stores.h"
#include "cairn/train/trainer.h"

#include "io/file.h"
#include "io/files/lock_file.h"
#include "storage/forwarding_store.h"
#include "storage/local/local_store.h"
#include "testing/killed_run.h"
#include "testing/message_of.h"
#include "testing/resumable_state.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"
#include "testing/traced_runs.h"
#include "testing/tracing_files.h"
#include "train/engine/stop_request.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::resumable_state;
using testing::run;
using testing::run_until;
using testing::TempFolder;
using testing::tiny_options;
using testing::TracedLayout;
using testing::TracedRuns;
using testing::write_file;

// Leaves a file as a killed writer does.
void leave_behind(const std::string& folder) {
  std::filesystem::create_directories(folder);
  write_file(folder + "/.cairn-tmp-ep0-ba9-rank0.pt-0123456789abcdef", "half");
}

class WrappedStore final : public ForwardingStore {
 public:
  explicit WrappedStore(std::shared_ptr<ObjectStore> under = local_store())
      : ForwardingStore(std::move(under)) {}
  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    {
      const std::scoped_lock lock(mutex_);
      ++begun[name];
    }
    if (is_broken) throw StorageError(name + " is busy", 0, /*retryable=*/true);
    return under_->begin(name, options);
  }
  std::map<std::string, int> begun;  // Read it only while nothing is being saved.
  std::atomic<bool> is_broken = false;

 private:
  std::mutex mutex_;
};

// Paths relative to `folder`, with the targets of links.
std::vector<std::string> all_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().string().substr(folder.size() + 1);
    if (is_lock_name(base_name(name))) continue;
    names.push_back(
        name + (entry.is_symlink() ? " -> " + std::filesystem::read_symlink(entry).string() : ""));
  }
  std::ranges::sort(names);
  return names;
}

struct WrappedStoreTest : ::testing::Test {
  TrainerOptions options(const std::shared_ptr<ObjectStore>& store, const std::string& home) {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.max_duration = "6ba";
    made.run_name = "run";
    made.seed = 3;
    made.autoresume = true;
    made.save_folder = folder / (home + "/ckpt");
    made.save_interval = "1ba";
    made.save_num_checkpoints_to_keep = 2;
    made.save_object_store = store;
    made.loggers = {log};
    return made;
  }

  // The logged messages, without times and without messages about locks.
  std::vector<std::string> messages(const std::string& home) const {
    static const std::regex times("[0-9]+\\.[0-9]+ s");
    static const std::regex shares("[0-9]+ %");
    std::vector<std::string> lines;
    for (std::string line : log->messages) {
      if (line.find(" has no locks") != std::string::npos) continue;
      const std::string where = folder / home;
      for (std::size_t at = line.find(where); at != std::string::npos; at = line.find(where)) {
        line.replace(at, where.size(), "HOME");
      }
      lines.push_back(std::regex_replace(std::regex_replace(line, times, "T s"), shares, "P %"));
    }
    return lines;
  }

  TempFolder folder;
  std::shared_ptr<testing::LogRecorder> log = std::make_shared<testing::LogRecorder>();
};

TEST_F(WrappedStoreTest, SavesRotatesAndResumesAsLocalStoreDoes) {
  std::map<std::string, std::vector<std::string>> said;
  std::map<std::string, std::vector<std::string>> names;
  const std::map<std::string, std::shared_ptr<ObjectStore>> stores = {
      {"a", local_store()}, {"b", std::make_shared<WrappedStore>()}};
  for (const auto& [home, store] : stores) {
    log->messages.clear();
    leave_behind(folder / (home + "/ckpt"));
    run_until(options(store, home), 3);
    leave_behind(folder / (home + "/ckpt"));
    run(options(store, home));
    run(options(store, home));  // The run is finished already.
    said[home] = messages(home);
    names[home] = all_in(folder / home);
  }
  EXPECT_EQ(said["a"], said["b"]);
  EXPECT_EQ(names["a"], names["b"]);
  EXPECT_THAT(said["b"], Contains(HasSubstr("left by a save that was killed")));
  EXPECT_THAT(names["b"], Contains("ckpt/latest-rank0.pt -> ep1-ba6-rank0.pt"));
  EXPECT_THAT(names["b"], Not(Contains(HasSubstr(".cairn-tmp-"))));
  EXPECT_EQ(resumable_state(load(folder / "a/ckpt/latest-rank0.pt")),
            resumable_state(load(folder / "b/ckpt/latest-rank0.pt")));
}

TEST_F(WrappedStoreTest, HasNoLockOfTheRunAndSaysSo) {
  run(options(std::make_shared<WrappedStore>(), "a"));
  EXPECT_THAT(log->messages, Contains(HasSubstr("has no locks")));
}

// Only other kinds of stores repeat a failed save, so this store writes once.
TEST_F(WrappedStoreTest, WritesOnceWhatCannotBeWritten) {
  const auto store = std::make_shared<WrappedStore>();
  TrainerOptions made = options(store, "a");
  made.callbacks.push_back(
      testing::CallAt(Event::kFitStart, [&](State& /*state*/) { store->is_broken = true; }));
  EXPECT_THROW(run(std::move(made)), StorageError);
  EXPECT_EQ(store->begun[folder / "a/ckpt/ep0-ba1-rank0.pt"], 1);
}

// The calls without those for the run's lock, including the call that makes the folder of the lock.
std::vector<std::string> without_lock(const std::vector<std::string>& lines) {
  std::vector<std::string> calls;
  for (const std::string& line : lines) {
    const bool is_of_lock = line.starts_with("lock_file ");
    if (is_of_lock && calls.back().starts_with("make_folders ")) calls.pop_back();
    if (!is_of_lock) calls.push_back(line);
  }
  return calls;
}

TEST_F(WrappedStoreTest, ItsFilesAreWrittenAndSyncedAsThoseOfLocalStore) {
  for (const TracedLayout layout : {TracedLayout::kOneFile, TracedLayout::kTars}) {
    std::vector<std::vector<std::string>> traces;
    for (const bool is_wrapped : {false, true}) {
      TracedRuns runs{.folder = "/run", .layout = layout};
      testing::SimFileSystem disk;
      testing::TracingFiles files(disk, runs.trace);
      runs.store = local_store(files);
      if (is_wrapped) runs.store = std::make_shared<WrappedStore>(runs.store);
      runs.all();
      traces.push_back(without_lock(runs.trace->lines()));
    }
    EXPECT_EQ(traces[0], traces[1]);
  }
}

// Folders are written object by object, so that every call goes through the wrapper.
TEST_F(WrappedStoreTest, SavesAndReplacesFoldersByItsOwnCalls) {
  TracedRuns runs{.folder = folder / "run", .layout = TracedLayout::kShardedFolder};
  const auto store = std::make_shared<WrappedStore>();
  runs.store = store;
  runs.all();
  EXPECT_THAT(store->begun, Contains(::testing::Key(HasSubstr("ep0-ba4/__0_0-"))));
  EXPECT_TRUE(verify(folder / "run/ep0-ba4").ok());
  EXPECT_THAT(all_in(folder.path()), Not(Contains(HasSubstr(".cairn-tmp-"))));
}

TEST_F(WrappedStoreTest, ItsPathsAreThoseOfLocalStore) {
  std::filesystem::create_directory(folder / "ckpt");
  std::filesystem::create_directory_symlink(folder / "ckpt", folder / "link");
  const std::vector<std::shared_ptr<ObjectStore>> stores = {local_store(),
                                                            std::make_shared<WrappedStore>()};
  for (const auto& store : stores) {
    TrainerOptions made = tiny_options();
    made.max_duration = "1ba";
    made.callbacks = {CheckpointSaver({.folder = folder / "ckpt", .store = stores[0]}),
                      CheckpointSaver({.folder = folder / "link", .store = store})};
    EXPECT_THAT(message_of<UsageError>([&] { Trainer(std::move(made)); }),
                HasSubstr("two CheckpointSavers would write one path"));
    EXPECT_THROW(CheckpointSaver({.filename = "s3://bucket/a.pt", .store = store}), Error);
  }
}

TEST_F(WrappedStoreTest, LoggersUploadFromItAndIntoIt) {
  for (const bool is_wrapped : {false, true}) {
    const std::string home = is_wrapped ? "b" : "a";
    const std::shared_ptr<ObjectStore> store =
        is_wrapped ? std::make_shared<WrappedStore>() : local_store();
    const std::string sent = folder / (home + "/sent/run/checkpoints");
    leave_behind(sent);
    TrainerOptions made = options(nullptr, home);
    made.save_folder.reset();
    made.callbacks = {CheckpointSaver({.folder = folder / (home + "/ckpt"),
                                       .save_interval = "1ba",
                                       .num_checkpoints_to_keep = 0,
                                       .num_remote_checkpoints_to_keep = 1,
                                       .store = store})};
    made.loggers.push_back(
        RemoteUploaderDownloader({.bucket_uri = folder / (home + "/sent"), .store = store}));
    run(std::move(made));
    EXPECT_THAT(all_in(folder / home),
                ::testing::IsSupersetOf({"sent/run/checkpoints/ep1-ba6-rank0.pt",
                                         "sent/run/checkpoints/latest-rank0.pt -> "
                                         "ep1-ba6-rank0.pt"}));
    EXPECT_THAT(all_in(folder / home), Not(Contains(HasSubstr(".cairn-tmp-"))));
  }
  EXPECT_EQ(all_in(folder / "a"), all_in(folder / "b"));
}

TEST_F(WrappedStoreTest, RequestsToStopAreLookedForByItsCalls) {
  StopRequest request({.handle_signals = false,
                       .folder = folder.path(),
                       .store = std::make_shared<WrappedStore>()});
  write_file(folder / "STOP", "");
  EXPECT_TRUE(request.poll().stop);
  EXPECT_FALSE(std::filesystem::exists(folder / "STOP"));
}

// The store of a file:// URI is near, but its names are URIs.
TEST_F(WrappedStoreTest, FilesByTheirUrisAreNoFarStore) {
  const auto store = object_store_of("file://" + folder.path());
  EXPECT_FALSE(store->may_be_far());
  EXPECT_FALSE(store->names_are_paths());
  const auto by_uri = [&] {
    TrainerOptions made = options(nullptr, "a");
    made.save_folder = "file://" + (folder / "a/ckpt");
    return made;
  };
  run_until(by_uri(), 3);
  run(by_uri());
  EXPECT_THAT(all_in(folder / "a"),
              ::testing::ElementsAre("ckpt", "ckpt/ep0-ba5-rank0.pt", "ckpt/ep1-ba6-rank0.pt",
                                     "ckpt/latest-rank0.pt -> ep1-ba6-rank0.pt"));
}

}  // namespace
}  // namespace cairn
