#include "cairn/checkpoint/ignore_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cairn/error.h"

#include "checkpoint/names/glob.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Dict layer() { return {{"weights", 6}, {"bias", 2}}; }
Dict model() { return {{"layer1", layer()}, {"layer2", layer()}, {"classifier", layer()}}; }
Dict state(Value list, Value net) {
  return {{"run_name", "my_first_run"}, {"timestep", 7}, {"list_element", list}, {"model", net}};
}
const Value kList = List{Dict{{"nested_list_element", "hello"}}, "world"};

Value base() { return Dict{{"state", state(kList, model())}, {"rng", 0}}; }

Value without(std::vector<std::string> patterns, Value root = base()) {
  EXPECT_THAT(IgnoreKeys(std::move(patterns)).apply(root), IsEmpty());
  return root;
}

TEST(IgnoreKeysTest, RemovesWhatComposerRemoves) {  // T34
  Dict net = model();
  net["classifier"] = Dict{};
  const Value no_classifier = Dict{{"state", state(kList, net)}, {"rng", 0}};
  EXPECT_EQ(without({"state/model/classifier/weights", "state/model/classifier/bias"}),
            no_classifier);
  EXPECT_EQ(without({"state/model/classifier/*"}), no_classifier);

  Value expected = base();
  expected.mutable_dict()["state"].mutable_dict().erase("timestep");
  EXPECT_EQ(without({"state/timestep"}), expected);

  EXPECT_EQ(without({"state/list_element/0"}),
            (Dict{{"state", state(List{"world"}, model())}, {"rng", 0}}));
  EXPECT_EQ(without({"state/list_element/0/nested_list_element"}),
            (Dict{{"state", state(List{Dict{}, "world"}, model())}, {"rng", 0}}));
  EXPECT_EQ(without({"state/list_element/0", "state/list_element/1"}),
            (Dict{{"state", state(List{}, model())}, {"rng", 0}}));

  net = model();
  for (const char* name : {"layer1", "layer2"}) {
    net[name].mutable_dict().erase("weights");
  }
  EXPECT_EQ(without({"state/model/layer*/weights"}),
            (Dict{{"state", state(kList, net)}, {"rng", 0}}));
  net["classifier"].mutable_dict().erase("weights");
  EXPECT_EQ(without({"state/model/*/weights"}), (Dict{{"state", state(kList, net)}, {"rng", 0}}));
}

TEST(IgnoreKeysTest, StateComesBackEmpty) {
  EXPECT_EQ(without({"*"}), (Dict{{"state", Dict{}}}));
  EXPECT_EQ(without({"state"}), (Dict{{"rng", 0}, {"state", Dict{}}}));
  EXPECT_EQ(without({"a"}, Dict{{"a", 1}}), Value(Dict{}));  // The dict had no key "state".
}

TEST(IgnoreKeysTest, APatternOfANodeAloneOrOfWhatIsBelowIt) {
  EXPECT_EQ(without({"state/model"}).at("state").find("model"), nullptr);
  EXPECT_EQ(without({"state/model/*"}).at("state").at("model"), Value(Dict{}));
}

TEST(IgnoreKeysTest, PatternsThatMatchNothingAreReported) {
  Value root = base();
  const IgnoreKeys keys = {"state/modle/*", "rng", "state/rng", "State/*"};
  EXPECT_THAT(keys.apply(root), ElementsAre("state/modle/*", "state/rng", "State/*"));
  EXPECT_EQ(root, Value(Dict{{"state", state(kList, model())}}));
}

TEST(IgnoreKeysTest, APatternBelowARemovedNodeStillMatches) {
  EXPECT_EQ(without({"state", "state/model/layer1"}).at("state"), Value(Dict{}));
}

TEST(IgnoreKeysTest, AFunctionMayDoAsItLikes) {
  Value root = base();
  const IgnoreKeys keys = [](Value& all) {
    all.mutable_dict().erase("state");
    all.mutable_dict().set("rng", 1);
  };
  EXPECT_FALSE(keys.empty());
  EXPECT_THAT(keys.apply(root), IsEmpty());
  EXPECT_EQ(root, (Dict{{"rng", 1}, {"state", Dict{}}}));
}

