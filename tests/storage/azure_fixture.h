// A fake Azure server, and stores of its container that do not wait between attempts.
#pragma once

#include <memory>
#include <string>

#include "storage/azure/config.h"
#include "testing/azure_environment.h"
#include "testing/fake_azure.h"
#include "testing/fake_clock.h"

namespace cairn {

struct AzureServed {
  explicit AzureServed(testing::FakeAzureOptions options = {})
      : fake(options), keys(std::move(options)) {}

  AzureOptions options() const {
    return {.container = "container",
            .account_name = keys.account,
            .account_key = keys.key,
            .endpoint_url = fake.endpoint(),
            .part_bytes = 1 << 20,
            .parallel_requests = 3};
  }
  std::shared_ptr<ObjectStore> store(const AzureOptions& options) const {
    const testing::CleanAzureEnvironment clean;
    return azure::make_azure_store(azure::resolve_config(options, {.retries = {.clock = clock}}));
  }
  std::shared_ptr<ObjectStore> store() const { return store(options()); }

  testing::FakeAzure fake;
  testing::FakeAzureOptions keys;
  std::shared_ptr<testing::FakeNetClock> clock = std::make_shared<testing::FakeNetClock>();
};

}  // namespace cairn
