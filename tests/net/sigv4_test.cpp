// AWS's published examples, from S3's reference ("Authenticating Requests: Using the Authorization
// Header") and from the test suite for signature version 4.
#include "storage/s3/sigv4.h"

#include <gtest/gtest.h>

#include "net/digest.h"

namespace cairn::s3 {
namespace {

const Credentials kOfS3 = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                           .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
const Credentials kOfSuite = {.access_key = "AKIDEXAMPLE",
                              .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
const std::string kNothing = hex(sha256(""));

Scope s3_scope() {
  return {.time = *parse_iso_time("2013-05-24T00:00:00Z"), .region = "us-east-1"};
}

ToSign of_s3(const std::string& method, const std::string& path, const std::string& body_hash) {
  return {.method = method,
          .path = path,
          .headers = {{"host", "examplebucket.s3.amazonaws.com"},
                      {"x-amz-content-sha256", body_hash},
                      {"x-amz-date", "20130524T000000Z"}},
          .payload_hash = body_hash};
}

TEST(SigV4Test, GetsAnObjectAsInS3sReference) {
  ToSign request = of_s3("GET", "/test.txt", kNothing);
  request.headers.push_back({"range", "bytes=0-9"});
  EXPECT_EQ(hex(sha256(canonical_request(request))),
            "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
  EXPECT_EQ(authorization(request, s3_scope(), kOfS3),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature="
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SigV4Test, PutsAnObjectAsInS3sReference) {
  ToSign request = of_s3("PUT", "/test%24file.text", hex(sha256("Welcome to Amazon S3.")));
  request.headers.push_back({"date", "Fri, 24 May 2013 00:00:00 GMT"});
  request.headers.push_back({"x-amz-storage-class", "REDUCED_REDUNDANCY"});
  EXPECT_EQ(signature(request, s3_scope(), kOfS3),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(SigV4Test, AsksABucketAsInS3sReference) {
  ToSign lifecycle = of_s3("GET", "/", kNothing);
  lifecycle.query = {{"lifecycle", ""}};
  EXPECT_EQ(signature(lifecycle, s3_scope(), kOfS3),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  ToSign list = of_s3("GET", "/", kNothing);
  list.query = {{"max-keys", "2"}, {"prefix", "J"}};
  EXPECT_EQ(signature(list, s3_scope(), kOfS3),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

struct SuiteCase {
  const char* name;
  ToSign request;
  const char* signature;
};

ToSign of_suite(const std::string& method, const std::string& path, Query query = {}) {
  return {.method = method,
          .path = path,
          .query = std::move(query),
          .headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}},
          .payload_hash = kNothing};
}

TEST(SigV4Test, SignsAsTheTestSuite) {
  const std::string unreserved =
      "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const SuiteCase cases[] = {
      {"get-vanilla", of_suite("GET", "/"),
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       of_suite("GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}),
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-unreserved", of_suite("GET", "/", {{unreserved, unreserved}}),
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-utf8", of_suite("GET", "/%E1%88%B4"),
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"post-vanilla", of_suite("POST", "/"),
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
  };
  for (const SuiteCase& c : cases) {
    EXPECT_EQ(signature(c.request,
                        {.time = *parse_iso_time("2015-08-30T12:36:00Z"),
                         .region = "us-east-1",
                         .service = "service"},
                        kOfSuite),
              c.signature)
        << c.name;
  }
}

}  // namespace
}  // namespace cairn::s3
