// Tests a save that finds a thing (a file, folder or object) that already has its name. The table
// tests/data/traces/replacements.txt says what happens. It has one line for each combination that
// can occur of
//   place and layout x moment and name of the save x thing x save_overwrite x autoresume
// The test uses only the public interface of the Trainer.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <set>
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

// The place where the run saves.
enum class SavePlace : std::uint8_t {
  kFolder,          // On this machine.
  kStore,           // Far away, with versions.
  kPlainStore,      // Far away, without versions.
  kUploads,         // On this machine and uploaded. The thing is at the place of the uploads.
  kUploadedFolder,  // On this machine and uploaded. The thing is on this machine.
};

enum class SaveLayout : std::uint8_t { kOneFile, kShardedFolder, kRankTar };

// A section of the table.
struct SaveSetting {
  std::string text;
  std::string test_name;
  SavePlace place;
  SaveLayout layout = SaveLayout::kOneFile;
};

// NOLINTNEXTLINE: gtest's name
void PrintTo(const SaveSetting& setting, std::ostream* out) { *out << setting.test_name; }

const std::array<SaveSetting, 9> kSettings = {{
    {"folder", "Folder", SavePlace::kFolder},
    {"store", "Store", SavePlace::kStore},
    {"store without versions", "PlainStore", SavePlace::kPlainStore},
    {"uploads", "Uploads", SavePlace::kUploads},
    {"folder of a run that uploads", "UploadedFolder", SavePlace::kUploadedFolder},
    {"sharded in a folder", "ShardedInFolder", SavePlace::kFolder, SaveLayout::kShardedFolder},
    {"sharded in a store", "ShardedInStore", SavePlace::kStore, SaveLayout::kShardedFolder},
    {"rank's tar in a folder", "TarInFolder", SavePlace::kFolder, SaveLayout::kRankTar},
    {"rank's tar in a store", "TarInStore", SavePlace::kStore, SaveLayout::kRankTar},
}};

// The moment and the name of the save.
struct SaveMoment {
  std::string text;
  bool has_counter;
  std::int64_t from;  // The batch from which the run resumes. 0: it begins.
  // If true, the save is made before fit(), at that batch. Otherwise it is the first save of fit(),
  // at the next batch.
  bool is_asked;
  std::int64_t batch() const { return from + (is_asked ? 0 : 1); }
  // Whether the restarted run has its last checkpoint in the same folder, under a name that differs
  // from that of the save.
  bool has_history() const { return has_counter && from > 0 && !is_asked; }
};

const std::array<SaveMoment, 5> kMoments = {{
    {"first save with a counter", true, 0, false},
    {"next save with a counter", true, 1, false},
    {"save of a constant name", false, 1, false},
    {"asked save with a counter", true, 1, true},
    {"asked save of a constant name", false, 1, true},
}};

// The thing that already has the name of the save. "own further on": this run's checkpoint of the
// batch after `from`; "own of this moment": this run's checkpoint of batch `from`.
const std::array<std::string, 10> kThings = {
    "nothing",        "own further on", "own of this moment",   "another run's", "damaged",
    "damaged inside", "foreign file",   "checkpoint of no run", "folder",        "own weights",
};

// Whether the run that left this thing also left a pointer to it.
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

// Names and bytes of all files in a folder of a store, including subfolders.
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

// Uses memory if the system has a file system there: a test of hundreds of runs need not wait for a
// disk.
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

// A net in float32, because every layout can save float32.
struct ReplacedNetImpl : torch::nn::Module {
  ReplacedNetImpl() {
    torch::manual_seed(1);
    layer = register_module("layer", torch::nn::Linear(4, 3));
  }
  at::Tensor forward(const at::Tensor& input) { return layer(input.to(at::kFloat)); }
  torch::nn::Linear layer{nullptr};
};
TORCH_MODULE(ReplacedNet);

// Whether `path` is `name` itself or a path below `name`.
bool is_under(const std::string& path, const std::string& name) {
  return path == name || path.starts_with(name + "/");
}

Contents under(const Contents& all, const std::string& name) {
  Contents found;
  for (const auto& entry : all) {
    if (is_under(entry.first, name)) found.insert(entry);
  }
  return found;
}

Contents moved_to(const Contents& files, const std::string& from, const std::string& to) {
  Contents found;
  for (const auto& [path, bytes] : files) {
    found[to + path.substr(from.size())] = bytes;
  }
  return found;
}

std::string& largest_of(Contents& files) {
  auto largest = files.begin();
  for (auto file = files.begin(); file != files.end(); ++file) {
    if (file->second.size() > largest->second.size()) largest = file;
  }
  return largest->second;
}

void put_all(ObjectStore& store, const std::string& folder, const Contents& files) {
  for (const auto& [path, bytes] : files) {
    put(store, folder + "/" + path, bytes);
  }
}

class Replacements : public ::testing::TestWithParam<SaveSetting> {
 protected:
  Replacements() { clear(); }

