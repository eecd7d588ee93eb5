// A copy of this process that calls a function, and then lives until it is killed.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

namespace cairn::testing {

class OtherProcess {
 public:
  // Returns when `act` has returned in the copy. Fails the test if `act` throws.
  explicit OtherProcess(const std::function<void()>& act) {
    std::array<int, 2> ends = {};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      live(act, ends[1]);
    }
    ::close(ends[1]);
    char done = 0;
    EXPECT_EQ(::read(ends[0], &done, 1), 1) << "the other process threw";
    ::close(ends[0]);
  }
  ~OtherProcess() { kill(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Kills the process as the kernel does, with SIGKILL: none of its code runs any more. The process
  // is gone when this returns.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  [[noreturn]] static void live(const std::function<void()>& act, int done) {
    try {
      act();
    } catch (...) {
      _exit(1);
    }
    if (::write(done, "x", 1) != 1) _exit(2);
    for (;;)
      pause();
  }

  pid_t pid_ = -1;
};

}  // namespace cairn::testing
