// Signatures with RSA keys, by OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/bytes.h"

struct evp_pkey_st;  // OpenSSL's

namespace cairn {

// A private key. Copies of the object share the key. Thread-safe.
class RsaKey {
 public:
  // Parses PEM text ("-----BEGIN PRIVATE KEY-----"). Throws UsageError if the text is no such key
  // or the passphrase is wrong; the message names `what`, and contains nothing of the text.
  static RsaKey parse(const std::string& pem, const std::string& what,
                      const std::string& passphrase = {});

  // RSASSA-PKCS1-v1_5 with SHA-256: RS256.
  std::vector<std::byte> sign_sha256(std::string_view text) const;

 private:
  explicit RsaKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

// Base 64 for URLs without padding, as in JSON Web Tokens.
std::string base64_url(ByteView bytes);

}  // namespace cairn
