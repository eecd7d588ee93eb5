// Runs another program as a filter.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/bytes.h"

#include "io/process/program_dialog.h"
#include "io/threads/wakeup.h"

namespace cairn {

// When a program is stopped (0: never), and whether errors quote it.
struct ProgramLimits {
  std::chrono::milliseconds total{0};    // most time from its start to its end
  std::chrono::milliseconds silence{0};  // most time without taking input or writing output
  bool quotes_messages = true;  // errors contain what the program writes to its standard error

  // For a program that passes on any amount of input: a silence of program_timeout().
  static ProgramLimits of_filter();
  // For a program that answers with a secret: program_timeout() in all. Errors do not quote it,
  // because the messages of the program may contain its input.
  static ProgramLimits of_answer();
};

// One minute, or CAIRN_PROGRAM_TIMEOUT in seconds. Throws UsageError if the variable is not a
// number above 0.
std::chrono::milliseconds program_timeout();

// A running program. write() passes bytes to its standard input. Its standard output goes to `out`,
// on the caller's thread, within write() and finish().
class PipeThrough final : public ByteSink {
 public:
  // argv[0] is searched for in $PATH: throws NotFoundError, or StorageError if it cannot be
  // started. `out` must outlive this object. The program, and all that it started, is killed when a
  // limit passes or this thread's work is cancelled. Then write() and finish() throw StorageError
  // or CancelledError.
  PipeThrough(const std::vector<std::string>& argv, ByteSink& out,
              const ProgramLimits& limits = ProgramLimits::of_filter());
  // Kills the program, and all that it started, unless finish() was called.
  ~PipeThrough() override;
  PipeThrough(const PipeThrough&) = delete;
  PipeThrough& operator=(const PipeThrough&) = delete;

  // If the program has ended and takes no more bytes, drops them: finish() says why it ended.
  // Throws StorageError if the program was stopped or finished.
  void write(ByteView bytes) override;
  // Closes the program's input and waits for its end. Returns an empty text if its exit code was 0,
  // otherwise the problem: "lzop ended with exit code 1: lzop: <stdin>: Checksum error". Throws
  // StorageError if the program was ended from outside, which says nothing about its input.
  std::string finish();

 private:
  void check_running() const;
  // Moves the bytes that can move: from `input` to the program, and from the program to out_.
  // Returns false when the program writes no more.
  bool pump(ByteView& input);
  // How long poll() may wait; -1: without limit.
  int milliseconds_left() const;
  bool is_over() const;
  std::optional<int> wait_for_end();
  void check_cancelled();
  [[noreturn]] void give_up();
  std::string describe_end(int status, std::string_view messages) const;

  ByteSink& out_;
  std::string name_;
  const ProgramLimits limits_;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point last_moved_ = started_;  // when bytes last moved
  Wakeup wakeup_;                            // woken when the thread's work is cancelled
  std::optional<ProgramDialog> program_;     // until it has ended or was stopped
  std::string output_;                       // on its way to out_
};

}  // namespace cairn
