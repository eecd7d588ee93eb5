// The attacker may write into a folder of checkpoints, and nowhere else. Directly before any file
// call of cairn, a link takes the place of a folder in the folder of checkpoints. cairn creates,
// renames and removes nothing outside, with openat2() and without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/plan/save_pipeline.h"
#include "child.h"
#include "io/durable/atomic_folder.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "storage/local/own_files.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn::attack {
namespace {

namespace fs = std::filesystem;
using cairn::testing::TempFolder;
using cairn::testing::write_file;

// All files below a folder, by path.
std::map<std::string, std::string> all_in(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    all[entry.path().lexically_relative(folder)] =
        entry.is_regular_file() ? cairn::testing::read_file(entry.path()) : "";
  }
  return all;
}

// Makes every name that a scenario creates, replaces or removes.
void fill(const std::string& folder) {
  for (const char* below :
       {"", "/.cairn-removing-x", "/.cairn-tmp-whole-0123456789abcdef", "/old"}) {
    fs::create_directories(folder + below);
    for (const char* name : {"f", ".metadata", "__0_0.distcp"}) {
      write_file(folder + below + "/" + name, "precious");
    }
  }
  for (const char* name : {"ba1.pt", "ba3.pt", ".cairn-tmp-ba1.pt-0123456789abcdef"}) {
    write_file(folder + "/" + name, "precious");
  }
  fs::create_symlink("ba1.pt", folder + "/latest");
}

void save_sample(const std::string& path, const std::string& latest, std::int64_t batch,
                 std::vector<std::string> superfluous = {}) {
  SavePipeline pipeline({.async = false});
  pipeline.submit({.value = testing::sample_checkpoint(batch),
                   .path = path,
                   .latest = latest,
                   .remove_afterwards = std::move(superfluous),
                   .info = testing::sample_info(batch)});
}

struct Scenario {
  const char* name;
  const char* swapped;  // in the folder of checkpoints
  std::function<void(const std::string& folder)> work;
};

const Scenario kScenarios[] = {
    {"PruneFinishesARemoval", ".cairn-removing-a/inside",
     [](const std::string& folder) { local_store()->remove_leftovers(folder); }},
    {"PruneRemovesAFolder", ".cairn-removing-ck",
     [](const std::string& folder) { remove_checkpoint_folder(*local_store(), folder + "/ck"); }},
    {"ASaverCleansUp", "ep1",
     [](const std::string& folder) {
       const auto store = local_store();
       store->prepare(folder);
       store->remove_leftovers(folder + "/ep1");
       store->remove_leftovers(folder + "/ep1", "ba1.pt");
     }},
    {"ASaverSavesAndRotates", "ep1",
     [](const std::string& folder) {
       local_store()->prepare(folder);
       save_sample(folder + "/ep1/ba3.pt", folder + "/ep1/latest", 3, {folder + "/ep1/ba1.pt"});
     }},
    {"ASaverWritesOverARetiredFile", "ep1",
     [](const std::string& folder) {
       const auto store = recycling_local_store();
       store->prepare(folder);
       for (const char* name : {"/ep1/new.pt", "/ep1/ba3.pt"}) {
         const auto object = store->begin(folder + name);
         object->write(as_bytes("bytes"));
         object->commit();
         store->remove(folder + name);
       }
     }},
    {"AFolderIsReplaced", "ep1",
     [](const std::string& folder) {
       const auto store = local_store();
       store->prepare(folder);
       for (const bool is_there : {false, true}) {
         const auto writing = store->begin_folder(folder + "/ep1/whole", is_there);
         const auto object = writing->begin("__0_0.distcp", 5);
         object->write(as_bytes("bytes"));
         object->commit();
         writing->commit();
       }
       store->rename(folder + "/ep1/ba1.pt", folder + "/ep1/ba3.pt");
       store->remove_folder(folder + "/ep1/old");
     }},
    {"WhatIsBeingBuiltIsSwapped", ".cairn-tmp-built-0123456789abcdef",
     [](const std::string& folder) {
       AtomicFolder building(posix_file_system(), folder + "/built", false, "-0123456789abcdef");
       for (const char* name : {"f", "g"}) {
         building.create(name, {})->sync();
       }
       building.commit();
     }},
};

class SwappedFolder : public ::testing::TestWithParam<std::tuple<Scenario, int>> {};

