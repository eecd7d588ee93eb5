#include "cairn/checkpoint/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "cairn/error.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

using Counters = std::vector<std::pair<std::string, std::int64_t>>;

ReadEnvironment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

const ReadEnvironment kNoLauncher = environment({});

template <class Call>
std::string usage_error(Call call) {
  try {
    return "no error: " + call();
  } catch (const UsageError& e) {
    return e.what();
  }
}

constexpr char kAllDist[] =
    "run_name={run_name},rank={rank},node_rank={node_rank},world_size={world_size},"
    "local_world_size={local_world_size},local_rank={local_rank}";

TEST(NamesTest, DistVariablesOfASingleProcess) {  // T92
  const FormatVariables dist = dist_variables("awesome_run", kNoLauncher);
  EXPECT_EQ(strict_format(NameFormat(kAllDist + std::string(",extra={extra}")),
                          dist + FormatVariables{{"extra", "42"}}),
            "run_name=awesome_run,rank=0,node_rank=0,world_size=1,local_world_size=1,local_rank=0,"
            "extra=42");
}

TEST(NamesTest, DistVariablesComeFromTheLauncher) {
  const FormatVariables dist = dist_variables("run", environment({{"RANK", "5"},
                                                                  {"LOCAL_RANK", "1"},
                                                                  {"WORLD_SIZE", "8"},
                                                                  {"LOCAL_WORLD_SIZE", "4"},
                                                                  {"NODE_RANK", "1"}}));
  EXPECT_EQ(strict_format(kAllDist, dist),
            "run_name=run,rank=5,node_rank=1,world_size=8,local_world_size=4,local_rank=1");
}

