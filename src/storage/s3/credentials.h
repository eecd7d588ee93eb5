// Who signs requests: keys that are given, or found where AWS's tools find them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "net/net_time.h"

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
  // Those to sign with now. UsageError when there are none, StorageError when their source does not
  // answer.
  virtual Credentials get() = 0;
  // The server says that these have expired: the next get() fetches others, where there are others.
  virtual void refused(const Credentials& /*used*/) {}
};

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials);

}  // namespace cairn::s3
