// How a program is started:
//
//  1. Its standard input is a socket, its output and error are pipes. The program has no other
//     descriptor of this process, whichever library opened the descriptor. Otherwise a library's
//     connection would stay open at the other end after this process has ended.
//  2. The program gets a process group of its own. Ctrl-C in the terminal is for the training run,
//     which then saves a checkpoint through this very program.
//  3. Signals that this process ignores or blocks have their default effect in the program.
#include "io/process/spawn.h"

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

// Has the program close all descriptors except the first three. Older C libraries cannot do this:
// there, descriptors that were opened without O_CLOEXEC stay open. Returns errno, or 0.
int add_close_of_others(posix_spawn_file_actions_t& actions) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  return posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#else
  static_cast<void>(actions);
  return 0;
#endif
}

// The settings of posix_spawn() for steps 1 to 3.
class SpawnSettings {
 public:
  SpawnSettings(int input, int output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    int error = posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    if (error == 0) error = add_close_of_others(actions_);
    if (error != 0) {
      posix_spawn_file_actions_destroy(&actions_);
      throw_storage_error(error, "cannot set up the files of a program to start");
    }
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

}  // namespace

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  }
  const char* variable = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  const std::string path = variable != nullptr ? variable : "/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    // An empty part means the working folder. Nothing is run from there by accident.
    if (end > begin) {
      std::string program = path.substr(begin, end - begin) + "/" + name;
      if (access(program.c_str(), X_OK) == 0) return program;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

SpawnedProgram spawn_program(const std::vector<std::string>& argv) {
  const auto path = find_program(argv.at(0));
  if (!path) throw NotFoundError("the program " + argv[0] + " is not in the PATH");
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
  SpawnedProgram program;
  const int error = posix_spawn(&program.pid, path->c_str(), settings.actions(),
                                settings.attributes(), arguments.data(), environ);
  if (error != 0) throw_storage_error(error, "cannot start " + *path);
  program.input = std::move(input.ours);
  program.output = std::move(output.ours);
  program.errors = std::move(errors.ours);
  return program;
}

std::optional<int> wait_for_program(pid_t pid) {
  if (pid <= 0) return std::nullopt;  // waitpid() would wait for any child
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return status;
}

bool has_ended(pid_t pid, std::optional<int>& status) {
  status.reset();
  if (pid <= 0) return true;
  int now = 0;
  const pid_t ended = waitpid(pid, &now, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  status = ended < 0 ? std::nullopt : std::optional(now);
  return true;
}

}  // namespace cairn
