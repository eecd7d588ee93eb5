#include "net/retry.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "net/net_time.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

class RealNetClock final : public NetClock {
 public:
  std::chrono::system_clock::time_point now() override { return std::chrono::system_clock::now(); }
  void sleep_for(milliseconds time) override { std::this_thread::sleep_for(time); }
};

double jitter() {
  static std::mutex mutex;
  static std::mt19937_64 engine(std::random_device{}());
  const std::scoped_lock lock(mutex);
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

}  // namespace

std::shared_ptr<NetClock> real_net_clock() {
  static const auto clock = std::make_shared<RealNetClock>();
  return clock;
}

bool Attempts::again(std::optional<milliseconds> server_asks) {
  ++made_;
  if (made_ >= most_) return false;
  const auto whole = std::min<std::int64_t>(policy_.longest.count(),
                                            policy_.first.count() << std::min(made_ - 1, 20));
  const double share = 0.5 + (policy_.random ? policy_.random() : jitter()) / 2;
  milliseconds pause(static_cast<std::int64_t>(static_cast<double>(whole) * share));
  if (server_asks) pause = std::max(pause, std::min(*server_asks, policy_.longest));
  (policy_.clock ? *policy_.clock : *real_net_clock()).sleep_for(pause);
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
