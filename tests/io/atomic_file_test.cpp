#include "io/durable/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::IsEmpty;
using testing::SimFileSystem;

std::string read(FileSystem& files, const std::string& path) {
  return std::string(as_text(testing::file_bytes(files, path).view));
}

void replace(FileSystem& files, const std::string& path, const std::string& text,
             bool overwrite = true) {
  AtomicFile file(files, path, {.overwrite = overwrite});
  file.write(as_bytes(text));
  file.commit();
}

TEST(AtomicFileTest, AFaultAtAnyCallLeavesTheOldOrTheNewFileAndNothingElse) {
  for (const int error : {ENOSPC, EDQUOT, EIO}) {
    for (std::uint64_t n = 1;; ++n) {
      SimFileSystem disk;
      replace(disk, "/f", "old");
      FaultyFileSystem faulty(disk);
      faulty.fail(n, error);
      try {
        replace(faulty, "/f", "newer");
        ASSERT_GT(n, 5U);  // at least create, write, sync, rename, sync the folder
        break;
      } catch (const StorageError& e) {
        EXPECT_EQ(e.status(), error);
      }
      // After the rename (a failing close or folder sync) the new file exists, but is not yet
      // certain.
      const bool published = faulty.calls(FileCall::kRename) == 1 && read(disk, "/f") == "newer";
      EXPECT_TRUE(published || read(disk, "/f") == "old") << "call " << n;
      EXPECT_THAT(disk.list("/"), ElementsAre("f")) << "call " << n;
      replace(disk, "/f", "next");
      EXPECT_EQ(read(disk, "/f"), "next");
    }
  }
}

TEST(AtomicFileTest, AFailedSyncIsNotRetried) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  faulty.fail(FileCall::kSync, 1, EIO);
  {
    AtomicFile file(faulty, "/f", {});
    file.write(as_bytes("bytes"));
    EXPECT_THROW(file.commit(), StorageError);
  }
  EXPECT_EQ(faulty.calls(FileCall::kSync), 1U);
  EXPECT_EQ(faulty.calls(FileCall::kRename), 0U);
  EXPECT_THAT(disk.list("/"), IsEmpty());
}

TEST(AtomicFileTest, WithoutOverwriteAFileThatAppearsBeforeCommitWins) {
  SimFileSystem disk;
  replace(disk, "/f", "first", false);
  EXPECT_THROW(AtomicFile(disk, "/f", {.overwrite = false}), AlreadyExistsError);
  {
    AtomicFile late(disk, "/g", {.overwrite = false});
    late.write(as_bytes("late"));
    replace(disk, "/g", "sooner");
    EXPECT_THROW(late.commit(), AlreadyExistsError);
  }
  EXPECT_EQ(read(disk, "/g"), "sooner");
  EXPECT_THAT(disk.list("/"), ElementsAre("f", "g"));
}

TEST(AtomicFileTest, AFolderInTheWayIsFoundBeforeTheWork) {
  const testing::TempFolder folder;
  EXPECT_THROW(AtomicFile(posix_file_system(), folder.path(), {}), UsageError);
}

TEST(AtomicFileTest, NamesAsLongAsTheFileSystemAllowsWork) {
  const testing::TempFolder folder;
  const std::string name(255, 'n');
  replace(posix_file_system(), folder / name, "bytes");
  EXPECT_THAT(posix_file_system().list(folder.path()), ElementsAre(name));
}

TEST(LeftoversTest, OnlyTemporaryFilesOfDeadWritersAreRemoved) {
  const testing::TempFolder folder;
  FileSystem& files = posix_file_system();
  replace(files, folder / "kept.pt", "kept");
  testing::write_file(folder / ".cairn-tmp-mine", "a user's own file");
  testing::write_file(folder / ".cairn-tmp-ep1.pt-0123456789abcdef", "half a checkpoint");
  files.make_link("ep1.pt", folder / ".cairn-tmp-latest-00000000000000ff");
  AtomicFile living(files, folder / "living.pt", {});
  living.write(as_bytes("living"));

  EXPECT_THAT(
      remove_leftovers(files, folder.path()),
      ElementsAre(".cairn-tmp-ep1.pt-0123456789abcdef", ".cairn-tmp-latest-00000000000000ff"));
  living.commit();
  EXPECT_THAT(files.list(folder.path()), ElementsAre(".cairn-tmp-mine", "kept.pt", "living.pt"));
  EXPECT_THAT(remove_leftovers(files, folder / "missing"), IsEmpty());
}

TEST(ReplaceLinkTest, AFaultAtAnyCallKeepsALink) {
  for (std::uint64_t n = 1;; ++n) {
    SimFileSystem disk;
    replace_link(disk, "old", "/latest");
    FaultyFileSystem faulty(disk);
    faulty.fail(n, EIO);
    try {
      replace_link(faulty, "new", "/latest");
      ASSERT_GT(n, 3U);
      break;
    } catch (const StorageError&) {
      const auto target = disk.read_link("/latest");
      ASSERT_TRUE(target.has_value());
      EXPECT_THAT(*target, ::testing::AnyOf("old", "new"));
      EXPECT_THAT(disk.list("/"), ElementsAre("latest"));
    }
  }
}

TEST(ReplaceLinkTest, ALinkTakenByACleanerIsMadeAgain) {
  SimFileSystem disk;
  FaultyFileSystem faulty(disk);
  bool cleaned = false;
  faulty.before_each([&](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kRename && !cleaned) cleaned = !remove_leftovers(disk, "/").empty();
  });
  replace_link(faulty, "target", "/latest");
  EXPECT_TRUE(cleaned);
  EXPECT_EQ(disk.read_link("/latest"), "target");
}

}  // namespace
}  // namespace cairn
