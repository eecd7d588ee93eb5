#include "io/read_fault.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

#include "io/file_error.h"

namespace cairn {
namespace {

TEST(ReadFaultTest, OnlyWhatWasReadIsTheContentsFault) {
  EXPECT_EQ(read_fault_of(CorruptError("")), ReadFault::kContent);
  EXPECT_EQ(read_fault_of(UnsupportedError("")), ReadFault::kContent);
  EXPECT_EQ(read_fault_of(MismatchError("")), ReadFault::kContent);
  EXPECT_EQ(read_fault_of(UsageError("")), ReadFault::kContent);
  EXPECT_EQ(read_fault_of(std::bad_array_new_length()), ReadFault::kContent);
  EXPECT_EQ(read_fault_of(std::length_error("")), ReadFault::kContent);
  EXPECT_EQ(read_fault_of(NotFoundError("")), ReadFault::kNoFile);
}

TEST(ReadFaultTest, WhatIsOfThisMomentOrThisMachineIsNot) {
  for (const int error : {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, ENOSPC, EDQUOT, EIO, ESTALE}) {
    EXPECT_EQ(read_fault_of(StorageError("", error)), ReadFault::kNow) << error;
  }
  EXPECT_EQ(read_fault_of(UnreadableError("", EIO)), ReadFault::kBytes);
  EXPECT_EQ(read_fault_of(ReaderMissingError("")), ReadFault::kNow);
  EXPECT_EQ(read_fault_of(CancelledError("")), ReadFault::kNow);
  EXPECT_EQ(read_fault_of(OutOfMemoryError("")), ReadFault::kNow);
  EXPECT_EQ(read_fault_of(std::bad_alloc()), ReadFault::kNow);
  EXPECT_EQ(read_fault_of(std::runtime_error("")), ReadFault::kNow);
}

TEST(ReadFaultTest, AnErrnoOfACallThatLooksSaysWhetherTheDiskGivesTheFile) {
  const auto fault_of = [](int error) {
    try {
      throw_read_error(error, "cannot open a.pt");
    } catch (const StorageError& e) {
      EXPECT_EQ(e.status(), error);
      EXPECT_EQ(std::string(e.what()).find("cannot open a.pt: "), 0U);
      return read_fault_of(e);
    }
  };
  for (const int error : {EIO, ESTALE, EUCLEAN, EBADMSG, EREMOTEIO, ENODATA}) {
    EXPECT_EQ(fault_of(error), ReadFault::kBytes) << error;
  }
  for (const int error : {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, ENOENT, EINVAL}) {
    EXPECT_EQ(fault_of(error), ReadFault::kNow) << error;
  }
}

TEST(ReadFaultTest, TheProblemIsOneLineThatSaysSomething) {
  EXPECT_EQ(read_problem(std::bad_alloc()), "there is not enough memory");
  EXPECT_EQ(read_problem(std::length_error("vector::reserve")),
            "it asks for more memory than any machine has");
  EXPECT_EQ(read_problem(CorruptError("a\nb")), "a\\x0ab");
}

TEST(ReadFaultTest, OnlyWhatMemoryLacksIsAMemoryProblem) {
  EXPECT_TRUE(memory_problem(std::bad_array_new_length()).has_value());
  EXPECT_EQ(memory_problem(std::out_of_range("")), std::nullopt);
  EXPECT_EQ(memory_problem(CorruptError("")), std::nullopt);
}

}  // namespace
}  // namespace cairn