TEST(NamesTest, AMissingVariableOfALauncherIsHarmlessWhenUnused) {  // T93
  const FormatVariables dist =
      dist_variables("run", environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  EXPECT_EQ(strict_format("{run_name}-{rank}", dist), "run-1");
  EXPECT_EQ(partial_format("{node_rank}-{rank}", dist), "{node_rank}-1");
}

TEST(NamesTest, ARankThatIsNoNumberIsNamed) {
  EXPECT_THAT(usage_error([] {
                dist_variables("run", environment({{"RANK", "one"}}));
                return std::string();
              }),
              HasSubstr("environment variable RANK: expected a whole number, found \"one\""));
}

TEST(NamesTest, TimeVariablesAreIntsAndFloatSeconds) {  // T94
  const Timestamp now = {.epoch = 0,
                         .batch = 1,
                         .sample = 20,
                         .token = 10,
                         .batch_in_epoch = 1,
                         .sample_in_epoch = 20,
                         .token_in_epoch = 10,
                         .total_wct = TimeDelta::of(std::chrono::hours(10)),
                         .epoch_wct = TimeDelta::of(std::chrono::minutes(50)),
                         .batch_wct = TimeDelta::of(std::chrono::seconds(5))};
  const FormatVariables variables =
      dist_variables("awesome_run", kNoLauncher) + time_variables(now);
  EXPECT_EQ(strict_format("run_name={run_name},epoch={epoch},batch={batch},batch_in_epoch="
                          "{batch_in_epoch},sample={sample},sample_in_epoch={sample_in_epoch},"
                          "token={token},token_in_epoch={token_in_epoch},total_wct={total_wct},"
                          "epoch_wct={epoch_wct},batch_wct={batch_wct}",
                          variables),
            "run_name=awesome_run,epoch=0,batch=1,batch_in_epoch=1,sample=20,sample_in_epoch=20,"
            "token=10,token_in_epoch=10,total_wct=36000.0,epoch_wct=3000.0,batch_wct=5.0");
  EXPECT_EQ(strict_format("ep{epoch:05d}-ba{batch:>4}-{total_wct:.0f}s", variables),
            "ep00000-ba   1-36000s");
}

TEST(NamesTest, PartialFormatLeavesWhatHasNoValue) {  // T100
  EXPECT_EQ(partial_format("{foo} {bar} {}", {}), "{foo} {bar} {}");
  EXPECT_EQ(partial_format("{foo} {bar}", {{"foo", "Hello"}}), "Hello {bar}");
  EXPECT_EQ(partial_format("{foo} {bar}", {{"foo", "Hello"}, {"bar", "World"}}), "Hello World");
  EXPECT_EQ(partial_format("{foo} {}", {{"foo", "Hello"}}), "Hello {}");
  // Composer raises ValueError here, because it formats a placeholder text.
  EXPECT_EQ(partial_format("{foo:03d} {bar:d}", {{"bar", std::int64_t{7}}}), "{foo:03d} 7");
}

TEST(NamesTest, DoubledBracesLoseOneLevelInANameAndStayInAFormat) {
  EXPECT_EQ(strict_format("{{x}}", {{"x", "no"}}), "{x}");
  EXPECT_EQ(strict_format("{{{x}}}", {{"x", "yes"}}), "{yes}");
  EXPECT_EQ(partial_format("{{x}}", {{"x", "no"}}), "{{x}}");
  EXPECT_EQ(partial_format("{{{x}}}-{y}", {{"x", "yes"}}), "{{yes}}-{y}");
}

// tests/compile_fail/format_twice.cpp shows that formatting a name twice does not compile.
TEST(NamesTest, BracesOfAValueAreNoVariable) {
  for (const std::string run : {"{rank}", "lr{0.1}", "lr{{0.1}}", "a}b{", "{run_name}"}) {
    const FormatVariables dist = dist_variables(run, kNoLauncher);
    EXPECT_EQ(strict_format("ck/{run_name}", dist), "ck/" + run);
    const NameFormat some = partial_format("{run_name}-ep{epoch}", dist);
    EXPECT_EQ(strict_format(some, {{"epoch", std::int64_t{3}}}), run + "-ep3");
    EXPECT_EQ(parse_name(some, run + "-ep3", dist), (Counters{{"epoch", 3}}));
    EXPECT_EQ(strict_format(NameFormat::of_name(run), dist), run);
  }
}

TEST(NamesTest, WhatIsNoFormatStringIsRefused) {
  for (const char* format :
       {"{", "}", "a{b", "a}b", "{a}}", "{{a}", "{a.b}", "{a[0]}", "{a!r}", "{a:{b}}", "{a{b}}"}) {
    EXPECT_THAT(usage_error([&] { return partial_format(format, {}).text(); }),
                HasSubstr("format \""))
        << format;
  }
  EXPECT_THAT(
      usage_error([] { return partial_format(NameFormat(std::string(5000, 'x')), {}).text(); }),
      HasSubstr("longer than any path"));
  EXPECT_EQ(usage_error([] {
              return partial_format("{run_name:d}", {{"run_name", "a"}}).text();
            }),
            "{run_name:d}: type \"d\" is for numbers, and this is a text");
}

// Formatting keeps these placeholders, because the store fills them in. They also stay if there is
// no MLflow logger.
TEST(NamesTest, PlaceholdersOfMlflowStay) {
  const std::string folder =
      "dbfs:/databricks/mlflow-tracking/{mlflow_experiment_id}/{mlflow_run_id}";
  EXPECT_EQ(strict_format(NameFormat(folder + "/artifacts/{run_name}"), {{"run_name", "a"}}),
            folder + "/artifacts/a");
}

TEST(NamesTest, StrictFormatNamesTheUnknownVariableAndThoseThatExist) {
  EXPECT_EQ(usage_error([] {
              return strict_format("ep{epoch}-{foo:3}", {{"epoch", "1"}});
            }),
            "format \"ep{epoch}-{foo:3}\": unknown variable {foo:3}; there are: {epoch}");
}

RC_GTEST_PROP(NamesTest, FormattingInTwoStepsEqualsOne, (std::int64_t a, bool a_first)) {
  const FormatVariables x = {{"a", a}};
  const FormatVariables y = {{"b", 0.5}};
  const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "{a}", "{b}", "{a:+d}", "{b:.3f}", "{other}", "{other:05d}", "-", "é"));
  std::string text;
  for (const std::string& piece : pieces) {
    text += piece;
  }
  const NameFormat format(text);
  const NameFormat once = partial_format(format, x + y);
  RC_ASSERT(partial_format(partial_format(format, a_first ? x : y), a_first ? y : x) == once);
  RC_ASSERT(partial_format(once, x + y) == once);
}

// --- parse_name ----------------------------------------------------------------------------------

const FormatVariables kDist = dist_variables("run+1", kNoLauncher);

TEST(ParseNameTest, ReadsTheCounters) {
  EXPECT_EQ(parse_name("ep{epoch}-ba{batch}-rank{rank}.pt", "ep3-ba120-rank0.pt", kDist),
            (Counters{{"epoch", 3}, {"batch", 120}}));
  EXPECT_EQ(parse_name("fixed.pt", "fixed.pt", kDist), Counters{});
}

