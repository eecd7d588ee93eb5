// A fake server of Google's protocol, and stores of its bucket that do not wait between attempts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "storage/gcs/config.h"
#include "testing/fake_clock.h"
#include "testing/gcs_environment.h"

namespace cairn {

struct GcsServed {
  explicit GcsServed(testing::FakeGcsOptions options = {})
      : fake(options), keys(std::move(options)) {}

  GcsOptions options() const {
    return {.bucket = "bucket",
            .key = keys.key,
            .secret = keys.secret,
            .endpoint_url = fake.url(),
            .part_bytes = 5 << 20,
            .parallel_requests = 3};
  }
  // Options without an HMAC key: `file` contains the credentials.
  GcsOptions options_with(const std::string& file) const {
    GcsOptions with = options();
    with.key = with.secret = "";
    with.credentials_file = file;
    return with;
  }
  std::shared_ptr<ObjectStore> store(const GcsOptions& options) const {
    const testing::CleanGoogleEnvironment clean;
    return gcs::make_gcs_store(gcs::resolve_config(options, {.retries = {.clock = clock}}));
  }
  std::shared_ptr<ObjectStore> store() const { return store(options()); }

  testing::FakeGcs fake;
  testing::FakeGcsOptions keys;
  std::shared_ptr<testing::FakeNetClock> clock = std::make_shared<testing::FakeNetClock>();
};

}  // namespace cairn
