#include "io/process/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "cairn/error.h"

#include "io/threads/cancellation.h"
#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/string_sink.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using testing::message_of;
using testing::StringSink;

TEST(ProgramTest, PassesBytesThrough) {
  StringSink out;
  PipeThrough cat({"cat"}, out);
  std::string expected;
  for (int i = 0; i < 40; ++i) {  // more than any pipe holds
    const std::string piece(static_cast<std::size_t>(i) * 5000, static_cast<char>('a' + i % 26));
    cat.write(as_bytes(piece));
    expected += piece;
  }
  EXPECT_EQ(cat.finish(), "");
  EXPECT_TRUE(out.text == expected);
}

TEST(ProgramTest, AProgramThatWritesFirstAndReadsLaterDoesNotBlock) {
  StringSink out;
  PipeThrough sh({"sh", "-c", "head -c 300000 /dev/zero; cat"}, out);
  const std::string text(300'000, 'x');
  sh.write(as_bytes(text));
  EXPECT_EQ(sh.finish(), "");
  EXPECT_TRUE(out.text == std::string(300'000, '\0') + text);
}

TEST(ProgramTest, SaysHowItEnded) {
  StringSink out;
  PipeThrough failing({"sh", "-c", "echo oh no >&2; exit 3"}, out);
  EXPECT_EQ(failing.finish(), "sh ended with exit code 3: oh no");
  PipeThrough crashed({"sh", "-c", "kill -SEGV $$"}, out);
  EXPECT_EQ(crashed.finish(), "sh was ended by signal 11");
}

// A kill by the kernel's out-of-memory killer says nothing about the data in the pipe.
TEST(ProgramTest, WhatWasStoppedFromOutsideIsAnErrorOfTheMachine) {
  StringSink out;
  PipeThrough killed({"sh", "-c", "kill -9 $$"}, out);
  EXPECT_THROW(killed.finish(), StorageError);
}

TEST(ProgramTest, AProgramThatStopsReadingIsNoSignalAndNoEndlessWait) {
  StringSink out;
  PipeThrough early({"sh", "-c", "exit 1"}, out);
  const std::string text(3'000'000, 'x');
  early.write(as_bytes(text));
  early.write(as_bytes(text));
  EXPECT_EQ(early.finish(), "sh ended with exit code 1");
}

TEST(ProgramTest, AnAbandonedOneIsKilled) {
  StringSink out;
  // If the destructor did not end the program, the test would take 1000 s.
  { const PipeThrough forever({"sh", "-c", "sleep 1000"}, out); }
  EXPECT_EQ(out.text, "");
}

TEST(ProgramTest, OneThatDoesNothingIsGivenUp) {
  StringSink out;
  const ProgramLimits limits = {.silence = std::chrono::milliseconds(20)};
  PipeThrough idle({"sh", "-c", "sleep 1000; echo"}, out, limits);  // the program's child ends, too
  EXPECT_THAT(message_of<StorageError>([&] { idle.finish(); }),
              AllOf(HasSubstr("sh did nothing for 20 ms"), HasSubstr("CAIRN_PROGRAM_TIMEOUT")));
  const std::string text(3'000'000, 'x');  // more than any pipe holds
  PipeThrough deaf({"sleep", "1000"}, out, limits);
  EXPECT_THROW(deaf.write(as_bytes(text)), StorageError);
  PipeThrough mute({"sh", "-c", "exec >&- 2>&-; sleep 1000"}, out, limits);
  EXPECT_THROW(mute.finish(), StorageError) << "it runs on, and says that it says nothing";
}

TEST(ProgramTest, OneThatIsGoneIsNotWaitedFor) {
  StringSink out;
  PipeThrough deaf({"sleep", "1000"}, out, {.silence = std::chrono::milliseconds(20)});
  const std::string text(3'000'000, 'x');
  EXPECT_THROW(deaf.write(as_bytes(text)), StorageError);
  PipeThrough other({"true"}, out);  // the end of this program must not be taken for that of `deaf`
  EXPECT_THAT(message_of<StorageError>([&] { deaf.finish(); }), HasSubstr("sleep has ended"));
  EXPECT_THROW(deaf.write(as_bytes(text)), StorageError);
  EXPECT_EQ(other.finish(), "");
  EXPECT_THROW(other.finish(), StorageError);
}

TEST(ProgramTest, WhatASecretiveOneComplainsOfIsNotTold) {
  StringSink out;
  ProgramLimits limits;
  limits.quotes_messages = false;
  PipeThrough failing({"sh", "-c", "echo canary >&2; exit 3"}, out, limits);
  EXPECT_EQ(failing.finish(), "sh ended with exit code 3");
  PipeThrough killed({"sh", "-c", "echo canary >&2; kill -9 $$"}, out, limits);
  EXPECT_EQ(message_of<StorageError>([&] { killed.finish(); }),
            "sh was ended by signal 9; start it again");
}

TEST(ProgramTest, OneThatDoesNotEndIsGivenUp) {
  StringSink out;
  PipeThrough endless({"yes"}, out, {.total = std::chrono::milliseconds(20)});
  EXPECT_THAT(message_of<StorageError>([&] { endless.finish(); }),
              HasSubstr("yes did not end within 20 ms"));
}

TEST(ProgramTest, WaitingForOneEndsWhenItIsCancelled) {
  StringSink out;
  PipeThrough forever({"sleep", "1000"}, out, {});
  Cancellation cancellation("the run has ended");
  const CancelScope scope(&cancellation);
  std::thread other([&] { cancellation.cancel(); });
  EXPECT_THAT(message_of<CancelledError>([&] { forever.finish(); }),
              HasSubstr("the run has ended"));
  other.join();
}

TEST(ProgramTest, TheEnvironmentSaysHowPatientItIs) {
  EXPECT_EQ(program_timeout(), std::chrono::seconds(60));
  {
    const EnvironmentVariable more("CAIRN_PROGRAM_TIMEOUT", "90.5");
    EXPECT_EQ(program_timeout(), std::chrono::milliseconds(90'500));
    EXPECT_EQ(ProgramLimits::of_answer().total, program_timeout());
    EXPECT_EQ(ProgramLimits::of_filter().silence, program_timeout());
  }
  for (const char* wrong : {"0", "-1", "x", "1s", "nan", "inf", "1e99"}) {
    const EnvironmentVariable other("CAIRN_PROGRAM_TIMEOUT", wrong);
    EXPECT_THROW(program_timeout(), UsageError) << wrong;
  }
}

TEST(ProgramTest, AMissingOneIsNamed) {
  StringSink out;
  EXPECT_EQ(find_program("cairn-no-such-program"), std::nullopt);
  try {
    const PipeThrough pipe({"cairn-no-such-program"}, out);
    FAIL() << "no error";
  } catch (const NotFoundError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cairn-no-such-program"));
  }
}

TEST(ProgramTest, IsFoundInThePathOnly) {
  const EnvironmentVariable several("PATH", "/nowhere::/usr/bin:/bin");
  EXPECT_TRUE(find_program("sh").has_value());
  const EnvironmentVariable one("PATH", "/nowhere");
  EXPECT_EQ(find_program("sh"), std::nullopt);
}

// Such a descriptor may be a connection of another library, which the other end of the connection
// would take for alive.
TEST(ProgramTest, HasNoDescriptorOfThisProcess) {
  const int left_open = dup(STDERR_FILENO);
  ASSERT_GE(left_open, 0);
  StringSink out;
  const std::string there = "test -e /proc/self/fd/" + std::to_string(left_open);
  PipeThrough sh({"sh", "-c", "cat; " + there + " && echo open"}, out);
  static_cast<void>(sh.finish());
  close(left_open);
  EXPECT_EQ(out.text, "");
}

}  // namespace
}  // namespace cairn