TEST(ParseNameTest, NamesOfAnotherFormAreNone) {
  for (const char* name : {"ep3-ba120-rank1.pt", "ep3-ba120-rank0xpt", "ep3-ba120-rank0.pt.tmp",
                           "xep3-ba120-rank0.pt", "ep-ba120-rank0.pt", "ep03-ba120-rank0.pt", "",
                           "ep3-ba99999999999999999999-rank0.pt", "ep3-ba1 2-rank0.pt"}) {
    EXPECT_EQ(parse_name("ep{epoch}-ba{batch}-rank{rank}.pt", name, kDist), std::nullopt) << name;
  }
}

TEST(ParseNameTest, NothingInTheFormatIsAPattern) {
  EXPECT_EQ(parse_name("{run_name}(.*)[a]{epoch}.pt", "run+1(.*)[a]7.pt", kDist),
            (Counters{{"epoch", 7}}));
  EXPECT_EQ(parse_name("{run_name}.pt", "runn1.pt", kDist), std::nullopt);
  EXPECT_EQ(parse_name("{other}-{epoch}", "{other}-7", kDist), (Counters{{"epoch", 7}}));
}

TEST(ParseNameTest, UnderstandsFormatSpecs) {
  EXPECT_EQ(parse_name("{epoch:05d}/{batch:,}-{sample:x}", "00003/1,234-ff", kDist),
            (Counters{{"epoch", 3}, {"batch", 1234}, {"sample", 255}}));
  EXPECT_EQ(parse_name("{epoch:05d}", "3", kDist), std::nullopt);
  EXPECT_EQ(parse_name("{epoch:05d}", "123456", kDist), (Counters{{"epoch", 123456}}));
  EXPECT_EQ(parse_name("{epoch:*>5}|{epoch:#010b}", "****5|0b00000101", kDist),
            (Counters{{"epoch", 5}}));
  EXPECT_EQ(parse_name("{epoch:.2f}", "12.00", kDist), (Counters{{"epoch", 12}}));
  EXPECT_THROW(parse_name("{epoch:s}", "3", kDist), UsageError);
}

TEST(ParseNameTest, SkipsWallClocks) {
  EXPECT_EQ(parse_name("{total_wct}-{epoch}", "36000.0-3", kDist), (Counters{{"epoch", 3}}));
  EXPECT_EQ(parse_name("{total_wct}-{epoch}", "1e-05-3", kDist), (Counters{{"epoch", 3}}));
  EXPECT_EQ(parse_name("{total_wct:.0f}s-{epoch}", "36000s-3", kDist), (Counters{{"epoch", 3}}));
  EXPECT_EQ(parse_name("{total_wct}-{epoch}", "36000-3", kDist), std::nullopt);
}

TEST(ParseNameTest, AVariableHasOneValue) {
  EXPECT_EQ(parse_name("ep{epoch}/ep{epoch}-ba{batch}", "ep3/ep3-ba7", kDist),
            (Counters{{"epoch", 3}, {"batch", 7}}));
  EXPECT_EQ(parse_name("ep{epoch}/ep{epoch}-ba{batch}", "ep3/ep4-ba7", kDist), std::nullopt);
  EXPECT_EQ(parse_name("{epoch}{batch}-{epoch}", "123-1", kDist),
            (Counters{{"epoch", 1}, {"batch", 23}}));
}

TEST(ParseNameTest, HostileNamesEndQuickly) {
  const NameFormat format =
      "{epoch}{batch}{sample}{token}{batch_in_epoch}{sample_in_epoch}{token_in_epoch}!";
  EXPECT_EQ(parse_name(format, std::string(4000, '1'), kDist), std::nullopt);
}

RC_GTEST_PROP(ParseNameTest, IsTheInverseOfFormatting, ()) {
  const auto count = rc::gen::inRange<std::int64_t>(0, 1'000'000'000);
  const Timestamp now = {.epoch = *count, .batch = *count, .token = *count};
  const auto spec = rc::gen::element<std::string>("", ":d", ":05d", ":_", ":012,", ":x", ":#o",
                                                  ":>12", ":<12d", ":^+20", ":.0f", ":b", ":é>8");
  const NameFormat format("a{epoch" + *spec + "}-/b{batch" + *spec + "}|{run_name}|{token" + *spec +
                          "}.pt");
  const std::string name = strict_format(format, kDist + time_variables(now));
  RC_ASSERT(parse_name(format, name, kDist) ==
            (Counters{{"epoch", now.epoch}, {"batch", now.batch}, {"token", now.token}}));
}

}  // namespace
}  // namespace cairn
