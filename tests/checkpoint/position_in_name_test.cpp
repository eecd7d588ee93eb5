#include "checkpoint/names/position_in_name.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(PositionInNameTest, DefaultNamesTellEpochAndBatch) {
  const auto found = position_in_name("ep22-ba1035-rank0.pt");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->epoch, 22);
  EXPECT_EQ(found->batch, 1035);
  EXPECT_EQ(found->form, "ep#-ba#-rank#.pt");
  EXPECT_EQ(position_in_name("lr0.1-ep3-ba45.pt.zstd")->form, "lr0.1-ep#-ba#.pt.zstd");
  EXPECT_EQ(position_in_name("ep1-ba5")->batch, 5);
  EXPECT_EQ(position_in_name("ep1_ep2-ba5-rank12.tar")->form, "ep1_ep#-ba#-rank#.tar");
}

TEST(PositionInNameTest, OtherNamesTellNothing) {
  for (const char* name :
       {"", "best.pt", "ep3.pt", "ba5.pt", "step2-ba5.pt", "ep-ba5.pt", "ep2-ba.pt", "ep2-ba5x.pt",
        "ep2ba5.pt", "ep99999999999999999999-ba1.pt", "ep1-ba99999999999999999999.pt"}) {
    EXPECT_FALSE(position_in_name(name)) << name;
  }
}

}  // namespace
}  // namespace cairn
