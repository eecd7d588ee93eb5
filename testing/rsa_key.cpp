#include "testing/rsa_key.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <memory>
#include <stdexcept>

namespace cairn::testing {
namespace {

constexpr int kBits = 2048;

EVP_PKEY* make_key() {
  EVP_PKEY_CTX* const context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nullptr);
  EVP_PKEY* key = nullptr;
  const bool done = context != nullptr && EVP_PKEY_keygen_init(context) == 1 &&
                    EVP_PKEY_CTX_set_rsa_keygen_bits(context, kBits) == 1 &&
                    EVP_PKEY_keygen(context, &key) == 1;
  EVP_PKEY_CTX_free(context);
  if (!done) throw std::runtime_error("OpenSSL makes no RSA key");
  return key;
}

EVP_PKEY* key_of_tests() {
  static const std::shared_ptr<EVP_PKEY> key(make_key(), EVP_PKEY_free);
  return key.get();
}

}  // namespace

std::string rsa_key_of_tests(const std::string& passphrase) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(BIO_new(BIO_s_mem()), BIO_free);
  std::string given = passphrase;
  auto* const secret = reinterpret_cast<unsigned char*>(given.data());
  if (PEM_write_bio_PrivateKey(text.get(), key_of_tests(),
                               given.empty() ? nullptr : EVP_aes_256_cbc(),
                               given.empty() ? nullptr : secret, static_cast<int>(given.size()),
                               nullptr, nullptr) != 1) {
    throw std::runtime_error("OpenSSL writes no RSA key");
  }
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

bool is_signed_by_tests(std::string_view text, ByteView signature) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key_of_tests()) == 1 &&
         EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                          signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                          text.size()) == 1;
}

}  // namespace cairn::testing
