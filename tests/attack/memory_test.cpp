// Every single allocation fails once, in calls of the library and in commands of the tool.
//
//  1. The process never ends by a signal, and never hangs.
//  2. A call that fails throws an Error. A command that fails ends with kFailed.
//  3. Existing checkpoints are still there and whole, except those that the job removes. A
//     checkpoint that the job made is whole.
//  4. No temporary file is left, beside the checkpoints or in $TMPDIR.
//
// testing/cases.h says how many allocations of each job are attacked.
#include "memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "checkpoint/plan/save_pipeline.h"
#include "child.h"
#include "cli/shell/tool.h"
#include "io/durable/atomic_file.h"
#include "storage/local/local_store.h"
#include "testing/cases.h"
#include "testing/environment_variable.h"
#include "testing/sample_checkpoint.h"
#include "testing/sharded_folder.h"
#include "testing/temp_folder.h"

namespace cairn::attack {
namespace {

namespace fs = std::filesystem;
using cairn::testing::chosen_cases;
using cairn::testing::EnvironmentVariable;
using cairn::testing::sample_checkpoint;
using cairn::testing::sample_info;
using cairn::testing::TempFolder;

constexpr std::uint64_t kSomeOfAJob = 40;

// A job that takes longer counts as hanging.
constexpr unsigned kMaxSeconds = 120;

// The work during which an allocation fails. It returns the exit code of the process.
using Act = std::function<int()>;
// Prepares an Act in the folder of checkpoints, while no allocation fails.
using Work = std::function<Act(const std::string& folder)>;

struct Job {
  const char* name;
  Work work;
  std::vector<std::string> removes = {};  // checkpoints that may be missing afterwards
  std::uint64_t some = kSomeOfAJob;
  int code = kDone;  // exit code when nothing fails
};

// GoogleTest shows a job by its name.
inline void PrintTo(const Job& job, std::ostream* out) {  // NOLINT: gtest's name
  *out << job.name;
}

std::string checkpoint_name(std::int64_t batch) {
  return "ep" + std::to_string(batch / 10) + "-ba" + std::to_string(batch) + "-rank0.pt";
}

constexpr std::int64_t kBatches[] = {10, 20, 30};

SaveJob save_job(const std::string& folder, std::int64_t batch, std::size_t bytes = 256) {
  return {.value = sample_checkpoint(batch, bytes),
          .path = folder + "/" + checkpoint_name(batch),
          .latest = folder + "/latest-rank0.pt",
          .info = sample_info(batch)};
}

// --- Jobs of the library ------------------------------------------------------------------------

Job saves(const char* name, const std::string& extension) {
  return {.name = name, .work = [extension](const std::string& folder) -> Act {
            return [value = sample_checkpoint(40), path = folder + "/ep4-ba40-rank0.pt" + extension,
                    options = SaveOptions{.info = sample_info(40)}] {
              save(value, path, options);
              return kDone;
            };
          }};
}

Job loads(const char* name, const std::string& file) {
  return {.name = name, .work = [file](const std::string& folder) -> Act {
            return [path = folder + "/" + file] {
              return load(path).is_dict() ? kDone : kNegativeAnswer;
            };
          }};
}

Job verifies(const char* name, const std::string& file) {
  return {.name = name, .work = [file](const std::string& folder) -> Act {
            return [path = folder + "/" + file] {
              return verify(path).ok() ? kDone : kNegativeAnswer;
            };
          }};
}

Job converts(const char* name, const std::string& from, const std::string& to) {
  return {.name = name, .work = [from, to](const std::string& folder) -> Act {
            return [in = folder + "/" + from, out = folder + "/" + to] {
              convert(in, out, {.drop_objects = true});
              return kDone;
            };
          }};
}

// Two saves, each of which makes an older checkpoint superfluous.
Act save_in_background(const std::string& folder, std::size_t bytes) {
  std::vector<SaveJob> jobs;
  for (const std::int64_t batch : {40, 50}) {
    jobs.push_back(save_job(folder, batch, bytes));
    jobs.back().remove_afterwards = {folder + "/" + checkpoint_name(batch - 30)};
  }
  return [jobs, store = local_store()]() mutable {
    SavePipeline pipeline({.store = store});
    for (SaveJob& job : jobs)
      pipeline.submit(std::move(job));
    pipeline.wait();
    return kDone;
  };
}

Act save_over(const std::string& folder) {
  return [job = save_job(folder, 30), store = local_store()]() mutable {
    SavePipeline pipeline({.async = false, .store = store});
    pipeline.submit(std::move(job));
    return kDone;
  };
}

Act find(const std::string& folder) {
  return [folder, options = FindOptions()] {
    const auto found = find_latest(folder, options);
    return found && found->timestamp.batch == 30 ? kDone : kNegativeAnswer;
  };
}

Act copy(const std::string& folder) {
  return [from = folder + "/dcp", to = folder + "/copied"] {
    copy_checkpoint(from, to);
    return kDone;
  };
}

// Does the work of two ranks. This process alone commits for both.
Act save_sharded(const std::string& folder) {
  auto ranks = std::make_shared<std::vector<sharded::RankState>>();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const dcp::Box box{{static_cast<std::int64_t>(rank) * 4, 0}, {4, 2}};
    ranks->emplace_back(sharded::RankPlace{.rank = rank, .world_size = 2},
                        Dict{{"w", testing::part_of_numbers({8, 2}, box, 0)}, {"step", 3}});
  }
  SaveJob job{.path = folder + "/ep4-ba40"};
  job.is_of_all_ranks = true;
  job.write = [ranks](ObjectStore& store, const SaveJob& of, const std::function<void()>&) {
    testing::write_ranks(store, of.path, *ranks);
    return std::uint64_t{1};
  };
  return [job, store = local_store()] {
    save_now(store, job);
    return kDone;
  };
}

constexpr std::size_t kLarge = std::size_t{17} << 20;  // written past the page cache

const Job kLibraryJobs[] = {
    saves("Save", ""),
    saves("SaveGzip", ".gz"),
    saves("SaveZstd", ".zst"),
    saves("SaveXz", ".xz"),
    saves("SaveBzip2", ".bz2"),
    saves("SaveLz4", ".lz4"),
    saves("SaveTar", ".tar.gz"),
    {.name = "SaveOver", .work = save_over},
    {.name = "SaveInBackground",
     .work = [](const std::string& folder) { return save_in_background(folder, 256); },
     .removes = {checkpoint_name(10), checkpoint_name(20)}},
    {.name = "SaveLarge",
     .work = [](const std::string& folder) { return save_in_background(folder, kLarge); },
     .removes = {checkpoint_name(10), checkpoint_name(20)},
     .some = 6},
    {.name = "SaveSharded", .work = save_sharded},
    loads("Load", checkpoint_name(30)),
    loads("LoadGzip", "packed.pt.gz"),
    loads("LoadZstd", "packed.pt.zst"),
    loads("LoadXz", "packed.pt.xz"),
    loads("LoadBzip2", "packed.pt.bz2"),
    loads("LoadLz4", "packed.pt.lz4"),
    loads("LoadTar", "packed.pt.tar.gz"),
    loads("LoadSharded", "dcp"),
    loads("LoadSafetensors", "weights.safetensors"),
    verifies("Verify", checkpoint_name(30)),
    verifies("VerifyGzip", "packed.pt.gz"),
    verifies("VerifySharded", "dcp"),
    {.name = "Find", .work = find},
    {.name = "Copy", .work = copy},
    converts("ConvertToTorch", "dcp", "new.pt"),
    converts("ConvertToSharded", checkpoint_name(30), "new_dcp"),
    converts("ConvertToSafetensors", checkpoint_name(30), "new.safetensors"),
};

// --- Jobs of the tool ---------------------------------------------------------------------------

// A job that runs the command, with FOLDER replaced in each argument.
Job tool(const char* name, const std::vector<std::string>& arguments, int code = kDone) {
  const auto work = [arguments, code](const std::string& folder) -> Act {
    std::vector<std::string> replaced = arguments;
    for (std::string& argument : replaced) {
      if (const std::size_t at = argument.find("FOLDER"); at != std::string::npos) {
        argument.replace(at, 6, folder);
      }
    }
    const auto out = std::make_shared<std::ostringstream>();
    return [replaced, out, code] {
      const int answer = cli::run_tool(replaced, *out, *out);
      if (answer == kNegativeAnswer &&
          code != answer) {  // a lack of memory was taken for damage: print where
        disarm_memory();
        std::fputs(out->str().c_str(), stderr);
      }
      return answer;
    };
  };
  return {.name = name, .work = work, .code = code};
}

Job prunes() {
  Job job = tool("Prune", {"prune", "--keep-last", "1", "--yes", "FOLDER"});
  job.removes = {checkpoint_name(10), checkpoint_name(20)};
  return job;
}

const std::string kNewest = "FOLDER/" + checkpoint_name(30);
const std::string kOlder = "FOLDER/" + checkpoint_name(20);

const Job kToolJobs[] = {
    tool("List", {"ls", "--verify", "FOLDER"}),
    tool("Verify", {"verify", "--full", "FOLDER"}),
    tool("VerifyJson", {"--json", "verify", kNewest}),
    tool("Inspect", {"inspect", "--stats", kNewest}),
    tool("Dump", {"dump", kNewest}),
    tool("DumpPacked", {"dump", "FOLDER/packed.pt.tar.gz"}),
    tool("Extract", {"extract", kNewest, "state/model", "-o", "FOLDER/model.pt"}),
    tool("Diff", {"diff", kNewest, kOlder}, kNegativeAnswer),
    tool("Convert", {"convert", kNewest, "FOLDER/new_dcp", "--to", "dcp"}),
    tool("ConvertOver", {"convert", kNewest, "FOLDER/dcp", "--to", "dcp", "--overwrite"}),
    tool("Resume", {"resume", "--explain", "FOLDER"}),
    tool("CopyFolder", {"copy", "FOLDER/dcp", "FOLDER/copied"}),
    prunes(),
};

// --- The sweep ----------------------------------------------------------------------------------

// Makes a folder of checkpoints, "run", and $TMPDIR, "tmp".
void make_checkpoints(const std::string& folder) {
  fs::create_directory(folder + "/tmp");
  fs::create_directory(folder + "/run");
  const std::string run = folder + "/run";
  SavePipeline pipeline({.store = local_store()});
  for (const std::int64_t batch : kBatches)
    pipeline.submit(save_job(run, batch));
  pipeline.wait();
  for (const char* extension : {".gz", ".zst", ".xz", ".bz2", ".lz4", ".tar.gz"})
    save(sample_checkpoint(10), run + "/packed.pt" + extension);
  convert(run + "/" + checkpoint_name(30), run + "/dcp", {.to = "dcp"});
  convert(run + "/" + checkpoint_name(30), run + "/weights.safetensors", {.drop_objects = true});
}

// Does the work while allocation `at` fails. Reports "allocations", and "error" with the message of
// an Error, or "untyped" for any other exception.
int do_under_attack(const Work& work, const std::string& folder, std::uint64_t at,
                    const Report& report) {
  alarm(kMaxSeconds);
  Act act = work(folder);
  int code = kFailed;
  std::string error;
  std::string untyped;
  arm_memory(at);
  try {
    code = act();
    act = nullptr;  // destroys what the Act holds while allocations may fail
  } catch (const Error& e) {
    disarm_memory();
    error = e.what();
    code = exit_code_of(e);
  } catch (const std::exception& e) {
    disarm_memory();
    untyped = e.what();
  }
  report.tell("allocations", std::to_string(disarm_memory()));
  if (!error.empty()) report.tell("error", error);
  if (!untyped.empty()) report.tell("untyped", untyped);
  return code;
}

ChildResult run_under_attack(const Job& job, const TempFolder& folder, std::uint64_t at) {
  const EnvironmentVariable tmp("TMPDIR", (folder / "tmp").c_str());
  return run_child({.folder = "/none"}, [&](const Report& report) {
    return do_under_attack(job.work, folder / "run", at, report);
  });
}

void expect_nothing_left(const TempFolder& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    const bool is_left = is_temporary_name(entry.path().filename().string()) ||
                         entry.path().parent_path() == folder / "tmp";
    EXPECT_FALSE(is_left) << entry.path() << " is left";
  }
}

