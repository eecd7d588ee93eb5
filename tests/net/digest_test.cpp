#include "net/digest.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "net/sha256_pair.h"

namespace cairn {
namespace {

TEST(DigestTest, IsWhatTheStandardsSay) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::array parts = {as_bytes("a"), as_bytes(""), as_bytes("bc")};
  EXPECT_EQ(hex(sha256(parts)), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(md5(parts)), "900150983cd24fb0d6963f7d28e17f72");
  // RFC 4231, case 2.
  EXPECT_EQ(hex(hmac_sha256(as_bytes("Jefe"), "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

// Ends of blocks, of padding, and streams of which one is longer; where the processor has no
// instructions for it, both are OpenSSL's.
TEST(DigestTest, TwoAtOnceAreWhatEachIs) {
  std::vector<std::byte> bytes(70'000);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
  const ByteView all(bytes);
  const std::array<std::size_t, 11> sizes = {0, 1, 55, 56, 63, 64, 65, 119, 120, 4096, 65'537};
  for (const std::size_t a : sizes) {
    for (const std::size_t b : sizes) {
      const std::array<ByteView, 2> parts = {all.first(a), all.last(b)};
      const auto pair = sha256_pair(parts[0], parts[1]);
      EXPECT_EQ(hex(pair[0]), hex(sha256({&parts[0], 1}))) << a << " and " << b;
      EXPECT_EQ(hex(pair[1]), hex(sha256({&parts[1], 1}))) << b << " and " << a;
    }
  }
}

TEST(DigestTest, Base64) {
  EXPECT_EQ(base64({}), "");
  EXPECT_EQ(base64(as_bytes("f")), "Zg==");
  EXPECT_EQ(base64(as_bytes("foobar")), "Zm9vYmFy");
}

TEST(DigestTest, Base64GoesThereAndBack) {
  for (const std::string text : {"", "f", "fo", "foo", "foob", "\xFF\xFE\x01"}) {
    EXPECT_EQ(base64_decoded(base64(as_bytes(text))), text);
  }
  for (const char* text : {"a", "Zg=", "Zg", "Z===", "Zm9v!A==", "Zm 9"}) {
    EXPECT_EQ(base64_decoded(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace cairn
