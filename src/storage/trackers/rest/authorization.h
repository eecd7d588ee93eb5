// Who asks: what stands in the header "authorization" of requests to Databricks, MLflow, W&B.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/net_time.h"
#include "net/retry.h"

namespace cairn {

// Safe from several threads.
class Authorization {
 public:
  virtual ~Authorization() = default;
  // The header's value; "" when there is to be none. UsageError when there can be none,
  // StorageError when it cannot be had now.
  virtual std::string header() = 0;
  // The server does not take this one (any more). Whether header() may give another one now.
  virtual bool refused(const std::string& /*used*/) { return false; }
};

// Always the same; "" for none.
std::shared_ptr<Authorization> fixed_authorization(std::string header);
// "Bearer TOKEN"; "Basic ..." of a user and a password.
std::string bearer(const std::string& token);
std::string basic(const std::string& user, const std::string& password);

struct FetchedToken {
  std::string header;
  NetTime expires;
};
// Fetched when it is first asked for, a while before it ends, and when it was refused. When that
// fails, the one of before is used as long as it holds, and for half a minute nobody tries again.
std::shared_ptr<Authorization> fetched_authorization(std::function<FetchedToken()> fetch,
                                                     std::shared_ptr<NetClock> clock);

}  // namespace cairn
