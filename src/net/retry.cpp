#include "net/retry.h"

#include <algorithm>
#include <string>

#include "io/threads/cancellation.h"
#include "net/net_time.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

class RealNetClock final : public NetClock {
 public:
  std::chrono::system_clock::time_point now() override { return std::chrono::system_clock::now(); }
  void sleep_for(milliseconds time) override { pause_here(time); }
};

}  // namespace

std::shared_ptr<NetClock> real_net_clock() {
  static const auto clock = std::make_shared<RealNetClock>();
  return clock;
}

bool Attempts::wait_for_next(std::optional<milliseconds> server_asks) {
  const RetryPolicy& policy = retries_.policy;
  ++made_;
  if (made_ >= most_) return false;
  milliseconds pause = pause_after(policy, made_);
  if (server_asks) pause = std::max(pause, std::min(*server_asks, policy.longest_pause));
  (retries_.clock ? *retries_.clock : *real_net_clock()).sleep_for(pause);
  return true;
}

std::optional<milliseconds> retry_after(std::string_view text,
                                        std::chrono::system_clock::time_point now) {
  if (text.empty()) return std::nullopt;
  if (text.find_first_not_of("0123456789") == std::string_view::npos) {
    if (text.size() > 6) return std::nullopt;
    return std::chrono::seconds(std::stol(std::string(text)));
  }
  const auto date = parse_http_date(text);
  if (!date) return std::nullopt;
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(*date - now));
}

}  // namespace cairn
