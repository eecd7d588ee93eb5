// Features that only the real file system has: large files, limits, signals, short writes.
#include "io/file.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
#include "io/file_descriptor.h"
#include "io/files/file_writer.h"
#include "io/files/real_path.h"
#include "io/memory/page_memory.h"
#include "testing/file_bytes.h"
#include "testing/pattern.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

using testing::pattern;
using testing::TempFolder;

// Whether the file holds exactly `bytes`.
bool holds(const std::string& path, std::string_view bytes) {
  return as_text(testing::file_bytes(posix_file_system(), path).view) == bytes;
}

// Writes `bytes` in pieces of uneven sizes.
void write_in_pieces(WritableFile& file, std::string_view bytes) {
  std::size_t piece = 1;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), piece);
    file.write(as_bytes(bytes.substr(0, n)));
    bytes.remove_prefix(n);
    piece = piece * 7 % 5'000'011;
  }
}

// Runs `body` in a child process and returns its exit status; -signal if a signal killed it. gtest
// assertions in the child do not reach the parent.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(FilePathTest, PartsOfPaths) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("a//b/"), "a");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(base_name("a/b.pt"), "b.pt");
  EXPECT_EQ(base_name("a/b/"), "b");
  EXPECT_EQ(base_name("b"), "b");
  EXPECT_EQ(base_name("/"), "");
  for (const char* path : {".", "..", "../a", "a/..", "a/./b"}) {
    EXPECT_TRUE(has_dot_component(path)) << path;
  }
  for (const char* path : {"", "a", ".a", "a..b/c.", "/a", "..."}) {
    EXPECT_FALSE(has_dot_component(path)) << path;
  }
  EXPECT_EQ(relative_path("run/ep1.pt", "run"), "ep1.pt");
  EXPECT_EQ(relative_path("run/./ep1.pt", "run/links/"), "../ep1.pt");
  EXPECT_EQ(relative_path("/a/b/f", "/a/c"), "../b/f");
  EXPECT_EQ(normal_path("run/./x/..//ep1.pt"), "run/ep1.pt");
  EXPECT_EQ(normal_path("S3://Bucket//a/./x/../b//c.pt"), "s3://Bucket/a/b/c.pt");
  EXPECT_EQ(normal_path("s3://bucket/../../other"), "s3://bucket/other");
  EXPECT_EQ(normal_path("s3://bucket/"), "s3://bucket");
  EXPECT_EQ(normal_path("dbfs:/Volumes//a"), "dbfs:/Volumes/a");
}

// Paths are compared with those of std::filesystem, by text alone. cairn itself does not use
// std::filesystem.
TEST(PathTest, IsNormalAndRelativeAsInTheStandardLibrary) {
  const std::string letters = "ab./";
  std::vector<std::string> paths = {""};
  for (std::size_t begin = 0, length = 0; length < 6; ++length) {
    for (const std::size_t end = paths.size(); begin < end; ++begin) {
      for (const char letter : letters) {
        paths.push_back(paths[begin] + letter);
      }
    }
  }
  for (const std::string& path : paths) {
    if (path.starts_with("//")) continue;  // std::filesystem keeps two slashes
    ASSERT_EQ(normal_path(path), fs::path(path).lexically_normal().string()) << path;
  }
  for (std::size_t i = 0; i < paths.size(); i += 7) {
    for (const std::string folder : {"", ".", "a", "a/", "a/b", "/", "/a", "/a/b/", "/b/a"}) {
      const std::string& path = paths[i];
      if (path.starts_with("//") || path.starts_with('/') != folder.starts_with('/')) continue;
      const fs::path expected =
          fs::path(path).lexically_normal().lexically_relative(fs::path(folder).lexically_normal());
      const std::string found = relative_path(path, folder);
      ASSERT_EQ(found, normal_path(found)) << path << " from " << folder;
      ASSERT_EQ(found, expected.lexically_normal().string()) << path << " from " << folder;
    }
  }
}

TEST(PathTest, FromOutsideTheCurrentFolderAPathIsFoundByItsName) {
  const std::string here = fs::current_path().string();
  EXPECT_EQ(relative_path("a", "../x"), "../" + base_name(here) + "/a");
  EXPECT_EQ(relative_path(here + "/a", "b"), "../a");
}

