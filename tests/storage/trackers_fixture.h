// A fake workspace with MLflow, and its stores, which do not wait between attempts.
#pragma once

#include <memory>
#include <string>

#include "storage/trackers/dbfs/store.h"
#include "testing/fake_clock.h"
#include "testing/fake_trackers.h"
#include "testing/trackers_environment.h"

namespace cairn {

struct TrackersServed {
  explicit TrackersServed(testing::FakeTrackersOptions options = {})
      : fake(options), keys(std::move(options)) {}

  DbfsOptions options() const {
    DbfsOptions made = {.host = fake.url(), .token = keys.token};
    if (!keys.client_id.empty()) {
      made.token.clear();
      made.client_id = keys.client_id;
      made.client_secret = keys.client_secret;
    }
    if (keys.serves_artifacts) made.tracking_uri = fake.url();
    return made;
  }
  std::shared_ptr<ObjectStore> store(const DbfsOptions& options) const {
    return dbfs::make_dbfs_store(options, {.retries = {.clock = clock}});
  }
  std::shared_ptr<ObjectStore> store() {
    if (keys.serves_artifacts) environment.set("MLFLOW_TRACKING_TOKEN", keys.token);
    return store(options());
  }

  testing::CleanTrackersEnvironment environment;
  testing::FakeTrackers fake;
  testing::FakeTrackersOptions keys;
  std::shared_ptr<testing::FakeNetClock> clock = std::make_shared<testing::FakeNetClock>();
};

}  // namespace cairn
