// Requests to one bucket of Google's XML API, signed with an HMAC key or a token.
#pragma once

#include <string>

#include "storage/gcs/config.h"
#include "storage/remote/remote.h"

namespace cairn::gcs {

class Connection final : public Remote {
 public:
  explicit Connection(Config config) : Remote(config.settings), config_(std::move(config)) {}

  std::string describe(const std::string& key) const override;
  bool is_missing(const HttpResponse& response) const override;
  std::optional<HttpHeader> same_version(const HttpResponse& response) const override;
  const std::string& bucket() const { return config_.options.bucket; }

 protected:
  bool prepare(RemoteRequest& request) const override;
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  bool is_temporary(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  const Config config_;
};

}  // namespace cairn::gcs
