#include "io/process/program_dialog.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "io/file_error.h"

namespace cairn {
namespace {

constexpr std::size_t kMaxReadBytes = std::size_t{64} << 10;
constexpr std::size_t kLongestMessages = 2000;
constexpr int kLastWordsMs = 1000;

}  // namespace

ProgramDialog::ProgramDialog(const std::vector<std::string>& argv, const Wakeup* wakeup)
    : program_(spawn_program(argv)), wakeup_(wakeup) {}

ProgramDialog::~ProgramDialog() {
  if (!is_of_this_process()) return;
  interrupt();
  wait_for_program(program_.pid);
}

// Kills the whole process group: the program's children may hold its pipes open.
void ProgramDialog::interrupt() const {
  if (is_of_this_process() && program_.pid > 0) kill(-program_.pid, SIGKILL);
}

bool ProgramDialog::has_ended(std::optional<int>& status) {
  if (!cairn::has_ended(program_.pid, status)) return false;
  program_.pid = -1;  // another process may have the number now
  return true;
}

ProgramDialog::PumpResult ProgramDialog::pump(ByteView& output, std::string& input,
                                              std::chrono::milliseconds most) {
  const bool sends = !output.empty() && program_.input.is_open();
  std::array<pollfd, 4> ends = {pollfd{sends ? program_.input.get() : -1, POLLOUT, 0},
                                pollfd{program_.output.get(), POLLIN, 0},
                                pollfd{program_.errors.get(), POLLIN, 0},
                                pollfd{wakeup_ ? wakeup_->descriptor() : -1, POLLIN, 0}};
  if (!program_.output.is_open()) return PumpResult::kEnded;
  const int ready = poll(ends.data(), ends.size(), static_cast<int>(most.count()));
  if (ready < 0 && errno != EINTR) throw_storage_error(errno, "cannot wait for a program");
  if (ready == 0) return PumpResult::kNothing;
  if (ready < 0) return PumpResult::kSome;
  if (ends[3].revents != 0) {
    wakeup_->take();
    return PumpResult::kWoken;
  }
  if (ends[0].revents != 0) {
    const ssize_t sent =
        send(program_.input.get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      output = output.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      program_.input.close();  // its last answers may still arrive
    }
  }
  if (ends[2].revents != 0) take_messages();
  if (ends[1].revents == 0) return PumpResult::kSome;
  const std::size_t before = input.size();
  input.resize(before + kMaxReadBytes);
  const ssize_t count = read(program_.output.get(), input.data() + before, kMaxReadBytes);
  input.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count > 0 || (count < 0 && errno == EINTR)) return PumpResult::kSome;
  program_.output.close();
  return PumpResult::kEnded;
}

void ProgramDialog::take_messages() {
  std::array<char, 4096> buffer;
  const ssize_t count = read(program_.errors.get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) {
    program_.errors.close();
    return;
  }
  const std::size_t room = kLongestMessages - messages_.size();
  messages_.append(buffer.data(), std::min(static_cast<std::size_t>(count), room));
}

std::string ProgramDialog::messages() {
  while (!program_.output.is_open() && program_.errors.is_open()) {
    pollfd end{program_.errors.get(), POLLIN, 0};
    if (poll(&end, 1, kLastWordsMs) <= 0) break;
    take_messages();
  }
  return messages_;
}

}  // namespace cairn
