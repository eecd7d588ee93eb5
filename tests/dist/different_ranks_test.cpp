// Ranks that were started differently, or drift apart.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "io/process/listening_socket.h"
#include "io/process/reserved_port.h"
#include "job.h"
#include "testing/temp_folder.h"
#include "train/trainer/rank_facts.h"

namespace cairn {
namespace {

using cairn::testing::ChildProcess;
using cairn::testing::Command;
using cairn::testing::in_turn;
using cairn::testing::Job;
using cairn::testing::names_in;
using cairn::testing::operator+;
using cairn::testing::outputs_of;
using cairn::testing::part;
using cairn::testing::program;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RankFacts, TheFirstDifferenceIsNamed) {
  const RankFacts first = {{"a", "1"}, {"b", "2"}};
  EXPECT_EQ(find_difference(first, first).name, "");
  const FactDifference other = find_difference(first, {{"a", "1"}, {"b", "3"}});
  EXPECT_EQ(other.name + other.first + other.own, "b23");
  EXPECT_EQ(find_difference(first, {{"b", "2"}}).own, "not there");
  EXPECT_EQ(find_difference(first, {{"a", "1"}, {"b", "2"}, {"c", "3"}}).first, "not there");
  EXPECT_EQ(find_difference(first, {{"b", "2"}, {"a", "1"}}).name, "number 0 in order");
}

// If the ranks were not refused, each case would end in an abort of Gloo, in a silent wait, or with
// different weights.
TEST(DifferentRanks, AreRefusedWithTheFieldAndTheRanks) {
  const TempFolder folder;
  const std::string saves = "folder=" + folder / "saves";
  struct Case {
    Command arguments;
    std::string field;
  };
  const std::vector<Case> cases = {
      {{"1:width=9"}, "the model's module.first.weight"},
      {{"shard=FULL_SHARD", "1:width=9"}, "the model's module.first.weight"},
      {{"1:norm=1"}, "the model's module.norm.weight"},
      {{"1:float=1"}, "the model's module.first.weight"},
      {{"1:shard=FULL_SHARD"}, "parallelism_config"},
      {{"0:shard=FULL_SHARD", "1:shard=SHARD_GRAD_OP"}, "sharding_strategy"},
      {{"shard=FULL_SHARD", "1:state=sharded", saves}, "state_dict_type"},
      {{"1:interval=2ba", saves}, "save_interval"},
      {{"0:" + saves}, "autoresume"},
      {{"1:no_resume=1", saves}, "autoresume"},
      {{"1:name=other"}, "run_name"},
      {{"1:duration=1ep"}, "max_duration"},
      {{"1:data_seed=4"}, "train_dataloader: seed of the sampler"},
      {{"1:samples=30"}, "train_dataloader: samples of the dataset"},
      {{"1:clip=norm"}, "algorithms"},
      {{"clip=norm", "1:threshold=6"}, "algorithms"},
      {{"1:strategy=forced_sync"}, "ddp_sync_strategy"},
      {{"1:rates=1"}, "schedulers"},
      {{"1:sgd=1"}, "the optimizer's class"},
      {{"1:lr=6"}, "the optimizer's group 0: lr"},
  };
  std::vector<Command> runs;
  for (const Case& each : cases)
    runs.push_back(Command{"refusal"} + each.arguments);
  Job job(2, in_turn(runs));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const std::size_t rank : {0, 1}) {
      EXPECT_THAT(part(job.output(rank), i),
                  AllOf(HasSubstr("refused: the ranks of this job differ: "),
                        HasSubstr(cases[i].field), HasSubstr("on rank 0"), HasSubstr("on rank 1")));
    }
  }
  EXPECT_THAT(names_in(folder / "saves"), ElementsAre());
}

TEST(DifferentRanks, TheOneThatIsAnotherIsNamedAmongMany) {
  Job job(3, program({"refusal", "2:duration=7ep"}));
  ASSERT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(1), HasSubstr("max_duration is \"2ep\" on ranks 0, 1, \"7ep\" on rank 2"));
}

