// W&B's server, which is asked by GraphQL.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/storage/wandb.h"

#include "storage/trackers/rest/rest.h"

namespace cairn::wandb {

// Safe from several threads.
class GraphQl {
 public:
  GraphQl(WandbOptions options, RemoteSettings settings)
      : options_(std::move(options)), settings_(std::move(settings)) {}

  const std::string& entity() const { return options_.entity; }
  const RemoteSettings& settings() const { return settings_; }

  // The field of the answer's data that is asked for; null when it is null. StorageError
  // when the server says what is wrong with it, and, worth another attempt, when the answer has no
  // such field: then nobody knows; `doing` as "looking for a by". UsageError when there is no key,
  // or a URL that cannot be.
  Json ask(const char* query, const Json& variables, const char* field, const std::string& doing);

 private:
  RestRemote& api();

  const WandbOptions options_;
  const RemoteSettings settings_;
  std::mutex mutex_;  // of what is made when it is first needed:
  std::unique_ptr<RestRemote> api_;
};

// An object that an answer must have, or null where it says so. StorageError, retryable,
// when it says nothing of it, which is no proof that there is none.
Json known_object(const Json& in, const char* name, const std::string& doing);
// The nodes of a list's page, and where the next one begins: "" behind the last. StorageError,
// retryable, when the answer does not say.
struct NodePage {
  std::vector<Json> nodes;
  std::string next;
};
NodePage known_page(const Json& in, const char* name, const std::string& doing);

// The password that a file as ~/.netrc has for a machine; "" when it has none.
std::string netrc_password(const std::string& text, const std::string& machine);

}  // namespace cairn::wandb
