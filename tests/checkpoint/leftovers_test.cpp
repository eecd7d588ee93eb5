#include "checkpoint/folder/leftovers.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "cairn/checkpoint/checkpoint.h"

#include "io/durable/atomic_file.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/sim_file_system.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SimFileSystem;

constexpr const char* kDead = ".cairn-tmp-x-0123456789abcdef";

void touch(FileSystem& files, const std::string& path) {
  files.make_folders(parent_path(path));
  files.create(path, {})->close();
}

TEST(LeftoversTest, AreFoundInEveryFolderThatTheFormatMakesAndInNoOther) {
  SimFileSystem disk;
  for (const std::string folder : {"/ckpt", "/ckpt/ep0", "/ckpt/ep12", "/ckpt/ep12/deep",
                                   "/ckpt/epx", "/ckpt/latest", "/ckpt/data"}) {
    touch(disk, join_path(folder, kDead));
  }
  EXPECT_THAT(remove_leftovers_of_formats(*local_store(disk), "/ckpt",
                                          {"ep{epoch}/ba{batch}.pt", "latest/{rank}"},
                                          dist_variables("run")),
              ElementsAre(kDead, std::string("ep0/") + kDead, std::string("ep12/") + kDead,
                          std::string("latest/") + kDead));
  EXPECT_TRUE(disk.stat(join_path("/ckpt/data", kDead), true).has_value());
  EXPECT_TRUE(disk.stat(join_path("/ckpt/epx", kDead), true).has_value());
  EXPECT_TRUE(disk.stat(join_path("/ckpt/ep12/deep", kDead), true).has_value());
}

TEST(LeftoversTest, AFolderThatCannotBeLookedAtDecidesNothingAboutTheOthers) {
  SimFileSystem disk;
  touch(disk, join_path("/ckpt/ep0", kDead));
  touch(disk, join_path("/ckpt/ep1", kDead));
  testing::FaultyFileSystem files(disk);
  // The call for ep0, which comes after the call for /ckpt.
  files.fail(testing::FileCall::kStat, 2, EACCES);
  EXPECT_THAT(remove_leftovers_of_formats(*local_store(files), "/ckpt", {"ep{epoch}/ba{batch}.pt"},
                                          dist_variables("run")),
              ElementsAre(std::string("ep1/") + kDead));
}

TEST(LeftoversTest, AMissingFolderHasNone) {
  SimFileSystem disk;
  EXPECT_THAT(remove_leftovers_of_formats(*local_store(disk), "/none", {"a/{epoch}"},
                                          dist_variables("run")),
              IsEmpty());
}

TEST(LeftoversTest, ASaveRemovesThoseOfItsOwnName) {
  SimFileSystem disk;
  touch(disk, "/ckpt/.cairn-tmp-a.pt-0123456789abcdef");
  touch(disk, "/ckpt/.cairn-tmp-a.pt-more-0123456789abcdef");  // The temporary file of "a.pt-more".
  touch(disk, "/ckpt/.cairn-tmp-b.pt-0123456789abcdef");
  const auto living = disk.create("/ckpt/.cairn-tmp-a.pt-fedcba9876543210", {.lock = true});
  save(Value(1), "/ckpt/a.pt", {.store = local_store(disk)});
  EXPECT_THAT(disk.list("/ckpt"), ElementsAre(".cairn-tmp-a.pt-fedcba9876543210",
                                              ".cairn-tmp-a.pt-more-0123456789abcdef",
                                              ".cairn-tmp-b.pt-0123456789abcdef", "a.pt"));
}

TEST(LeftoversTest, ASaveThatIsKilledAnywhereLeavesNothingAfterTheNextOne) {
  bool done = false;
  for (std::uint64_t n = 1; !done; ++n) {
    SimFileSystem disk;
    disk.make_folders("/ckpt");
    disk.crash_at(disk.operations() + n);
    try {
      save(Value(1), "/ckpt/a.pt", {.store = local_store(disk)});
      done = true;
    } catch (const testing::SimulatedCrash&) {
      EXPECT_TRUE(disk.crashed());
    }
    const auto left = disk.after_kill();
    save(Value(2), "/ckpt/a.pt", {.store = local_store(*left)});
    EXPECT_THAT(left->list("/ckpt"), ElementsAre("a.pt")) << "killed at " << n;
  }
}

}  // namespace
}  // namespace cairn
