// A strict server of Google's XML API in this process. It also serves the tokens that the API
// takes, and as much of the JSON API as Google's own clients need. It checks signatures, tokens,
// checksums and generations, and fails as a test tells it to. The base class FakeS3 has the parts
// that the XML API shares with S3.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "testing/fake_s3.h"

namespace cairn::testing {

struct FakeGcsOptions {
  std::string key = "GOOGFAKE";
  std::string secret = "canary-secret-of-googles-fake";
  // Two identities get tokens: a service account that signs with this private key (PEM), and a
  // user.
  std::string account = "robot@project.iam.gserviceaccount.com";
  std::string private_key = {};
  std::string refresh_token = "canary-refresh-token";
  std::string client_secret = "canary-client-secret";
  int token_seconds = 3600;  // How long tokens are valid.
  bool keeps_old = false;  // Answers 200 to a write over an existing name, but keeps the old bytes.
  double fault_rate = 0;   // The share of requests that fail.
  unsigned seed = 1;
};

class FakeGcs : public FakeS3 {
 public:
  explicit FakeGcs(FakeGcsOptions options = {});
  ~FakeGcs() override { stop(); }

  // From now on, rejects the tokens that were given so far.
  void revoke_tokens();
  std::size_t tokens();  // How many tokens the server has given so far.

 protected:
  HttpReply answer(const Asked& asked) override;
  HttpReply check_signature(const Asked& asked) override;
  HttpReply check_body(const Asked& asked) override;
  HttpReply check_read(const Asked& asked, const Object& object) override;
  HttpReply check_condition(const Asked& asked, const std::string& path, bool is_upload) override;
  void describe(const Asked& asked, const Object& object, HttpReply& reply) override;
  std::string listed(const Object& object) const override;
  bool keeps_header(const std::string& name) const override;
  std::string copy_source(const Asked& asked) const override;
  HttpReply check_source(const Asked& asked, const Object& object) override;

 private:
  // An upload in the JSON API that continues over several requests.
  struct Session {
    Asked begun;
    std::string resource;  // JSON
    std::string bytes = {};
  };

  HttpReply give_token(const Asked& asked);
  bool is_assertion(const std::string& token) const;
  bool is_token(const std::string& token) const;
  // In fake_gcs_json.cpp:
  HttpReply check_signed_url(const Asked& asked) const;
  HttpReply json_api(const Asked& asked);
  HttpReply json_object(const Asked& asked, const std::string& path);
  HttpReply json_list(const Asked& asked);
  HttpReply json_upload(const Asked& asked);
  HttpReply json_session(const Asked& asked);
  HttpReply json_keep(const Asked& asked, const std::string& resource, const std::string& bytes);
  HttpReply json_rewrite(const std::string& from, const std::string& to);

  FakeGcsOptions gcs_;
  std::vector<std::string> tokens_;  // Only the last token is valid.
  bool is_revoked_ = false;
  std::map<std::string, Session> sessions_;  // By id.
};

// CRC32C as Google writes it: four bytes in base64.
std::string crc32c_base64(const std::string& bytes);

}  // namespace cairn::testing
