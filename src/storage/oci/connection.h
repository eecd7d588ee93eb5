// Requests to one bucket of Oracle's: addressed below its namespace, and signed as
// draft-cavage-http-signatures has it.
#pragma once

#include <string>

#include "io/threads/turns.h"
#include "storage/oci/config.h"
#include "storage/remote/remote.h"

namespace cairn::oci {

// In a query, and not sent: what is meant are uploads, not objects.
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
  bool is_passing(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  SignedRequest signed_request(HttpRequest request, const std::string& target,
                               const std::string& payload_hash) const;
  // The bucket's; asked for once. StorageError.
  std::string name_space();
  std::string target_of(const RemoteRequest& request);

  const Config config_;
  Turns turns_;                  // of what follows; who asks for it has it as long
  std::string name_space_ = {};  // learned
};

}  // namespace cairn::oci
