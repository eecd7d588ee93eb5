// Running another program as a filter.
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

// When a program is given up (0: never), and whether it is quoted.
struct ProgramLimits {
  std::chrono::milliseconds total{0};    // it has not ended so long behind its start
  std::chrono::milliseconds silence{0};  // it takes nothing and says nothing for so long
  bool tells_messages = true;            // what it says on its standard error stands in errors

  // Of one that passes on what it is given, however much that is: program_timeout() of
  // silence.
  static ProgramLimits of_filter();
  // Of one that answers with a secret: program_timeout() in all, and what it complains of is not
  // told, for it may hold what it was given.
  static ProgramLimits of_answer();
};

// A minute, or what CAIRN_PROGRAM_TIMEOUT says, in seconds. UsageError when that is no number above
// 0.
std::chrono::milliseconds program_timeout();

// A running program. What is written goes to its standard input, and what it writes to its standard
// output goes to `out`, all on the caller's thread: from within write() and finish().
class PipeThrough final : public ByteSink {
 public:
  // argv[0] is searched for in $PATH: NotFoundError. StorageError when it cannot be started. `out`
  // must live as long as this. Behind a limit it is killed, with all that it started, and so when
  // this thread's work is cancelled: then write() and finish() throw StorageError, CancelledError.
  PipeThrough(const std::vector<std::string>& argv, ByteSink& out,
              const ProgramLimits& limits = ProgramLimits::of_filter());
  // Kills it, with all that it started, when finish() was not called.
  ~PipeThrough() override;
  PipeThrough(const PipeThrough&) = delete;
  PipeThrough& operator=(const PipeThrough&) = delete;

  // What the program does not want any more, because it has ended, is dropped: finish() says why.
  // StorageError once it was given up, or finished.
  void write(ByteView bytes) override;
  // Ends its input and waits for its end. Empty when it ended with 0; otherwise what went wrong:
  // "lzop ended with exit code 1: lzop: <stdin>: Checksum error". StorageError when somebody else
  // ended it, which says nothing about its input.
  std::string finish();

 private:
  void check_running() const;
  // Moves what can be moved, of `input` and to out_. False when the program says nothing any more.
  bool pump(ByteView& input);
  // How long poll() may wait; -1: for ever.
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
  Clock::time_point heard_ = started_;    // bytes moved
  Wakeup wakeup_;                         // the thread was cancelled
  std::optional<ProgramDialog> program_;  // until it has ended, or was stopped
  std::string output_;                    // on its way to out_
};

}  // namespace cairn
