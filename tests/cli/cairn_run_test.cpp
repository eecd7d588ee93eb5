// The program cairn-run. The processes of its jobs are shells.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <fstream>

#include "cairn/error.h"

#include "testing/child_process.h"
#include "testing/command.h"
#include "testing/environment_variable.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

// Starts a program in a shell and waits until it runs. A signal that a shell gets between its
// fork() and exec() may be lost.
const std::string kTail =
    "tail -f /dev/null & until read name </proc/$!/comm; test \"$name\" = tail; do :; done; ";

using cairn::testing::ChildProcess;
using cairn::testing::Command;
using cairn::testing::EnvironmentVariable;
using cairn::testing::operator+;
using cairn::testing::CommandResult;
using cairn::testing::read_file;
using cairn::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Command cairn_run(const Command& arguments) { return Command{CAIRN_RUN} + arguments; }

CommandResult run(const Command& arguments) { return testing::run(cairn_run(arguments)); }

TEST(CairnRun, TellsEachProcessWhoItIs) {
  const TempFolder folder;
  const CommandResult ran =
      run({"-n", "3", "--stdout", folder / "rank{rank}-of{world_size}", "sh", "-c",
           "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK "
           "$MASTER_ADDR; test $MASTER_PORT -gt 0"});
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_EQ(ran.output, "0 3 0 3 0 127.0.0.1\n");
  EXPECT_EQ(read_file(folder / "rank1-of3"), "1 3 1 3 0 127.0.0.1\n");
  EXPECT_EQ(read_file(folder / "rank2-of3"), "2 3 2 3 0 127.0.0.1\n");
}

// If a job runs on several machines, only the environment can give all of them the same id.
TEST(CairnRun, GivesEachJobOfOneMachineAnIdOfItsOwn) {
  const EnvironmentVariable outer("CAIRN_JOB_ID", "outer");
  const Command says = {"sh", "-c", "test $LOCAL_RANK = 1 || echo $CAIRN_JOB_ID"};
  const CommandResult first = run(Command{"-n", "2"} + says);
  const CommandResult second = run(Command{"-n", "2"} + says);
  EXPECT_THAT(first.output, HasSubstr("cairn-run "));
  EXPECT_NE(first.output, second.output);
  const CommandResult of_many = run(Command{"-n", "1", "--world_size", "2", "--node_rank", "0",
                                            "--master_addr", "first", "--master_port", "1234"} +
                                    says);
  EXPECT_EQ(of_many.output, "outer\n");
}

TEST(CairnRun, TwoDashesMayStandBeforeTheProgram) {
  const CommandResult ran =
      run({"-n", "2", "--", "sh", "-c", "test $RANK = 1 || echo \"$@\"", "sh", "--"});
  EXPECT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_EQ(ran.output, "--\n");
}

TEST(CairnRun, IsOneMachineOfSeveral) {
  const CommandResult ran =
      run({"-n", "2", "--world_size", "6", "--node_rank", "2", "--master_addr", "first",
           "--master_port", "1234", "sh", "-c",
           "test $LOCAL_RANK = 1 || echo $RANK $WORLD_SIZE $NODE_RANK $MASTER_ADDR $MASTER_PORT"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.output, "4 6 2 first 1234\n");
}

// Rank 0 runs until cairn-run ends it; the exit code of rank 0 does not count.
TEST(CairnRun, TheFirstFailureEndsAllAndIsShown) {
  const CommandResult ran = run({"-n", "3", "sh", "-c",
                                 "if [ $RANK = 2 ]; then echo sorry; exit 5; fi; " + kTail +
                                     "trap 'kill $!; exit 9' TERM; wait"});
  EXPECT_EQ(ran.exit_code, 5) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr("rank 2 ended with exit code 5"), HasSubstr("sorry"),
                                HasSubstr("ending the other processes")));
}

TEST(CairnRun, ASignalIsAFailure) {
  const CommandResult ran =
      run({"-n", "2", "sh", "-c", "if [ $RANK = 1 ]; then kill -9 $$; fi; exec cat"});
  EXPECT_EQ(ran.exit_code, 128 + SIGKILL) << ran.output;
}