  SavePlace place() const { return GetParam().place; }
  SaveLayout layout() const { return GetParam().layout; }
  bool is_far() const { return place() == SavePlace::kStore || place() == SavePlace::kPlainStore; }
  bool uploads() const {
    return place() == SavePlace::kUploads || place() == SavePlace::kUploadedFolder;
  }
  // Whether the moment matters in this setting.
  bool has(const SaveMoment& moment) const {
    if (place() == SavePlace::kUploadedFolder) return moment.has_history();
    if (layout() != SaveLayout::kOneFile) return moment.has_counter;
    return place() != SavePlace::kUploads || !moment.is_asked || moment.has_counter;
  }
  bool has(const SaveMoment& moment, const std::string& what) const {
    if (what == "own of this moment" && moment.from == 0) return false;
    // Runs that save a tar per rank refuse to save only weights.
    return what != "own weights" || layout() != SaveLayout::kRankTar;
  }
  // The store in which the thing lies.
  ObjectStore& store() const {
    return place() == SavePlace::kFolder || place() == SavePlace::kUploadedFolder ? *local_store()
                                                                                  : *far_;
  }
  std::string folder() const { return &store() == far_.get() ? "run" : ckpt_; }
  std::string latest() const {
    return folder() + (layout() == SaveLayout::kRankTar ? "/latest-rank0.tar" : "/latest");
  }
  Contents files() const {
    Contents found;
    if (store().stat(folder())) collect(store(), folder(), "", found);
    return found;
  }

  void clear() {
    fs::remove_all(ckpt_);
    far_ = memory_store();
    if (place() == SavePlace::kPlainStore) {
      far_ = std::make_shared<testing::PlainStore>(far_, /*versioned_writes=*/false);
    }
  }

  void set_layout(TrainerOptions& made) const {
    if (layout() == SaveLayout::kOneFile) return;
    made.model = classifier(ReplacedNet(), {.num_classes = 3});
    if (layout() == SaveLayout::kRankTar) {
      made.deepspeed_config = Dict{{"zero_optimization", Dict{{"stage", 0}}}};
      made.save_filename = "ba{batch}-rank{rank}.tar";
      made.save_latest_filename = "latest-rank{rank}.tar";
    } else {
      made.parallelism_config = ParallelismConfig{.fsdp = FSDPConfig{
                                                      .state_dict_type = "sharded",
                                                      .sharded_ckpt_prefix_dir = "ba{batch}",
                                                  }};
    }
  }

  TrainerOptions options(bool has_counter, const std::string& run_name = "run") {
    TrainerOptions made = testing::tiny_options();
    made.run_name = run_name;
    made.loggers = {std::make_shared<testing::LogRecorder>()};
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
    set_layout(made);
    return made;
  }

  std::string name_of(bool has_counter, std::int64_t batch) const {
    constexpr std::array<const char*, 3> kEndings = {".pt", "", "-rank0.tar"};
    if (!has_counter) return "ckpt.pt";
    return "ba" + std::to_string(batch) + kEndings.at(static_cast<std::size_t>(layout()));
  }

  // Returns the files of a run that saved once, at `batch`, in this place. That run trained with
  // other data, so no later save has the same bytes.
  const Contents& saved(bool has_counter, std::int64_t batch, const std::string& what) {
    Contents& left = saved_[what + name_of(has_counter, batch) + std::to_string(batch)];
    if (!left.empty()) return left;
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
    left = under(files(), name_of(has_counter, batch));
    return left;
  }

  // The files of the thing, under the name of the save.
  Contents thing(const std::string& what, const SaveMoment& moment) {
    const std::string name = name_of(moment.has_counter, moment.batch());
    if (what == "nothing") return {};
    if (what == "folder") return {{name + "/file", "somebody's"}};
    if (what == "foreign file") return {{name, "notes\n"}};
    if (what == "checkpoint of no run") {
      save(Dict{{"a", 1}}, temp_ / "none.pt");
      return {{name, testing::read_file(temp_ / "none.pt")}};
    }
    const bool is_now = what == "own of this moment";
    const bool has_other_options = what == "another run's" || what == "own weights";
    const std::int64_t batch = is_now ? moment.from : moment.from + 1;
    Contents files = moved_to(saved(moment.has_counter, batch, has_other_options ? what : "own"),
                              name_of(moment.has_counter, batch), name);
    std::string& bytes = largest_of(files);
    if (what == "damaged") bytes.resize(bytes.size() / 2);
    const std::size_t tensor = bytes.find("data/0FB");
    if (what == "damaged inside") {
      bytes.at(tensor == std::string::npos ? bytes.size() / 2 : tensor + 200) ^= 1;
    }
    return files;
  }

  // Puts the checkpoint to resume from into another folder, and returns the new path.
  std::string load_path(const Contents& history, const std::string& name) const {
    const std::string there = temp_ / "from";
    fs::remove_all(there);
    fs::create_directories(there);
    put_all(*local_store(), there, history);
    return layout() == SaveLayout::kRankTar ? there + "/ba1-rank{rank}.tar" : there + "/" + name;
  }

