#include "cairn/time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "cairn/error.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

std::string message_of(const std::string& text) {
  try {
    const Time time(text);
    return "no error, but " + time.to_string();
  } catch (const UsageError& e) {
    return e.what();
  }
}

struct Accepted {
  const char* text;
  const char* same_as;
};

TEST(TimeTextTest, AcceptsWhatComposerDoes) {  // T102, T102b
  const Accepted rows[] = {
      {"2iter", "2iter"},
      {"1ep", "1ep"},
      {"2ba", "2ba"},
      {"3e10sp", "30000000000sp"},
      {"3_0e10sp", "300000000000sp"},
      {"4tok", "4tok"},
      {"4_000tok", "4000tok"},
      {"4_00_0tok", "4000tok"},
      {"0.5dur", "0.5dur"},
      {"1h20m40s", "4840sec"},
      {"1.0iter", "1iter"},
      {"2.0ep", "2ep"},
      {"3.000ba", "3ba"},
      {"030.0sp", "30sp"},
      {"30sec", "30sec"},
      {"90sec", "90sec"},
      {"3EP", "3ep"},
      {"3e4tok", "30000tok"},
      {"1e2ba", "100ba"},
      {"-5ba", "-5ba"},
      {"+5ba", "5ba"},
      {" 1ep", "1ep"},
      {"3 ep", "3ep"},
      {"5m", "300sec"},
      {"59s", "59sec"},
      {"23h59m59s", "86399sec"},
      {"1H5S", "3605sec"},
      {"1200e-2ba", "12ba"},
      {".5dur", "0.5dur"},
      {"1.dur", "1.0dur"},
      {"1e-05dur", "1e-05dur"},
      {"0e99999999999ep", "0ep"},
      {"0.0ep", "0ep"},
      {"-0.5dur", "-0.5dur"},
  };
  for (const auto& [text, same_as] : rows) {
    EXPECT_EQ(Time(text).to_string(), same_as) << text;
  }
}

TEST(TimeTextTest, FractionsOfCountedUnitsAreRefused) {  // T102a
  for (const char* text : {"1.1iter", "1.5ep", "2.1ba", "3.2sp", "3.4tok", "0.1sec", "15e-1ep"}) {
    EXPECT_THAT(message_of(text), HasSubstr("counts in whole numbers")) << text;
  }
}

TEST(TimeTextTest, AccidentsOfTheWallClockFormAreErrors) {
  EXPECT_THAT(message_of(""), HasSubstr("expected a number and a unit"));
  EXPECT_THAT(message_of("5"), HasSubstr("the unit is missing"));
}

TEST(TimeTextTest, RefusesEverythingElseAndNamesTheGrammar) {
  for (const char* text :
       {"ep",    "10",       "60s",    "90s",    "60m",       "90m",   "24h",    "25h",
        "001h",  "1h1h",     "1s1m",   "1h20",   "5x",        "1 0ep", "1__0ep", "_1ep",
        "1_ep",  "1e_2ep",   "0x10ep", "infdur", "nandur",    "1,5ep", "ep10",   "10ep 5ba",
        "--1ep", "1.2.3dur", ".ep",    "e5ep",   "1h20m40sec"}) {
    EXPECT_THAT(message_of(text), HasSubstr("expected a number and a unit")) << text;
  }
  EXPECT_THROW(Time(std::string_view("1\0ep", 4)), UsageError);
  EXPECT_THROW(Time(static_cast<const char*>(nullptr)), UsageError);
  EXPECT_THAT(message_of(std::string(100000, '1') + "ep"), HasSubstr("too long"));
}

TEST(TimeTextTest, IntegersAreExactUpToTheLast64BitOne) {
  EXPECT_EQ(Time("9007199254740993sp").value(), 9007199254740993);  // 2^53 + 1
  EXPECT_EQ(Time("9223372036854775807tok").value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Time("-9223372036854775808tok").value(), std::numeric_limits<std::int64_t>::min());
  for (const char* text : {"9223372036854775808tok", "1e19tok", "1e999999999999tok", "1e999dur"}) {
    EXPECT_THROW(Time{text}, UsageError) << text;
  }
}

RC_GTEST_PROP(TimeTextTest, EveryTimeReadsItsOwnText, (std::int64_t value)) {
  const auto unit = *rc::gen::element(TimeUnit::kIteration, TimeUnit::kEpoch, TimeUnit::kBatch,
                                      TimeUnit::kSample, TimeUnit::kToken, TimeUnit::kSecond);
  const Time time(value, unit);
  RC_ASSERT(Time(time.to_string()) == time);
}

RC_GTEST_PROP(TimeTextTest, EveryDurationReadsItsOwnText, (double fraction)) {
  RC_ASSERT(Time(Time::of_duration(fraction).to_string()).fraction() == fraction);
}

TEST(TimeLiteralTest, EqualsTheParsedText) {
  EXPECT_EQ("10ep"_time, Time("10ep"));
  EXPECT_EQ("0iter"_time, Time("0iter"));
  EXPECT_EQ("500ba"_time, Time("500ba"));
  EXPECT_EQ("123456789012345tok"_time, Time("123456789012345tok"));
  EXPECT_EQ("0.1dur"_time, Time("0.1dur"));
  EXPECT_EQ("0.00000000000007dur"_time, Time("0.00000000000007dur"));
  EXPECT_EQ("1dur"_time, Time("1dur"));
}

TEST(TimeLiteralTest, HasTheUnitsThatTextsHave) {
  for (const Time& time :
       {"1iter"_time, "1ep"_time, "1ba"_time, "1sp"_time, "1tok"_time, "1dur"_time, "1sec"_time}) {
    EXPECT_EQ(time, Time("1" + std::string(name(time.unit()))));
  }
}

