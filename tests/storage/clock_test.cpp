// A wrong clock, and several requests at once: some were signed before the answer to another one
// corrected the clock.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "azure_fixture.h"
#include "gcs_fixture.h"
#include "oci_fixture.h"
#include "s3_fixture.h"

namespace cairn {
namespace {

// Runs a function between the signing of the next request and its sending.
class InterruptedClient final : public HttpClient {
 public:
  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    if (const auto act = std::exchange(before_next, nullptr)) act();
    return shared_http_client()->start(std::move(request));
  }
  std::function<void()> before_next = nullptr;
};

class ClockTest : public ::testing::Test {
 protected:
  // Like another thread, the other request finds out the right time.
  void expect_learned_by_all(ObjectStore& store) {
    int asked = 0;
    client_->before_next = [&] {
      EXPECT_FALSE(store.stat("another"));
      ++asked;
    };
    EXPECT_FALSE(store.stat("a")) << "its time was wrong, and is right by now";
    EXPECT_EQ(asked, 1);
  }
  std::shared_ptr<InterruptedClient> client_ = std::make_shared<InterruptedClient>();
  // All stores of the test start with a clock that is five hours off.
  NetRetries retries_ = {.clock = std::make_shared<testing::FakeNetClock>(std::chrono::hours(5))};
};

TEST_F(ClockTest, OfS3) {
  const S3Served served;
  const testing::CleanAwsEnvironment clean;
  expect_learned_by_all(*s3::make_s3_store(
      s3::resolve_config(served.options(), {.client = client_, .retries = retries_})));
}

TEST_F(ClockTest, OfGoogle) {
  const GcsServed served;
  const testing::CleanGoogleEnvironment clean;
  expect_learned_by_all(*gcs::make_gcs_store(
      gcs::resolve_config(served.options(), {.client = client_, .retries = retries_})));
}

TEST_F(ClockTest, OfAzure) {
  const AzureServed served;
  const testing::CleanAzureEnvironment clean;
  expect_learned_by_all(*azure::make_azure_store(
      azure::resolve_config(served.options(), {.client = client_, .retries = retries_})));
}

TEST_F(ClockTest, OfOracle) {
  const OciServed served;
  OciOptions options = served.options();
  options.bucket = "bucket@space";  // otherwise the first request would ask for the namespace
  expect_learned_by_all(
      *oci::make_oci_store(oci::resolve_config(options, {.client = client_, .retries = retries_})));
}

}  // namespace
}  // namespace cairn
