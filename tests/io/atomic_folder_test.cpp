#include "io/durable/atomic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
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
using testing::SimulatedCrash;

void add(AtomicFolder& folder, const std::string& name, const std::string& text) {
  const auto file = folder.create(name, {.expected_bytes = text.size()});
  file->write(as_bytes(text));
  file->sync();
  file->close();
}

void write(FileSystem& files, const std::string& path, const std::string& text,
           bool overwrite = true) {
  AtomicFolder folder(files, path, overwrite);
  for (const char* name : {"a", "b"}) {
    add(folder, name, text);
  }
  folder.commit();
}

std::string text_of(FileSystem& files, const std::string& path) {
  std::string text;
  for (const std::string& name : files.list(path)) {
    text += name + "=" +
            std::string(as_text(testing::file_bytes(files, join_path(path, name)).view)) + " ";
  }
  return text;
}

TEST(AtomicFolderTest, IsThereWholeAfterCommitAndNotBefore) {
  const testing::TempFolder temp;
  FileSystem& files = posix_file_system();
  {
    AtomicFolder folder(files, temp / "out/", false);
    add(folder, "a", "x");
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
    add(folder, "a", "x");
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

TEST(AtomicFolderTest, FoldersOfDeadWritersAreRemovedAndThoseOfTheLivingAreNot) {
  const testing::TempFolder temp;
  FileSystem& files = posix_file_system();
  files.make_folders(temp / ".cairn-tmp-out-0123456789abcdef");
  testing::write_file(temp / ".cairn-tmp-out-0123456789abcdef/a", "half");
  AtomicFolder living(files, temp / "out", false);
  add(living, "a", "x");
  EXPECT_THAT(remove_leftovers(files, temp.path()), ElementsAre(".cairn-tmp-out-0123456789abcdef"));
  living.commit();
  EXPECT_EQ(text_of(files, temp / "out"), "a=x ");
  EXPECT_THAT(files.list(temp.path()), ElementsAre("out"));
}

// --- Replacing, on file systems that can exchange two names and on others -----------------------

const std::string kOldText = "a=old b=old ";
const std::string kNewText = "a=newer b=newer ";

struct Replacing : ::testing::TestWithParam<bool> {
  static bool can_exchange() { return GetParam(); }

  // A disk with /folder/out.
  static std::unique_ptr<SimFileSystem> disk() {
    auto made = std::make_unique<SimFileSystem>();
    if (!can_exchange()) made->forget_exchange();
    made->make_folders("/folder");
    write(*made, "/folder/out", "old");
    return made;
  }

  // Returns the text that a reader finds. Checks that the next start leaves only the folder with
  // this text.
  static std::string found(SimFileSystem& left) {
    finish_replacement_of(left, "/folder/out");
    const bool is_there = left.stat("/folder/out", true).has_value();
    std::string text = is_there ? text_of(left, "/folder/out") : "nothing";
    remove_leftovers(left, "/folder");
    EXPECT_THAT(left.list("/folder"), ElementsAre("out")) << left.describe();
    EXPECT_EQ(text_of(left, "/folder/out"), text) << left.describe();
    return text;
  }
};

// Once commit() has returned, only the new folder may be found.
TEST_P(Replacing, IsOldOrNewAfterAnyPowerLoss) {
  bool committed = false;
  std::set<std::string> seen;
  for (std::uint64_t n = 1; !committed; ++n) {
    const auto here = disk();
    here->crash_at(here->operations() + n);
    try {
      write(*here, "/folder/out", "newer");
      committed = true;
    } catch (const SimulatedCrash&) {
      EXPECT_TRUE(here->crashed());
    }
    for (const auto& left : here->after_power_loss()) {
      if (can_exchange()) {
        EXPECT_TRUE(left->stat("/folder/out", true).has_value()) << left->describe();
      }
      const std::string text = found(*left);
      seen.insert(text);
      if (committed) {
        EXPECT_EQ(text, kNewText);
      }
    }
  }
  EXPECT_THAT(seen, ElementsAre(kNewText, kOldText));
}

// Kills the writer between the two steps, and then the process that finishes them, at every
// operation.
TEST_P(Replacing, FinishingMayBeInterruptedToo) {
  if (can_exchange()) return;
  const auto here = disk();
  FaultyFileSystem killed(*here);
  int renames = 0;
  killed.before_each([&](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kRename && ++renames == 2) here->crash_at(here->operations() + 1);
  });
  EXPECT_THROW(write(killed, "/folder/out", "newer"), SimulatedCrash);
  ASSERT_FALSE(here->after_kill()->stat("/folder/out", true).has_value());
  bool finished = false;
  for (std::uint64_t n = 1; !finished; ++n) {
    const auto again = here->after_kill();
    again->crash_at(n);
    try {
      finished = finish_replacement_of(*again, "/folder/out");
    } catch (const SimulatedCrash&) {
      EXPECT_TRUE(again->crashed());
    }
    for (const auto& left : again->after_power_loss()) {
      EXPECT_EQ(found(*left), kNewText);
    }
  }
}

TEST_P(Replacing, IsOldOrNewAfterAnyCallThatFails) {
  bool failed = true;
  for (std::uint64_t n = 1; failed; ++n) {
    const auto here = disk();
    FaultyFileSystem faulty(*here);
    faulty.fail(n, EIO);
    std::string expected_new;
    try {
      write(faulty, "/folder/out", "newer");
      expected_new = kNewText;
    } catch (const Error&) {  // the folder is the old or the new one
    }
    failed = faulty.calls() >= n;
    const std::string text = found(*here);
    EXPECT_TRUE(text == kNewText || (text == kOldText && expected_new.empty())) << "call " << n;
  }
}

TEST_P(Replacing, AReaderMayFinishItUnderTheWriter) {
  const auto here = disk();
  FaultyFileSystem slow(*here);
  slow.before_each([&](FileCall kind, std::uint64_t) {
    if (kind == FileCall::kRename) finish_replacement_of(*here, "/folder/out");
  });
  write(slow, "/folder/out", "newer");
  EXPECT_EQ(found(*here), kNewText);
}

TEST(ReplacingTest, TheOldOneComesBackWhenTheNewOneIsGone) {
  SimFileSystem disk;
  disk.make_folders("/folder");
  write(disk, "/folder/out", "old");
  disk.rename("/folder/out", "/folder/.cairn-old-out-0123456789abcdef", false);
  EXPECT_THAT(finish_replacements(disk, "/folder"), ElementsAre("out"));
  EXPECT_EQ(text_of(disk, "/folder/out"), kOldText);
}

INSTANTIATE_TEST_SUITE_P(AtomicFolder, Replacing, ::testing::Bool());

}  // namespace
}  // namespace cairn
