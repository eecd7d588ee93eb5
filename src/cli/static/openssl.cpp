// The static tool has an OpenSSL of its own, which must not read the configuration of the system's
// OpenSSL: it may name engines and providers that belong to another version.
#include <openssl/crypto.h>

namespace {

// OpenSSL reads its configuration when it is first used, by the library or by libcurl. A function
// that runs before main() is certain to come first.
[[gnu::constructor]] void read_no_configuration() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
}

}  // namespace
