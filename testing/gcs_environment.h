// The environment of a process that knows one server of Google's protocol and its key.
#pragma once

#include <list>

#include "testing/environment_variable.h"
#include "testing/fake_gcs.h"

namespace cairn::testing {

// Removes the variables that the machine's owner may have set, and hides the owner's
// ~/.config/gcloud.
class CleanGoogleEnvironment {
 public:
  CleanGoogleEnvironment() {
    for (const char* name : {"GCS_KEY", "GCS_SECRET", "GOOGLE_APPLICATION_CREDENTIALS",
                             "GCE_METADATA_HOST", "STORAGE_EMULATOR_HOST", "SSL_CERT_FILE",
                             "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
      set(name, nullptr);
    }
    set("CLOUDSDK_CONFIG", "/nonexistent");
    set("NO_GCE_CHECK", "true");
  }
  void set(const char* name, const char* value) { variables_.emplace_front(name, value); }

 private:
  std::list<EnvironmentVariable> variables_;  // Restored in reverse order.
};

class GcsEnvironment : public CleanGoogleEnvironment {
 public:
  explicit GcsEnvironment(const FakeGcs& server, const FakeGcsOptions& options = {}) {
    set("STORAGE_EMULATOR_HOST", server.url().c_str());
    set("GCS_KEY", options.key.c_str());
    set("GCS_SECRET", options.secret.c_str());
  }
};

}  // namespace cairn::testing
