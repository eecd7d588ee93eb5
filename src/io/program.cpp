// One thread talks to all three ends with poll(); no order of reading and writing can deadlock.
#include "io/program.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <csignal>
#include <thread>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/printable.h"
#include "io/cancellation.h"
#include "io/file_error.h"
#include "io/spawn.h"

namespace cairn {
namespace {

constexpr std::size_t kPipeBufferBytes = std::size_t{64} << 10;
constexpr std::size_t kMostMessageBytes = 2000;
constexpr std::chrono::milliseconds kProgramTimeout{60'000};
constexpr const char* kTimeoutVariable = "CAIRN_PROGRAM_TIMEOUT";
constexpr double kMostSeconds = 1e6;
constexpr std::chrono::milliseconds kLongestPause{20};

// Ended from outside (by the kernel when memory is short, say), and not by what it was given.
bool was_stopped(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
         signal == SIGXCPU;
}

}  // namespace

std::chrono::milliseconds program_timeout() {
  const std::string text = environment(kTimeoutVariable);
  if (text.empty()) return kProgramTimeout;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || stopped != end || !(seconds > 0 && seconds <= kMostSeconds)) {
    throw UsageError(std::string(kTimeoutVariable) +
                     " must be a number of seconds above 0, given: \"" + printable_line(text) +
                     "\"");
  }
  return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
}

ProgramLimits ProgramLimits::of_filter() { return {.silence = program_timeout()}; }

ProgramLimits ProgramLimits::of_answer() {
  return {.total = program_timeout(), .tells_messages = false};
}

PipeThrough::PipeThrough(const std::vector<std::string>& argv, ByteSink& out,
                         const ProgramLimits& limits)
    : out_(out), name_(argv.at(0)), limits_(limits), buffer_(kPipeBufferBytes) {
  SpawnedProgram program = spawn_program(argv);
  pid_ = program.pid;
  input_ = std::move(program.input);
  output_ = std::move(program.output);
  errors_ = std::move(program.errors);
}

PipeThrough::~PipeThrough() { stop(); }

// What it has started may hold its pipes open.
void PipeThrough::stop() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  wait_for_program(std::exchange(pid_, -1));
}

// Nobody may wait for the end of "all children" in place of one that is gone.
void PipeThrough::check_running() const {
  if (pid_ >= 0) return;
  throw StorageError(name_ + " has ended, or was stopped, before; start it again", ECHILD);
}

void PipeThrough::write(ByteView bytes) {
  check_running();
  heard_ = Clock::now();  // between two calls it waits for us
  const CancelHook hook([this] { wakeup_.wake(); });
  while (!bytes.empty() && input_.is_open()) {
    pump(bytes);
  }
}

std::string PipeThrough::finish() {
  check_running();
  input_.close();
  heard_ = Clock::now();
  const CancelHook hook([this] { wakeup_.wake(); });
  ByteView nothing;
  while (output_.is_open() || errors_.is_open()) {
    pump(nothing);
  }
  const auto ended = wait_for_end();
  if (!ended) {
    throw StorageError("nobody knows how " + name_ +
                           " ended: whoever started this program ignores " +
                           "SIGCHLD, or waits for its children; let it wait for its own",
                       ECHILD);
  }
  const int status = *ended;
  if (was_stopped(status)) throw StorageError(describe_end(status) + "; start it again", ECHILD);
  return describe_end(status);
}

int PipeThrough::milliseconds_left() const {
  const auto now = Clock::now();
  const auto left_of = [&](Clock::time_point from, std::chrono::milliseconds limit) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(from + limit - now).count();
    return limit.count() == 0 ? INT_MAX
                              : static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
  };
  const int of_total = left_of(started_, limits_.total);
  const int of_silence = left_of(heard_, limits_.silence);
  const int left = std::min(of_total, of_silence);
  return left == INT_MAX ? -1 : left;
}

bool PipeThrough::is_over() const {
  return limits_.total.count() != 0 && Clock::now() - started_ >= limits_.total;
}

void PipeThrough::check_cancelled() {
  const Cancellation* const here = cancellation_here();
  if (here == nullptr || !here->is_cancelled()) return;
  stop();
  here->check();
}

// It says nothing any more: it has ended, or is about to.
std::optional<int> PipeThrough::wait_for_end() {
  std::optional<int> status;
  std::chrono::milliseconds pause{1};
  while (!has_ended(pid_, status)) {
    if (milliseconds_left() == 0) give_up();
    check_cancelled();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  pid_ = -1;
  return status;
}

// It is no use to go on: what it was given is lost with it.
void PipeThrough::give_up() {
  stop();
  const bool is_total = limits_.total.count() != 0;
  const auto limit = is_total ? limits_.total : limits_.silence;
  const std::string time = limit.count() % 1000 == 0 ? std::to_string(limit.count() / 1000) + " s"
                                                     : std::to_string(limit.count()) + " ms";
  throw StorageError(name_ + (is_total ? " did not end within " : " did nothing for ") + time +
                         ", and was stopped; " + kTimeoutVariable + " gives it more",
                     ETIMEDOUT, /*retryable=*/true);
}

// Waits until one of the ends can go on, and moves what it takes or gives.
void PipeThrough::pump(ByteView& input) {
  std::array<pollfd, 4> ends = {pollfd{input.empty() ? -1 : input_.get(), POLLOUT, 0},
                                pollfd{output_.get(), POLLIN, 0}, pollfd{errors_.get(), POLLIN, 0},
                                pollfd{wakeup_.descriptor(), POLLIN, 0}};
  const int ready = poll(ends.data(), ends.size(), milliseconds_left());
  if (ready < 0) {
    if (errno == EINTR) return;
    throw_storage_error(errno, "cannot wait for " + name_);
  }
  if (ready == 0 || is_over()) give_up();
  if (ends[3].revents != 0) {
    wakeup_.take();
    check_cancelled();
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
  heard_ = Clock::now();  // what the output is for may have taken long
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
  } else if (limits_.tells_messages) {
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
