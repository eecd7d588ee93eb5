// Requests to servers that a test cannot run: Amazon's own, and others over TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "s3_fixture.h"
#include "storage/publish/pointer_fence.h"
#include "storage/publish/publish.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Answers each request at once, with prepared answers.
class CannedClient final : public HttpClient {
 public:
  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    const std::scoped_lock lock(mutex_);
    requests.push_back(request);
    HttpResponse response{.status = 200};
    if (!answers.empty()) {
      response = answers.front();
      answers.erase(answers.begin());
    }
    return std::make_unique<Call>(std::move(response));
  }

  std::vector<HttpRequest> requests;
  std::vector<HttpResponse> answers;

 private:
  class Call final : public HttpCall {
   public:
    explicit Call(HttpResponse response) : response_(std::move(response)) {}
    HttpResponse wait() override { return std::move(response_); }
    void cancel() override {}

   private:
    HttpResponse response_;
  };
  std::mutex mutex_;
};

struct S3Canned {
  explicit S3Canned(S3Options options) {
    options.access_key_id = "AKID";
    options.secret_access_key = "secret";
    const testing::CleanAwsEnvironment clean;
    store = s3::make_s3_store(s3::resolve_config(
        options,
        {.client = client, .retries = {.clock = std::make_shared<testing::FakeNetClock>()}}));
  }
  std::string header(std::size_t request, const std::string& name) const {
    for (const HttpHeader& header : client->requests.at(request).headers) {
      if (header.name == name) return header.value;
    }
    return "";
  }

  std::shared_ptr<CannedClient> client = std::make_shared<CannedClient>();
  std::shared_ptr<ObjectStore> store;
};

TEST(S3RequestsTest, AmazonsHostsAreNamedAfterBucketAndRegion) {
  const auto url_of = [](const S3Options& options) {
    S3Canned canned(options);
    canned.client->answers = {{.status = 404}, {.status = 404}, {.status = 404}};
    EXPECT_ANY_THROW(canned.store->stat("a b"));
    return canned.client->requests.at(0).url;
  };
  EXPECT_EQ(url_of({.bucket = "my-bucket"}), "https://my-bucket.s3.us-east-1.amazonaws.com/a%20b");
  EXPECT_EQ(url_of({.bucket = "my-bucket", .region = "eu-west-1"}),
            "https://my-bucket.s3.eu-west-1.amazonaws.com/a%20b");
  EXPECT_EQ(url_of({.bucket = "my-bucket", .region = "cn-north-1"}),
            "https://my-bucket.s3.cn-north-1.amazonaws.com.cn/a%20b");
  EXPECT_EQ(url_of({.bucket = "my.bucket"}), "https://s3.us-east-1.amazonaws.com/my.bucket/a%20b")
      << "no certificate is for a name with a dot more";
  EXPECT_EQ(url_of({.bucket = "b", .endpoint_url = "https://h:9000/base/"}),
            "https://h:9000/base/b/a%20b");
}

TEST(S3RequestsTest, ABucketElsewhereIsAskedThere) {
  S3Canned canned({.bucket = "my-bucket"});
  canned.client->answers = {
      {.status = 301, .headers = {{"x-amz-bucket-region", "ap-south-1"}}},
      {.status = 200, .headers = {{"etag", "\"1\""}, {"content-length", "7"}}}};
  EXPECT_EQ(canned.store->stat("a")->size, 7U);
  EXPECT_THAT(canned.client->requests.at(1).url,
              StartsWith("https://my-bucket.s3.ap-south-1.amazonaws.com/"));
  EXPECT_THAT(canned.header(1, "authorization"), HasSubstr("/ap-south-1/s3/aws4_request"));
}

// TLS protects the bytes, and the server compares the checksum. Hashing the bytes again for the
// signature would be the larger part of an upload's work.
TEST(S3RequestsTest, OverTlsAChecksumStandsForTheHashOfTheBody) {
  for (const char* endpoint : {"https://host", "http://host"}) {
    S3Canned canned({.bucket = "b", .endpoint_url = endpoint});
    canned.client->answers = {
        {.status = 200, .body = "<ListBucketResult/>"},
        {.status = 404},  // the name is free
        {.status = 200, .headers = {{"etag", "\"1\""}}},
        {.status = 200, .headers = {{"etag", "\"1\""}, {"content-length", "1"}}}};
    write_text(*canned.store, "a", "x");
    const bool is_tls = std::string(endpoint).starts_with("https");
    EXPECT_EQ(canned.header(2, "x-amz-content-sha256") == "UNSIGNED-PAYLOAD", is_tls);
    EXPECT_THAT(canned.header(2, "x-amz-checksum-crc64nvme"), Not(IsEmpty()));
    EXPECT_THAT(canned.header(0, "x-amz-content-sha256"), StartsWith("e3b0c442"));
  }
}

// A checkpoint of one part, and the pointer to it.
TEST(S3RequestsTest, ASmallSaveTakesFourRequestsWhereAnswersHaveChecksums) {
  for (const bool keeps_crc64 : {true, false}) {
    S3Served served({.keeps_crc64 = keeps_crc64});
    const auto store = served.store();
    const RetryPolicy once{.attempts = 1};
    PointerFence fence(store, "run/latest");
    fence.look(once);
    for (const char* name : {"run/ep1.pt", "run/ep2.pt", "run/ep3.pt"}) {
      served.fake.forget_log();
      fence.check(once);
      write_until_seen(*store,
                       {.name = name,
                        .replace = Replace::kNever,
                        .expected_bytes = 5,
                        .fill = [](ObjectWrite& out) { out.write(as_bytes("bytes")); }},
                       once);
      fence.move(name, once);
      EXPECT_EQ(store->read_pointer("run/latest")->target, name);
    }
    std::vector<std::string> log = served.fake.log();
    log.pop_back();  // the request of read_pointer() above
    EXPECT_LE(log.size(), keeps_crc64 ? 4U : 5U) << ::testing::PrintToString(log);
  }
}

}  // namespace
}  // namespace cairn
