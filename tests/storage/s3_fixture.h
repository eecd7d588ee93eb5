// A fake S3 server, and stores of its bucket that do not wait between attempts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "storage/s3/config.h"
#include "testing/fake_clock.h"
#include "testing/fake_s3.h"
#include "testing/s3_environment.h"

namespace cairn {

struct S3Served {
  explicit S3Served(testing::FakeS3Options options = {})
      : fake(options), keys(std::move(options)) {}

  S3Options options() const {
    return {.bucket = "bucket",
            .endpoint_url = fake.url(),
            .access_key_id = keys.access_key,
            .secret_access_key = keys.secret_key,
            .session_token = keys.session_token,
            .part_bytes = 5 << 20,
            .parallel_requests = 3};
  }
  std::shared_ptr<ObjectStore> store(const S3Options& options) const {
    const testing::CleanAwsEnvironment clean;
    return s3::make_s3_store(s3::resolve_config(options, {.retries = {.clock = clock}}));
  }
  std::shared_ptr<ObjectStore> store() const { return store(options()); }

  testing::FakeS3 fake;
  testing::FakeS3Options keys;
  std::shared_ptr<testing::FakeNetClock> clock = std::make_shared<testing::FakeNetClock>();
};

inline void write_text(ObjectStore& store, const std::string& name, const std::string& text,
                       const WriteCondition& condition = {}) {
  const auto object = store.begin(name, {.condition = condition});
  object->write(as_bytes(text));
  object->commit();
}

inline std::string read_text(ObjectStore& store, const std::string& name) {
  return std::string(as_text(read_all(*store.open(name)).view));
}

}  // namespace cairn
