#include "checkpoint/names/shared_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

namespace cairn {
namespace {

std::string common(const NameFormat& a, const NameFormat& b) {
  const FormatVariables dist = dist_variables("lr0.1", [](const char*) { return nullptr; });
  const auto one = shared_name(a, b, dist);
  const auto other = shared_name(b, a, dist);
  EXPECT_EQ(one.has_value(), other.has_value()) << a.text() << " and " << b.text();
  if (one) {
    EXPECT_TRUE(parse_name(a, *one, dist)) << *one << " is none of " << a.text();
    EXPECT_TRUE(parse_name(b, *one, dist)) << *one << " is none of " << b.text();
  }
  return one.value_or("none");
}

TEST(SharedNameTest, EqualFormatsHaveEveryNameInCommon) {
  EXPECT_EQ(common("ep{epoch}-ba{batch}-rank{rank}.pt", "ep{epoch}-ba{batch}-rank{rank}.pt"),
            "ep1-ba1-rank0.pt");
  EXPECT_EQ(common("last.pt", "last.pt"), "last.pt");
}

TEST(SharedNameTest, ValuesOfTheRunCountAndNotHowTheyAreWritten) {
  EXPECT_EQ(common("{run_name}-ep{epoch}.pt", "lr0.1-ep{batch}.pt"), "lr0.1-ep1.pt");
  EXPECT_EQ(common("rank{rank}.pt", "rank{local_rank}.pt"), "rank0.pt");
  EXPECT_EQ(common("rank{rank}.pt", "rank{world_size}.pt"), "none");
  EXPECT_EQ(common("{{a}}.pt", "{{a}}.pt"), "{a}.pt");
}

TEST(SharedNameTest, DifferentCountersMeetAtDifferentMoments) {
  EXPECT_NE(common("{epoch}.pt", "{batch}.pt"), "none");
  EXPECT_NE(common("ep{epoch}-{batch}.pt", "ep{epoch}-{batch_in_epoch}.pt"), "none");
  EXPECT_NE(common("a{epoch}.pt", "a{epoch}0.pt"), "none");
  EXPECT_NE(common("ep{epoch}.pt", "ep7.pt"), "none");
  EXPECT_EQ(common("ep{epoch}.pt", "ep{epoch:03d}.pt"), "ep111.pt") << "from epoch 100 on";
  EXPECT_NE(common("{epoch}{batch}.pt", "{sample}.pt"), "none");
}

TEST(SharedNameTest, WhatDiffersInFixedTextNeverMeets) {
  EXPECT_EQ(common("ep{epoch}.pt", "ba{batch}.pt"), "none");
  EXPECT_EQ(common("ep{epoch}.pt", "ep{epoch}.pt.gz"), "none");
  EXPECT_EQ(common("ep{epoch}-ba{batch}.pt", "ep{epoch}-ba{batch}-weights.pt"), "none");
  EXPECT_EQ(common("ep{epoch}-ba{batch}.pt", "ep{epoch}.pt"), "none");
  EXPECT_EQ(common("full/ep{epoch}.pt", "weights/ep{epoch}.pt"), "none");
  EXPECT_EQ(common("ep{epoch:03d}-w.pt", "ep{epoch:03d}.pt"), "none");
  EXPECT_EQ(common("ep{epoch:03d}.pt", "ep7.pt"), "none");
  EXPECT_EQ(common("ep{epoch}", "ep"), "none") << "a counter has a digit";
}

TEST(SharedNameTest, LongFormatsEndQuickly) {
  std::string a;
  std::string b;
  for (int i = 0; i < 150; ++i) {
    a += "{epoch}{batch}";
    b += "{batch}";
  }
  EXPECT_EQ(shared_name(NameFormat(a + "a"), NameFormat(b + "b"), {}), std::nullopt);
  EXPECT_THROW(shared_name("{epoch", "x", {}), UsageError);
}

}  // namespace
}  // namespace cairn
