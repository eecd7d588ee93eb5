// Frozen: users' programs, see CMakeLists.txt. Two loggers of the user's own that keep files. One
// has no place_of(): checkpoints only go through upload_file(). From the other, a run that has lost
// its folder resumes.
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cairn.h"

#include "train_programs.h"

namespace frozen {
namespace {

class Archive final : public cairn::LoggerDestination {
 public:
  explicit Archive(std::string folder) : folder_(std::move(folder)) {}
  std::string name() const override { return "Archive"; }
  void log_metrics(const cairn::Dict& metrics, std::int64_t step) override {
    for (const auto& [key, value] : metrics)
      if (key.as_str() == "loss/train/total" && value.as_float() > 0) steps.push_back(step);
  }
  void log_hyperparameters(const cairn::Dict& hyperparameters) override {
    if (hyperparameters.find("rank_zero_seed") != nullptr) knows_seed = true;
  }
  void log_message(const std::string& message) override { messages.push_back(message); }

  bool can_upload_files() const override { return true; }
  void upload_file(const cairn::FileUpload& file) override {
    namespace fs = std::filesystem;
    const std::string path = folder_ + "/" + file.remote_file_name;
    fs::create_directories(fs::path(path).parent_path());
    fs::copy_file(file.file_path, path,
                  file.overwrite ? fs::copy_options::overwrite_existing : fs::copy_options::none);
    uploaded.push_back(file.remote_file_name);
    if (!file.latest_remote_file_name.empty()) latest = file.remote_file_name;
    for (const std::string& name : file.remove_afterwards) {
      fs::remove(folder_ + "/" + name);
    }
    if (file.on_done) file.on_done(file.remove_afterwards);
  }
  void download_file(const std::string& remote_file_name, const std::string& destination,
                     bool overwrite) override {
    namespace fs = std::filesystem;
    if (!fs::exists(folder_ + "/" + remote_file_name)) {
      throw cairn::NotFoundError("the archive has no " + remote_file_name);
    }
    fs::copy_file(folder_ + "/" + remote_file_name, destination,
                  overwrite ? fs::copy_options::overwrite_existing : fs::copy_options::none);
  }

  std::vector<std::int64_t> steps;
  std::vector<std::string> messages;
  std::vector<std::string> uploaded;
  std::string latest;
  bool knows_seed = false;

 private:
  std::string folder_;
};

// Keeps files in a store, and says where they are.
class Vault final : public cairn::LoggerDestination {
 public:
  std::string name() const override { return "Vault"; }
  bool can_upload_files() const override { return true; }
  void upload_file(const cairn::FileUpload& file) override {
    std::ifstream in(file.file_path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    const auto object = store->begin(
        file.remote_file_name,
        {.condition = file.overwrite ? cairn::WriteCondition{} : cairn::WriteCondition::absent(),
         .expected_bytes = bytes.size()});
    object->write(cairn::as_bytes(bytes));
    object->commit();
    if (!file.latest_remote_file_name.empty()) {
      store->move_pointer(file.latest_remote_file_name, file.remote_file_name);
    }
    std::vector<std::string> removed;
    for (const std::string& name : file.remove_afterwards)
      if (store->remove(name)) removed.push_back(name);
    if (file.on_done) file.on_done(removed);
  }
  std::optional<cairn::RemotePlace> place_of(
      const cairn::NameFormat& remote_file_name) const override {
    return cairn::RemotePlace{store, remote_file_name};
  }

  std::shared_ptr<cairn::ObjectStore> store = cairn::memory_store();
};

// Uploads a file of the program's own when training begins.
class Notes final : public cairn::Callback {
 public:
  explicit Notes(std::string path) : path_(std::move(path)) {}
  void fit_start(cairn::State& /*state*/, cairn::Logger& logger) override {
    std::ofstream(path_) << "notes";
    logger.upload_file({.remote_file_name = "{run_name}/notes.txt", .file_path = path_});
  }

