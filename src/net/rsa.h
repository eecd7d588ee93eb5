// Signatures with RSA keys, by OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/bytes.h"

struct evp_pkey_st;  // OpenSSL's

namespace cairn {

// A private key. Copies share it; safe from several threads.
class RsaKey {
 public:
  // Of PEM text, as "-----BEGIN PRIVATE KEY-----". UsageError, naming `what` it is of and nothing
  // of the text, when it is none, or the passphrase is not its own.
  static RsaKey parse(const std::string& pem, const std::string& what,
                      const std::string& passphrase = {});

  // RSASSA-PKCS1-v1_5 with SHA-256: RS256.
  std::vector<std::byte> sign_sha256(std::string_view text) const;

 private:
  explicit RsaKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

// Base 64 for URLs, without padding, as JSON Web Tokens have it.
std::string base64_url(ByteView bytes);

}  // namespace cairn
