#include "io/file_size_limit.h"

#include <csignal>
#include <mutex>

namespace cairn {

void ignore_file_size_signal() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    if (sigaction(SIGXFSZ, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
      action.sa_handler = SIG_IGN;
      sigaction(SIGXFSZ, &action, nullptr);
    }
  });
}

}  // namespace cairn
