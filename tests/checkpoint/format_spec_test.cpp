#include "checkpoint/names/format_spec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdio>
#include <limits>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string format(const FormatValue& value, const std::string& spec) {
  return format_value(value, parse_format_spec(spec));
}

struct FormatSpecRow {
  FormatValue value;
  const char* spec;
  const char* text;
};

TEST(FormatSpecTest, WritesWhatPythonWrites) {  // The expected texts are Python 3.11's.
  const FormatSpecRow rows[] = {
      {std::int64_t{3}, "05d", "00003"},
      {std::int64_t{3}, "", "3"},
      {std::int64_t{1234567}, ",", "1,234,567"},
      {std::int64_t{1234567}, "_", "1_234_567"},
      {std::int64_t{1234}, "06,", "01,234"},
      {std::int64_t{1234}, "08,", "0,001,234"},
      {std::int64_t{1234}, "012,", "0,000,001,234"},
      {std::int64_t{-42}, "08.2f", "-0042.00"},
      {std::int64_t{-42}, "=+8", "-     42"},
      {std::int64_t{42}, "x", "2a"},
      {std::int64_t{42}, "#X", "0X2A"},
      {std::int64_t{42}, "#010b", "0b00101010"},
      {std::int64_t{65535}, "_x", "ffff"},
      {std::int64_t{3735928559}, "_b", "1101_1110_1010_1101_1011_1110_1110_1111"},
      {std::int64_t{42}, "o", "52"},
      {std::int64_t{42}, "e", "4.200000e+01"},
      {std::int64_t{42}, "%", "4200.000000%"},
      {std::int64_t{42}, "*^9", "***42****"},
      {std::int64_t{42}, "<6", "42    "},
      {std::int64_t{42}, " d", " 42"},
      {std::numeric_limits<std::int64_t>::min(), "d", "-9223372036854775808"},
      {36000.0, "", "36000.0"},
      {36000.0, ".0f", "36000"},
      {2.5, ".0f", "2"},
      {1234.5, "012,.2f", "0,001,234.50"},
      {0.00012, "g", "0.00012"},
      {1000000.0, "g", "1e+06"},
      {1234567.0, "G", "1.23457E+06"},
      {100.0, ".3", "1e+02"},
      {123456.0, ".6", "1.23456e+05"},
      {1.5, ".0", "2e+00"},
      {0.125, "%", "12.500000%"},
      {0.125, ".1%", "12.5%"},
      {-0.0, "+", "-0.0"},
      {3.14159, ">+10.3e", "+3.142e+00"},
      {kInf, "06", "000inf"},
      {kNan, "F", "NAN"},
      {std::string("run"), "8", "run     "},
      {std::string("run"), ">8", "     run"},
      {std::string("run"), ".2", "ru"},
      {std::string("run"), "é^7s", "éérunéé"},
      {std::string("é€"), "05", "é€000"},
  };
  for (const auto& [value, spec, text] : rows) {
    EXPECT_EQ(format(value, spec), text) << spec;
  }
}

TEST(FormatSpecTest, RefusesWhatIsNoSpecificationAndWhatDoesNotFitTheValue) {
  for (const char* spec : {"5.", "x5", "dd", "n", "c", "z", ".-1", "0 5", "5,_",
                           "999999999999999999999", "256", ".256f", ",x", "_s", "d5"}) {
    EXPECT_THROW(parse_format_spec(spec), UsageError) << spec;
  }
  const FormatSpecRow rows[] = {
      {std::int64_t{3}, "s", ""},
      {std::int64_t{3}, ".2d", ""},
      {3.0, "d", ""},
      {3.0, "x", ""},
      {3.0, "#f", ""},
      {std::string("a"), "d", ""},
      {std::string("a"), "=5", ""},
      {std::string("a"), "+5", ""},
      {std::string("a"), ",", ""},
      {std::string("a"), "-", ""},
      {std::string("a"), "#", ""},
  };
  for (const auto& [value, spec, text] : rows) {
    EXPECT_THROW(format(value, spec), UsageError) << spec;
  }
}

RC_GTEST_PROP(FormatSpecTest, AgreesWithPrintfWhereBothExist, (double value)) {
  for (const char* spec : {"e", ".0f", ".3f", "+.2e", "g", ".12g", "G", "020.5f", " .1f"}) {
    char expected[400];
    const std::string directive = std::string("%") + spec;
    std::snprintf(expected, sizeof(expected), directive.c_str(), value);
    RC_ASSERT(format(value, spec) == expected);
  }
}

}  // namespace
}  // namespace cairn
