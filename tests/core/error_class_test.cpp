#include "core/error_class.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "cairn/error.h"

namespace cairn {
namespace {

TEST(ErrorClassTest, EveryClassHasItsName) {
  EXPECT_EQ(error_class(UsageError("")), "UsageError");
  EXPECT_EQ(error_class(NotFoundError("")), "NotFoundError");
  EXPECT_EQ(error_class(AlreadyExistsError("")), "AlreadyExistsError");
  EXPECT_EQ(error_class(CorruptError("")), "CorruptError");
  EXPECT_EQ(error_class(UnsupportedError("")), "UnsupportedError");
  EXPECT_EQ(error_class(MismatchError("")), "MismatchError");
  EXPECT_EQ(error_class(StorageError("", 0)), "StorageError");
  EXPECT_EQ(error_class(UnreadableError("", 0)), "UnreadableError");
  EXPECT_EQ(error_class(OutOfMemoryError("")), "OutOfMemoryError");
  EXPECT_EQ(error_class(BusyError("")), "BusyError");
  EXPECT_EQ(error_class(CancelledError("")), "CancelledError");
  EXPECT_EQ(error_class(TrainingError("")), "TrainingError");
  EXPECT_EQ(error_class(Error("")), "Error");
}

TEST(ErrorClassTest, OtherErrorsAreOfTheNearestClass) {
  EXPECT_EQ(error_class(std::bad_alloc()), "OutOfMemoryError");
  EXPECT_EQ(error_class(std::runtime_error("")), "Error");
}

}  // namespace
}  // namespace cairn
