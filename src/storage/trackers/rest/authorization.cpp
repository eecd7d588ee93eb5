#include "storage/trackers/rest/authorization.h"

#include <algorithm>

#include "cairn/error.h"

#include "io/threads/turns.h"
#include "net/digest.h"

namespace cairn {
namespace {

// How long before its expiry a token is fetched again. A short-lived token is fetched after half of
// its life.
constexpr std::chrono::minutes kEarlyToken{2};
// How long no new fetch is tried after a failure, while the kept token is valid.
constexpr std::chrono::seconds kPauseOfTokens{30};

class FixedAuthorization final : public Authorization {
 public:
  explicit FixedAuthorization(std::string header) : header_(std::move(header)) {}
  std::string header() override { return header_; }

 private:
  std::string header_;
};

class FetchedAuthorization final : public Authorization {
 public:
  FetchedAuthorization(std::function<FetchedToken()> fetch, std::shared_ptr<NetClock> clock)
      : fetch_(std::move(fetch)), clock_(clock ? std::move(clock) : real_net_clock()) {}

  std::string header() override {
    const Turn turn(turns_);
    const NetTime now = clock_->now();
    const bool holds = !kept_.header.empty() && now < kept_.expires && !is_refused_;
    if (holds && now < renewal_) return kept_.header;
    try {
      kept_ = fetch_();
      is_refused_ = false;
      renewal_ = std::max(kept_.expires - kEarlyToken, now + (kept_.expires - now) / 2);
    } catch (const StorageError&) {
      if (!holds) throw;
      renewal_ = clock_->now() + kPauseOfTokens;
    }
    return kept_.header;
  }

  bool note_refused(const std::string& used) override {
    const Turn turn(turns_);
    if (used == kept_.header) is_refused_ = true;  // Another thread may have fetched a new token.
    return true;
  }

 private:
  std::function<FetchedToken()> fetch_;
  std::shared_ptr<NetClock> clock_;
  Turns turns_;  // guards the members below; held during a fetch
  FetchedToken kept_ = {};
  NetTime renewal_ = {};
  bool is_refused_ = false;
};

}  // namespace

std::shared_ptr<Authorization> fixed_authorization(std::string header) {
  return std::make_shared<FixedAuthorization>(std::move(header));
}

std::string bearer(const std::string& token) { return "Bearer " + token; }

std::string basic(const std::string& user, const std::string& password) {
  return "Basic " + base64(as_bytes(user + ":" + password));
}

std::shared_ptr<Authorization> fetched_authorization(std::function<FetchedToken()> fetch,
                                                     std::shared_ptr<NetClock> clock) {
  return std::make_shared<FetchedAuthorization>(std::move(fetch), std::move(clock));
}

}  // namespace cairn
