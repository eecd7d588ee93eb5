#include "io/process/start_program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>

#include "cairn/error.h"

#include "io/file_error.h"
#include "io/memory/scratch_file.h"
#include "io/process/spawn.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace cairn {
namespace {

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& more) {
  std::map<std::string, std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    variables[text.substr(0, text.find('='))] = text;
  }
  for (const auto& [name, value] : more)
    variables[name] = name + "=" + value;
  std::vector<std::string> list;
  for (const auto& [name, text] : variables)
    list.push_back(text);
  return list;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

FileDescriptor open_for_child(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open()) throw_storage_error(errno, "cannot open " + path);
  return file;
}

// The first three descriptors of the program. -1: this process's own.
struct Streams {
  explicit Streams(const StartOptions& options) {
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    if (!options.has_input || isatty(STDIN_FILENO) == 1) {
      files[0] = open_for_child("/dev/null", O_RDONLY);
    }
    if (!options.output_path.empty()) files[1] = open_for_child(options.output_path, kNew);
    const bool is_one = options.errors_path == options.output_path;
    if (!options.errors_path.empty() && !is_one) {
      files[2] = open_for_child(options.errors_path, kNew);
    }
    const int kept = options.kept != nullptr ? options.kept->file().get() : -1;
    numbers[0] = files[0].get();
    numbers[1] = files[1].is_open() ? files[1].get() : kept;
    numbers[2] = files[2].is_open() ? files[2].get() : kept;
    if (is_one && files[1].is_open()) numbers[2] = files[1].get();
  }
  std::array<FileDescriptor, 3> files;
  std::array<int, 3> numbers{};
};

struct Call {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const Streams& streams;
  pid_t parent;
  int report;  // the descriptor to which the error is written
};

// Makes exec() close all descriptors except the first three. Older C libraries cannot do this:
// there, other descriptors stay open.
void close_others_on_exec() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
#endif
}

// Runs in the new process. Nothing here allocates.
[[noreturn]] void become(const Call& call) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // posix_spawn() has no option for this
  if (getppid() != call.parent) _exit(128 + SIGTERM);
  bool are_set = true;
  for (int target = 0; target < 3; ++target) {
    const int number = call.streams.numbers[static_cast<std::size_t>(target)];
    if (number >= 0) are_set = dup2(number, target) == target && are_set;
  }
  for (int number = 1; number < NSIG; ++number)
    static_cast<void>(std::signal(number, SIG_DFL));
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  close_others_on_exec();
  if (are_set) execve(call.path, call.arguments, call.environment);
  const int error = errno;
  static_cast<void>(!write(call.report, &error, sizeof error));
  _exit(127);
}

// Returns the errno with which the start of the program failed; 0 if the program was started.
int error_of_start(int report) {
  int error = 0;
  ssize_t got = -1;
  do {
    got = read(report, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

}  // namespace

KeptOutput::KeptOutput() : file_(open_scratch()) {}

std::string KeptOutput::last(std::size_t bytes) const {
  const off_t end = lseek(file_.get(), 0, SEEK_END);
  if (end <= 0) return "";
  std::string text(std::min(bytes, static_cast<std::size_t>(end)), '\0');
  const ssize_t got =
      pread(file_.get(), text.data(), text.size(), end - static_cast<off_t>(text.size()));
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

pid_t start_program(const std::vector<std::string>& argv, const StartOptions& options) {
  const auto path = find_program(argv.at(0));
  if (!path) throw NotFoundError("the program " + argv[0] + " was not found, or may not be run");
  const Streams streams(options);
  const std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> arguments = pointers_to(argv);
  const std::vector<char*> variables = pointers_to(environment);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_storage_error(errno, "cannot start " + argv[0]);
  const FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw_storage_error(errno, "cannot start " + argv[0]);
  if (pid == 0) {
    become({path->c_str(), arguments.data(), variables.data(), streams, parent, theirs.get()});
  }
  theirs.close();
  const int error = error_of_start(ours.get());
  if (error == 0) return pid;
  waitpid(pid, nullptr, 0);
  throw_storage_error(error, "cannot start " + argv[0]);
}

}  // namespace cairn
