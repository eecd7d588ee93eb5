// OAuth tokens of Google's, for those who have no HMAC key:
//
//  1. a file (JSON) of a service account, whose key signs a JSON Web Token that is exchanged for
//     one, or of a user, whose refresh token is;
//  2. the metadata server of a machine of Google's.
//
// A token holds for an hour. As Credentials: the account as `access_key`, the token as the two
// others, so that the sources of storage/s3 keep and renew it.
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

// What a file of credentials says.
struct Account {
  enum class Kind : std::uint8_t { kService, kUser };
  Kind kind = Kind::kService;
  std::string name;       // an e-mail address, or a client's id
  std::string token_uri;  // who gives tokens
  std::string key_id = {};
  std::optional<RsaKey> key = std::nullopt;  // of a service account
  std::string client_secret = {};            // of a user
  std::string refresh_token = {};
};

// UsageError when the file is none, or cannot be used, saying why; UnsupportedError for another
// kind. Nothing that it holds is repeated.
Account read_account(const std::string& path);

// The signed request of a service account for a token: "HEADER.CLAIMS.SIGNATURE".
std::string signed_claims(const Account& account, NetTime now);

// StorageError, naming where it asked and never what it got.
s3::Credentials fetch_token(const TokenContext& context, const Account& account);
// Of this machine; UsageError, which says what else there is, where there is no such server.
s3::Credentials fetch_machine_token(const TokenContext& context);

}  // namespace cairn::gcs
