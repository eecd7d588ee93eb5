// RSA keys for tests. They protect no secret.
#pragma once

#include <string>
#include <string_view>

#include "cairn/bytes.h"

namespace cairn::testing {

// One key for the whole process, in PEM. Encrypted if there is a passphrase.
std::string rsa_key_of_tests(const std::string& passphrase = {});

// Whether `signature` is the signature of `text` with this key, by SHA-256 and PKCS #1 v1.5.
bool is_signed_by_tests(std::string_view text, ByteView signature);

}  // namespace cairn::testing
