#include "net/rsa.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cairn/error.h"

#include "net/digest.h"

namespace cairn {
namespace {

// Prevents OpenSSL from asking for the passphrase on the terminal.
int give_passphrase(char* into, int size, int /*writes*/, void* passphrase) {
  const auto& text = *static_cast<const std::string*>(passphrase);
  if (text.size() > static_cast<std::size_t>(size)) return -1;
  std::memcpy(into, text.data(), text.size());
  return static_cast<int>(text.size());
}

}  // namespace

RsaKey RsaKey::parse(const std::string& pem, const std::string& what,
                     const std::string& passphrase) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::string given = passphrase;
  EVP_PKEY* const read =
      text == nullptr ? nullptr
                      : PEM_read_bio_PrivateKey(text.get(), nullptr, give_passphrase, &given);
  ERR_clear_error();
  if (read == nullptr || EVP_PKEY_base_id(read) != EVP_PKEY_RSA) {
    EVP_PKEY_free(read);
    throw UsageError(what + " is no private RSA key in PEM" +
                     (passphrase.empty() ? "" : ", or its passphrase is another one"));
  }
  return RsaKey({read, EVP_PKEY_free});
}

std::vector<std::byte> RsaKey::sign_sha256(std::string_view text) const {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  const auto* const data = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  std::vector<std::byte> signature;
  const auto sign = [&](std::byte* into) {
    return EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(into), &size, data,
                          text.size()) == 1;
  };
  bool done = context != nullptr &&
              EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) == 1;
  done = done && sign(nullptr);
  signature.resize(size);
  done = done && sign(signature.data());
  if (!done) throw std::runtime_error("OpenSSL's RSA signature failed");
  signature.resize(size);
  return signature;
}

std::string base64_url(ByteView bytes) {
  std::string text = base64(bytes);
  while (text.ends_with('='))
    text.pop_back();
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

}  // namespace cairn
