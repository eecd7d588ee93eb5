// Frozen: users' programs, see CMakeLists.txt. A store of the user's own, registered for a scheme,
// and one that wraps local_store().
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/storage/object_store_checks.h"

#include "core_programs.h"
#include "stores.h"

namespace frozen {
namespace {

cairn::Value state_of(std::int64_t step) {
  return cairn::Dict{{"step", step}, {"losses", cairn::List{0.5, 0.25}}};
}

cairn::CheckpointInfo info_of(std::int64_t batch) {
  cairn::Timestamp timestamp;
  timestamp.epoch = 1;
  timestamp.batch = batch;
  return {.run_name = "run", .timestamp = timestamp};
}

}  // namespace

void own_store(const std::string& folder) {
  int number = 0;
  for (const cairn::ObjectStoreCheck& each : cairn::object_store_checks()) {
    DiskStore store(folder + "/checks" + std::to_string(number++));
    each.run(store, "some/folder");
  }

  static std::map<std::string, std::shared_ptr<cairn::ObjectStore>> stores;
  cairn::register_object_store("disk", [folder](const std::string& root) {
    auto& store = stores[root];
    if (!store) store = std::make_shared<DiskStore>(folder + root.substr(root.rfind('/')));
    return store;
  });
  const std::vector<std::string> schemes = cairn::object_store_schemes();
  check(std::find(schemes.begin(), schemes.end(), "disk") != schemes.end(), "disk is registered");

  for (const std::int64_t batch : {10, 20}) {
    cairn::save(state_of(batch), "disk://a/run/ep1-ba" + std::to_string(batch) + "-rank0.pt",
                {.overwrite = false, .info = info_of(batch)});
  }
  check(cairn::load("disk://a/run/ep1-ba10-rank0.pt") == state_of(10), "what was saved is loaded");
  const auto newest = cairn::find_latest("disk://a/run");
  check(newest && newest->timestamp.batch == 20, "the newest is found");
  check(newest->path == "disk://a/run/ep1-ba20-rank0.pt", newest->path);
  check(cairn::load(newest->checkpoint) == state_of(20), "what was found is loaded");
  check(cairn::verify(newest->path).ok(), "it is whole");

  bool was_refused = false;
  try {
    cairn::save(state_of(1), newest->path, {.overwrite = false});
  } catch (const cairn::AlreadyExistsError&) {
    was_refused = true;
  }
  check(was_refused, "what is there is not replaced without being told to");

  const cairn::CopyResult copied = cairn::copy_checkpoint(newest->path, folder + "/copies/");
  check(copied.objects == 1 && cairn::load(copied.path) == state_of(20), "a copy on this machine");
  const auto store = cairn::object_store_of("disk://a/run");
  check(names_in(*store, "disk://a/run") == "ep1-ba10-rank0.pt ep1-ba20-rank0.pt",
        "nothing else is there");
}

void wrapped_store(const std::string& folder) {
  const auto store = std::make_shared<CountingStore>(cairn::local_store());
  const std::string path = folder + "/run/ep1-ba10-rank0.pt";
  cairn::save(state_of(10), path, {.info = info_of(10), .store = store});
  check(store->begun() == 1, "the wrapper was asked");
  check(cairn::load(path, {.store = store}) == state_of(10), "it is loaded through the wrapper");
  check(cairn::load(path) == state_of(10), "and as the file that it is");
  check(cairn::verify(path, cairn::Verify::kFull, store).ok(), "it is whole");
  const auto newest = cairn::find_latest(folder + "/run", {.store = store});
  check(newest && newest->path == path, "it is found");
  check(names_in(*store, folder + "/run") == "ep1-ba10-rank0.pt", "nothing else is there");
}

}  // namespace frozen
