#include "io/memory/scratch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "cairn/error.h"

#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

TEST(ScratchFileTest, HoldsWhatWasWrittenAndHasNoName) {
  const testing::TempFolder temp;
  ScratchFile file(temp.path());
  std::string expected;
  for (int i = 0; i < 3000; ++i) {  // pieces smaller and larger than the file's buffer
    const std::string piece(i % 700 == 0 ? 300'000 : 100, static_cast<char>('a' + i % 26));
    file.write(as_bytes(piece));
    expected += piece;
  }
  EXPECT_EQ(file.size(), expected.size());
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  const SharedBytes bytes = file.map();
  EXPECT_TRUE(as_text(bytes.view) == expected);
}

TEST(ScratchFileTest, WritesAnywhere) {
  const testing::TempFolder temp;
  ScratchFile file(temp.path());
  file.write(as_bytes("abc"));
  file.write_at(5, as_bytes("xy"));
  file.write(as_bytes("!"));
  file.write_at(0, as_bytes("A"));
  EXPECT_EQ(as_text(file.map().view), std::string_view("Abc\0\0xy!", 8));
}

TEST(ScratchFileTest, ReleasedPagesAreReadAgain) {
  const testing::TempFolder temp;
  ScratchFile file(temp.path());
  const std::string text(100'000, 'x');
  file.write(as_bytes(text));
  const SharedBytes bytes = file.map();
  ASSERT_NE(bytes.release_pages, nullptr);
  bytes.release(bytes.view);
  EXPECT_TRUE(as_text(bytes.view) == text);
}

// Ends the process with the error's status as its exit code.
[[noreturn]] void write_under_a_limit(const std::string& folder) {
  const rlimit limits = {100'000, 100'000};
  setrlimit(RLIMIT_FSIZE, &limits);
  ScratchFile file(folder);
  try {
    file.write(as_bytes(std::string(300'000, 'x')));
  } catch (const StorageError& e) {
    std::_Exit(e.status());
  }
  std::_Exit(0);
}

TEST(ScratchFileTest, ExceedingTheFileSizeLimitIsAnErrorAndNotASignal) {
  const testing::TempFolder temp;
  EXPECT_EXIT(write_under_a_limit(temp.path()), ::testing::ExitedWithCode(EFBIG), "");
}

TEST(ScratchFileTest, NoSuchFolderIsAnError) {
  EXPECT_THROW(ScratchFile("/no/such/folder"), StorageError);
}

TEST(ScratchFileTest, AnErrorSaysThatTmpdirChoosesTheFolder) {
  const testing::EnvironmentVariable folder("TMPDIR", "/no/such/folder");
  EXPECT_EQ(temporary_folder(""), "/no/such/folder");
  EXPECT_EQ(temporary_folder("/tmp"), "/tmp");
  EXPECT_THAT(testing::message_of<StorageError>([] { ScratchFile file; }),
              ::testing::HasSubstr("in /no/such/folder (TMPDIR names it: set it to a folder"));
  EXPECT_THAT(testing::message_of<StorageError>([] { ScratchFile file("/not/there"); }),
              ::testing::Not(::testing::HasSubstr("TMPDIR")));
}

}  // namespace
}  // namespace cairn
