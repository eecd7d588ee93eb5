#include "checkpoint/names/launch.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>

#include "cairn/error.h"

#include "testing/message_of.h"

namespace cairn {
namespace {

using cairn::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

ReadEnvironment launched_with(const Variables& variables) {
  return [variables = std::make_shared<Variables>(variables)](const char* name) -> const char* {
    const auto found = variables->find(name);
    return found == variables->end() ? nullptr : found->second.c_str();
  };
}
Launch launch(const Variables& variables) { return launch_of(launched_with(variables)); }

const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "9"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                          {"SLURM_STEP_NUM_NODES", "4"},
                          {"SLURM_STEP_NODELIST", "gpu[07-09],login1"},
                          {"SLURM_JOB_ID", "123"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "3735552001"}};
const Variables kTorchrun = {{"RANK", "3"},           {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},     {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29501"}};

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST(Launch, AProcessThatNobodyLaunchedIsAlone) {
  const Launch alone = launch({});
  EXPECT_EQ(alone.rank, 0);
  EXPECT_EQ(alone.world_size, 1);
  EXPECT_EQ(alone.local_world_size, 1);
  EXPECT_EQ(alone.source, "");
}

TEST(Launch, TorchrunGoesBeforeTheEnginesItRunsUnder) {
  const Launch found = launch(kTorchrun + kSlurm + kOpenMpi);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.world_size, 4);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_world_size, 2);
  EXPECT_EQ(found.node_rank, 1);
  EXPECT_EQ(found.master_addr, "node0");
  EXPECT_EQ(found.master_port, 29501);
  EXPECT_EQ(found.source, "torchrun's variables");
  EXPECT_FALSE(found.is_store_hosted);
}

TEST(Launch, TorchrunsAgentListensItself) {
  const Launch found = launch(kTorchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(found.is_store_hosted);
  EXPECT_EQ(found.attempt, "2");
}

TEST(Launch, AJobIsNamedByWhateverStartedIt) {
  EXPECT_EQ(launch(kTorchrun).job_id, "");
  EXPECT_EQ(launch(kTorchrun + Variables{{"TORCHELASTIC_RUN_ID", "run"}}).job_id, "run");
  EXPECT_EQ(launch(kSlurm).job_id, "Slurm 123.0");
  EXPECT_EQ(launch(kSlurm + Variables{{"SLURM_RESTART_COUNT", "2"}}).job_id,
            "Slurm 123.0, restart 2");
  EXPECT_EQ(launch(kOpenMpi).job_id, "Open MPI 3735552001");
  const Variables by_hand = {{"CAIRN_JOB_ID", "mine"}};
  for (const Variables& launcher : {kTorchrun, kSlurm, kOpenMpi})
    EXPECT_EQ(launch(launcher + by_hand).job_id, "mine");
  // Several jobs may be started in one allocation. Only ranks that srun itself starts use the
  // allocation's number.
  EXPECT_EQ(launch(kTorchrun + kSlurm).job_id, "");
}

// mpirun in an allocation of Slurm: the ranks have the Slurm variables of the daemon that started
// them.
TEST(Launch, OpenMpiGoesBeforeSlurm) {
  const Launch found = launch(kOpenMpi + kSlurm);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.world_size, 4);
  EXPECT_EQ(found.source, "Open MPI's variables");
}

TEST(Launch, SlurmKnowsItsStep) {
  const Launch found = launch(kSlurm);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.world_size, 7);  // The number of tasks of the step, not of the job.
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_world_size, 2);
  EXPECT_EQ(found.node_rank, 2);
  EXPECT_EQ(found.master_addr, "gpu07");
  EXPECT_EQ(found.source, "Slurm's variables");
  ASSERT_TRUE(found.master_port);
  EXPECT_GE(*found.master_port, 15000);
  EXPECT_LT(*found.master_port, 30000);
}

