#include "net/digest.h"

#include <gtest/gtest.h>

#include <array>

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
