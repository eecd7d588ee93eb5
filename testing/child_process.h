// A program run by a test: its output is read line by line, so that a test acts when the program
// has said something, and never sleeps.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace cairn::testing {

class ChildProcess {
 public:
  struct Ended {
    int exit_code = -1;  // -1 when a signal ended it
    int signal = 0;
  };

  // Starts argv[0] with stdout and stderr in one pipe and an empty stdin. A test failure when it
  // cannot be started.
  explicit ChildProcess(const std::vector<std::string>& argv);
  // Kills it, when wait() was not called.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Reads lines until one contains `text`; nullopt when the output ended before.
  std::optional<std::string> wait_for_line(const std::string& text);
  void send(int signal) const;
  // Reads the rest of the output and waits for the end.
  Ended wait();

  // Everything read so far.
  const std::string& output() const { return output_; }

 private:
  std::optional<std::string> next_line();

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string output_;
  std::size_t line_begin_ = 0;  // of the line that next_line() gives, in output_
};

}  // namespace cairn::testing
