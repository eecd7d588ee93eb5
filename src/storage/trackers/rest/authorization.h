// The credentials of requests to Databricks, MLflow and W&B: the header "authorization".
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/net_time.h"
#include "net/retry.h"

namespace cairn {

// Thread-safe.
class Authorization {
 public:
  virtual ~Authorization() = default;
  // The header's value; "" if requests have no such header. Throws UsageError if a value is needed
  // and there is none, and StorageError if it cannot be fetched now.
  virtual std::string header() = 0;
  // Notes that the server refuses this value. Returns whether header() may give another value now.
  virtual bool note_refused(const std::string& /*used*/) { return false; }
};

// Always returns the same value; "" for none.
std::shared_ptr<Authorization> fixed_authorization(std::string header);
// "Bearer TOKEN", and "Basic ..." with a user and a password.
std::string bearer(const std::string& token);
std::string basic(const std::string& user, const std::string& password);

struct FetchedToken {
  std::string header;
  NetTime expires;
};
// Fetches the token when it is first needed, some time before it expires, and after it was refused.
// If a fetch fails, the token in hand is used until it expires, and no fetch is tried for half a
// minute.
std::shared_ptr<Authorization> fetched_authorization(std::function<FetchedToken()> fetch,
                                                     std::shared_ptr<NetClock> clock);

}  // namespace cairn