  void lay(const SaveMoment& moment, const std::string& what, const Contents& laid,
           const Contents& history);
  std::string fate(const Contents& laid, const std::string& name, Contents found) const;
  std::string answer(const SaveMoment& moment, const std::string& what, bool overwrite,
                     bool autoresume);

  const QuickFolder temp_;
  const std::string ckpt_ = temp_ / "ckpt";
  std::shared_ptr<ObjectStore> far_;
  std::map<std::string, Contents> saved_;
};

// The result of one start: its first save, or the error that ends it.
struct StartOutcome {
  std::int64_t begins = -1;
  std::string end;
};

StartOutcome start_run(TrainerOptions made, bool is_asked) {
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
      // Else the save would have the bytes of the checkpoint that the run goes on from.
      const torch::NoGradGuard no_grad;
      trainer->state().model->module().parameters().front().add_(1);
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

void Replacements::lay(const SaveMoment& moment, const std::string& what, const Contents& laid,
                       const Contents& history) {
  clear();
  put_all(store(), folder(), laid);
  if (moment.has_history()) {
    put_all(store(), folder(), history);
    store().move_pointer(latest(), folder() + "/" + name_of(true, moment.from));
  } else if (is_pointed_at(what)) {
    store().move_pointer(latest(), folder() + "/" + name_of(moment.has_counter, moment.batch()));
  }
}

// Describes what happened to the thing, and names the new files.
std::string Replacements::fate(const Contents& laid, const std::string& name,
                               Contents found) const {
  std::string text;
  const auto take = [&](const Contents& files) {
    for (const auto& file : files) {
      found.erase(file.first);
    }
  };
  const auto is_there = [&](const Contents& files) { return under(found, name) == files; };
  const auto all_are_there = [&](const Contents& files) {
    return std::ranges::all_of(files, [&](const auto& file) {
      const auto same = found.find(file.first);
      return same != found.end() && same->second == file.second;
    });
  };
  if (!laid.empty() && (is_there(laid) || all_are_there(laid))) {
    text = "; kept";
    take(laid);
  } else if (!laid.empty()) {
    text = under(found, name).empty() ? "; gone" : "; replaced";
    for (const std::string ending : {".damaged", ".unreadable"}) {
      const Contents aside = moved_to(laid, name, name + ending);
      if (!all_are_there(aside)) continue;
      text = "; put aside as " + name + ending;
      take(aside);
    }
    take(under(found, name));
  }
  std::set<std::string> others;
  for (const auto& file : found) {
    others.insert(file.first.substr(0, file.first.find('/')));
  }
  for (const std::string& other : others) {
    text += (&other == &*others.begin() ? "; new " : ", ") + other;
  }
  return text;
}

std::string Replacements::answer(const SaveMoment& moment, const std::string& what, bool overwrite,
                                 bool autoresume) {
  const std::string name = name_of(moment.has_counter, moment.batch());
  const Contents laid = thing(what, moment);
  Contents history;
  if (moment.from > 0) history = saved(moment.has_counter, moment.from, "own");
  lay(moment, what, laid, history);
  TrainerOptions made = options(moment.has_counter);
  made.save_overwrite = overwrite;
  made.autoresume = autoresume;
  if (moment.from > 0) {
    made.load_path = load_path(history, name_of(moment.has_counter, moment.from));
  }
  const StartOutcome outcome = start_run(std::move(made), moment.is_asked);

  Contents found = files();
  if (moment.has_history()) {
    for (const auto& file : history) {
      found.erase(file.first);
    }
  }
  const auto pointer = store().read_pointer(latest());
  const std::string begins =
      outcome.begins < 0 ? "" : "begins at " + std::to_string(outcome.begins) + ", ";
  return begins + outcome.end + fate(laid, name, std::move(found)) +
         (pointer ? "; latest " + fs::path(pointer->target).filename().string() : "; no latest");
}

TEST_P(Replacements, AreThoseOfTheTable) {
  testing::GoldenTable table("replacements.txt", GetParam().text);
  for (const SaveMoment& moment : kMoments) {
    if (!has(moment)) continue;
    for (const std::string& what : kThings) {
      if (!has(moment, what)) continue;
      for (const bool overwrite : {false, true}) {
        for (const bool autoresume : {false, true}) {
          table.add(moment.text + ", " + what + (overwrite ? ", overwrite" : "") +
                        (autoresume ? ", autoresume" : ""),
                    answer(moment, what, overwrite, autoresume));
        }
      }
    }
  }
  EXPECT_EQ(table.check(), "");
}

INSTANTIATE_TEST_SUITE_P(Settings, Replacements, ::testing::ValuesIn(kSettings),
                         [](const auto& test) { return test.param.test_name; });

}  // namespace
}  // namespace cairn
