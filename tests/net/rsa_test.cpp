#include "net/rsa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "testing/message_of.h"
#include "testing/rsa_key.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

TEST(RsaTest, ASignatureIsVerifiedByOthers) {
  const RsaKey key = RsaKey::parse(testing::rsa_key_of_tests(), "the key");
  EXPECT_TRUE(testing::is_signed_by_tests("text", key.sign_sha256("text")));
  EXPECT_FALSE(testing::is_signed_by_tests("other text", key.sign_sha256("text")));
}

TEST(RsaTest, APassphraseOpensAKeyAndIsNeverAskedFor) {
  const std::string locked = testing::rsa_key_of_tests("canary");
  EXPECT_TRUE(testing::is_signed_by_tests(
      "text", RsaKey::parse(locked, "the key", "canary").sign_sha256("text")));
  for (const char* wrong : {"", "canary-wrong"}) {
    EXPECT_THAT(message_of<UsageError>([&] { RsaKey::parse(locked, "the key", wrong); }),
                AllOf(HasSubstr("the key is no private RSA key"), Not(HasSubstr("canary"))));
  }
  EXPECT_THROW(RsaKey::parse("no key", "it"), UsageError);
}

TEST(RsaTest, Base64ForUrlsIsOfRfc7515) {
  const std::byte bytes[] = {std::byte{3}, std::byte{236}, std::byte{255}, std::byte{224},
                             std::byte{193}};
  EXPECT_EQ(base64_url(bytes), "A-z_4ME");
}

}  // namespace
}  // namespace cairn
