// Thousands of files are open at once with few descriptors, and each handle keeps its file.
#include "io/files/file_handle.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "io/file.h"
#include "testing/descriptor_limit.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::DescriptorLimit;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;
using testing::write_file;

using Sources = std::vector<std::shared_ptr<const ByteSource>>;

std::string text_of(const ByteSource& source) {
  return std::string(as_text(read_all(source).view));
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class FileHandleTest : public ::testing::Test {
 protected:
  Sources open_many(std::size_t count) {
    Sources sources;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string path = folder_ / ("many" + std::to_string(i));
      write_file(path, "file " + std::to_string(i));
      sources.push_back(posix_file_system().open(path));
    }
    return sources;
  }

  TempFolder folder_;
  const DescriptorLimit limit_{256};
};

TEST_F(FileHandleTest, TwoThousandFilesAreOpenUnderALimitOf256) {
  const std::size_t before = open_descriptors();
  const Sources sources = open_many(2000);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      ASSERT_EQ(text_of(*sources[i]), "file " + std::to_string(i));
    }
  }
  EXPECT_LE(open_descriptors(), before + 64);
}

TEST_F(FileHandleTest, LetGoOfTheirDescriptors) {
  const std::size_t before = open_descriptors();
  open_many(100);
  EXPECT_EQ(open_descriptors(), before);
}

// Opens more files at once than there are descriptors for.
class ClosedFileTest : public FileHandleTest {
 protected:
  ClosedFileTest() {
    write_file(path_, "what was there");
    source_ = posix_file_system().open(path_);
    others_ = open_many(100);
  }

  std::string path_ = folder_ / "f";
  std::shared_ptr<const ByteSource> source_;
  Sources others_;
};

TEST_F(ClosedFileTest, IsOpenedAgain) {
  EXPECT_EQ(text_of(*source_), "what was there");
  EXPECT_EQ(as_text(source_->view(5, 3).view), "was");
}

TEST_F(ClosedFileTest, IsNotTheOneThatHasItsNameByNow) {
  write_file(folder_ / "other", "something else");
  std::filesystem::last_write_time(folder_ / "other", std::filesystem::last_write_time(path_));
  std::filesystem::rename(folder_ / "other", path_);
  EXPECT_THAT(message_of<UnreadableError>([&] { text_of(*source_); }),
              AllOf(HasSubstr(path_), HasSubstr("replaced")));
  EXPECT_THROW(source_->view(0, 4), UnreadableError);
}

TEST_F(ClosedFileTest, ThatWasWrittenToIsAnError) {
  write_file(path_, "what is there.");  // of the same length
  EXPECT_THAT(message_of<UnreadableError>([&] { text_of(*source_); }), HasSubstr("written to"));
}

TEST_F(ClosedFileTest, ThatIsGoneIsAnError) {
  std::filesystem::remove(path_);
  EXPECT_THAT(message_of<UnreadableError>([&] { text_of(*source_); }),
              AllOf(HasSubstr(path_), HasSubstr("removed")));
}

TEST_F(ClosedFileTest, ThatNobodyMayReadAnyMoreIsAnErrorOfThisMoment) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  std::filesystem::permissions(path_, std::filesystem::perms::none);
  EXPECT_THROW(text_of(*source_), StorageError);
}

TEST_F(FileHandleTest, APathFromAFolderThatTheProcessLeftIsFound) {
  const auto before = std::filesystem::current_path();
  write_file(folder_ / "f", "what was there");
  std::filesystem::current_path(folder_.path());
  const auto source = posix_file_system().open("f");
  std::filesystem::current_path(before);
  const Sources others = open_many(100);
  EXPECT_EQ(text_of(*source), "what was there");
}

}  // namespace
}  // namespace cairn
