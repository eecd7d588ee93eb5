#include "net/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <memory>
#include <stdexcept>

namespace cairn {
namespace {

const unsigned char* data_of(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Fails only when OpenSSL itself fails: no memory, or a policy that forbids the algorithm.
void check_digest(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("OpenSSL's ") + what + " failed");
}

template <std::size_t N>
std::array<std::byte, N> digest(const EVP_MD* kind, std::span<const ByteView> parts,
                                const char* what) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  check_digest(context && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1, what);
  for (const ByteView part : parts) {
    check_digest(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1, what);
  }
  std::array<std::byte, N> result;
  check_digest(EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(result.data()),
                                  nullptr) == 1,
               what);
  return result;
}

}  // namespace

Sha256 sha256(std::span<const ByteView> parts) {
  return digest<32>(EVP_sha256(), parts, "SHA-256");
}

Sha256 sha256(std::string_view text) {
  const ByteView bytes = as_bytes(text);
  return sha256({&bytes, 1});
}

Md5 md5(std::span<const ByteView> parts) { return digest<16>(EVP_md5(), parts, "MD5"); }

Sha256 hmac_sha256(ByteView key, std::string_view text) {
  Sha256 result;
  check_digest(
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data_of(as_bytes(text)),
           text.size(), reinterpret_cast<unsigned char*>(result.data()), nullptr) != nullptr,
      "HMAC");
  return result;
}

std::string base64(ByteView bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a zero byte.
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), data_of(bytes),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

}  // namespace cairn
