#include "cli/run/job.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "cairn/checkpoint/names.h"
#include "cairn/error.h"

#include "cli/shell/interrupted_code.h"
#include "core/text/printable.h"
#include "io/file_descriptor.h"
#include "io/process/start_program.h"

namespace cairn::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A started process and everything that it started: a process group.
struct Process {
  std::int64_t rank = 0;
  pid_t pid = -1;
  std::unique_ptr<KeptOutput> kept = nullptr;  // output that goes to no requested file
  std::optional<int> status = std::nullopt;    // of the started process, from waitpid()
  // The status of a program in its group that outlived the started process.
  std::optional<int> orphan = std::nullopt;
  bool is_empty = false;                   // no process is left in its group
  std::optional<int> code = std::nullopt;  // set when it has ended
  bool was_ended = false;                  // it ended after this program began to end the job
};

constexpr std::size_t kShownBytes = std::size_t{64} << 10;

constexpr std::array kPassedOn = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// Whether this program was started to ignore the signal, for example by nohup.
bool is_ignored(int number) {
  struct sigaction now = {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Job {
 public:
  Job(const JobOptions& options, std::ostream& err) : options_(options), err_(err) {
    signal(SIGCHLD, SIG_DFL);  // if SIGCHLD is ignored (some launchers do), no end is reported
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // programs that outlive their shell become children
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGCHLD);
    for (const int number : kPassedOn) {
      if (!is_ignored(number)) sigaddset(&signals_, number);
    }
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }
  ~Job() {
    for (const Process& process : processes_) {
      if (!process.code) kill(-process.pid, SIGKILL);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run() {
    for (std::int64_t local = 0; local < options_.nproc; ++local)
      start(local);
    while (is_any_running())
      wait_for_something();
    for (const Process& process : processes_)
      show(process);
    int code = 0;
    for (const Process& process : processes_) {
      if (*process.code == 0 || process.was_ended) continue;
      if (*process.code != kInterruptedCode) return *process.code;
      code = kInterruptedCode;
    }
    return code;
  }

 private:
  void start(std::int64_t local);
  void wait_for_something();
  void reap(Process& process) const;
  void reap_others() const;
  void note_end(Process& process);
  void note_ends();
  void end_all();
  void signal_all(int number);
  void show(const Process& process) const;
  bool is_any_running() const {
    return std::ranges::any_of(processes_, [this](const Process& each) {
      return !each.code || (deadline_ && !each.is_empty);
    });
  }
  bool was_passed_on(int code) const { return code > 128 && passed_on_.contains(code - 128); }
  bool was_stop_passed_on() const {
    return passed_on_.contains(SIGTERM) || passed_on_.contains(SIGINT);
  }

  const JobOptions& options_;
  std::ostream& err_;
  sigset_t signals_{};
  std::vector<Process> processes_;
  std::set<int> passed_on_;                    // signals
  std::optional<Clock::time_point> deadline_;  // end of the grace period
};

// Step 1.
void Job::start(std::int64_t local) {
  const FormatVariables variables = {{"rank", options_.base_rank + local},
                                     {"local_rank", local},
                                     {"world_size", options_.world_size},
                                     {"local_world_size", options_.nproc},
                                     {"node_rank", options_.node_rank}};
  StartOptions start{.has_input = local == 0};
  const auto set = [&](const char* name, std::int64_t value) {
    start.environment.emplace_back(name, std::to_string(value));
  };
  set("RANK", options_.base_rank + local);
  set("WORLD_SIZE", options_.world_size);
  set("LOCAL_RANK", local);
  set("LOCAL_WORLD_SIZE", options_.nproc);
  set("NODE_RANK", options_.node_rank);
  set("MASTER_PORT", options_.master_port);
  start.environment.emplace_back("MASTER_ADDR", options_.master_addr);
  if (!options_.job_id.empty()) start.environment.emplace_back("CAIRN_JOB_ID", options_.job_id);
  Process process{.rank = options_.base_rank + local};
  if (local > 0) {
    start.output_path = strict_format(NameFormat(options_.output), variables);
    start.errors_path = strict_format(NameFormat(options_.errors), variables);
    if (options_.output.empty() || options_.errors.empty()) {
      process.kept = std::make_unique<KeptOutput>();
    }
    start.kept = process.kept.get();
  }
  process.pid = start_program(options_.command, start);
  if (options_.is_verbose) {
    err_ << "cairn-run: rank " << process.rank << " is process " << process.pid << "\n";
  }
  processes_.push_back(std::move(process));
}

void Job::wait_for_something() {
  int number = 0;
  if (deadline_) {
    const auto left = std::max(Clock::duration::zero(), *deadline_ - Clock::now());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout = {seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
    number = sigtimedwait(&signals_, nullptr, &timeout);
    if (number < 0 && errno == EAGAIN) {
      signal_all(SIGKILL);
      deadline_ = Clock::now() + std::chrono::hours(1);  // no process outlives SIGKILL
      return;
    }
  } else {
    number = sigwaitinfo(&signals_, nullptr);
  }
  if (number > 0 && number != SIGCHLD) {
    passed_on_.insert(number);
    signal_all(number);
  }
  note_ends();
}

// A program that outlives its shell becomes a child of cairn-run, and is still in the shell's
// group.
void Job::reap(Process& process) const {
  int status = 0;
  if (!process.status && waitpid(process.pid, &status, WNOHANG) == process.pid) {
    process.status = status;
  }
  while (!process.is_empty) {
    const pid_t pid = waitpid(-process.pid, &status, WNOHANG);
    if (pid == 0) return;
    if (pid < 0) {
      process.is_empty = process.status.has_value();
      return;
    }
    if (pid == process.pid) {
      process.status = status;
      continue;
    }
    // The last program that failed decides. A program that a passed-on signal ended does not count.
    const int code = code_of(status);
    if (!process.status || was_passed_on(code)) continue;
    if (!process.orphan || code != 0) process.orphan = status;
  }
}

// Reaps children in process groups that programs made themselves.
void Job::reap_others() const {
  for (siginfo_t info = {};; info.si_pid = 0) {
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const pid_t group = getpgid(info.si_pid);
    if (std::ranges::any_of(processes_, [&](const Process& each) {
          return each.pid == group || each.pid == info.si_pid;
        })) {
      return;  // a process of the job has just ended; note_ends() handles it next
    }
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

// The end of a shell by a signal says nothing about the shell's program, which may still be saving.
void Job::note_end(Process& process) {
  reap(process);
  if (process.code || !process.status) return;
  const bool was_cut_off = was_passed_on(code_of(*process.status));
  const bool is_ending = deadline_ || was_stop_passed_on();
  if (!process.is_empty && (was_cut_off || is_ending)) return;
  const int status = was_cut_off && process.orphan ? *process.orphan : *process.status;
  process.code = code_of(status);
  process.was_ended = deadline_.has_value();
  if (*process.code == 0 || process.was_ended) return;
  err_ << "cairn-run: rank " << process.rank
       << (WIFSIGNALED(status) ? std::string(" was ended by ") + strsignal(WTERMSIG(status))
                               : " ended with exit code " + std::to_string(*process.code))
       << "\n";
}

// Steps 2 and 3.
void Job::note_ends() {
  for (Process& process : processes_)
    note_end(process);
  reap_others();
  const bool has_failed = std::ranges::any_of(processes_, [](const Process& each) {
    return each.code.value_or(0) != 0 && each.code != kInterruptedCode;
  });
  if (has_failed && !deadline_) end_all();
}

// Sends no SIGTERM to processes that were already asked to stop: a second SIGTERM would end their
// last save.
void Job::end_all() {
  deadline_ = Clock::now() + options_.grace;
  if (is_any_running()) err_ << "cairn-run: ending the other processes\n";
  if (!was_stop_passed_on()) signal_all(SIGTERM);
}

// Signals whole groups: a shell would die alone and leave its program running.
void Job::signal_all(int number) {
  for (const Process& process : processes_) {
    if (!process.is_empty) kill(-process.pid, number);
  }
}

void Job::show(const Process& process) const {
  const bool has_failed =
      *process.code != 0 && *process.code != kInterruptedCode && !process.was_ended;
  const std::string text = has_failed && process.kept ? process.kept->last(kShownBytes) : "";
  if (text.empty()) return;
  err_ << "cairn-run: the last output of rank " << process.rank << ":\n" << printable(text);
  if (text.back() != '\n') err_ << "\n";
}

}  // namespace

int run_job(const JobOptions& options, std::ostream& err) { return Job(options, err).run(); }

}  // namespace cairn::cli
