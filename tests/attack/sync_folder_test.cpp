// fsync() of a folder, on file systems for which a folder has nothing to sync.
#include <gtest/gtest.h>

#include <cerrno>

#include "child.h"
#include "io/file.h"
#include "testing/temp_folder.h"

namespace cairn::attack {
namespace {

TEST(SyncFolder, HavingNothingToSyncIsNoErrorAndOthersAre) {
  const cairn::testing::TempFolder folder;
  const auto sync = [&](const Report&) {
    posix_file_system().sync_folder(folder.path());
    return 0;
  };
  constexpr std::uint64_t kFsync = 2;  // open, fsync, close
  ASSERT_EQ(run_child({.folder = folder.path()}, sync).calls, 3U);
  for (const int error : {EINVAL, EOPNOTSUPP, EIO, ENOSPC}) {
    const ChildResult ended = run_child(
        {.folder = folder.path(), .at = kFsync, .deed = AttackKind::kFail, .error = error}, sync);
    const bool has_none = error == EINVAL || error == EOPNOTSUPP;
    EXPECT_EQ(ended.exit_code, has_none ? 0 : 2) << error << "\n" << ended.text();
  }
}

}  // namespace
}  // namespace cairn::attack