 private:
  std::string path_;
};

cairn::TrainerOptions logged_run(const std::string& folder,
                                 std::shared_ptr<cairn::LoggerDestination> logger, int keep) {
  torch::manual_seed(1);
  const torch::nn::Sequential net(torch::nn::Linear(4, 3));
  return {.model = cairn::classifier(net, {.num_classes = 3}),
          .train_dataloader = cairn::DataLoader(
              cairn::tensor_dataset({torch::ones({8, 4}), torch::arange(8, torch::kLong) % 3}),
              {.batch_size = 2}),
          .max_duration = "2ep",
          .optimizers = cairn::SGD({.lr = 0.1}),
          .callbacks = Notes(folder + "/notes"),
          .loggers = std::move(logger),
          .run_name = "logged",
          .progress_bar = false,
          .save_folder = folder + "/run",
          .save_remote_file_name = "{run_name}/kept/ep{epoch}-ba{batch}.pt",
          .save_latest_remote_file_name = "{run_name}/kept/latest",
          .save_interval = "2ba",
          .save_num_checkpoints_to_keep = keep,
          .autoresume = true,
          .device = "cpu",
          .seed = 5,
          .save_num_remote_checkpoints_to_keep = 2,
          .handle_signals = false};
}

std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (!entry.is_directory()) names.insert(entry.path().filename());
  return names;
}

}  // namespace

void own_logger(const std::string& folder) {
  for (const int keep : {-1, 1, 0}) {
    const std::string here = folder + "/keep" + std::to_string(keep);
    std::filesystem::create_directories(here);
    const auto archive = std::make_shared<Archive>(here + "/archive");
    cairn::Trainer trainer(logged_run(here, archive, keep));
    trainer.fit();
    trainer.close();
    check(archive->steps.size() == 8 && archive->knows_seed, "what was logged");
    check(archive->uploaded.size() == 5, "the notes and all four checkpoints are uploaded");
    check(archive->uploaded[0] == "logged/notes.txt", archive->uploaded[0]);
    const std::string newest = archive->uploaded.back();
    check(newest == "logged/kept/ep1-ba8.pt" && archive->latest == newest, newest);
    check(files_in(here + "/archive") ==
              std::set<std::string>{"ep1-ba6.pt", "ep1-ba8.pt", "notes.txt"},
          "two are kept in the archive");
    archive->download_file(newest, here + "/again.pt", false);
    check(cairn::verify(here + "/again.pt").ok(), "it is whole");
    check(cairn::find_latest(here, {.filename = "again.pt"})->timestamp.batch == 8, "the newest");

    std::set<std::string> kept;  // on this machine
    if (keep == -1) {
      kept = {"ep0-ba2-rank0.pt", "ep0-ba4-rank0.pt", "ep1-ba6-rank0.pt", "ep1-ba8-rank0.pt",
              "latest-rank0.pt"};
    } else if (keep == 1) {
      kept = {"ep1-ba8-rank0.pt", "latest-rank0.pt"};
    }
    check(files_in(here + "/run") == kept, "on this machine, of " + std::to_string(keep));
    check(trainer.saved_checkpoints().size() == (keep == -1 ? 4U : static_cast<unsigned>(keep)),
          "what the Trainer says of it");
  }
}

void own_place(const std::string& folder) {
  const auto vault = std::make_shared<Vault>();
  const auto run = [&](const char* duration) {
    cairn::TrainerOptions options = logged_run(folder, vault, 0);
    options.callbacks = {};
    options.max_duration = duration;
    cairn::Trainer trainer(std::move(options));
    const std::int64_t begin = trainer.state().timestamp.batch;
    trainer.fit();
    trainer.close();
    return begin;
  };
  check(run("1ep") == 0, "it begins");
  std::filesystem::remove_all(folder + "/run");
  check(run("2ep") == 4, "it goes on from what the logger has");
  const auto newest = cairn::find_latest(
      "logged/kept",
      {.filename = "ep{epoch}-ba{batch}.pt", .latest_filename = "latest", .store = vault->store});
  check(newest && newest->timestamp.batch == 8, "the newest");
  check(vault->store->read_pointer("logged/kept/latest")->target == "logged/kept/ep1-ba8.pt",
        "the pointer");
}

}  // namespace frozen
