// The environment of a process that knows one server of Azure's protocol and its key.
#pragma once

#include <list>

#include "testing/environment_variable.h"
#include "testing/fake_azure.h"

namespace cairn::testing {

// Removes the variables that the machine's owner may have set, until the end of this object.
class CleanAzureEnvironment {
 public:
  CleanAzureEnvironment() {
    for (const char* name :
         {"AZURE_ACCOUNT_NAME", "AZURE_ACCOUNT_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT",
          "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING",
          "AZURE_STORAGE_SERVICE_ENDPOINT", "SSL_CERT_FILE", "http_proxy", "HTTP_PROXY",
          "all_proxy", "ALL_PROXY"}) {
      set(name, nullptr);
    }
  }
  void set(const char* name, const char* value) { variables_.emplace_front(name, value); }

 private:
  std::list<EnvironmentVariable> variables_;  // Restored in reverse order.
};

class AzureEnvironment : public CleanAzureEnvironment {
 public:
  explicit AzureEnvironment(const FakeAzure& server, const FakeAzureOptions& options = {}) {
    set("AZURE_STORAGE_SERVICE_ENDPOINT", server.endpoint().c_str());
    set("AZURE_ACCOUNT_NAME", options.account.c_str());
    set("AZURE_ACCOUNT_ACCESS_KEY", options.key.c_str());
  }
};

}  // namespace cairn::testing
