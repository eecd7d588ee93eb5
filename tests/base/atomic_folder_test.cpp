#include "base/atomic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cairn/error.h"

#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SimFileSystem;
using testing::SimulatedCrash;

void write(FileSystem& files, const std::string& path, const std::string& text,
           bool overwrite = true) {
  AtomicFolder folder(files, path, overwrite);
  for (const char* name : {"a", "b"}) {
    folder.add(name, text.size(), [&](ByteSink& sink) { sink.write(as_bytes(text)); });
  }
  folder.commit();
}

std::string text_of(FileSystem& files, const std::string& path) {
  std::string text;
  for (const std::string& name : files.list(path)) {
    text += name + "=" + std::string(as_text(files.map(join_path(path, name)).view)) + " ";
  }
  return text;
}

TEST(AtomicFolderTest, IsThereWholeAfterCommitAndNotBefore) {
  const testing::TempFolder temp;
  FileSystem& files = posix_file_system();
  {
    AtomicFolder folder(files, temp / "out/", false);
    folder.add("a", 1, [](ByteSink& sink) { sink.write(as_bytes("x")); });
    EXPECT_FALSE(files.stat(temp / "out").has_value());
    folder.commit();
  }
  EXPECT_EQ(text_of(files, temp / "out"), "a=x ");
  EXPECT_THAT(files.list(temp.path()), ElementsAre("out"));
}

TEST(AtomicFolderTest, LeavesNothingWhenItIsNotCommitted) {
  const testing::TempFolder temp;
  FileSystem& files = posix_file_system();
  {
    AtomicFolder folder(files, temp / "out", false);
    folder.add("a", 1, [](ByteSink& sink) { sink.write(as_bytes("x")); });
  }
  EXPECT_THAT(files.list(temp.path()), IsEmpty());
}

TEST(AtomicFolderTest, ReplacesOnlyWhenAllowedAndOnlyFlatFolders) {
  const testing::TempFolder temp;
  FileSystem& files = posix_file_system();
  write(files, temp / "out", "old");
  EXPECT_THROW(write(files, temp / "out", "new", false), AlreadyExistsError);
  EXPECT_EQ(text_of(files, temp / "out"), "a=old b=old ");
  write(files, temp / "out", "new");
  EXPECT_EQ(text_of(files, temp / "out"), "a=new b=new ");
  files.make_folders(temp / "out/inside");
  EXPECT_THROW(write(files, temp / "out", "newer"), UsageError);
  testing::write_file(temp / "file", "x");
  EXPECT_THROW(write(files, temp / "file", "newer"), UsageError);
  EXPECT_THAT(files.list(temp.path()), ElementsAre("file", "out"));
}

// Power is lost at every operation: a folder of that name is the old or the new one, whole; and the
// new one once commit() has returned.
TEST(AtomicFolderTest, IsOldOrNewOrAbsentAfterAnyPowerLoss) {
  const std::string old_text = "a=old b=old ";
  const std::string new_text = "a=newer b=newer ";
  bool committed = false;
  std::set<std::string> seen;
  for (std::uint64_t n = 1; !committed; ++n) {
    SimFileSystem disk;
    disk.make_folders("/folder");
    write(disk, "/folder/out", "old");
    disk.crash_at(disk.operations() + n);
    try {
      write(disk, "/folder/out", "newer");
      committed = true;
    } catch (const SimulatedCrash&) {
      EXPECT_TRUE(disk.crashed());
    }
    for (const auto& left : disk.after_power_loss()) {
      const bool there = left->stat("/folder/out", true).has_value();
      const std::string text = there ? text_of(*left, "/folder/out") : "";
      seen.insert(text);
      EXPECT_TRUE(text == old_text || text == new_text || text.empty()) << left->describe();
      if (committed) {
        EXPECT_EQ(text, new_text);
      }
    }
  }
  EXPECT_THAT(seen, ElementsAre("", new_text, old_text));
}

}  // namespace
}  // namespace cairn