TEST(TimeTest, AddsSubtractsAndComparesInOneUnitOnly) {
  EXPECT_EQ("5ep"_time + "2ep", "7ep"_time);
  EXPECT_EQ("5ep"_time - 7, Time("-2ep"));
  EXPECT_EQ("0.5dur"_time + 0.25, "0.75dur"_time);
  EXPECT_TRUE("5ep"_time < "6ep");
  EXPECT_TRUE("5ep"_time <= 5);
  EXPECT_TRUE("5ep"_time > 0);
  EXPECT_TRUE("0ep"_time == 0);
  EXPECT_TRUE("0.5dur"_time != 0.25);
  EXPECT_THROW("5ep"_time + "5ba", UsageError);
  EXPECT_THROW(void("5ep"_time < "5ba"_time), UsageError);
  EXPECT_THROW(void("5ep"_time == "5ba"_time), UsageError);
  EXPECT_THROW(void("5ep"_time < 5.5), UsageError);
  EXPECT_THROW("5ep"_time + 0.5, UsageError);
}

TEST(TimeTest, RemainderHasTheSignOfTheDivisor) {
  EXPECT_EQ(Time("-7ba") % 3, "2ba"_time);
  EXPECT_EQ("7ba"_time % -3, Time("-2ba"));
  EXPECT_EQ(Time("-0.75dur") % 0.5, "0.25dur"_time);
  EXPECT_EQ(Time(std::numeric_limits<std::int64_t>::min(), TimeUnit::kBatch) % -1, 0);
}

TEST(TimeTest, ScalingTruncatesTowardZero) {
  EXPECT_EQ("5ep"_time / 2, "2ep"_time);
  EXPECT_EQ(Time("-5ep") / 2, Time("-2ep"));
  EXPECT_EQ("5ep"_time / 2.5, "2ep"_time);
  EXPECT_EQ("7ba"_time * 0.5, "3ba"_time);
  EXPECT_EQ("1dur"_time / 4, "0.25dur"_time);
  EXPECT_EQ(Time(9007199254740993, TimeUnit::kToken) * 3, Time("27021597764222979tok"));
}

TEST(TimeTest, ProductsNeedADurationAndQuotientsGiveOne) {
  EXPECT_EQ("7ba"_time * "0.5dur", "3ba"_time);
  EXPECT_EQ("0.5dur"_time * "7ba", "3ba"_time);
  EXPECT_EQ("0.5dur"_time * "0.5dur", "0.25dur"_time);
  EXPECT_EQ("1ep"_time / "4ep", "0.25dur"_time);
  EXPECT_THROW("7ba"_time * "2ba", UsageError);
  EXPECT_THROW("7ba"_time / "2ep", UsageError);
}

TEST(TimeTest, DividingByZeroAndLeaving64BitsAreErrors) {
  const Time most(std::numeric_limits<std::int64_t>::max(), TimeUnit::kSample);
  const Time least(std::numeric_limits<std::int64_t>::min(), TimeUnit::kSample);
  EXPECT_THROW("5ep"_time / 0, UsageError);
  EXPECT_THROW("5ep"_time / "0ep", UsageError);
  EXPECT_THROW("5ep"_time % 0, UsageError);
  EXPECT_THROW(most + 1, UsageError);
  EXPECT_THROW(least - 1, UsageError);
  EXPECT_THROW(most * 2, UsageError);
  EXPECT_THROW(most * 1.5, UsageError);
  EXPECT_THROW(least / -1, UsageError);
  EXPECT_THROW(Time::of_duration(std::numeric_limits<double>::infinity()), UsageError);
}

TEST(TimeTest, CountsAndFractionsAreAskedForByTheirOwnName) {
  EXPECT_EQ("3ba"_time.value(), 3);
  EXPECT_EQ("0.5dur"_time.fraction(), 0.5);
  EXPECT_EQ("3ba"_time.number(), 3.0);
  EXPECT_THROW(void("0.5dur"_time.value()), UsageError);
  EXPECT_THROW(void("3ba"_time.fraction()), UsageError);
}

TEST(TimeTest, TextIsValueAndUnit) {  // T102b: test_to_timestring
  EXPECT_EQ(Time(2, TimeUnit::kIteration).to_string(), "2iter");
  EXPECT_EQ(Time(6, TimeUnit::kSecond).to_string(), "6sec");
  EXPECT_EQ(Time(1, TimeUnit::kDuration).to_string(), "1.0dur");
  EXPECT_EQ(Time::epochs(1).to_string(), "1ep");
  EXPECT_EQ(Time::batches(1).to_string(), "1ba");
}

RC_GTEST_PROP(TimeTest, QuotientAndRemainderGiveTheDividend, (std::int32_t a, std::int32_t b)) {
  RC_PRE(b != 0);
  const Time time(a, TimeUnit::kSample);
  const std::int64_t rest = (time % b).value();
  RC_ASSERT(rest == 0 || (rest < 0) == (b < 0));
  RC_ASSERT((a - rest) % b == 0);
  RC_ASSERT(std::abs(rest) < std::abs(std::int64_t{b}));
}

RC_GTEST_PROP(TimeTest, AddingAndSubtractingUndoEachOther, (std::int32_t a, std::int32_t b)) {
  const Time time(a, TimeUnit::kToken);
  RC_ASSERT(time + b - b == time);
  RC_ASSERT((time + b == time) == (b == 0));
  RC_ASSERT((time + b > time) == (b > 0));
}

}  // namespace
}  // namespace cairn
