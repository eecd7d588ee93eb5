// Jobs of real processes on this machine. Each process is a dist_program.
#include "cairn/dist/dist.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "cairn/error.h"

#include "dist/backend.h"
#include "dist/group.h"
#include "dist/team.h"
#include "job.h"
#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "train/trainer/ranks.h"

namespace cairn {
namespace {

using cairn::testing::Command;
using cairn::testing::EnvironmentVariable;
using cairn::testing::expect_near;
using cairn::testing::Gate;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::kDifficult;
using cairn::testing::losses_of;
using cairn::testing::message_of;
using cairn::testing::operator+;
using cairn::testing::CommandResult;
using cairn::testing::part;
using cairn::testing::program;
using cairn::testing::rest_of_line;
using cairn::testing::run;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

TEST(Dist, TensorsAndValuesGoFromAllToAll) {
  Job job(3, program({"collectives"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1) << job.output(2);
  EXPECT_THAT(job.output(1), HasSubstr("rank 1 of 3 (torchrun's variables)"));
}

TEST(Dist, TensorsOfADeviceGoFromAllToAll) {
  Job job(3, program({"collectives", "device=sim"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1) << job.output(2);
}

TEST(Dist, TheBackendOfGpusIsOneThatIsThere) {
  const EnvironmentVariable backend("CAIRN_CUDA_BACKEND", "mpi");
  EXPECT_THAT(message_of<UsageError>([] { dist::transport_of(at::Device(at::kCUDA, 0)); }),
              HasSubstr("CAIRN_CUDA_BACKEND is 'mpi'"));
  const EnvironmentVariable gloo("CAIRN_CUDA_BACKEND", "gloo");
  EXPECT_EQ(dist::transport_of(at::Device(at::kCUDA, 0)), dist::Transport::kGloo);
}

TEST(Dist, TheBackendOfTheHostIsOneThatIsThere) {
  const EnvironmentVariable backend("CAIRN_CPU_BACKEND", "nccl");
  EXPECT_THAT(message_of<UsageError>([] { dist::transport_of(at::kCPU); }),
              HasSubstr("CAIRN_CPU_BACKEND is 'nccl'; it is mpi or gloo"));
  const EnvironmentVariable none("CAIRN_CPU_BACKEND", nullptr);
  EXPECT_EQ(dist::transport_of(at::kCPU), dist::Transport::kGloo);
}

// Without the check every start waits for the other ranks, and then blames one of them.
TEST(Dist, AnInterfaceThatIsNotThereIsNamed) {
  const EnvironmentVariable wrong("GLOO_SOCKET_IFNAME", "nope0");
  EXPECT_THAT(message_of<UsageError>(dist::check_interface),
              HasSubstr("GLOO_SOCKET_IFNAME is 'nope0', which is no network interface"));
  const EnvironmentVariable right("GLOO_SOCKET_IFNAME", "lo");
  EXPECT_NO_THROW(dist::check_interface());
}

TEST(Dist, WithoutMpiNobodyWaitsForIt) {
  {
    const EnvironmentVariable backend("CAIRN_CPU_BACKEND", "mpi");
    if (message_of<UsageError>([] { dist::transport_of(at::kCPU); }) == "nothing was thrown")
      GTEST_SKIP() << "this libtorch has MPI";
  }
  Job job(2, Command{"CAIRN_CPU_BACKEND=mpi"} + program({"collectives"}));
  EXPECT_THAT(job.exit_codes(), Each(Not(0)));
  EXPECT_THAT(job.output(0), HasSubstr("CAIRN_CPU_BACKEND is mpi, and this cairn was built"));
}

TEST(Dist, EachRankHasAGpuOfItsOwn) {
  const auto gpu = [](const std::string& machine, std::int64_t index, const std::string& visible) {
    return RankDevice{
        .device = "gpu", .machine = machine, .gpu = index, .shown = 2, .visible = visible};
  };
  EXPECT_EQ(find_device_conflict({RankDevice(), RankDevice()}), std::nullopt);
  EXPECT_EQ(find_device_conflict({gpu("a", 0, ""), gpu("a", 1, ""), gpu("b", 0, "")}),
            std::nullopt);
  EXPECT_EQ(find_device_conflict({gpu("a", 0, "4"), gpu("a", 0, "5")}), std::nullopt);
  EXPECT_THAT(find_device_conflict({gpu("a", 0, ""), gpu("a", 1, ""), gpu("a", 1, "")}),
              Optional(HasSubstr("the ranks 1 and 2 both have cuda:1 of a")));
  RankDevice sharing = gpu("a", 0, "");
  sharing.can_share = true;
  EXPECT_EQ(find_device_conflict({sharing, sharing}), std::nullopt);
  EXPECT_THAT(find_device_conflict({gpu("a", 0, ""), gpu("a", 2, "")}),
              Optional(AllOf(HasSubstr("rank 1"), HasSubstr("shown 2 GPUs"))));
  EXPECT_THAT(find_device_conflict({gpu("a", 0, ""), RankDevice()}),
              Optional(HasSubstr("rank 0 trains on gpu and rank 1 on cpu")));
}

// Runs four jobs at once, because they mostly wait. In each job a rank is missing.
TEST(Dist, WhoDoesNotComeIsNamed) {
  Gate gate;
  // A wait for a device looks for signs of life, long before its time limit.
  Job silent(3, program({"miss", "rank=1", "how=stopped", "device=sim", "timeout_ms=3600000"}));
  const Command hurried = {"timeout_ms=6000", gate.argument()};
  Job hanging(3, program(Command{"miss", "rank=1", "how=hangs"} + hurried));
  Job incomplete(3, program(Command{"collectives"} + hurried), /*started=*/2);
  gate.open_for({&hanging, &incomplete});
  ASSERT_TRUE(hanging.ranks[1]->wait_for_line("away")) << hanging.output(1);
  Job dying(4, program({"miss", "rank=2", "how=dead"}));
  ASSERT_TRUE(dying.ranks[2]->wait_for_line("away")) << dying.output(2);

  // When one rank dies, the other ranks notice at once.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(dying.exit_codes(), ElementsAre(3, 3, -1, 3));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  for (const std::size_t rank : {0, 1, 3}) {
    EXPECT_THAT(dying.output(rank),
                AllOf(HasSubstr("the second barrier failed"), HasSubstr("rank 2 did not come")));
  }
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(hanging.ranks[rank]->wait().exit_code, 3);
    EXPECT_THAT(hanging.output(rank), HasSubstr("rank 1 did not come"));
  }
  EXPECT_THAT(incomplete.exit_codes(), Each(3));
  EXPECT_THAT(incomplete.output(0), HasSubstr("rank 2 did not come")) << incomplete.output(1);
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(silent.ranks[rank]->wait().exit_code, 3);
    EXPECT_THAT(silent.output(rank),
                AllOf(HasSubstr("rank 1 did not come"), HasSubstr("no sign of life")));
  }
}

// c10d itself would try to connect again only after a second.
TEST(Dist, RanksThatComeBeforeRankZeroJoinItAtOnce) {
  auto fastest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 3; ++i) {  // The machine may be busy with other work.
    Gate gate;
    Job job(3, program({"collectives", "0:" + gate.argument()}));
    gate.open_for({&job});  // All other ranks have come.
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(job.ranks[1]->wait_for_line("rank 1 of 3")) << job.output(1);
    fastest = std::min(fastest, std::chrono::steady_clock::now() - begin);
    EXPECT_THAT(job.exit_codes(), Each(0)) << job.output(0);
  }
  EXPECT_LT(fastest, std::chrono::milliseconds(700));
}

TEST(Dist, TheSoftLimitOfOpenFilesGrowsWithTheRanks) {
  const auto raised = [](std::int64_t ranks, std::uint64_t soft, std::uint64_t hard) {
    return dist::soft_limit_for(ranks, {.soft = soft, .hard = hard});
  };
  EXPECT_EQ(raised(4, 1024, 4096), std::nullopt);
  EXPECT_EQ(raised(1024, 1024, 1 << 20), 64U + 8 * 1024);
  EXPECT_EQ(raised(1024, 1 << 16, 1 << 20), std::nullopt);
  // The hard limit bounds the raised limit.
  EXPECT_EQ(raised(1024, 1024, 4096), 4096U);
  EXPECT_EQ(raised(1024, 4096, 4096), std::nullopt);
  EXPECT_THAT(message_of<UsageError>([&] { raised(2048, 1024, 4096); }),
              AllOf(HasSubstr("2048 ranks needs at least 6208 open files"), HasSubstr("have 4096"),
                    HasSubstr("`ulimit -n 16448`"), HasSubstr("LimitNOFILE=16448")));
}

// `limit`: arguments of ulimit.
Command limited(const std::string& limit, const Command& command) {
  return Command{"/bin/sh", "-c", "ulimit " + limit + " && exec \"$0\" \"$@\""} + command;
}

TEST(Dist, RanksRaiseTheSoftLimitOfOpenFilesAndWithTooLowAHardOneNobodyWaits) {
  Job low(4, limited("-S -n 20", program({"collectives"})));
  EXPECT_THAT(low.exit_codes(), Each(0)) << low.output(0) << low.output(1);
  Job too_low(4, limited("-n 70", program({"collectives"})));
  EXPECT_THAT(too_low.exit_codes(), Each(2));
  for (const std::size_t rank : {0, 3})
    EXPECT_THAT(too_low.output(rank), HasSubstr("4 ranks needs at least 76 open files"));
}

TEST(Dist, WhatContradictsItselfIsRefused) {
  const EnvironmentVariable rank("RANK", nullptr);
  const EnvironmentVariable world("WORLD_SIZE", nullptr);
  const auto fails = [](const dist::InitializeOptions& options) {
    return message_of<UsageError>([&] { dist::initialize(options); });
  };
  EXPECT_THAT(fails({.rank = 1}), HasSubstr("give rank and world_size"));
  EXPECT_THAT(fails({.rank = 0, .world_size = 1, .local_world_size = 0}),
              HasSubstr("local_world_size is at least 1"));
  {
    const EnvironmentVariable port("MASTER_PORT", "29x");
    EXPECT_THAT(fails({.rank = 0, .world_size = 2}), HasSubstr("MASTER_PORT"));
  }
  EXPECT_THAT(fails({.rank = 2, .world_size = 2}), HasSubstr("rank 2 is not in 0 to"));
  EXPECT_THAT(fails({.rank = 0, .world_size = 2}),
              AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("MASTER_PORT")));
  EXPECT_THAT(fails({.rank = 0, .world_size = 2, .master_addr = "a", .master_port = 70000}),
              HasSubstr("no port"));
  EXPECT_FALSE(dist::is_initialized());
}

TEST(Dist, AProcessAloneDoesEverythingWithItself) {
  const EnvironmentVariable rank("RANK", nullptr);
  const EnvironmentVariable world("WORLD_SIZE", nullptr);
  at::Tensor one = at::ones({2});
  dist::all_reduce(one);
  dist::broadcast(one);
  EXPECT_EQ(dist::all_gather(one).size(), 1U);
  EXPECT_EQ(dist::broadcast_value(Value(3)), Value(3));
  EXPECT_EQ(dist::all_gather_values(Value(3)).size(), 1U);
  dist::barrier();
  EXPECT_EQ(dist::world_size(), 1);
  EXPECT_EQ(dist::describe(), "rank 0 of 1 (no launcher)");
}

TEST(Dist, SeveralProcessesMustMeetFirst) {
  const EnvironmentVariable rank("RANK", "0");
  const EnvironmentVariable world("WORLD_SIZE", "2");
  EXPECT_THAT(message_of<UsageError>([] { dist::barrier(); }), HasSubstr("dist::initialize()"));
}

// Skipped if the launcher is not installed. torchrun's agent provides the store; mpirun provides
// none.
class StartedBy : public ::testing::TestWithParam<std::pair<Command, std::string>> {};

TEST_P(StartedBy, ItJustWorks) {
  auto [command, source] = GetParam();
  if (access(command[0].c_str(), X_OK) != 0) GTEST_SKIP() << "no " << command[0];
  const EnvironmentVariable rank("RANK", nullptr);
  const EnvironmentVariable world("WORLD_SIZE", nullptr);
  const ReservedPort port;
  if (source == "torchrun") command.push_back("--master_port=" + std::to_string(port.number()));
  const CommandResult ran = run(command + program({"collectives"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  for (const char* who : {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"}) {
    EXPECT_THAT(ran.output, HasSubstr(who + (" (" + source) + "'s variables)"));
  }
}

// torchrun 1.13 needs the options --redirects and --tee under Python 3.11.
INSTANTIATE_TEST_SUITE_P(
    Dist, StartedBy,
    ::testing::Values(std::pair(Command{"/usr/bin/torchrun", "--no_python", "--nproc_per_node=3",
                                        "--redirects=0:1,1:1,2:1", "--tee=0:1,1:1,2:1"},
                                std::string("torchrun")),
                      std::pair(Command{"/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe",
                                        "-n", "3"},
                                std::string("Open MPI"))));

// mpirun passes SIGUSR1 on to all processes, and ends a job when the first process fails. By then,
// every process that got the signal must have saved.
TEST(Dist, ARunThatOpenMpiInterruptsGoesOnBitForBit) {
  const std::string mpirun = "/usr/bin/mpirun";
  if (access(mpirun.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << mpirun;
  const EnvironmentVariable rank("RANK", nullptr);
  const EnvironmentVariable world("WORLD_SIZE", nullptr);
  const EnvironmentVariable threads("OMP_NUM_THREADS", "1");
  const TempFolder folder;
  const Command start = {mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "4"};
  const Command saved = kDifficult + Command{"folder=" + folder.path(), "interval=1ep"};
  cairn::testing::ChildProcess interrupted(start +
                                           program(saved + Command{"at_batch=4", "how=wait"}));
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(interrupted.wait_for_line("waits")) << interrupted.output();
  interrupted.send(SIGUSR1);
  EXPECT_EQ(interrupted.wait().exit_code, 75) << interrupted.output();
  const CommandResult again = run(start + in_turn({saved, kDifficult}));
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("begins at batch 4"));
  std::map<std::string, int> weights;
  std::istringstream lines(again.output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("weights ")) ++weights[line];
  ASSERT_EQ(weights.size(), 1U) << again.output;
  EXPECT_EQ(weights.begin()->second, 8);
}

// --- Training ------------------------------------------------------------------------------------

const Command kDigits = {"train", "data=digits", "duration=44ba"};

// All ranks together have the same number of samples in a batch.
std::vector<Command> cases_of(int ranks) {
  const auto batch = [ranks](int all) { return "batch=" + std::to_string(all / ranks); };
  const Command train = {"train", batch(8)};
  return {train,
          train + Command{"strategy=forced_sync"},
          train + Command{"strategy=multi_auto_sync", "micro=1"},
          train + Command{"strategy=single_auto_sync", "micro=1"},
          train + Command{"thaw=epoch_start"},
          train + Command{"thaw=before_train_batch"},
          train + Command{"area=1"},
          train + Command{"weightless=all"},
          train + Command{"keeps_gradients=1"},
          kDigits + Command{batch(32)}};
}

// Compares one process, whose batches have all ranks' samples, with several processes. The last
// case uses float and real data, and goes up to the batch that contains samples twice.
TEST(Dist, TrainingIsAsInOneProcess) {
  const auto alone = cases_of(1);
  Job one(1, in_turn(alone));
  std::map<int, Job> several;
  for (const int ranks : {2, 4})
    several.try_emplace(ranks, ranks, in_turn(cases_of(ranks)));
  ASSERT_THAT(one.exit_codes(), Each(0)) << one.output(0);
  for (auto& [ranks, job] : several) {
    ASSERT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, case " + std::to_string(i));
      const std::string expected = part(one.output(0), i);
      const std::string first = part(job.output(0), i);
      const bool is_float = i + 1 == alone.size();
      expect_near(losses_of(expected), losses_of(first), is_float ? 1e-5 : 1e-9);
      for (const char* what : {"accuracy", "area", "ends at", "nothing for"}) {
        EXPECT_EQ(rest_of_line(first, what), rest_of_line(expected, what));
      }
      for (int rank = 0; rank < ranks; ++rank) {
        const std::string own = part(job.output(static_cast<std::size_t>(rank)), i);
        EXPECT_EQ(rest_of_line(own, "weights "), rest_of_line(first, "weights "));
        EXPECT_EQ(losses_of(own), losses_of(first));
        EXPECT_THAT(own, Not(HasSubstr("error:")));
      }
    }
  }
}

// Rank 1 runs out of memory with 8 samples, and with 4. The bits are those of parts of 2 samples,
// with dropout and batch norm.
TEST(Dist, RanksMakePartsSmallerTogether) {
  const Command train = {"train", "batch=8", "norm=1", "dropout=20", "duration=4ba"};
  Job job(2, in_turn({train + Command{"memory=3"},
                      train + Command{"memory=2", "strategy=multi_auto_sync"},
                      train + Command{"micro=2", "strategy=forced_sync"},
                      {"train", "batch=8", "memory=0"}}));
  EXPECT_THAT(job.exit_codes(), Each(2)) << job.output(0) << job.output(1);
  for (const std::size_t rank : {0, 1}) {
    const std::string expected = part(job.output(rank), 2);
    for (const std::size_t number : {0, 1}) {
      const std::string found = part(job.output(rank), number);
      EXPECT_EQ(rest_of_line(found, "fits"), " 2");
      EXPECT_EQ(rest_of_line(found, "weights "), rest_of_line(expected, "weights "));
      EXPECT_EQ(losses_of(found), losses_of(expected));
    }
    EXPECT_THAT(part(job.output(rank), 3), HasSubstr("for even one sample at a time"));
  }
}

void expect_same_weights(const Job& job, std::size_t number) {
  const std::string first = rest_of_line(part(job.output(0), number), "weights ");
  EXPECT_NE(first, "");
  EXPECT_EQ(rest_of_line(part(job.output(1), number), "weights "), first);
}

// Each case is a way in which two ranks differ.
TEST(Dist, RanksThatDifferStayTogether) {
  const TempFolder folder;
  Job job(
      2,
      in_turn(
          {// Rank 1 has more samples. In the last batches, rank 0's batch is smaller, then
           // rank 0 has no batch.
           {"train", "uneven=1", "samples=13", "batch=2", "micro=1", "strategy=multi_auto_sync"},
           // Rank 1's batches weigh nothing.
           {"train", "weightless=1", "views=1"},
           // One rank stops, in the middle of an epoch.
           {"train", "how=stop", "rank=1", "at_batch=3"},
           // Each rank has its own processor, which must not be divided again.
           {"train", "bind=1"},
           // A save fails on rank 0 alone, and all ranks must stop.
           {"train", "breaks=1", "second=1", "async=1", "how=term", "at_batch=2",
            "folder=" + folder / "broken"},
           // Rank 0 writes while the other rank has nothing to do.
           {"train", "interval=1ep", "look=1", "how=term", "rank=1", "at_batch=3", "keeps=1",
            "folder=" + folder / "last"},
           // One rank stops inside a batch, before the schedulers read the end of training.
           {"train", "rates=1", "at_event=after_train_batch", "how=stop", "rank=1", "at_batch=2"},
           // One rank stops where the others are told with the next batch.
           {"train", "at_event=batch_checkpoint", "how=stop", "rank=1", "at_batch=3"},
           {"train", "at_event=before_dataloader", "how=stop", "rank=1", "at_batch=3"},
           // One rank stops in the evaluation at the end of the first epoch.
           {"train", "at_event=eval_end", "how=stop", "rank=1", "at_batch=6"},
           // The others have agreed on the next batch already.
           {"train", "rates=1", "at_event=batch_checkpoint", "how=stop", "observes=1", "rank=1",
            "at_batch=3"},
           // Rank 1 alone fails, after all have trained.
           {"train", "bad=1"}}));
  EXPECT_THAT(job.exit_codes(), ElementsAre(3, 2)) << job.output(0) << job.output(1);
  for (const std::size_t number : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
    expect_same_weights(job, number);
  EXPECT_THAT(part(job.output(0), 1), HasSubstr("of 22 samples"));
  EXPECT_THAT(part(job.output(0), 11), HasSubstr("rank 1 did not come"));
  EXPECT_THAT(part(job.output(1), 11), AllOf(HasSubstr("error: a bad sample"),
                                             HasSubstr("refused: eval_dataloader 'whole'")));
  EXPECT_EQ(rest_of_line(part(job.output(0), 0), "ends at"), " batch 8");
  EXPECT_THAT(part(job.output(0), 0), HasSubstr("of 11 samples"));
  EXPECT_THAT(part(job.output(0), 1), AllOf(HasSubstr("loss"), Not(HasSubstr("nan"))));
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(rest_of_line(part(job.output(rank), 2), "ends at"), " batch 3");
    EXPECT_THAT(part(job.output(rank), 4), HasSubstr("ends at batch 2"));
    for (const std::size_t number : {4, 5})
      EXPECT_EQ(rest_of_line(part(job.output(rank), number), "code"), " 75");
    EXPECT_EQ(rest_of_line(part(job.output(rank), 5), "kept "), folder / "last/kept-rank0.pt");
    EXPECT_EQ(rest_of_line(part(job.output(rank), 6), "ends at"), " batch 3");
    EXPECT_EQ(rest_of_line(part(job.output(rank), 7), "ends at"), " batch 3");
    EXPECT_EQ(rest_of_line(part(job.output(rank), 8), "ends at"), " batch 4");
    EXPECT_EQ(rest_of_line(part(job.output(rank), 9), "ends at"), " batch 6");
    EXPECT_EQ(rest_of_line(part(job.output(rank), 10), "ends at"), " batch 4");
    for (const std::size_t number : {6, 10}) {
      EXPECT_EQ(rest_of_line(part(job.output(rank), number), "rate"),
                rest_of_line(part(job.output(0), number), "rate"));
    }
    EXPECT_THAT(part(job.output(rank), 5), HasSubstr("the last save is there"));
  }
  EXPECT_THAT(part(job.output(0), 4), HasSubstr("save failed"));
  if (std::thread::hardware_concurrency() > 1) {
    EXPECT_THAT(part(job.output(1), 3), HasSubstr("on 1 processor"));
  }
}

TEST(Dist, ALoaderThatGivesAllRanksTheSameIsRefused) {
  Job job(2, program({"train", "sampler=none"}));
  EXPECT_THAT(job.exit_codes(), Each(2));
  EXPECT_THAT(job.output(0), AllOf(HasSubstr("eval_dataloader 'eval'"), HasSubstr("sampler")));
}

const Command kRealDigits = {"train", "data=digits", "net=digits", "batch=64", "duration=12ba"};

// One rank or all ranks die in the middle of an epoch. The remaining ranks end soon, and say why.
TEST(Dist, AKilledRunGoesOnBitForBit) {
  const TempFolder folder;
  struct Killed {
    Command run;
    std::string who;
  };
  const std::vector<Killed> all = {
      {kDifficult, "rank=0"}, {kRealDigits, "rank=2"}, {kRealDigits, "all=1"}};
  std::vector<Command> again = {kDifficult, kRealDigits};
  std::vector<std::unique_ptr<Job>> killed;
  for (const auto& [run, who] : all) {
    const Command saved = run + Command{"folder=" + folder / who};
    again.push_back(saved);
    killed.push_back(
        std::make_unique<Job>(3, program(saved + Command{who, "at_batch=9", "how=dead"})));
  }
  EXPECT_THAT(killed[0]->exit_codes(), ElementsAre(-1, 3, 3));
  EXPECT_THAT(killed[1]->exit_codes(), ElementsAre(3, 3, -1));
  EXPECT_THAT(killed[1]->output(0), HasSubstr("rank 2 did not come")) << killed[1]->output(1);
  EXPECT_THAT(killed[2]->exit_codes(), Each(-1));
  Job job(3, in_turn(again));
  ASSERT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1);
  for (const std::size_t rank : {0, 1, 2}) {
    const std::string& output = job.output(rank);
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(all[i].who);
      const std::size_t undisturbed = all[i].run == kDifficult ? 0 : 1;
      EXPECT_THAT(part(output, 2 + i), HasSubstr("begins at batch 8"));
      EXPECT_EQ(rest_of_line(part(output, 2 + i), "weights "),
                rest_of_line(part(output, undisturbed), "weights "));
    }
  }
}

TEST(Dist, ASigtermOfOneRankStopsAllAfterOneBatchAndSaves) {
  const TempFolder folder;
  const Command saved = kDifficult + Command{"folder=" + folder.path()};
  Job job(3, in_turn({saved + Command{"rank=1", "at_batch=5", "how=term"}, saved, kDifficult}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << job.output(0) << job.output(1);
  for (const std::size_t rank : {0, 1, 2}) {
    EXPECT_EQ(rest_of_line(part(job.output(rank), 0), "ends at"), " batch 5");
    EXPECT_THAT(part(job.output(rank), 1), HasSubstr("begins at batch 5"));
    EXPECT_EQ(rest_of_line(part(job.output(rank), 1), "weights "),
              rest_of_line(part(job.output(rank), 2), "weights "));
  }
}

// --- Checkpoints of several ranks, over TCPStore -------------------------------------------------

TEST(RanksCommitTest, TwoProcessesWriteOneCheckpoint) {
  const TempFolder folder;
  Job job(2, program({"commit", "folder=" + folder.path()}));
  EXPECT_THAT(job.exit_codes(), ElementsAre(0, 0)) << job.output(0) << job.output(1);
  for (const std::string rank : {"0", "1"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / ("ba2/__" + rank + "_0.distcp")));
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "ba2/.metadata"));
}

TEST(TeamTest, AnErrorOfOneRankIsOneOfTheSameClassOnAll) {
  Job job(3, program({"team"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(2), HasSubstr("all of it holds"));
}

TEST(TeamTest, OneProcessCallsTheFunctionAndNothingElse) {
  const Team team = Team::of_job();
  EXPECT_TRUE(team.is_alone());
  EXPECT_EQ(team.do_on_first("trying", [] { return Value(7); }), Value(7));
  EXPECT_EQ(
      message_of<BusyError>([&] { team.run_on_all("trying", [] { throw BusyError("why"); }); }),
      "why");
  EXPECT_EQ(team.gather_all(3), std::vector<Value>{3});
}

TEST(RankTablesTest, WhatNoRankNeedsAnyMoreIsUsedAgain) {
  Job job(2, program({"tables"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(1), HasSubstr("all of it holds"));
}

TEST(RanksCommitTest, AProcessThatIsKilledInItsPartIsNamedOnTheOthersAndNothingIsThere) {
  const TempFolder folder;
  Job job(3, program({"commit", "folder=" + folder.path(), "dies=1"}));
  EXPECT_THAT(job.exit_codes(), ElementsAre(0, -1, 0)) << job.output(0) << job.output(2);
  const std::string error = rest_of_line(job.output(0), "failed: ");
  EXPECT_THAT(error, HasSubstr("ba2 on 3 ranks: rank 1: "));
  EXPECT_EQ(rest_of_line(job.output(2), "failed: "), error);
  EXPECT_TRUE(std::filesystem::exists(folder / "ba1/.metadata"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ba2"));
}

TEST(RanksCommitTest, WhenRankZeroIsKilledWithTheMeetingPlaceTheOthersSaySoSoon) {
  const TempFolder folder;
  Job job(2, program({"commit", "folder=" + folder.path(), "dies=0"}));
  EXPECT_THAT(job.exit_codes(), ElementsAre(-1, 0)) << job.output(1);
  EXPECT_THAT(rest_of_line(job.output(1), "failed: "), HasSubstr("rank 0: "));
  EXPECT_FALSE(std::filesystem::exists(folder / "ba2"));
}

}  // namespace
}  // namespace cairn