void expect_nothing_lost(const TempFolder& folder, const Job& job) {
  for (const auto& entry : fs::directory_iterator(folder / "run")) {
    const VerifyReport report = verify(entry.path().string());
    EXPECT_TRUE(report.ok()) << entry.path() << ": " << report.summary();
  }
  for (const std::int64_t batch : kBatches) {
    const std::string name = checkpoint_name(batch);
    const bool may_be_gone = std::ranges::count(job.removes, name) != 0;
    EXPECT_TRUE(may_be_gone || fs::exists(folder / ("run/" + name))) << name << " is gone";
  }
  const auto latest = find_latest(folder / "run");
  ASSERT_TRUE(latest);
  EXPECT_GE(latest->timestamp.batch, 30);
}

class FailedAllocation : public ::testing::TestWithParam<Job> {
 protected:
  void SetUp() override {
    // In a child process, so that this process makes nothing that cairn keeps per process.
    const ChildResult ended = run_child({.folder = "/none"}, [&](const Report&) {
      make_checkpoints(good_.path());
      return 0;
    });
    ASSERT_EQ(ended.exit_code, 0) << ended.text();
  }

  void expect_survives(std::uint64_t at) const {
    const TempFolder folder;
    fs::copy(good_.path(), folder.path(),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const ChildResult ended = run_under_attack(GetParam(), folder, at);
    EXPECT_EQ(ended.signal, 0) << ended.text();
    EXPECT_EQ(ended.lines("untyped"), "") << ended.text();
    if (ended.exit_code != GetParam().code) {
      EXPECT_EQ(ended.exit_code, kFailed) << ended.text();
    }
    expect_nothing_left(folder);
    expect_nothing_lost(folder, GetParam());
  }

  const TempFolder good_;
};

TEST_P(FailedAllocation, IsAnErrorAndLosesNothing) {
  const TempFolder straight_folder;
  fs::copy(good_.path(), straight_folder.path(),
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const ChildResult straight = run_under_attack(GetParam(), straight_folder, 0);
  ASSERT_EQ(straight.exit_code, GetParam().code) << straight.text();
  const std::uint64_t allocations = std::stoull(straight.lines("allocations"));
  ASSERT_GT(allocations, 20U);
  for (const std::uint64_t at : chosen_cases(allocations, GetParam().some)) {
    SCOPED_TRACE("allocation " + std::to_string(at) + " of " + std::to_string(allocations));
    expect_survives(at);
    if (HasFailure()) return;  // one failure is enough to read
  }
}

INSTANTIATE_TEST_SUITE_P(Library, FailedAllocation, ::testing::ValuesIn(kLibraryJobs),
                         [](const auto& each) { return std::string(each.param.name); });
INSTANTIATE_TEST_SUITE_P(Tool, FailedAllocation, ::testing::ValuesIn(kToolJobs),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace cairn::attack
