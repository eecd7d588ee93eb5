#include "checkpoint/folder/conflict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

namespace cairn {
namespace {

const Timestamp kPosition = {.epoch = 2,
                             .batch = 7,
                             .sample = 15,
                             .token = 31,
                             .batch_in_epoch = 1,
                             .sample_in_epoch = 3,
                             .token_in_epoch = 7};

FormatVariables dist() {
  return dist_variables("unicorn", [](const char*) { return nullptr; });
}

std::optional<Conflict> conflict(const NameFormat& format, const std::string& name) {
  return find_conflict(format, {name}, dist(), kPosition);
}

TEST(ConflictTest, FilesThatTrainingCouldWriteAgainAreFound) {  // T99
  const NameFormat a = "blazing-unicorn-ep{epoch}-batch{batch}-tie{token_in_epoch}-rank{rank}.pt";
  const NameFormat b =
      "charging-chungus-ep{epoch}-b{batch}-s{sample}-t{token}-bie{batch_in_epoch}-sie{sample_in_"
      "epoch}-tie{token_in_epoch}.pt";
  struct Row {
    NameFormat format;
    const char* name;
    bool is_conflict;
  };
  const Row rows[] = {
      {a, "blazing-unicorn-ep1-batch3-tie6-rank0.pt", false},     // Past.
      {a, "blazing-unicorn-ep2-batch6-tie7-rank0.pt", false},     // Not later.
      {a, "blazing-unicorn-ep1-batch6-tie9-rank0.pt", false},     // Other epoch.
      {a, "inglorious-monkeys-ep1-batch3-tie6-rank0.pt", false},  // Other prefix.
      {a, "blazing-unicorn-ep3-rank0.pt", false},                 // Other shape.
      {a, "blazing-unicorn-ep3-batch9-tie6-rank0.pt", true},      // Future.
      {a, "blazing-unicorn-ep1-batch9-tie6-rank0.pt", true},      // Future batch.
      {a, "blazing-unicorn-ep2-batch7-tie9-rank0.pt", true},      // Later in the same epoch.
      {b, "charging-chungus-ep1-b3-s6-t12-bie0-sie0-tie0.pt", false},
      {b, "charging-chungus-ep2-b7-s15-t31-bie1-sie3-tie8.pt", true},
  };
  for (const auto& [format, name, is_conflict] : rows) {
    EXPECT_EQ(conflict(format, name).has_value(), is_conflict) << name;
  }
}

TEST(ConflictTest, SaysWhichFileAndWhy) {
  const auto found =
      find_conflict("ep{epoch}-ba{batch}.pt",
                    {"ep1-ba3.pt", "notes.txt", "ep2-ba9.pt", "ep3-ba12.pt"}, dist(), kPosition);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->name, "ep2-ba9.pt");
  EXPECT_EQ(found->why, "its batch is 9, and training is at 7");
}

TEST(ConflictTest, UnderstandsWhatComposerDoesNot) {  // W41
  EXPECT_TRUE(conflict("{run_name}/ep{epoch:05d}.pt", "unicorn/ep00003.pt"));
  EXPECT_FALSE(conflict("{run_name}/ep{epoch:05d}.pt", "monkeys/ep00003.pt"));
  EXPECT_TRUE(conflict("ep{epoch}-{total_wct:.0f}s.pt", "ep3-120s.pt"));
  EXPECT_TRUE(conflict("a+b(ep{epoch})", "a+b(ep3)"));
  EXPECT_FALSE(conflict("ep{epoch}.pt", "ep3xpt"));
}

TEST(ConflictTest, NamesThatDoNotChangeWithTheBatchAreWrittenAgain) {
  for (const auto& [format, name] :
       {std::pair("last.pt", "last.pt"), std::pair("{run_name}.pt", "unicorn.pt"),
        std::pair("ep{epoch}.pt", "ep2.pt"), std::pair("t{token}.pt", "t31.pt")}) {
    const auto found = find_conflict(format, {"other.pt", name}, dist(), kPosition);
    ASSERT_TRUE(found.has_value()) << format;
    EXPECT_EQ(found->name, name);
    EXPECT_TRUE(found->is_present);
  }
  EXPECT_FALSE(conflict("last.pt", "first.pt"));
  EXPECT_FALSE(conflict("ep{epoch}.pt", "ep1.pt"));
  EXPECT_FALSE(conflict("ba{batch}.pt", "ba7.pt")) << "the next one is another";
  EXPECT_FALSE(conflict("ep{epoch}-ba{batch_in_epoch}.pt", "ep2-ba1.pt"));
  EXPECT_FALSE(find_conflict("ba{batch}.pt", {"ba8.pt"}, dist(), kPosition)->is_present);
}

TEST(ConflictTest, CountersWithinAnEpochNeedTheEpochInTheName) {
  EXPECT_THROW(conflict("ba{batch_in_epoch}.pt", "x"), UsageError);
  EXPECT_NO_THROW(conflict("ep{epoch:03d}-ba{batch_in_epoch}.pt", "x"));
}

// A long run may forget the names that no later save can have.
TEST(HasPassedTest, WhatNoSaveOfNowOrLaterIsCalled) {
  const auto is_retired = [](const NameFormat& format, const std::string& name) {
    return cairn::is_retired(format, name, dist(), kPosition);
  };
  const auto at = [](const NameFormat& format, Timestamp then) {
    return strict_format(format, dist() + time_variables(then));
  };
  Timestamp before = kPosition;
  before.batch -= 1;
  before.epoch -= 1;
  before.batch_in_epoch += 1;
  Timestamp later = kPosition;
  later.batch += 1;
  later.epoch += 1;
  for (const char* format : {"ep{epoch}-ba{batch}.pt", "ba{batch:08d}.pt", "ep{epoch}.pt",
                             "e{epoch}/b{batch_in_epoch}"}) {
    EXPECT_FALSE(is_retired(format, at(format, kPosition))) << format;
    EXPECT_FALSE(is_retired(format, at(format, later))) << format;
    EXPECT_TRUE(is_retired(format, at(format, before))) << format;
  }
  EXPECT_FALSE(is_retired("ckpt.pt", "ckpt.pt"));
  EXPECT_FALSE(is_retired("ep{epoch}.pt", "ep1-another.pt"));   // Another format.
  EXPECT_FALSE(is_retired("ba{batch_in_epoch}.pt", "ba0.pt"));  // The name returns in each epoch.
}

}  // namespace
}  // namespace cairn
