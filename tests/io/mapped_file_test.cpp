#include "io/memory/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <future>
#include <string>
#include <thread>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "io/file_descriptor.h"
#include "io/threads/parallel.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempFolder;

constexpr std::size_t kPage = 4096;

// A mapped file of five pages of 'x'. After the mapping, the file is cut off after two bytes. The
// kernel reports reads of the rest like a bad block.
class CutOffFile : public ::testing::Test {
 protected:
  CutOffFile() : path_(folder_ / "data") {
    const std::string content(5 * kPage, 'x');
    const auto file = posix_file_system().create(path_, {});
    file->write(as_bytes(content));
    file->close();
    const FileDescriptor opened(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    bytes_ = map_descriptor(opened.get(), content.size(), path_, [] {});
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
  // An earlier page, read later.
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

// As if an exception ended the mapping before any check.
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

// --- A file as a source -------------------------------------------------------------------------

class ViewedFile : public ::testing::Test {
 protected:
  ViewedFile() : path_(folder_ / "data") {
    testing::write_file(path_, std::string(5 * kPage, 'x'));
    const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, path_.c_str(), long_ago, 0), 0);
    source_ = posix_file_system().open(path_);
  }
  void overwrite() const {
    const FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(pwrite(file.get(), "y", 1, kPage), 1);
  }

  TempFolder folder_;
  std::string path_;
  std::shared_ptr<const ByteSource> source_;
};

TEST_F(ViewedFile, IsReadWhereNobodyIsTold) {
  const SharedBytes whole = source_->view(0, 5 * kPage);
  EXPECT_EQ(truncate(path_.c_str(), kPage), 0);
  EXPECT_EQ(as_text(whole.view), std::string(5 * kPage, 'x')) << "no SIGBUS";
  EXPECT_THROW(source_->view(0, 5 * kPage), UnreadableError);
}

// byte_source.h documents this. If bytes are requested again, they are read, which gives an error
// and no signal.
TEST_F(ViewedFile, KeptBehindTheCallThatMappedItEndsTheProcessWhenTheDiskFails) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own handler reports it, and ends the process in its way";
#endif
  SharedBytes kept;
  {
    const GuardedReads guard;
    kept = source_->view(0, 5 * kPage);
  }
  EXPECT_EQ(truncate(path_.c_str(), kPage), 0);
  EXPECT_EQ(kept.view[0], std::byte{'x'});
  const auto touch = [&] {
    return static_cast<const volatile std::byte*>(kept.view.data())[3 * kPage];
  };
  EXPECT_EXIT(touch(), ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_THROW(source_->view(0, 5 * kPage), UnreadableError);
  const GuardedReads again;
  EXPECT_EQ(touch(), std::byte{0});
  EXPECT_THROW(check_mapped_reads(path_), UnreadableError);
}

TEST_F(ViewedFile, ThatSomebodyWroteToIsAnErrorOfThoseWhoReadIt) {
  const GuardedReads guard;
  SharedBytes whole = source_->view(0, 5 * kPage);
  EXPECT_NO_THROW(check_mapped_reads(path_));
  overwrite();
  EXPECT_EQ(whole.view[kPage], std::byte{'y'}) << "a mapping";
  EXPECT_THAT(message_of<UnreadableError>([&] { check_mapped_reads(folder_.path()); }),
              AllOf(HasSubstr(path_), HasSubstr("was written to since it was opened")));
  EXPECT_NO_THROW(check_mapped_reads("elsewhere"));
  EXPECT_NO_THROW(check_mapped_pages()) << "what others publish is not of this file";
  whole = {};
  source_ = nullptr;
  EXPECT_NO_THROW(check_mapped_reads()) << "whoever reads on reads other files";
  EXPECT_THROW(check_mapped_reads(path_), UnreadableError);
  EXPECT_NO_THROW(check_mapped_reads());
}

TEST_F(ViewedFile, IsWhatItWasWhenItsNameIsGone) {
  const GuardedReads guard;
  const SharedBytes whole = source_->view(0, 5 * kPage);
  EXPECT_EQ(unlink(path_.c_str()), 0);
  EXPECT_NO_THROW(check_mapped_reads());
}

// A thread without a GuardedReads would not learn that unreadable pages became zeros. So its views
// are read, not mapped.
TEST_F(ViewedFile, IsReadWhereAnotherThreadAloneIsTold) {
  std::promise<void> begun;
  std::promise<void> over;
  std::thread another([&] {
    const GuardedReads guard;
    begun.set_value();
    over.get_future().wait();
  });
  begun.get_future().wait();
  EXPECT_FALSE(reads_are_guarded());
  const SharedBytes whole = source_->view(0, 5 * kPage);
  EXPECT_EQ(truncate(path_.c_str(), kPage), 0);
  EXPECT_EQ(as_text(whole.view), std::string(5 * kPage, 'x'));
  EXPECT_THROW(source_->view(0, 5 * kPage), UnreadableError);
  over.set_value();
  another.join();
}

TEST(GuardedReadsTest, AreThoseOfWhoeverWorksForTheThread) {
  constexpr unsigned kThreads = 4;
  std::barrier all(kThreads);
  const auto are_guarded = [&] {
    std::atomic<int> guarded = 0;
    for_each_parallel(
        kThreads,
        [&](std::size_t) {
          all.arrive_and_wait();
          guarded += reads_are_guarded() ? 1 : 0;
        },
        ~std::uint64_t{0}, kThreads);
    return guarded.load();
  };
  EXPECT_EQ(are_guarded(), 0);
  const GuardedReads guard;
  EXPECT_EQ(are_guarded(), 4);
}

}  // namespace
}  // namespace cairn
