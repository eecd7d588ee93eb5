// What a save does with the thing that already has its name: one line of
// tests/data/traces/replacements.txt for each cell of
//   place x save_overwrite x autoresume x moment and name of the save x thing
// Through the public interface of the Trainer only.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/trainer.h"

#include "testing/environment_variable.h"
#include "testing/golden_table.h"
#include "testing/plain_store.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

// Where the run saves.
enum class SavePlace : std::uint8_t {
  kFolder,          // on this machine
  kStore,           // far away, with versions
  kPlainStore,      // far away, without versions
  kUploads,         // on this machine and uploaded: the thing is where the logger uploads to
  kUploadedFolder,  // on this machine and uploaded: the thing is on this machine
};

// When the save comes, and how it is called.
struct SaveMoment {
  std::string text;
  bool has_counter;
  std::int64_t from;  // the batch that the run goes on from; 0: it begins
  bool is_asked;      // a save before fit() at that batch, or the first one in fit() at the next
  std::int64_t batch() const { return from + (is_asked ? 0 : 1); }
  // Whether the run that is started again had its last checkpoint in the same folder, under another
  // name than that of the save.
  bool has_history() const { return has_counter && from > 0 && !is_asked; }
};

const std::array<SaveMoment, 5> kMoments = {{
    {"first save with a counter", true, 0, false},
    {"next save with a counter", true, 1, false},
    {"save of a constant name", false, 1, false},
    {"asked save with a counter", true, 1, true},
    {"asked save of a constant name", false, 1, true},
}};

// What lies under the name of the save.
const std::array<std::string, 10> kThings = {
    "nothing",        "own further on", "own of this moment",   "another run's", "damaged",
    "damaged inside", "foreign file",   "checkpoint of no run", "folder",        "own weights",
};

// A run leaves a pointer to the first ones.
bool is_pointed_at(const std::string& thing) {
  return thing.starts_with("own ") || thing.starts_with("damaged");
}

std::string kind_of(const std::exception& error) {
  if (dynamic_cast<const AlreadyExistsError*>(&error) != nullptr) return "AlreadyExistsError";
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return "UsageError";
  if (dynamic_cast<const StorageError*>(&error) != nullptr) return "StorageError";
  if (dynamic_cast<const CorruptError*>(&error) != nullptr) return "CorruptError";
  return std::string("another error: ") + error.what();
}

// Names and bytes of what is in a folder of a store, folders below included.
using Contents = std::map<std::string, std::string>;

std::string bytes_of(ObjectStore& store, const std::string& name) {
  const auto source = store.open(name);
  const SharedBytes bytes = source->view(0, source->size());
  return {reinterpret_cast<const char*>(bytes.view.data()), bytes.view.size()};
}

void collect(ObjectStore& store, const std::string& folder, const std::string& below,
             Contents& found) {
  for (std::string page;;) {
    const ListPage listed = store.list(folder, page);
    for (const ListedName& one : listed.names) {
      const std::string path = folder + "/" + one.name;
      const auto info = store.stat(path, /*follow=*/false);
      if (!info || info->type == ObjectInfo::Type::kPointer) continue;
      if (info->type == ObjectInfo::Type::kFolder) {
        collect(store, path, below + one.name + "/", found);
      } else {
        found[below + one.name] = bytes_of(store, path);
      }
    }
    if (listed.next.empty()) return;
    page = listed.next;
  }
}

void put(ObjectStore& store, const std::string& name, const std::string& bytes) {
  const auto object = store.begin(name);
  object->write(std::as_bytes(std::span(bytes)));
  object->commit();
}

// In memory where the system has a file system there: a test of hundreds of runs need not wait for
// a disk.
class QuickFolder {
 public:
  std::string operator/(const std::string& name) const { return *folder_ / name; }

 private:
  static std::unique_ptr<testing::TempFolder> make() {
    if (!fs::is_directory("/dev/shm")) return std::make_unique<testing::TempFolder>();
    const testing::EnvironmentVariable where("TMPDIR", "/dev/shm");
    return std::make_unique<testing::TempFolder>();
  }
  const std::unique_ptr<testing::TempFolder> folder_ = make();
};

class Replacements : public ::testing::TestWithParam<SavePlace> {
 protected:
  Replacements() { clear(); }

  // The moments that are of interest in this place.
  bool has(const SaveMoment& moment) const {
    if (GetParam() == SavePlace::kUploadedFolder) return moment.has_history();
    return GetParam() != SavePlace::kUploads || !moment.is_asked || moment.has_counter;
  }

