// Another program that one talks with: requests go in and answers come out, both at once.
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

// One thread at a time, but for interrupt().
class ProgramDialog {
 public:
  // As spawn_program(). `wakeup`, which must live as long as this, ends the waiting of pump().
  explicit ProgramDialog(const std::vector<std::string>& argv, const Wakeup* wakeup = nullptr);
  // Kills it, with all that it started.
  ~ProgramDialog();
  ProgramDialog(const ProgramDialog&) = delete;
  ProgramDialog& operator=(const ProgramDialog&) = delete;

  enum class Moved : std::uint8_t {
    kSome,     // bytes, in one direction at least
    kNothing,  // for so long
    kWoken,    // whoever waits has something else to do
    kEnded,    // it says nothing any more
  };
  // Waits until bytes can move, and moves some: from the front of `output` to the program, and from
  // it to the end of `input`, which grows by at most 64 KiB.
  Moved pump(ByteView& output, std::string& input, std::chrono::milliseconds most);

  // Ends its input: it gets no more.
  void close_input() { program_.input.close(); }
  // False when it wants no more, or was given the end.
  bool takes_input() const { return program_.input.is_open(); }
  // has_ended() of io/process/spawn.h.
  bool has_ended(std::optional<int>& status);

  // What it has said on its standard error so far, the first 2000 characters; of one that has
  // ended, all of them.
  std::string messages();

  // From any thread: what pump() waits for has ended.
  void interrupt() const;
  // False behind a fork, in the child: the program is the parent's, which talks with it.
  bool is_of_this_process() const { return owner_ == getpid(); }

 private:
  void take_messages();

  const pid_t owner_ = getpid();
  SpawnedProgram program_;
  const Wakeup* wakeup_;
  std::string messages_;
};

}  // namespace cairn
