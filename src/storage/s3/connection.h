// Addresses and signs the requests to one bucket, and corrects both after the server's answers.
#pragma once

#include <mutex>
#include <string>

#include "storage/remote/remote.h"
#include "storage/s3/answers.h"
#include "storage/s3/config.h"

namespace cairn::s3 {

class Connection final : public Remote {
 public:
  explicit Connection(Config config);

  const Config& config() const { return config_; }

  std::string describe(const std::string& key) const override;
  bool is_missing(const HttpResponse& response) const override;

 protected:
  bool prepare(RemoteRequest& request) const override;
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  bool is_temporary(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  std::string region() const;

  const Config config_;
  mutable std::mutex mutex_;
  std::string region_ = {};  // learned; under the lock
};

}  // namespace cairn::s3