  bool is_far() const {
    return GetParam() == SavePlace::kStore || GetParam() == SavePlace::kPlainStore;
  }
  bool uploads() const {
    return GetParam() == SavePlace::kUploads || GetParam() == SavePlace::kUploadedFolder;
  }
  // The place that is looked at.
  ObjectStore& store() const {
    return GetParam() == SavePlace::kFolder || GetParam() == SavePlace::kUploadedFolder
               ? *local_store()
               : *far_;
  }
  std::string folder() const { return &store() == far_.get() ? "run" : ckpt_; }

  void clear() {
    fs::remove_all(ckpt_);
    far_ = memory_store();
    if (GetParam() == SavePlace::kPlainStore) {
      far_ = std::make_shared<testing::PlainStore>(far_, /*versioned_writes=*/false);
    }
  }

  TrainerOptions options(bool has_counter, const std::string& run_name = "run") {
    log_ = std::make_shared<testing::LogRecorder>();
    TrainerOptions made = testing::tiny_options();
    made.max_duration = "2ep";
    made.run_name = run_name;
    made.loggers = {log_};
    made.save_folder = is_far() ? "run" : ckpt_;
    made.save_filename = has_counter ? "ba{batch}.pt" : "ckpt.pt";
    made.save_latest_filename = "latest";
    made.save_interval = "1ba";
    made.save_async = false;
    if (is_far()) made.save_object_store = far_;
    if (uploads()) {
      made.loggers.push_back(RemoteUploaderDownloader({.store = far_}));
      made.save_remote_file_name = "run/" + made.save_filename;
      made.save_latest_remote_file_name = "run/latest";
    }
    return made;
  }

  static std::string name_of(bool has_counter, std::int64_t batch) {
    return has_counter ? "ba" + std::to_string(batch) + ".pt" : "ckpt.pt";
  }

  // The file of a run that saved once, at `batch`, in this place. It was trained with other data,
  // so that no later save has the same bytes.
  const std::string& saved(bool has_counter, std::int64_t batch, const std::string& what) {
    std::string& bytes = saved_[what + name_of(has_counter, batch) + std::to_string(batch)];
    if (!bytes.empty()) return bytes;
    clear();
    TrainerOptions made = options(has_counter, what == "another run's" ? "other" : "run");
    made.train_dataloader = DataLoader(testing::tiny_dataset(10, /*seed=*/6), {.batch_size = 2});
    made.save_weights_only = what == "own weights";
    made.save_interval = std::to_string(batch) + "ba";
    made.max_duration = std::to_string(batch) + "ba";
    {
      Trainer trainer(std::move(made));
      trainer.fit();
      trainer.close();
    }
    bytes = bytes_of(store(), folder() + "/" + name_of(has_counter, batch));
    return bytes;
  }

  // The thing's bytes. For a folder: those of a file in it.
  std::string thing(const std::string& what, const SaveMoment& moment) {
    if (what == "folder") return "somebody's";
    if (what == "foreign file") return "notes\n";
    if (what == "checkpoint of no run") {
      return bytes_of(*local_store(), scratch("none.pt", [](const std::string& path) {
        save(Dict{{"a", 1}}, path);
      }));
    }
    if (what == "own of this moment") return saved(moment.has_counter, moment.from, "own");
    const std::int64_t further = moment.from + 1;
    if (what == "another run's" || what == "own weights") {
      return saved(moment.has_counter, further, what);
    }
    std::string bytes = saved(moment.has_counter, further, "own");
    if (what == "damaged") bytes.resize(bytes.size() / 2);
    if (what == "damaged inside") bytes.at(bytes.find("data/0FB") + 200) ^= 1;
    return bytes;
  }

  std::string scratch(const std::string& name, const std::function<void(const std::string&)>& act) {
    const std::string path = temp_ / name;
    act(path);
    return path;
  }

  std::string answer(const SaveMoment& moment, const std::string& what, bool overwrite,
                     bool autoresume);

  const QuickFolder temp_;
  const std::string ckpt_ = temp_ / "ckpt";
  std::shared_ptr<ObjectStore> far_;
  std::shared_ptr<testing::LogRecorder> log_;
  std::map<std::string, std::string> saved_;
};

// What one start does: its first save, or the error that ends it.
struct StartOutcome {
  std::int64_t begins = -1;
  std::string end;
};

