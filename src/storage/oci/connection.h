// Requests to one Oracle bucket: addressed below its namespace, and signed according to
// draft-cavage-http-signatures.
#pragma once

#include <string>

#include "io/threads/turns.h"
#include "storage/oci/config.h"
#include "storage/remote/remote.h"

namespace cairn::oci {

// A query name that is not sent: it marks a request about uploads instead of objects.
inline constexpr const char* kOfUploads = "uploads";

class Connection final : public Remote {
 public:
  explicit Connection(Config config) : Remote(config.settings), config_(std::move(config)) {}

  std::string describe(const std::string& key) const override;
  bool is_missing(const HttpResponse& response) const override;

 protected:
  bool prepare(RemoteRequest& request) const override;
  std::string hash_text(const Sha256& hash) const override { return base64(hash); }
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  bool is_temporary(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  SignedRequest signed_request(HttpRequest request, const std::string& target,
                               const std::string& payload_hash) const;
  // The bucket's namespace, requested once. Throws StorageError.
  std::string name_space();
  std::string target_of(const RemoteRequest& request);

  const Config config_;
  Turns turns_;                  // guards name_space_; held during the request
  std::string name_space_ = {};  // the server's answer
};

}  // namespace cairn::oci
