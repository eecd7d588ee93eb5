// RSA keys for tests: nobody's secret.
#pragma once

#include <string>
#include <string_view>

#include "cairn/bytes.h"

namespace cairn::testing {

// One for the whole process, in PEM; encrypted when there is a passphrase.
std::string rsa_key_of_tests(const std::string& passphrase = {});

// Whether `signature` is that of `text` by the key, with SHA-256 and PKCS #1 v1.5.
bool is_signed_by_tests(std::string_view text, ByteView signature);

}  // namespace cairn::testing
