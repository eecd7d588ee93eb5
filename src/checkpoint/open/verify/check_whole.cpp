#include "checkpoint/open/verify/check_whole.h"

#include "cairn/error.h"

namespace cairn {

void check_whole(const VerifyReport& report, const std::string& path, const Refusal& refusal) {
  if (report.ok()) return;
  std::string message(refusal.called.empty() ? path : refusal.called);
  message.append(" is ").append(report.summary()).append("; ").append(refusal.advice);
  throw CorruptError(message, path, report.damage.front().begin);
}

}  // namespace cairn
