// A conversation with another program: requests go in and answers come out at the same time.
#pragma once

#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cairn/bytes.h"

#include "io/process/spawn.h"
#include "io/threads/wakeup.h"

namespace cairn {

// For one thread at a time, except interrupt().
class ProgramDialog {
 public:
  // Starts the program as spawn_program() does. `wakeup` ends the waiting of pump(), and must
  // outlive this object.
  explicit ProgramDialog(const std::vector<std::string>& argv, const Wakeup* wakeup = nullptr);
  // Kills the program, and all that it started.
  ~ProgramDialog();
  ProgramDialog(const ProgramDialog&) = delete;
  ProgramDialog& operator=(const ProgramDialog&) = delete;

  enum class PumpResult : std::uint8_t {
    kSome,     // bytes moved, in at least one direction
    kNothing,  // nothing moved for the given time
    kWoken,    // `wakeup` ended the wait
    kEnded,    // the program writes no more
  };
  // Waits until bytes can move, and moves some: from the front of `output` to the program, and from
  // the program to the end of `input`, which grows by at most 64 KiB.
  PumpResult pump(ByteView& output, std::string& input, std::chrono::milliseconds most);

  // Ends the program's input.
  void close_input() { program_.input.close(); }
  // Returns false if the program takes no more, or its input was closed.
  bool takes_input() const { return program_.input.is_open(); }
  // has_ended() of io/process/spawn.h.
  bool has_ended(std::optional<int>& status);

  // The program's standard error so far, at most 2000 characters. If the program has ended, the
  // text is complete up to that limit.
  std::string messages();

  // Kills the program, so that pump() ends. From any thread.
  void interrupt() const;
  // Returns false in the child of a fork(): the program belongs to the parent, which talks with it.
  bool is_of_this_process() const { return owner_ == getpid(); }

 private:
  void take_messages();

  const pid_t owner_ = getpid();
  SpawnedProgram program_;
  const Wakeup* wakeup_;
  std::string messages_;
};

}  // namespace cairn