StartOutcome start(TrainerOptions made, bool is_asked) {
  StartOutcome outcome;
  std::unique_ptr<Trainer> trainer;
  try {
    trainer = std::make_unique<Trainer>(std::move(made));
  } catch (const std::exception& error) {
    outcome.end = "refused at the start (" + kind_of(error) + ")";
    return outcome;
  }
  const std::int64_t& batch = trainer->state().timestamp.batch;
  outcome.begins = batch;
  trainer->state().max_duration = Time(batch + 1, TimeUnit::kBatch);
  try {
    if (is_asked) {
      trainer->save_checkpoint_to_save_folder();
    } else {
      trainer->fit();
    }
    trainer->close();
    outcome.end = "saves";
  } catch (const std::exception& error) {
    const bool is_before = !is_asked && batch == outcome.begins;
    outcome.end = std::string("refused ") + (is_before ? "before training" : "at the save") + " (" +
                  kind_of(error) + ")";
  }
  return outcome;
}

std::string Replacements::answer(const SaveMoment& moment, const std::string& what, bool overwrite,
                                 bool autoresume) {
  const std::string bytes = what == "nothing" ? "" : thing(what, moment);
  const std::string history = moment.from > 0 ? saved(moment.has_counter, moment.from, "own") : "";
  clear();
  const std::string name = name_of(moment.has_counter, moment.batch());
  const std::string inside = what == "folder" ? name + "/file" : name;
  if (what != "nothing") put(store(), folder() + "/" + inside, bytes);
  if (moment.has_history()) {
    const std::string before = folder() + "/" + name_of(true, moment.from);
    put(store(), before, history);
    store().move_pointer(folder() + "/latest", before);
  } else if (is_pointed_at(what)) {
    store().move_pointer(folder() + "/latest", folder() + "/" + name);
  }
  TrainerOptions made = options(moment.has_counter);
  made.save_overwrite = overwrite;
  made.autoresume = autoresume;
  if (moment.from > 0) {
    made.load_path =
        scratch("from.pt", [&](const std::string& path) { testing::write_file(path, history); });
  }
  const StartOutcome outcome = start(std::move(made), moment.is_asked);

  Contents found;
  collect(store(), folder(), "", found);
  if (moment.has_history()) found.erase(name_of(true, moment.from));
  std::string fate = what == "nothing" ? "" : "; gone";
  std::string others;
  for (const auto& [path, now] : found) {
    const bool is_thing = what != "nothing" && now == bytes;
    if (path == inside && what != "nothing") {
      fate = is_thing ? "; kept" : "; replaced";
    } else if (is_thing) {
      fate = "; put aside as " + path;
    } else {
      others += (others.empty() ? "; new " : ", ") + path;
    }
  }
  const auto pointer = store().read_pointer(folder() + "/latest");
  std::string latest = "; no latest";
  if (pointer) latest = "; latest " + fs::path(pointer->target).filename().string();
  const std::string begins =
      outcome.begins < 0 ? "" : "begins at " + std::to_string(outcome.begins) + ", ";
  return begins + outcome.end + fate + others + latest;
}

TEST_P(Replacements, AreThoseOfTheTable) {
  const std::array<std::string, 5> places = {"folder", "store", "store without versions", "uploads",
                                             "folder of a run that uploads"};
  testing::GoldenTable table("replacements.txt", places.at(static_cast<std::size_t>(GetParam())));
  for (const SaveMoment& moment : kMoments) {
    if (!has(moment)) continue;
    for (const std::string& what : kThings) {
      if (what == "own of this moment" && moment.from == 0) continue;
      for (const bool overwrite : {false, true}) {
        for (const bool autoresume : {false, true}) {
          table.add(moment.text + ", " + what + (overwrite ? ", overwrite" : "") +
                        (autoresume ? ", autoresume" : ""),
                    answer(moment, what, overwrite, autoresume));
        }
      }
    }
  }
  table.check();
}

constexpr std::array<const char*, 5> kTestNames = {"Folder", "Store", "PlainStore", "Uploads",
                                                   "UploadedFolder"};

INSTANTIATE_TEST_SUITE_P(Places, Replacements,
                         ::testing::Values(SavePlace::kFolder, SavePlace::kStore,
                                           SavePlace::kPlainStore, SavePlace::kUploads,
                                           SavePlace::kUploadedFolder),
                         [](const auto& test) {
                           return kTestNames.at(static_cast<std::size_t>(test.param));
                         });

}  // namespace
}  // namespace cairn
