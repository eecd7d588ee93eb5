#include "io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "cairn/error.h"

#include "io/atomic_file.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

constexpr std::size_t kPage = 4096;

// A mapped file of five pages of 'x'; all but the first two bytes are cut off after it was mapped,
// which the kernel answers like a bad block.
class CutOffFile : public ::testing::Test {
 protected:
  CutOffFile() : path_(folder_ / "data") {
    const std::string content(5 * kPage, 'x');
    const auto file = posix_file_system().create(path_, {});
    file->write(as_bytes(content));
    file->close();
    bytes_ = testing::file_bytes(posix_file_system(), path_);
    EXPECT_EQ(truncate(path_.c_str(), kPage), 0);
  }
  std::byte at(std::size_t offset) const {
    return static_cast<const volatile std::byte*>(bytes_.view.data())[offset];
  }

  TempFolder folder_;
  std::string path_;
  SharedBytes bytes_;
};

TEST_F(CutOffFile, GuardedReadsAreZerosAndAnErrorThatNamesFileAndByte) {
  const GuardedReads guard;
  EXPECT_EQ(at(0), std::byte{'x'});
  EXPECT_NO_THROW(check_mapped_reads());
  EXPECT_EQ(at(3 * kPage + 7), std::byte{0});
  EXPECT_EQ(at(4 * kPage), std::byte{0});
  EXPECT_THAT(message_of([] { check_mapped_reads(); }),
              AllOf(HasSubstr(path_), HasSubstr("at byte " + std::to_string(3 * kPage)),
                    HasSubstr("kernel log")));
  // A page before it, later.
  EXPECT_EQ(at(2 * kPage), std::byte{0});
  EXPECT_THAT(message_of([] { check_mapped_reads(); }),
              HasSubstr("at byte " + std::to_string(2 * kPage)));
  EXPECT_EQ(at(1), std::byte{'x'});
}

TEST_F(CutOffFile, ConcernsWhoReadsThatFileOrItsFolder) {
  const GuardedReads guard;
  EXPECT_EQ(at(kPage), std::byte{0});
  EXPECT_THROW(check_mapped_reads(path_), StorageError);
  EXPECT_THROW(check_mapped_reads(folder_.path()), StorageError);
  EXPECT_NO_THROW(check_mapped_reads(path_ + "2"));
  EXPECT_NO_THROW(check_mapped_reads("elsewhere"));
}

TEST_F(CutOffFile, NothingIsPublishedWhileWhatWasReadIsWrong) {
  const GuardedReads guard;
  EXPECT_EQ(at(kPage), std::byte{0});
  AtomicFile copy(posix_file_system(), folder_ / "copy", {});
  copy.write(bytes_.view);
  EXPECT_THROW(copy.commit(), StorageError);
  EXPECT_FALSE(posix_file_system().stat(folder_ / "copy"));
}

// An exception ends the mapping before anybody can ask.
TEST_F(CutOffFile, IsRememberedOnceWhenTheMappingIsGone) {
  const GuardedReads guard;
  EXPECT_EQ(at(kPage), std::byte{0});
  bytes_ = {};
  EXPECT_NO_THROW(check_mapped_reads("elsewhere"));
  EXPECT_THROW(check_mapped_reads(path_), UnreadableError);
  EXPECT_NO_THROW(check_mapped_reads());
}

TEST_F(CutOffFile, IsForgottenWithTheLastGuard) {
  {
    const GuardedReads guard;
    EXPECT_EQ(at(kPage), std::byte{0});
    bytes_ = {};
  }
  const GuardedReads another;
  EXPECT_NO_THROW(check_mapped_reads());
}

TEST_F(CutOffFile, WithoutAGuardTheSignalIsWhatItWas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own handler reports it, and ends the process in its way";
#endif
  EXPECT_EXIT(
      {
        { const GuardedReads guard; }
        at(kPage);
      },
      ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        signal(SIGBUS, [](int) { _exit(42); });
        { const GuardedReads guard; }
        at(kPage);
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace cairn
