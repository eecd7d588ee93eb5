// The keys that sign requests. The keys are given, or found where AWS's tools find them:
//
//  1. In the options.
//  2. In the environment.
//  3. A web identity (Kubernetes): AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or the profile's.
//  4. The profile's keys.
//  5. The profile's credential_process.
//  6. A container's endpoint.
//  7. The instance's metadata service (IMDSv2).
//
// Keys from 3 and 5 to 7 expire after hours. Such keys are fetched again before they expire, even
// in the middle of an upload, since each request asks for the keys anew.
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

// Thread-safe.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  // The keys to sign with now. Throws UsageError if there are none and never were, and StorageError
  // if their source does not answer or has none any more.
  virtual Credentials get() = 0;
  // Notes that the server says that these keys have expired. The next get() fetches new keys, if
  // the source can.
  virtual void note_refused(const Credentials& /*used*/) {}
};

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials);

// Fetches keys when they are first needed, some time before they expire, and after they were
// refused. If a fetch fails, or returns keys that expire just as soon, the keys in hand are used
// until they expire, and no fetch is tried for half a minute. `what` names the keys in messages.
std::shared_ptr<CredentialSource> fetched_credentials(std::function<Credentials()> fetch,
                                                      std::shared_ptr<NetClock> clock,
                                                      std::string what = "keys for S3");

// The input of find_credentials().
struct CredentialContext {
  Credentials given = {};  // from the options
  Profile profile = {};
  bool is_profile_given = false;  // by the options; then `profile` goes before the environment
  std::string region = {};
  std::string ca_file = {};
  std::shared_ptr<HttpClient> client = {};
  NetRetries retries = {};
};

struct FoundCredentials {
  std::shared_ptr<CredentialSource> source;
  std::string identity;  // differs if the keys may differ; a secret
};

FoundCredentials find_credentials(const CredentialContext& context);

}  // namespace cairn::s3