std::string name_of_scenario(const ::testing::TestParamInfo<std::tuple<Scenario, int>>& each) {
  const int error = std::get<1>(each.param);
  return std::string(std::get<0>(each.param).name) + (error == 0        ? ""
                                                      : error == ENOSYS ? "OnAnOldKernel"
                                                                        : "InASandbox");
}

INSTANTIATE_TEST_SUITE_P(Scenarios, SwappedFolder,
                         ::testing::Combine(::testing::ValuesIn(kScenarios),
                                            ::testing::Values(0, ENOSYS, EPERM)),
                         name_of_scenario);

// A folder of checkpoints with a victim outside. The folder is reached through a link, which its
// owner is free to use.
class Attacked {
 public:
  Attacked() {
    fs::create_directories(temp_ / "ck/.cairn-removing-a/inside");
    fs::create_directories(temp_ / "ck/ck");
    fs::create_symlink("ck", temp_ / "run");
    for (const char* name :
         {"ck/.cairn-removing-a/inside/f", "ck/ck/.metadata", "ck/ck/__0_0.distcp"}) {
      write_file(temp_ / name, "superfluous");
    }
    fill(temp_ / "ck/ep1");
    fill(temp_ / "victim");
  }

  std::string folder() const { return temp_ / "run"; }
  std::string victim() const { return temp_ / "victim"; }
  const std::string& path() const { return temp_.path(); }
  Swap swap(const std::string& name) const {
    return {.folder = temp_ / "ck/" + name, .aside = temp_ / "ck/aside", .target = victim()};
  }

 private:
  TempFolder temp_;
};

TEST_P(SwappedFolder, NothingOutsideIsCreatedRenamedOrRemoved) {
  const auto& [scenario, openat2_error] = GetParam();
  std::uint64_t calls = 1;
  for (std::uint64_t at = 0; at <= calls; ++at) {  // 0: undisturbed
    const Attacked attacked;
    const auto before = all_in(attacked.victim());
    const Plan plan{.folder = attacked.path(),
                    .at = at,
                    .deed = AttackKind::kSwap,
                    .swap = attacked.swap(scenario.swapped),
                    .openat2_error = openat2_error};
    const ChildResult ended = run_child(plan, [&](const Report&) {
      scenario.work(attacked.folder());
      return 0;
    });
    ASSERT_EQ(ended.signal, 0) << ended.text();
    if (at == 0) {
      ASSERT_EQ(ended.exit_code, 0) << ended.text();
      calls = ended.calls;
    }
    ASSERT_EQ(all_in(attacked.victim()), before) << "before call " << at << "\n" << ended.text();
  }
  EXPECT_GT(calls, 5U);
}

// While this process saves, another process swaps the folder and undoes the swap, as fast as it
// can.
TEST(RacedFolder, NothingOutsideIsCreatedRenamedOrRemoved) {
  const Attacked attacked;
  const auto before = all_in(attacked.victim());
  const Swap swap = attacked.swap("ep1");
  const pid_t racer = fork();
  if (racer == 0) {
    for (;;) {
      swap.make();
      swap.take_back();
    }
  }
  local_store()->prepare(attacked.folder());
  int saved = 0;
  int refused = 0;
  const std::string nested = attacked.folder() + "/ep1";
  for (int round = 0; round < 100; ++round) {
    try {
      save_sample(nested + "/ba3.pt", nested + "/latest", 3, {nested + "/ba1.pt"});
      local_store()->remove_leftovers(nested);
      ++saved;
    } catch (const Error&) {
      ++refused;
    }
  }
  kill(racer, SIGKILL);
  waitpid(racer, nullptr, 0);
  EXPECT_EQ(all_in(attacked.victim()), before);
  EXPECT_GT(saved + refused, 0);
}

// Without a race: if the folder is already a link when the run begins, the save is refused, and the
// error names the folder.
TEST(LinkedFolder, IsNamedWhenARunWouldSaveThere) {
  const Attacked attacked;
  ASSERT_TRUE(attacked.swap("ep1").make());
  const auto before = all_in(attacked.victim());
  const ChildResult ended = run_child({.folder = attacked.path()}, [&](const Report&) {
    local_store()->prepare(attacked.folder());
    save_sample(attacked.folder() + "/ep1/ba3.pt", "", 3);
    return 0;
  });
  EXPECT_THAT(ended.error, ::testing::HasSubstr("ep1 is a link, and below"));
  EXPECT_EQ(all_in(attacked.victim()), before);
}

}  // namespace
}  // namespace cairn::attack
