// A strict server of Google's XML API in this process, and of the tokens that it takes: it checks
// signatures, tokens, checksums and generations, and fails as it is told. What it shares with S3 is
// FakeS3's.
#pragma once

#include <string>
#include <vector>

#include "testing/fake_s3.h"

namespace cairn::testing {

struct FakeGcsOptions {
  std::string key = "GOOGFAKE";
  std::string secret = "canary-secret-of-googles-fake";
  // Who gets tokens: a service account with the public half of this private key (PEM), a user.
  std::string account = "robot@project.iam.gserviceaccount.com";
  std::string private_key = {};
  std::string refresh_token = "canary-refresh-token";
  std::string client_secret = "canary-client-secret";
  int token_seconds = 3600;  // so long they hold, as the server says
  bool keeps_old = false;    // of a name that is there: says 200, and replaces nothing
  double fault_rate = 0;     // of all requests
  unsigned seed = 1;
};

class FakeGcs : public FakeS3 {
 public:
  explicit FakeGcs(FakeGcsOptions options = {});
  ~FakeGcs() override { stop(); }

  // Tokens that were given are not taken any more.
  void revoke_tokens();
  std::size_t tokens();  // given so far

 protected:
  HttpReply answer(const Asked& asked) override;
  HttpReply check_signature(const Asked& asked) override;
  HttpReply check_body(const Asked& asked) override;
  HttpReply check_read(const Asked& asked, const Object& object) override;
  HttpReply check_condition(const Asked& asked, const std::string& path, bool is_upload) override;
  void describe(const Asked& asked, const Object& object, HttpReply& reply) override;
  std::string listed(const Object& object) const override;
  bool lists_so(const Asked& asked) const override;
  bool keeps_header(const std::string& name) const override;
  std::string copy_source(const Asked& asked) const override;

 private:
  HttpReply give_token(const Asked& asked);
  bool is_assertion(const std::string& token) const;

  FakeGcsOptions gcs_;
  std::vector<std::string> tokens_;  // the last one is taken
  bool is_revoked_ = false;
};

}  // namespace cairn::testing