TEST(CairnRun, WhoStoppedAndSavedDoesNotEndTheOthers) {
  const CommandResult ran = run({"-n", "2", "sh", "-c",
                                 "trap 'echo was ended' TERM; if [ $RANK = 1 ]; then exit 75; fi; "
                                 "wait; exit 75"});
  EXPECT_EQ(ran.exit_code, 75);
  EXPECT_THAT(ran.output, Not(HasSubstr("was ended")));
}

// Rank 0 says that it is ready when rank 1 is ready.
TEST(CairnRun, HandsOnWhatAsksForSomething) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const EnvironmentVariable where("THE_PIPE", pipe.c_str());
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ChildProcess process(cairn_run(
        {"-n", "2", "sh", "-c",
         kTail + "trap 'kill $!; exit 75' TERM INT HUP QUIT USR1 USR2; "
                 "if [ $RANK = 1 ]; then echo >$THE_PIPE; else cat $THE_PIPE; echo ready; fi; "
                 "wait"}));
    ASSERT_TRUE(process.wait_for_line("ready"));
    process.send(number);
    EXPECT_EQ(process.wait().exit_code, 75) << number << process.output();
  }
}

// The output ends when no process has the pipe open any more.
TEST(CairnRun, WhenItIsKilledTheProcessesEnd) {
  ChildProcess process(cairn_run({"-n", "1", "sh", "-c",
                                  kTail + "trap 'kill $!; echo was ended; exit' TERM; echo ready; "
                                          "wait"}));
  ASSERT_TRUE(process.wait_for_line("ready"));
  process.send(SIGKILL);
  EXPECT_EQ(process.wait().signal, SIGKILL);
  EXPECT_THAT(process.output(), HasSubstr("was ended"));
}

// The signal ends a shell that waits for a program, but would not end the program.
TEST(CairnRun, EndsWhatIsBehindAShell) {
  const CommandResult ran =
      run({"-n", "2", "sh", "-c", "if [ $RANK = 1 ]; then exit 5; fi; tail -f /dev/null; exit 6"});
  EXPECT_EQ(ran.exit_code, 5) << ran.output;
}

// When the programs have saved, their shells are already gone.
TEST(CairnRun, WaitsForTheLastSaveBehindAShell) {
  int is_reaper = 0;
  if (prctl(PR_GET_CHILD_SUBREAPER, &is_reaper) != 0)
    GTEST_SKIP() << "qemu-user keeps no process as the parent of orphans";
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const EnvironmentVariable where("THE_PIPE", pipe.c_str());
  const std::string program =
      "trap 'trap \"echo asked twice; exit 1\" TERM; "
      "while kill -0 $PPID; do :; done 2>/dev/null; exit 75' TERM; " +
      kTail + "if [ $RANK = 1 ]; then echo >$THE_PIPE; else cat $THE_PIPE; echo ready; fi; wait";
  const EnvironmentVariable inner("THE_PROGRAM", program.c_str());
  ChildProcess process(cairn_run({"-n", "2", "sh", "-c", "sh -c \"$THE_PROGRAM\"; exit 6"}));
  ASSERT_TRUE(process.wait_for_line("ready"));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 75) << process.output();
  EXPECT_THAT(process.output(), AllOf(Not(HasSubstr("asked twice")), Not(HasSubstr("ending"))));
}

