// A program run by a test. Its output is read line by line, so that a test acts when the program
// has printed something, and never sleeps.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::testing {

class ChildProcess {
 public:
  struct Ended {
    int exit_code = -1;  // -1 if a signal ended the program.
    int signal = 0;
  };

  // Starts argv[0] with stdout and stderr in one pipe and an empty stdin. Fails the test if the
  // program cannot be started.
  explicit ChildProcess(const std::vector<std::string>& argv);
  // Kills the program if wait() was not called.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Reads lines until one contains `text`. Returns nullopt if the output ends first.
  std::optional<std::string> wait_for_line(const std::string& text);
  void send(int signal) const;
  // Reads the rest of the output and waits until the program ends.
  Ended wait();

  // Everything read so far.
  const std::string& output() const { return output_; }

 private:
  std::optional<std::string> next_line();

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string output_;
  std::size_t line_begin_ = 0;  // Where in output_ the next line of next_line() begins.
};

}  // namespace cairn::testing
