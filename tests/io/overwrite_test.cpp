// overwrite() of the real file system: which files it refuses to overwrite, and the content of the
// other files after the write.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "io/file.h"
#include "io/file_descriptor.h"
#include "io/files/file_writer.h"
#include "io/files/probe_folder.h"
#include "testing/child_process.h"
#include "testing/pattern.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::pattern;
using testing::read_file;
using testing::TempFolder;
using testing::write_file;

class OverwriteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string kind = folder_space(folder_.path()).file_system;
    if (kind != "ext4" && kind != "xfs") GTEST_SKIP() << "on " << kind << " nothing is overwritten";
    write_file(path_, kOld);
  }

  bool may_be_overwritten() const {
    return posix_file_system().overwrite(path_, 0) != nullptr && read_file(path_) == kOld;
  }

  static constexpr const char* kOld = "what was there before";
  TempFolder folder_;
  const std::string path_ = folder_ / "f";
};

TEST_F(OverwriteTest, TheFileIsTheSameAndItsContentNew) {
  ASSERT_TRUE(may_be_overwritten());
  const auto before = posix_file_system().stat(path_);
  const auto file = posix_file_system().overwrite(path_, 0);
  ASSERT_NE(file, nullptr);
  file->write(as_bytes("new"));
  file->sync();
  EXPECT_EQ(read_file(path_), "new");
  file->write(as_bytes(", and more than there was before"));
  file->sync();
  file->close();
  EXPECT_EQ(read_file(path_), "new, and more than there was before");
  const auto after = posix_file_system().stat(path_);
  EXPECT_EQ(after->inode, before->inode);
  EXPECT_NE(*after, *before);
}

TEST_F(OverwriteTest, NothingOfTheOldContentIsLeftWhateverTheSizes) {
  constexpr std::size_t kLarge = (16 << 20) + 4097;  // written past the page cache
  const std::vector<std::pair<std::size_t, std::size_t>> sizes = {
      {0, 4097},           {4097, 0},        {4097, kLarge},       {kLarge, 0},
      {kLarge, 4095},      {kLarge, kLarge}, {kLarge, kLarge - 1}, {kLarge, kLarge - 4097},
      {kLarge - 1, kLarge}};
  for (const auto& [before, after] : sizes) {
    write_file(path_, std::string(before, 'x'));
    const std::string bytes = pattern(after);
    const auto file = posix_file_system().overwrite(path_, after);
    ASSERT_NE(file, nullptr);
    file->write(as_bytes(bytes));
    file->sync();
    file->close();
    EXPECT_TRUE(read_file(path_) == bytes) << before << " to " << after;
  }
}

TEST_F(OverwriteTest, NotWhenItHasAnotherName) {
  ASSERT_EQ(link(path_.c_str(), (folder_ / "backup").c_str()), 0);
  EXPECT_FALSE(may_be_overwritten());
  unlink((folder_ / "backup").c_str());
  EXPECT_TRUE(may_be_overwritten());
}

TEST_F(OverwriteTest, NotWhileItIsOpenHere) {
  auto source = posix_file_system().open(path_);
  EXPECT_FALSE(may_be_overwritten());
  source.reset();
  EXPECT_TRUE(may_be_overwritten());
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
    FileDescriptor fd(open(path_.c_str(), flags | O_CLOEXEC));
    EXPECT_FALSE(may_be_overwritten()) << flags;
    fd.close();
    EXPECT_TRUE(may_be_overwritten()) << flags;
  }
}

TEST_F(OverwriteTest, NotWhileItIsMappedThoughItsDescriptorIsClosed) {
  FileDescriptor fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  void* const bytes = mmap(nullptr, 5, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(bytes, MAP_FAILED);
  fd.close();
  EXPECT_FALSE(may_be_overwritten());
  munmap(bytes, 5);
  EXPECT_TRUE(may_be_overwritten());
}

TEST_F(OverwriteTest, NotWhileAnotherProcessReadsIt) {
  // The reader has the file open, but the file's name is gone, as if a checkpoint is retired while
  // it is copied.
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  testing::ChildProcess reader({"/bin/sh", "-c",
                                "exec 3<\"$0\"; echo open; read go <\"$1\"; cat <&3", path_,
                                folder_ / "pipe"});
  ASSERT_TRUE(reader.wait_for_line("open"));
  posix_file_system().rename(path_, folder_ / "moved");
  EXPECT_EQ(posix_file_system().overwrite(folder_ / "moved", 0), nullptr);
  const FileDescriptor go(open((folder_ / "pipe").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(write_all(go.get(), as_bytes("go\n")), 0);
  reader.wait();
  EXPECT_THAT(reader.output(), ::testing::HasSubstr(kOld));
  EXPECT_NE(posix_file_system().overwrite(folder_ / "moved", 0), nullptr);
}

TEST_F(OverwriteTest, NotWhileAWriterHasItsLockAndTheOtherWayRound) {
  const auto writer = posix_file_system().create(folder_ / "new", {.lock = true});
  EXPECT_EQ(posix_file_system().overwrite(folder_ / "new", 0), nullptr);
  auto file = posix_file_system().overwrite(path_, 0);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(posix_file_system().overwrite(path_, 0), nullptr);
  EXPECT_FALSE(posix_file_system().remove_unlocked(path_));
  file.reset();
  EXPECT_TRUE(posix_file_system().remove_unlocked(path_));
}

TEST_F(OverwriteTest, NotWhatIsNoFile) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  posix_file_system().make_link("f", folder_ / "link");
  posix_file_system().make_folders(folder_ / "folder");
  for (const char* name : {"pipe", "link", "folder", "nothing"}) {
    EXPECT_EQ(posix_file_system().overwrite(folder_ / name, 0), nullptr) << name;
  }
}

TEST(OverwriteElsewhereTest, NotWhereTheFileSystemDoesNotTellWhoHasAFileOpen) {
  struct stat info = {};
  if (stat("/dev/shm", &info) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const std::string path = "/dev/shm/cairn-overwrite-test-" + std::to_string(getpid());
  write_file(path, "old");
  EXPECT_EQ(posix_file_system().overwrite(path, 0), nullptr);
  unlink(path.c_str());
}

}  // namespace
}  // namespace cairn
