// What a saver knows about its saves if some saves fail.
#include "saving/places/saved_checkpoints.h"

#include <gmock/gmock.h>

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Timestamp at(std::int64_t batch) {
  Timestamp timestamp;
  timestamp.batch = batch;
  return timestamp;
}

SavedCheckpoints saved(const std::vector<std::pair<std::string, std::int64_t>>& saves) {
  SavedCheckpoints made;
  for (const auto& [path, batch] : saves) {
    made.begin(path, at(batch));
    made.finish(path);
  }
  return made;
}

TEST(SavedCheckpointsTest, AFailedSaveIsForgotten) {
  SavedCheckpoints some = saved({{"a", 1}});
  some.begin("b", at(2));
  some.drop_unfinished();
  EXPECT_THAT(some.paths(), ElementsAre("a"));
}

TEST(SavedCheckpointsTest, WhatAFailedSaveWasToReplaceIsStillThere) {
  SavedCheckpoints some = saved({{"a", 1}, {"b", 2}, {"c", 3}});
  some.begin("b", at(4));
  EXPECT_THAT(some.paths(), ElementsAre("a", "c"));
  some.drop_unfinished();
  EXPECT_THAT(some.paths(), ElementsAre("a", "b", "c")) << "as old as it is";
  EXPECT_TRUE(some.is_saved_here("b", at(2)));
  EXPECT_THAT(some.superfluous(1), ElementsAre("a", "b"));
}

TEST(SavedCheckpointsTest, WhatWasReplacedOrRemovedDoesNotComeBack) {
  SavedCheckpoints some = saved({{"a", 1}, {"b", 2}});
  some.begin("a", at(3));
  some.finish("a");
  some.drop_unfinished();
  EXPECT_THAT(some.paths(), ElementsAre("b", "a"));
  EXPECT_FALSE(some.is_saved_here("a", at(1)));
  some.begin("b", at(4));
  some.remove("b");
  some.drop_unfinished();
  EXPECT_THAT(some.paths(), ElementsAre("a"));
  some.begin("a", at(5));
  some.begin("a", at(6));  // Both saves are under way.
  some.drop_unfinished();
  EXPECT_THAT(some.paths(), ElementsAre("a"));
  EXPECT_TRUE(some.is_saved_here("a", at(3)));
  some.remove("a");
  EXPECT_THAT(some.paths(), IsEmpty());
}

}  // namespace
}  // namespace cairn