TEST(IgnoreKeysTest, NothingToIgnoreChangesNothing) {
  Value root = base();
  EXPECT_TRUE(IgnoreKeys().empty());
  EXPECT_TRUE(IgnoreKeys(std::vector<std::string>{}).empty());
  EXPECT_THAT(IgnoreKeys().apply(root), IsEmpty());
  EXPECT_EQ(root, base());
  Value list = List{1};
  EXPECT_THROW(IgnoreKeys({"a"}).apply(list), UsageError);
}

TEST(IgnoreKeysTest, KeysKeepTheirTypesAndOrderAndOtherCopiesAreUntouched) {
  const Value before = Dict{{"param_groups", List{}},
                            {"state", Dict::ordered({{0, Dict{{"step", 1}, {"exp_avg", 2}}},
                                                     {1, Dict{{"step", 1}}},
                                                     {"a/b", 3},
                                                     {0.5, 4}})}};
  const Value after = without({"state/0/step", "state/1", "state/a/b", "state/0.5"}, before);
  EXPECT_EQ(after, (Dict{{"param_groups", List{}}, {"state", Dict{{0, Dict{{"exp_avg", 2}}}}}}));
  EXPECT_TRUE(after.at("state").as_dict().is_ordered());
  EXPECT_EQ(before.at("state").as_dict().size(), 4U);
}

TEST(IgnoreKeysTest, TuplesAreNotEntered) {
  Value root = Dict{{"a", Tuple{{1, 2}}}};
  EXPECT_THAT(IgnoreKeys({"a/0"}).apply(root), ElementsAre("a/0"));
  EXPECT_EQ(root, Value(Dict{{"a", Tuple{{1, 2}}}}));
}

// Lists that each hold the next list twice. A pickle of a few hundred bytes can hold such lists.
TEST(IgnoreKeysTest, WhatIsOneContainerAtManyPlacesIsLookedThroughOnce) {
  Value doubled = List{1, 2};
  for (int i = 0; i < 200; ++i) {
    doubled = List{doubled, doubled};
  }
  Value root = Dict{{"a", doubled}, {"b", Dict{{"x", 1}}}};
  EXPECT_THAT(IgnoreKeys({"a/*/1/0/1", "b/x", "*/2"}).apply(root), ElementsAre("*/2"));
  EXPECT_EQ(root.at("b"), Value(Dict{}));
}

TEST(IgnoreKeysTest, WhatIsOneContainerStaysOneWhereItLosesTheSame) {
  const Value shared = List{1, 2, 3};
  Value root = Dict{{"a", shared}, {"b", shared}, {"c", shared}};
  EXPECT_THAT(IgnoreKeys({"[ab]/1", "c/0"}).apply(root), IsEmpty());
  EXPECT_EQ(root, Value(Dict{{"a", List{1, 3}}, {"b", List{1, 3}}, {"c", List{2, 3}}}));
  EXPECT_EQ(root.at("a").identity(), root.at("b").identity());
}

// --- glob_match ----------------------------------------------------------------------------------

TEST(GlobTest, MatchesAsFnmatchcase) {
  struct Row {
    const char* pattern;
    const char* text;
    bool matches;
  };
  const Row rows[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "a/b", true},
      {"a*c", "abbc", true},
      {"a*c", "abbcd", false},
      {"?", "a", true},
      {"?", "", false},
      {"?", "é", true},
      {"??", "é", false},
      {"[abc]", "b", true},
      {"[!abc]", "b", false},
      {"[!abc]", "d", true},
      {"[a-c]x", "bx", true},
      {"[a-c]", "d", false},
      {"[]]", "]", true},
      {"[]", "[]", true},
      {"[!]]", "]", false},
      {"[!]", "[!]", true},
      {"[a-]", "-", true},
      {"[-a]", "-", true},
      {"[--0]", "/", true},
      {"[z-a]", "b", false},
      {"[!z-a]", "b", true},
      {"[a-c-e]", "-", true},
      {"[a-c-e]", "d", false},
      {"[^a]", "^", true},
      {"[é-ü]", "ö", true},
      {"[", "[", true},
      {"a[", "a[", true},
      {"[a", "[a", true},
      {"A", "a", false},
      {"\\*", "\\x", true},
      {"a.b", "axb", false},
      {"*a*b*", "xxaxxbx", true},
      {"state/model/layer*.weight", "state/model/layer1/x.weight", true},
  };
  for (const auto& [pattern, text, matches] : rows) {
    EXPECT_EQ(glob_match(pattern, text), matches) << pattern << " against " << text;
  }
}

