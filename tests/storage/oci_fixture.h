// A fake Oracle server, and stores of its bucket that do not wait between attempts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "storage/oci/config.h"
#include "testing/environment_variable.h"
#include "testing/fake_clock.h"
#include "testing/fake_oci.h"
#include "testing/rsa_key.h"
#include "testing/temp_folder.h"

namespace cairn {

struct OciServed {
  explicit OciServed(testing::FakeOciOptions options = {}) : fake(options) {
    testing::write_file(folder / "key.pem", testing::rsa_key_of_tests("canary-pass"));
    const std::string key_file = folder / "key.pem";
    testing::write_file(folder / "config",
                        "[DEFAULT]\nuser=ocid1.user\nfingerprint=aa:bb\ntenancy=ocid1.tenancy\n"
                        "region=eu-frankfurt-1\npass_phrase=canary-pass\nkey_file=" +
                            key_file +
                            "\n[OTHER]\nuser=ocid1.other\n"
                            "[SESSION]\nsecurity_token_file=/token\n");
  }

  OciOptions options() const {
    return {.bucket = "bucket",
            .config_file = folder / "config",
            .endpoint_url = fake.url(),
            .part_bytes = 5 << 20,
            .parallel_requests = 3};
  }
  std::shared_ptr<ObjectStore> store(const OciOptions& options) const {
    const testing::EnvironmentVariable without("SSL_CERT_FILE", nullptr);
    return oci::make_oci_store(oci::resolve_config(options, {.retries = {.clock = clock}}));
  }
  std::shared_ptr<ObjectStore> store() const { return store(options()); }

  testing::TempFolder folder;
  testing::FakeOci fake;
  std::shared_ptr<testing::FakeNetClock> clock = std::make_shared<testing::FakeNetClock>();
};

}  // namespace cairn
