// Google's OAuth tokens, for users without an HMAC key. A token comes from one of these:
//
//  1. A credentials file (JSON). The key of a service account signs a JSON Web Token, which is
//     exchanged for a token. A user's refresh token is exchanged directly.
//  2. The metadata server of a machine at Google.
//
// A token is valid for an hour. In Credentials, `access_key` is the account and the two other
// fields are the token, so that the CredentialSources of storage/s3 keep and renew the token.
#pragma once

#include <string>

#include "net/rsa.h"
#include "storage/s3/credentials.h"

namespace cairn::gcs {

struct TokenContext {
  std::shared_ptr<HttpClient> client;
  NetRetries retries = {};
  std::string ca_file = {};
};

// The content of a credentials file.
struct Account {
  enum class Kind : std::uint8_t { kService, kUser };
  Kind kind = Kind::kService;
  std::string name;       // an e-mail address, or a client's id
  std::string token_uri;  // the server that gives tokens
  std::string key_id = {};
  std::optional<RsaKey> key = std::nullopt;  // of a service account
  std::string client_secret = {};            // of a user
  std::string refresh_token = {};
};

// Throws UsageError, with the reason, if the file is no credentials file or cannot be used, and
// UnsupportedError for another type of credentials. Messages repeat nothing of the file's content.
Account read_account(const std::string& path);

// The signed request of a service account for a token: "HEADER.CLAIMS.SIGNATURE".
std::string signed_claims(const Account& account, NetTime now);

// Throws StorageError, which names the server and never repeats its answer.
s3::Credentials fetch_token(const TokenContext& context, const Account& account);
// The token of this machine. Throws StorageError, which names the alternatives, if there is no
// metadata server.
s3::Credentials fetch_machine_token(const TokenContext& context);

}  // namespace cairn::gcs
