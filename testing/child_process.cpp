#include "testing/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace cairn::testing {

ChildProcess::ChildProcess(const std::vector<std::string>& argv) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe2: " << std::strerror(errno);
    return;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> args;
  args.reserve(argv.size() + 1);
  for (const std::string& arg : argv)
    args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  const int error = posix_spawn(&pid_, args[0], &actions, nullptr, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  pipe_ = ends[0];
  if (error != 0) {
    pid_ = -1;
    ADD_FAILURE() << "starting " << argv[0] << ": " << std::strerror(error);
  }
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (pipe_ >= 0) close(pipe_);
}

std::optional<std::string> ChildProcess::next_line() {
  for (;;) {
    const std::size_t end = output_.find('\n', line_begin_);
    if (end != std::string::npos) {
      const std::string line = output_.substr(line_begin_, end - line_begin_);
      line_begin_ = end + 1;
      return line;
    }
    std::array<char, 4096> buffer{};
    const ssize_t n = read(pipe_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    output_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

std::optional<std::string> ChildProcess::wait_for_line(const std::string& text) {
  while (std::optional<std::string> line = next_line()) {
    if (line->find(text) != std::string::npos) return line;
  }
  return std::nullopt;
}

void ChildProcess::send(int signal) const {
  ASSERT_GT(pid_, 0) << "the program is not running";
  EXPECT_EQ(kill(pid_, signal), 0) << std::strerror(errno);
}

ChildProcess::Ended ChildProcess::wait() {
  while (next_line()) {
  }
  Ended ended;
  if (pid_ < 0) return ended;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

}  // namespace cairn::testing
