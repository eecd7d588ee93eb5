// How a program is started:
//
//  1. Its standard input is a socket, its output and error are pipes; every other descriptor of
//     this process is closed on exec.
//  2. It gets a process group of its own: Ctrl-C in the terminal is for the training run, which
//     then saves a checkpoint, through this very program.
//  3. Signals that this process ignores or blocks are given back to it as they are by default.
//
// One thread talks to all three ends with poll(); no order of reading and writing can deadlock.
#include "io/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "cairn/error.h"

#include "io/file_error.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace cairn {
namespace {

constexpr std::size_t kPipeBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kMostMessageBytes = 2000;

struct Ends {
  FileDescriptor ours;
  FileDescriptor theirs;
};

Ends make_socket() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    throw_storage_error(errno, "cannot make a socket to a program");
  }
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

Ends make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) {
    throw_storage_error(errno, "cannot make a pipe from a program");
  }
  return {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
}

// The settings of posix_spawn() that step 1 to 3 ask for.
class SpawnSettings {
 public:
  SpawnSettings(int input, int output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t set;
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&attributes_, &set);
    for (const int signal : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) {
      sigaddset(&set, signal);
    }
    posix_spawnattr_setsigdefault(&attributes_, &set);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Ended from outside (by the kernel when memory is short, say), and not by what it was given.
bool was_stopped(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
         signal == SIGXCPU;
}

}  // namespace

std::optional<std::string> find_program(const std::string& name) {
  const char* variable = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  const std::string path = variable != nullptr ? variable : "/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    // An empty part means the working folder, from which nothing is run by accident.
    if (end > begin) {
      std::string program = path.substr(begin, end - begin) + "/" + name;
      if (access(program.c_str(), X_OK) == 0) return program;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

PipeThrough::PipeThrough(const std::vector<std::string>& argv, ByteSink& out)
    : out_(out), name_(argv.at(0)), buffer_(kPipeBufferBytes) {
  const auto path = find_program(name_);
  if (!path) throw NotFoundError("the program " + name_ + " is not in the PATH");
  start(*path, argv);
}

PipeThrough::~PipeThrough() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  wait_for(pid_);
}

void PipeThrough::start(const std::string& path, const std::vector<std::string>& argv) {
  Ends input = make_socket();
  Ends output = make_pipe();
  Ends errors = make_pipe();
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // posix_spawn only reads them
  }
  arguments.push_back(nullptr);
  const SpawnSettings settings(input.theirs.get(), output.theirs.get(), errors.theirs.get());
  const int error = posix_spawn(&pid_, path.c_str(), settings.actions(), settings.attributes(),
                                arguments.data(), environ);
  if (error != 0) {
    pid_ = -1;
    throw_storage_error(error, "cannot start " + path);
  }
  input_ = std::move(input.ours);
  output_ = std::move(output.ours);
  errors_ = std::move(errors.ours);
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
  const int status = wait_for(std::exchange(pid_, -1));
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