TEST(Launch, ABatchScriptOfSlurmIsNoTask) {
  Variables script = kSlurm;
  script.erase("SLURM_STEP_ID");
  EXPECT_EQ(launch(script).world_size, 1);
  script["SLURM_STEP_ID"] = "4294967291";
  EXPECT_EQ(launch(script).world_size, 1);
}

// `srun -n 7 --pty bash` starts one shell, and programs that the shell starts are no tasks of the
// step. A step that is started from the shell inherits its variables, but has no terminal.
TEST(Launch, WhatAShellOfSlurmStartsIsAlone) {
  for (const char* variable : {"SLURM_PTY_PORT", "SLURM_PTY_WIN_COL"}) {
    const ReadEnvironment shell = launched_with(kSlurm + Variables{{variable, "80"}});
    EXPECT_EQ(launch_of(shell, /*has_terminal=*/true).world_size, 1);
    EXPECT_EQ(launch_of(shell, /*has_terminal=*/false).world_size, 7);
  }
  EXPECT_EQ(launch_of(launched_with(kSlurm), /*has_terminal=*/true).world_size, 7);
}

TEST(Launch, OnOneMachineTasksMeetThere) {
  Variables one = kSlurm;
  one["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(launch(one).master_addr, "127.0.0.1");
  const Launch found = launch(kOpenMpi);
  EXPECT_EQ(found.world_size, 4);
  EXPECT_EQ(found.master_addr, "127.0.0.1");
  EXPECT_TRUE(found.master_port);
  EXPECT_EQ(launch(kOpenMpi + Variables{{"MASTER_PORT", "1234"}}).master_port, 1234);
  Variables newer = kOpenMpi;
  newer["PMIX_NAMESPACE"] = "prterun-node-4711@1";
  EXPECT_TRUE(launch(newer).master_port);
}

TEST(Launch, OpenMpiOnSeveralMachinesDoesNotSayWhere) {
  Variables several = kOpenMpi;
  several["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_EQ(launch(several).master_addr, "");
}

TEST(Launch, WhatCannotBeIsRefused) {
  const auto fails = [](const Variables& variables) {
    return message_of<UsageError>([&] { launch(variables); });
  };
  EXPECT_THAT(fails({{"WORLD_SIZE", "4"}}), AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("RANK")));
  EXPECT_THAT(fails({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), HasSubstr("ranks count from 0"));
  EXPECT_THAT(fails({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), HasSubstr("expected a whole number"));
  EXPECT_THAT(fails({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("at least one"));
  EXPECT_EQ(launch({{"WORLD_SIZE", "1"}}).world_size, 1);
}

// Some systems use RANK to number their jobs.
TEST(Launch, AProcessAloneMayHaveAnyRank) {
  EXPECT_EQ(launch({{"RANK", "3"}}).world_size, 1);
  EXPECT_EQ(launch({{"RANK", "3"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(Launch, ThereIsNoMachineWithoutProcesses) {
  EXPECT_FALSE(launch(Variables{{"LOCAL_WORLD_SIZE", "0"}} + kTorchrun).local_world_size);
  EXPECT_FALSE(launch({{"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "0"}}).local_world_size);
}

TEST(Launch, NamesOfCheckpointsKnowTheEnginesRanks) {
  EXPECT_EQ(strict_format("{rank} {local_rank} {world_size} {local_world_size} {node_rank}",
                          dist_variables("run", launched_with(kSlurm))),
            "5 1 7 2 2");
  EXPECT_EQ(strict_format("{node_rank}", dist_variables("run", launched_with(kTorchrun))), "1");
}

TEST(Launch, RankZeroWritesForAllAndAProcessAloneForItself) {
  const auto writer = [](const Variables& variables) {
    return strict_format("{rank} {local_rank}",
                         variables_of_writer("run", launched_with(variables)));
  };
  EXPECT_EQ(writer(kTorchrun), "0 0");
  EXPECT_EQ(writer(kSlurm), "0 0");
  EXPECT_EQ(writer({{"RANK", "3"}, {"LOCAL_RANK", "1"}}), "3 1");
}

}  // namespace
}  // namespace cairn
