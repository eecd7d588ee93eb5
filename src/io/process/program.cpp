#include "io/process/program.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <csignal>
#include <thread>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/printable.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

constexpr std::chrono::milliseconds kProgramTimeout{60'000};
constexpr const char* kTimeoutVariable = "CAIRN_PROGRAM_TIMEOUT";
constexpr double kMaxSeconds = 1e6;
constexpr std::chrono::milliseconds kLongestPause{20};

// Whether the program was ended from outside (for example by the kernel when memory is short), and
// not because of its input.
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
  if (error != std::errc() || stopped != end || !(seconds > 0 && seconds <= kMaxSeconds)) {
    throw UsageError(std::string(kTimeoutVariable) +
                     " must be a number of seconds above 0, given: \"" + printable_line(text) +
                     "\"");
  }
  return std::chrono::milliseconds(std::llround(std::ceil(seconds * 1000)));
}

ProgramLimits ProgramLimits::of_filter() { return {.silence = program_timeout()}; }

ProgramLimits ProgramLimits::of_answer() {
  return {.total = program_timeout(), .quotes_messages = false};
}

PipeThrough::PipeThrough(const std::vector<std::string>& argv, ByteSink& out,
                         const ProgramLimits& limits)
    : out_(out), name_(argv.at(0)), limits_(limits), program_(std::in_place, argv, &wakeup_) {}

PipeThrough::~PipeThrough() = default;

// Throws if the program is gone. Waiting for its end could then take the end of any other child.
void PipeThrough::check_running() const {
  if (program_) return;
  throw StorageError(name_ + " has ended, or was stopped, before; start it again", ECHILD);
}

void PipeThrough::write(ByteView bytes) {
  check_running();
  last_moved_ = Clock::now();  // between two calls the program waits for its input
  const CancelHook hook([this] { wakeup_.wake(); });
  while (!bytes.empty() && program_->takes_input()) {
    if (!pump(bytes)) return;
  }
}

std::string PipeThrough::finish() {
  check_running();
  program_->close_input();
  last_moved_ = Clock::now();
  const CancelHook hook([this] { wakeup_.wake(); });
  ByteView nothing;
  while (pump(nothing)) {
  }
  const std::string messages = limits_.quotes_messages ? program_->messages() : "";
  const auto ended = wait_for_end();
  if (!ended) {
    throw StorageError("it is unknown how " + name_ +
                           " ended: this program ignores SIGCHLD, or other code in it " +
                           "waits for all children; let that code wait only for its own",
                       ECHILD);
  }
  const int status = *ended;
  std::string end = describe_end(status, messages);
  if (was_stopped(status)) throw StorageError(end + "; start it again", ECHILD);
  return end;
}

int PipeThrough::milliseconds_left() const {
  const auto now = Clock::now();
  const auto left_of = [&](Clock::time_point from, std::chrono::milliseconds limit) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(from + limit - now).count();
    return limit.count() == 0 ? INT_MAX
                              : static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
  };
  const int of_total = left_of(started_, limits_.total);
  const int of_silence = left_of(last_moved_, limits_.silence);
  const int left = std::min(of_total, of_silence);
  return left == INT_MAX ? -1 : left;
}

bool PipeThrough::is_over() const {
  return limits_.total.count() != 0 && Clock::now() - started_ >= limits_.total;
}

void PipeThrough::check_cancelled() {
  const Cancellation* const here = cancellation_here();
  if (here == nullptr || !here->is_cancelled()) return;
  program_.reset();
  here->check();
}

// Call this for a program that writes no more: it has ended, or is about to end.
std::optional<int> PipeThrough::wait_for_end() {
  std::optional<int> status;
  std::chrono::milliseconds pause{1};
  while (!program_->has_ended(status)) {
    if (milliseconds_left() == 0) give_up();
    check_cancelled();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  program_.reset();
  return status;
}

// Kills the program, and throws. The program cannot be continued: the input that it was given is
// lost.
void PipeThrough::give_up() {
  program_.reset();
  const bool is_total = limits_.total.count() != 0;
  const auto limit = is_total ? limits_.total : limits_.silence;
  const std::string time = limit.count() % 1000 == 0 ? std::to_string(limit.count() / 1000) + " s"
                                                     : std::to_string(limit.count()) + " ms";
  throw StorageError(name_ + (is_total ? " did not end within " : " did nothing for ") + time +
                         ", and was stopped; " + kTimeoutVariable + " gives it more",
                     ETIMEDOUT, /*retryable=*/true);
}

bool PipeThrough::pump(ByteView& input) {
  const std::chrono::milliseconds left{milliseconds_left()};
  const ProgramDialog::PumpResult moved = program_->pump(input, output_, left);
  if (moved == ProgramDialog::PumpResult::kNothing || is_over()) give_up();
  if (moved == ProgramDialog::PumpResult::kWoken) check_cancelled();
  if (!output_.empty()) out_.write(as_bytes(output_));
  output_.clear();
  last_moved_ = Clock::now();  // out_ may have taken long
  return moved != ProgramDialog::PumpResult::kEnded;
}

std::string PipeThrough::describe_end(int status, std::string_view messages) const {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  std::string text = name_;
  text += WIFEXITED(status) ? " ended with exit code " + std::to_string(WEXITSTATUS(status))
                            : " was ended by signal " + std::to_string(WTERMSIG(status));
  while (messages.ends_with('\n')) {
    messages.remove_suffix(1);
  }
  if (!messages.empty()) text.append(": ").append(messages);
  return text;
}

}  // namespace cairn
