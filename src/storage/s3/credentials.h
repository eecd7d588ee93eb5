// Who signs requests: keys that are given, or found where AWS's tools find them:
//
//  1. In the options.
//  2. In the environment.
//  3. A web identity (Kubernetes): AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or the profile's.
//  4. The profile's keys.
//  5. The profile's credential_process.
//  6. A container's endpoint.
//  7. The instance's metadata service (IMDSv2).
//
// Those of 3 and 5 to 7 end after hours: they are fetched again before that, also in the middle of
// an upload, for each request asks for them anew.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/http.h"
#include "net/net_time.h"
#include "net/retry.h"
#include "storage/s3/profile.h"

namespace cairn::s3 {

struct Credentials {
  std::string access_key = {};
  std::string secret_key = {};
  std::string session_token = {};
  std::optional<NetTime> expires = std::nullopt;  // nullopt: never

  bool complete() const { return !access_key.empty() && !secret_key.empty(); }
};

// Safe from several threads.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  // Those to sign with now. UsageError when there are none and never were, StorageError when their
  // source does not answer, or has none any more.
  virtual Credentials get() = 0;
  // The server says that these have expired: the next get() fetches others, where there are others.
  virtual void refused(const Credentials& /*used*/) {}
};

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials);

// Fetches them when they are asked for, a while before they expire, and when they were refused.
// When that fails, or gives some that end as soon, what there is is used as long as it holds, and
// for half a minute nobody tries again. `what` messages call them.
std::shared_ptr<CredentialSource> fetched_credentials(std::function<Credentials()> fetch,
                                                      std::shared_ptr<NetClock> clock,
                                                      std::string what = "keys for S3");

// What looking for keys needs to know.
struct CredentialContext {
  Credentials given = {};  // of the options
  Profile profile = {};
  bool is_profile_given = false;  // by the options: goes before the environment
  std::string region = {};
  std::string ca_file = {};
  std::shared_ptr<HttpClient> client = {};
  NetRetries retries = {};
};

struct FoundCredentials {
  std::shared_ptr<CredentialSource> source;
  std::string identity;  // differs where the keys may; a secret
};

FoundCredentials find_credentials(const CredentialContext& context);

}  // namespace cairn::s3