TEST(DifferentRanks, MayDifferInPathsAndHowMuchTheyComputeAtOnce) {
  const TempFolder folder;
  Job job(2, program({"train", "0:folder=" + folder / "a", "1:folder=" + folder / "b", "1:batch=4",
                      "1:micro=2", "1:timeout_ms=50000", "norm=1", "async=1"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

// --- The meeting ---------------------------------------------------------------------------------

class Start {
 public:
  explicit Start(std::uint16_t port) : port_(std::to_string(port)) {}
  std::unique_ptr<ChildProcess> rank(int rank, int size, const Command& environment) const {
    const Command launch = {"/usr/bin/env",
                            "RANK=" + std::to_string(rank),
                            "WORLD_SIZE=" + std::to_string(size),
                            "LOCAL_RANK=" + std::to_string(rank),
                            "LOCAL_WORLD_SIZE=" + std::to_string(size),
                            "MASTER_ADDR=127.0.0.1",
                            "MASTER_PORT=" + port_,
                            "OMP_NUM_THREADS=1"};
    return std::make_unique<ChildProcess>(launch + environment +
                                          program({"collectives", "timeout_ms=60000"}));
  }

 private:
  std::string port_;
};

// The old job does not accept the rank of the new job, and is not harmed by that rank.
TEST(Meeting, ARankOfAnotherJobIsRefused) {
  const ReservedPort port;
  const Start start(port.number());
  const auto first = start.rank(0, 2, {"CAIRN_JOB_ID=old"});
  EXPECT_EQ(start.rank(1, 2, {"CAIRN_JOB_ID=new"})->wait().exit_code, 3);
  const auto named = start.rank(1, 2, {"TORCHELASTIC_RUN_ID=new"});
  EXPECT_EQ(named->wait().exit_code, 3);
  EXPECT_THAT(named->output(), AllOf(HasSubstr("rank 1 of 2 met another job"), HasSubstr("\"new\""),
                                     HasSubstr("\"old\"")));
  const auto nameless = start.rank(1, 2, {});
  EXPECT_EQ(nameless->wait().exit_code, 3);
  EXPECT_THAT(nameless->output(), HasSubstr("has no id"));
  const auto second = start.rank(1, 2, {"CAIRN_JOB_ID=old"});
  EXPECT_EQ(second->wait().exit_code, 0) << second->output();
  EXPECT_EQ(first->wait().exit_code, 0) << first->output();
}

TEST(Meeting, ANamedRankIsRefusedByAJobWithoutAName) {
  const ReservedPort port;
  const Start start(port.number());
  const auto first = start.rank(0, 2, {});
  EXPECT_EQ(start.rank(1, 2, {"CAIRN_JOB_ID=new"})->wait().exit_code, 3);
  const auto second = start.rank(1, 2, {});
  EXPECT_EQ(second->wait().exit_code, 0) << second->output();
  EXPECT_EQ(first->wait().exit_code, 0) << first->output();
}

TEST(Meeting, RanksThatWereToldAnotherNumberOfRanksAreRefused) {
  const ReservedPort port;
  const Start start(port.number());
  const auto first = start.rank(0, 2, {});
  const auto other = start.rank(1, 3, {});
  EXPECT_EQ(other->wait().exit_code, 2);
  EXPECT_THAT(other->output(), HasSubstr("WORLD_SIZE must be the same"));
  const auto second = start.rank(1, 2, {});
  EXPECT_EQ(second->wait().exit_code, 0) << second->output();
  EXPECT_EQ(first->wait().exit_code, 0) << first->output();
}

// A TCPStore of libtorch 2.14 hangs up on clients of 1.13. The store in this test takes one
// connection.
TEST(Meeting, AnAgentsStoreThatHangsUpIsToldWithWhatHelps) {
  const ReservedPort port;
  const FileDescriptor listener = listen_at_loopback(port.number());
  std::thread agent([&listener] { close(accept(listener.get(), nullptr, nullptr)); });
  const auto rank =
      Start(port.number())
          .rank(0, 2, {"TORCHELASTIC_USE_AGENT_STORE=True", "TORCH_CPP_LOG_LEVEL=ERROR"});
  const int code = rank->wait().exit_code;
  agent.join();
  EXPECT_EQ(code, 3) << rank->output();
  EXPECT_THAT(rank->output(), AllOf(HasSubstr("rank 0 cannot use the store of torchrun at"),
                                    HasSubstr("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1")));
}

// The addresses, in the form of /proc/net/tcp, at which the processes of a job listen.
std::set<std::string> listeners_in(const std::string& output) {
  std::set<std::string> addresses;
  std::istringstream lines(output);
  const std::string begin = "listens at ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) addresses.insert(line.substr(begin.size()));
  }
  return addresses;
}

constexpr const char* kLoopback = "0100007F";  // 127.0.0.1, in this machine's byte order.

TEST(Meeting, OnOneMachineNobodyListensAtAnotherAddressThanLoopback) {
  const TempFolder folder;
  const testing::CommandResult ran = testing::run(
      {CAIRN_RUN, "-n", "2", "--stdout", folder / "out-{rank}", DIST_PROGRAM, "listeners"});
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  // The addresses of the store and of Gloo.
  EXPECT_THAT(listeners_in(ran.output), ElementsAre(kLoopback));
  EXPECT_THAT(listeners_in(testing::read_file(folder / "out-1")), Each(kLoopback));
  EXPECT_THAT(ran.output, Not(HasSubstr("warning")));
}

TEST(Meeting, OnSeveralMachinesItSaysThatItListensEverywhere) {
  Job job(std::vector<int>{0, 1}, program({"train", "duration=1ba"}));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
  EXPECT_THAT(job.output(0), HasSubstr("warning: rank 0 listens on all network interfaces"));
  EXPECT_THAT(job.output(1), Not(HasSubstr("listens on all")));
}

// --- Weights that drift apart --------------------------------------------------------------------

const std::string kDrifts =
    "the ranks do not train the same model any more: in the save of batch 4, the parameter "
    "\"module.first.bias\" of rank 1 differs from rank 0's";

// Changes weights in the batch after the third. The save of the fourth batch contains the change;
// the next save finds it.
Command drifting(const Command& more, const std::string& folder) {
  return program(
      Command{"train", "interval=2ba", "drifts=1", "at_batch=3", "samples=32", "folder=" + folder} +
      more);
}

TEST(DifferentRanks, WhoseWeightsDriftApartStopAtTheNextSave) {
  const TempFolder folder;
  for (const char* how : {"async=1", "sync=1"}) {
    const std::string here = folder / how;
    Job job(2, drifting({how}, here));
    EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
    for (const std::size_t rank : {0, 1})
      EXPECT_THAT(job.output(rank), HasSubstr(kDrifts));
    EXPECT_TRUE(std::filesystem::exists(here + "/ep0-ba4-rank0.pt"));
    EXPECT_FALSE(std::filesystem::exists(here + "/ep0-ba6-rank0.pt"));
  }
}

TEST(DifferentRanks, AreFoundAtTheEndWhenNoSaveFollows) {
  const TempFolder folder;
  Job job(2, drifting({"duration=4ba", "async=1"}, folder / "saves"));
  EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
  EXPECT_THAT(job.output(0), HasSubstr(kDrifts));
}

// Ranks 0 and 2, and ranks 1 and 3, have the same rows. The rows of rank 1 are changed.
TEST(DifferentRanks, ReplicasOfAHybridAreComparedByTheirRows) {
  const TempFolder folder;
  Job job(4, drifting({"shard=HYBRID_SHARD", "replicas=2"}, folder / "saves"));
  EXPECT_THAT(job.exit_codes(), Each(2)) << outputs_of(job);
  EXPECT_THAT(job.output(0), HasSubstr("\"module.first.bias\" of rank 3 differs from rank 1's"));
}

// Each rank has rows that no other rank has.
TEST(DifferentRanks, RowsOfAShardedModelAreNotCompared) {
  const TempFolder folder;
  Job job(2, drifting({"shard=FULL_SHARD", "norm=1"}, folder / "saves"));
  EXPECT_THAT(job.exit_codes(), Each(0)) << outputs_of(job);
}

}  // namespace
}  // namespace cairn
