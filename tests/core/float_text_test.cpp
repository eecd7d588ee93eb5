#include "core/text/float_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace cairn {
namespace {

TEST(FloatTextTest, WritesWhatPythonsReprWrites) {
  const std::pair<double, const char*> rows[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {5.0, "5.0"},
      {36000.0, "36000.0"},
      {0.1, "0.1"},
      {-2.5, "-2.5"},
      {1.0 / 3, "0.3333333333333333"},
      {123.456, "123.456"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {0.00001, "1e-05"},
      {1e15, "1000000000000000.0"},
      {1234567890123456.0, "1234567890123456.0"},
      {9999999999999998.0, "9999999999999998.0"},
      {1e16, "1e+16"},
      {12345678901234568.0, "1.2345678901234568e+16"},
      {1.5e300, "1.5e+300"},
      {5e-324, "5e-324"},
      {std::numeric_limits<double>::max(), "1.7976931348623157e+308"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"},
  };
  for (const auto& [value, text] : rows) {
    EXPECT_EQ(python_float_repr(value), text);
  }
}

RC_GTEST_PROP(FloatTextTest, ReadsBackAsTheSameFloat, (double value)) {
  RC_ASSERT(std::stod(python_float_repr(value)) == value);
}

}  // namespace
}  // namespace cairn
