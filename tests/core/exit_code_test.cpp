#include "cairn/exit_code.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

namespace cairn {
namespace {

TEST(ExitCodeTest, EveryErrorHasItsDocumentedCode) {
  EXPECT_EQ(exit_code_of(UsageError("")), 2);
  EXPECT_EQ(exit_code_of(NotFoundError("")), 3);
  EXPECT_EQ(exit_code_of(CorruptError("")), 4);
  EXPECT_EQ(exit_code_of(MismatchError("")), 5);
  EXPECT_EQ(exit_code_of(UnsupportedError("")), 5);
  EXPECT_EQ(exit_code_of(StorageError("", EACCES)), 6);
  EXPECT_EQ(exit_code_of(StorageError("", EROFS)), 6);
  EXPECT_EQ(exit_code_of(StorageError("", ENOSPC)), 8);
  EXPECT_EQ(exit_code_of(StorageError("", EDQUOT)), 8);
  EXPECT_EQ(exit_code_of(StorageError("", EIO)), 2);
  EXPECT_EQ(exit_code_of(std::runtime_error("")), 2);
}

}  // namespace
}  // namespace cairn