TEST(PathTest, IsAbsoluteWhereTheCurrentFolderHasAName) {
  EXPECT_EQ(absolute_path("a/b"), fs::current_path().string() + "/a/b");
  EXPECT_EQ(absolute_path("/a"), "/a");
  EXPECT_EQ(absolute_path(""), "");
  const TempFolder folder;
  fs::create_directory(folder / "gone");
  const fs::path before = fs::current_path();
  fs::current_path(folder / "gone");
  fs::remove(folder / "gone");
  const std::string absolute = absolute_path("a/b");
  const std::string real = real_path("a/b");
  const std::string relative = relative_path("a", "/b");
  fs::current_path(before);
  EXPECT_EQ(absolute, "a/b");
  EXPECT_EQ(real, "a/b");
  EXPECT_EQ(relative, "a");
}

TEST(PathTest, IsRealAsFarAsItExists) {
  const TempFolder folder;
  const std::string real = fs::canonical(folder.path()).string();
  fs::create_directories(folder / "run/deep");
  fs::create_directory_symlink(folder / "run/deep", folder / "link");
  fs::create_directory_symlink(folder / "to itself", folder / "to itself");
  EXPECT_EQ(real_path(folder / "link"), real + "/run/deep");
  EXPECT_EQ(real_path(folder / "link/../x//y"), real + "/run/x/y");
  EXPECT_EQ(real_path(folder / "link/no/./such"), real + "/run/deep/no/such");
  EXPECT_EQ(real_path(folder / "to itself/x"), normal_path(folder / "to itself/x"));
  EXPECT_EQ(real_path("/"), "/");
  EXPECT_EQ(real_path("no such"), fs::current_path().string() + "/no such");
  EXPECT_EQ(real_path(""), "");
}

class LargeFileTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(LargeFileTest, EveryByteArrivesWhateverTheSize) {
  const TempFolder folder;
  const std::string bytes = pattern(GetParam());
  const auto file = posix_file_system().create(folder / "f", {.expected_bytes = kLargeFileBytes});
  write_in_pieces(*file, bytes);
  file->sync();
  file->close();
  EXPECT_TRUE(holds(folder / "f", bytes));
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeFileTest,
                         ::testing::Values(0, 1, 4095, 4096, 4097, (8 << 20) - 1, 8 << 20,
                                           (8 << 20) + 1, (40 << 20) + 12345));

TEST(LargeFileTest, WritingGoesOnAfterASync) {
  const TempFolder folder;
  const std::string bytes = pattern((20 << 20) + 777);
  const auto file = posix_file_system().create(folder / "f", {.expected_bytes = kLargeFileBytes});
  const std::string_view text = bytes;
  for (std::size_t begin = 0; begin < text.size(); begin += 6'666'667) {
    file->write(as_bytes(text.substr(begin, 6'666'667)));
    file->sync();
    EXPECT_TRUE(holds(folder / "f", text.substr(0, begin + 6'666'667))) << begin;
  }
  file->close();
  EXPECT_TRUE(holds(folder / "f", bytes));
}

TEST(LargeFileTest, SharedBytesArriveAlsoBetweenCopiedOnesAndAreLetGoOf) {
  const TempFolder folder;
  const std::string bytes = pattern((33 << 20) + 777);
  const auto memory = std::make_shared<const PageMemory>(bytes.size());
  std::memcpy(memory->data(), bytes.data(), bytes.size());
  for (const std::size_t piece : {std::size_t{4096}, std::size_t{20} << 20, std::size_t{12345}}) {
    const auto file = posix_file_system().create(folder / "f", {.expected_bytes = kLargeFileBytes});
    std::size_t copied = 0;
    for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
      const std::size_t size = std::min(piece, bytes.size() - begin);
      const ByteView part{memory->data() + begin, size};
      if (++copied % 3 == 0) {
        file->write(part);
      } else {
        file->write_shared({part, memory});
      }
    }
    file->sync();
    EXPECT_EQ(memory.use_count(), 1) << piece;
    file->close();
    EXPECT_TRUE(holds(folder / "f", bytes)) << piece;
    posix_file_system().remove(folder / "f");
  }
}

