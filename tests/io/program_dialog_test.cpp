#include "io/process/program_dialog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cairn/error.h"

namespace cairn {
namespace {

using PumpResult = ProgramDialog::PumpResult;
constexpr std::chrono::milliseconds kLong = std::chrono::seconds(60);

TEST(ProgramDialogTest, MuchGoesBothWaysAtOnce) {
  ProgramDialog cat({"cat"});
  const std::string bytes(5'000'000, 'x');  // more than any pipe holds
  ByteView output = as_bytes(bytes);
  std::string input;
  while (input.size() < bytes.size())
    ASSERT_EQ(cat.pump(output, input, kLong), PumpResult::kSome);
  EXPECT_TRUE(input == bytes);
}

TEST(ProgramDialogTest, TheEndIsTold) {
  ProgramDialog program({"sh", "-c", "echo out; echo why >&2"});
  ByteView nothing;
  std::string input;
  while (program.pump(nothing, input, kLong) != PumpResult::kEnded)
    continue;
  EXPECT_EQ(input, "out\n");
  EXPECT_EQ(program.messages(), "why\n");
  EXPECT_EQ(program.pump(nothing, input, kLong), PumpResult::kEnded) << "and stays so";
}

TEST(ProgramDialogTest, WaitingHasAnEnd) {
  ProgramDialog silent({"cat"});
  ByteView nothing;
  std::string input;
  EXPECT_EQ(silent.pump(nothing, input, std::chrono::milliseconds(1)), PumpResult::kNothing);
}

TEST(ProgramDialogTest, WhatItStartedEndsWithIt) {
  ProgramDialog program({"sh", "-c", "cat; cat"});  // the shell waits for its children
  std::thread other([&] { program.interrupt(); });
  ByteView nothing;
  std::string input;
  PumpResult moved = PumpResult::kSome;
  while (moved == PumpResult::kSome)
    moved = program.pump(nothing, input, kLong);
  EXPECT_EQ(moved, PumpResult::kEnded) << "and not that it has waited for so long in vain";
  other.join();
}

TEST(ProgramDialogTest, WhatIsNoProgramIsRefused) {
  EXPECT_THROW(ProgramDialog({"cairn-no-such-program"}), NotFoundError);
  EXPECT_THROW(ProgramDialog({"/cairn/no/such/program"}), NotFoundError);
}

}  // namespace
}  // namespace cairn
