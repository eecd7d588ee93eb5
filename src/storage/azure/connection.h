// Addresses and signs the requests to one container, and translates the errors in the answers.
#pragma once

#include <string>

#include "storage/azure/config.h"
#include "storage/remote/remote.h"

namespace cairn::azure {

class Connection final : public Remote {
 public:
  explicit Connection(Config config);

  std::string describe(const std::string& key) const override;
  bool is_missing(const HttpResponse& response) const override;
  // The URL of a blob of the container as the source of a copy. If the store has a token, the URL
  // contains the token.
  std::string copy_source(const std::string& key) const;

 protected:
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  bool is_temporary(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  std::string path_of(const std::string& key) const;

  const Config config_;
};

}  // namespace cairn::azure