TEST(GlobTest, ManyStarsEndQuickly) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) {
    pattern += "a*";
  }
  EXPECT_FALSE(glob_match(pattern + "b", std::string(10'000, 'a')));
}

TEST(RenameWeightsTest, ReplacesThePrefixOnceWhereAPartOfTheNameBegins) {
  const auto names = [](const std::string& from, const std::string& to) {
    const Value model = Dict{{"module.a.module.w", 1}, {"xmodule.b", 2}, {"c.module.w", 3}, {7, 4}};
    std::string text;
    const Value renamed = rename_weights(model, from, to);
    for (const auto& [key, value] : renamed.as_dict()) {
      text += (key.is_str() ? key.as_str() : "7") + " ";
    }
    return text;
  };
  EXPECT_EQ(names("module.", ""), "a.module.w xmodule.b c.w 7 ");
  EXPECT_EQ(names("module.a.", "m."), "m.module.w xmodule.b c.module.w 7 ");
  EXPECT_EQ(names("", "net."), "net.module.a.module.w net.xmodule.b net.c.module.w 7 ");
  EXPECT_EQ(names("dule.", ""), "module.a.module.w xmodule.b c.module.w 7 ");
}

TEST(RenameWeightsTest, OfACheckpointChangesTheModelAlone) {
  Value root = Dict{{"state", Dict{{"model", Dict{{"m.w", 1}}}, {"m.w", 2}}}, {"m.w", 3}};
  EXPECT_THAT(rename_weights("m.", "").apply(root), IsEmpty());
  EXPECT_EQ(root, Value(Dict{{"state", Dict{{"model", Dict{{"w", 1}}}, {"m.w", 2}}}, {"m.w", 3}}));
  Value without_model = Dict{{"state", 5}};
  EXPECT_THAT(rename_weights("m.", "").apply(without_model), IsEmpty());
  EXPECT_EQ(without_model, Value(Dict{{"state", 5}}));
}

TEST(RenameWeightsTest, TwoThatBecomeOneAreRefused) {
  EXPECT_THROW(rename_weights(Dict{{"m.w", 1}, {"w", 2}}, "m.", ""), MismatchError);
  EXPECT_THROW(rename_weights(List{1}, "m.", ""), UsageError);
}

// The definition of the match, without optimization.
bool reference_match(const std::string& pattern, const std::string& text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return reference_match(pattern.substr(1), text) ||
           (!text.empty() && reference_match(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         reference_match(pattern.substr(1), text.substr(1));
}

RC_GTEST_PROP(GlobTest, AgreesWithTheDefinition, ()) {
  const auto text_of = [](const char* letters) {
    return rc::gen::resize(
        10, rc::gen::container<std::string>(rc::gen::elementOf(std::string(letters))));
  };
  const std::string pattern = *text_of("ab?*");
  const std::string text = *text_of("ab");
  RC_ASSERT(glob_match(pattern, text) == reference_match(pattern, text));
}

TEST(GlobTest, ATextInPiecesIsTheText) {
  const Glob glob("*a/[!x]?/**b");
  for (const std::string text : {"aa/yé/b", "a/zz/xb", "a/a/ab/b", "a/xx/b", "a/yé/bc"}) {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (text[i] == '\xA9') continue;  // In the middle of a character.
      const auto place = glob.after(glob.after(glob.begin(), text.substr(0, i)), text.substr(i));
      EXPECT_EQ(glob.matches(place), glob_match("*a/[!x]?/**b", text)) << text << " at " << i;
    }
  }
}

}  // namespace
}  // namespace cairn