TEST(LargeFileTest, FileSystemsWithoutDirectWritesWork) {
  struct stat info = {};
  if (stat("/dev/shm", &info) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const std::string path = "/dev/shm/cairn-file-test-" + std::to_string(getpid());
  const std::string bytes = pattern((17 << 20) + 5);
  const auto file = posix_file_system().create(path, {.expected_bytes = kLargeFileBytes});
  write_in_pieces(*file, bytes);
  file->sync();
  file->close();
  EXPECT_TRUE(holds(path, bytes));
  EXPECT_TRUE(posix_file_system().remove(path));
}

TEST(LargeFileTest, AbandoningOneHalfWrittenDoesNotHang) {
  const TempFolder folder;
  const std::string bytes = pattern(30 << 20);
  auto file = posix_file_system().create(folder / "f", {.expected_bytes = kLargeFileBytes});
  file->write(as_bytes(bytes));
  file.reset();
  EXPECT_LE(posix_file_system().stat(folder / "f")->size, bytes.size());
}

constexpr rlim_t kLimitedBytes = 17 << 20;

// Writes `bytes` under a file-size limit of `limit`. Returns the StorageError's status; 0 for no
// error, 1 if errors do not persist, 2 for any other failure.
int write_under_limit(const std::string& path, rlim_t limit, const std::string& bytes,
                      std::uint64_t expected_bytes) {
  const rlimit limits = {limit, limit};
  if (setrlimit(RLIMIT_FSIZE, &limits) != 0) return 2;
  const auto file = posix_file_system().create(path, {.expected_bytes = expected_bytes});
  try {
    write_in_pieces(*file, bytes);
    file->sync();
  } catch (const StorageError& e) {
    try {
      file->sync();
      return 1;
    } catch (const StorageError& again) {
      return again.status() == e.status() && e.retryable() ? e.status() : 1;
    }
  }
  return 0;
}

TEST(FileLimitTest, ExceedingTheFileSizeLimitIsAnErrorAndNotASignal) {
  const std::string bytes = pattern(kLimitedBytes);
  for (const std::uint64_t expected : {std::uint64_t{0}, kLargeFileBytes}) {
    for (const rlim_t limit : {rlim_t{0}, rlim_t{1}, rlim_t{4095}, rlim_t{4096}, rlim_t{100'000},
                               rlim_t{8 << 20}, rlim_t{(16 << 20) + 1}, kLimitedBytes - 1}) {
      const TempFolder folder;
      const int result =
          in_child([&] { return write_under_limit(folder / "f", limit, bytes, expected); });
      EXPECT_EQ(result, EFBIG) << "limit " << limit << ", expected_bytes " << expected;
    }
    const TempFolder folder;
    const int result =
        in_child([&] { return write_under_limit(folder / "f", kLimitedBytes, bytes, expected); });
    EXPECT_EQ(result, 0);
  }
}

TEST(FileLimitTest, AHandlerOfTheProgramsOwnIsLeftAlone) {
  const int result = in_child([] {
    const TempFolder folder;
    signal(SIGXFSZ, [](int) {});
    posix_file_system().create(folder / "f", {});
    struct sigaction action = {};
    sigaction(SIGXFSZ, nullptr, &action);
    return action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL ? 1 : 0;
  });
  EXPECT_EQ(result, 0);
}

TEST(FileDescriptorTest, InterruptedAndShortWritesAreContinued) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: write() returns early
  struct sigaction before = {};
  sigaction(SIGUSR1, &action, &before);

  const std::string bytes = pattern(4 << 20);  // a pipe holds 64 KiB
  int result = -1;
  std::atomic<bool> done = false;
  std::thread write_thread([&] {
    result = write_all(writer.get(), as_bytes(bytes));
    done = true;
    writer.close();
  });
  std::string read_back;
  std::string buffer(10'000, '\0');
  for (;;) {
    if (!done) pthread_kill(write_thread.native_handle(), SIGUSR1);
    const ssize_t n = ::read(reader.get(), buffer.data(), buffer.size());
    if (n == 0) break;
    if (n > 0) read_back.append(buffer, 0, static_cast<std::size_t>(n));
  }
  write_thread.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(result, 0);
  EXPECT_TRUE(read_back == bytes);
}

TEST(FileTest, PermissionsFollowTheUmask) {
  const TempFolder folder;
  const mode_t before = umask(027);
  posix_file_system().create(folder / "f", {});
  umask(before);
  struct stat info = {};
  ASSERT_EQ(stat((folder / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

TEST(FileTest, ANamedPipeIsNoFileAndDoesNotHang) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(testing::file_bytes(posix_file_system(), folder / "pipe"), UsageError);
}

TEST(FileTest, MessagesNameThePathTheReasonAndWhatToDo) {
  try {
    posix_file_system().create("/proc/no/such/file", {});
    FAIL() << "no error";
  } catch (const StorageError& e) {
    EXPECT_STREQ(e.what(), "cannot create /proc/no/such/file: No such file or directory (errno 2)");
    EXPECT_FALSE(e.retryable());
  }
}

TEST(FileTest, ALinkToANameThatNoneCanHaveLeadsNowhere) {
  const TempFolder folder;
  FileSystem& files = posix_file_system();
  files.make_link(std::string(300, 'x'), folder / "long");
  EXPECT_FALSE(files.stat(folder / "long").has_value());
  EXPECT_THROW(testing::file_bytes(files, folder / "long"), NotFoundError);
  EXPECT_TRUE(files.stat(folder / "long", /*follow=*/false).has_value());
  EXPECT_THROW(files.create(folder / std::string(300, 'x'), {}), StorageError);
}

// --- Removing what may be locked -----------------------------------------------------------------

// Drops root's rights, because root may do anything to other users' files. Exits with 2 where a
// user namespace has no other user, as that of tools/run_arm64.
void become_nobody() {
  if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
}

// In a folder that several users write to, a user who may remove a file may lack the right to read
// or write it.
TEST(RemoveUnlockedTest, WhatMayNotBeOpenedIsRemovedWhereItsFolderAllowsIt) {
  if (in_child([] { return become_nobody(), 0; }) == 2) GTEST_SKIP() << "cannot become nobody";
  const TempFolder folder;
  const std::string path = folder / "ep1.pt";
  for (const mode_t mode : {0444, 0000}) {
    for (const mode_t of_folder : {0777, 0555}) {
      testing::write_file(path, "bytes");
      ASSERT_EQ(chmod(path.c_str(), mode), 0);
      ASSERT_EQ(chmod(folder.path().c_str(), of_folder), 0);
      const int outcome = in_child([&] {
        become_nobody();
        try {
          return posix_file_system().remove_unlocked(path) ? 0 : 1;
        } catch (const StorageError& e) {
          return std::string(e.what()).starts_with("cannot remove " + path) ? 10 : 11;
        }
      });
      ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
      EXPECT_EQ(outcome, of_folder == 0777 ? 0 : 10) << mode;
      EXPECT_EQ(posix_file_system().remove(path), of_folder != 0777) << mode;
    }
  }
}

// From now on flock() fails with `error` in this process. Returns false if that is impossible here.
bool disable_locks(int error) {
  std::array<sock_filter, 4> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {.len = rules.size(), .filter = rules.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Lustre without "-o flock" and NFSv3 without lockd have no locks. There it is unknown whether the
// writer of a file with a temporary name lives. A file with its final name has no writer any more.
TEST(RemoveUnlockedTest, WithoutLocksCheckpointsAreRemovedAndWhatIsBeingWrittenIsNot) {
  const TempFolder folder;
  const std::string temporary = temporary_name(folder / "ep1.pt");
  for (const int error : {ENOSYS, EOPNOTSUPP, ENOLCK, EWOULDBLOCK}) {
    testing::write_file(folder / "ep1.pt", "bytes");
    testing::write_file(temporary, "bytes");
    const int removed = in_child([&] {
      if (!disable_locks(error)) return 77;
      FileSystem& files = posix_file_system();
      return (files.remove_unlocked(folder / "ep1.pt") ? 1 : 0) +
             (files.remove_unlocked(temporary) ? 2 : 0);
    });
    if (removed == 77) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(removed, error == EWOULDBLOCK ? 0 : 1) << error;
  }
}

}  // namespace
}  // namespace cairn
