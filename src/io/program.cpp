// One thread talks to all three ends with poll(); no order of reading and writing can deadlock.
#include "io/program.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "cairn/error.h"

#include "io/file_error.h"
#include "io/spawn.h"

namespace cairn {
namespace {

constexpr std::size_t kPipeBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kMostMessageBytes = 2000;

// Ended from outside (by the kernel when memory is short, say), and not by what it was given.
bool was_stopped(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
         signal == SIGXCPU;
}

}  // namespace

PipeThrough::PipeThrough(const std::vector<std::string>& argv, ByteSink& out)
    : out_(out), name_(argv.at(0)), buffer_(kPipeBufferBytes) {
  SpawnedProgram program = spawn_program(argv);
  pid_ = program.pid;
  input_ = std::move(program.input);
  output_ = std::move(program.output);
  errors_ = std::move(program.errors);
}

PipeThrough::~PipeThrough() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  wait_for_program(pid_);
}

void PipeThrough::write(ByteView bytes) {
  while (!bytes.empty() && input_.is_open()) {
    pump(bytes);
  }
}

std::string PipeThrough::finish() {
  input_.close();
  ByteView nothing;
  while (output_.is_open() || errors_.is_open()) {
    pump(nothing);
  }
  const auto ended = wait_for_program(std::exchange(pid_, -1));
  if (!ended) {
    throw StorageError("nobody knows how " + name_ +
                           " ended: whoever started this program ignores " +
                           "SIGCHLD, or waits for its children; let it wait for its own",
                       ECHILD);
  }
  const int status = *ended;
  if (was_stopped(status)) throw StorageError(describe_end(status) + "; start it again", ECHILD);
  return describe_end(status);
}

// Waits until one of the ends can go on, and moves what it takes or gives.
void PipeThrough::pump(ByteView& input) {
  std::array<pollfd, 3> ends = {pollfd{input.empty() ? -1 : input_.get(), POLLOUT, 0},
                                pollfd{output_.get(), POLLIN, 0}, pollfd{errors_.get(), POLLIN, 0}};
  if (poll(ends.data(), ends.size(), -1) < 0) {
    if (errno == EINTR) return;
    throw_storage_error(errno, "cannot wait for " + name_);
  }
  if (ends[0].revents != 0) {
    const ssize_t sent =
        send(input_.get(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      input = input.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      input_.close();  // it has ended, or wants no more
    }
  }
  if (ends[1].revents != 0) take_output(output_);
  if (ends[2].revents != 0) take_output(errors_);
}

void PipeThrough::take_output(FileDescriptor& from) {
  const ssize_t count = read(from.get(), buffer_.data(), buffer_.size());
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    from.close();
    return;
  }
  const ByteView bytes = ByteView(buffer_).first(static_cast<std::size_t>(count));
  if (&from == &output_) {
    out_.write(bytes);
  } else {
    messages_ += as_text(bytes).substr(0, kMostMessageBytes - messages_.size());
  }
}

std::string PipeThrough::describe_end(int status) const {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  std::string text = name_;
  text += WIFEXITED(status) ? " ended with exit code " + std::to_string(WEXITSTATUS(status))
                            : " was ended by signal " + std::to_string(WTERMSIG(status));
  std::string_view messages = messages_;
  while (messages.ends_with('\n')) {
    messages.remove_suffix(1);
  }
  if (!messages.empty()) text.append(": ").append(messages);
  return text;
}

}  // namespace cairn