// Rank 1 fails while it ends and rank 0 saves.
TEST(CairnRun, AFailureAfterAStopAsksNobodyTwice) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const EnvironmentVariable where("THE_PIPE", pipe.c_str());
  ChildProcess process(
      cairn_run({"-n", "2", "sh", "-c",
                 kTail + "if [ $RANK = 1 ]; then trap 'exit 1' TERM; echo $$ >$THE_PIPE; "
                         "else read other <$THE_PIPE; trap 'trap \"echo asked twice\" TERM; "
                         "while kill -0 $other; do :; done 2>/dev/null; cat $THE_PIPE; exit 75' "
                         "TERM; echo ready; "
                         "fi; wait"}));
  ASSERT_TRUE(process.wait_for_line("ready"));
  process.send(SIGTERM);
  ASSERT_TRUE(process.wait_for_line("ending the other"));
  std::ofstream(pipe) << "saved\n";
  EXPECT_EQ(process.wait().exit_code, 1) << process.output();
  EXPECT_THAT(process.output(), AllOf(HasSubstr("saved"), Not(HasSubstr("asked twice"))));
}

TEST(CairnRun, NoticesEndsWhoeverIgnoresThem) {
  ChildProcess process({"/bin/sh", "-c", "trap '' CHLD; exec " CAIRN_RUN " -n 2 sh -c 'exit 4'"});
  EXPECT_EQ(process.wait().exit_code, 4) << process.output();
}

TEST(CairnRun, AFailureCountsMoreThanAStop) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const EnvironmentVariable where("THE_PIPE", pipe.c_str());
  // Rank 1 continues when rank 0 has ended.
  const CommandResult ran = run({"-n", "2", "sh", "-c",
                                 "if [ $RANK = 0 ]; then exec 9>$THE_PIPE; exit 75; fi; "
                                 "cat $THE_PIPE; exit 5"});
  EXPECT_EQ(ran.exit_code, 5) << ran.output;
}

// A process in the background of a terminal that reads from the terminal is stopped for ever.
TEST(CairnRun, NobodyReadsTheTerminal) {
  ChildProcess process({"/usr/bin/script", "-qec",
                        CAIRN_RUN " -n 1 sh -c 'read word; echo read nothing'", "/dev/null"});
  EXPECT_EQ(process.wait().exit_code, 0);
  EXPECT_THAT(process.output(), HasSubstr("read nothing"));
}

TEST(CairnRun, HandsOnNoDescriptors) {
  ChildProcess process({"/bin/sh", "-c",
                        "exec 9</dev/null; exec " CAIRN_RUN
                        " -n 1 sh -c 'test ! -e /proc/self/fd/9'"});
  EXPECT_EQ(process.wait().exit_code, 0) << process.output();
}

// The sizes in the environment may come from an image, or from a shell inside another job.
TEST(CairnRun, TheSizesOfAnotherJobOnThisMachineSayNothing) {
  const EnvironmentVariable world("WORLD_SIZE", "1");
  {
    const EnvironmentVariable local("LOCAL_WORLD_SIZE", "1");
    const CommandResult ran = run({"-n", "2", "sh", "-c", "test $RANK = 1 || echo $WORLD_SIZE"});
    EXPECT_EQ(ran.output, "2\n");
  }
  EXPECT_THAT(run({"-n", "2", "true"}).output, HasSubstr("WORLD_SIZE of the environment"));
}

TEST(CairnRun, WhatCannotBeIsRefused) {
  EXPECT_THAT(run({}).output, HasSubstr("a PROGRAM to start is needed"));
  EXPECT_THAT(run({"-n", "0", "true"}).output, HasSubstr("--nproc must be at least 1"));
  EXPECT_THAT(run({"-n", "2", "--world_size", "1", "true"}).output, HasSubstr("is less than"));
  EXPECT_THAT(run({"-n", "2", "--world_size", "4", "true"}).output, HasSubstr("--base_rank or"));
  EXPECT_THAT(run({"-n", "2", "--world_size", "4", "--node_rank", "1", "true"}).output,
              HasSubstr("--master_addr and --master_port"));
  EXPECT_THAT(run({"--base_rank", "1", "true"}).output, HasSubstr("are 0 on the only machine"));
  EXPECT_EQ(run({"no-such-program-anywhere"}).exit_code, 3);
  const EnvironmentVariable world("WORLD_SIZE", "x");
  EXPECT_THAT(run({"true"}).output, HasSubstr("expected a whole number"));
}

}  // namespace
}  // namespace cairn
