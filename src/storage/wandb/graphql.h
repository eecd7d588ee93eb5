// W&B's server, which is asked by GraphQL.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cairn/storage/wandb.h"

#include "storage/rest/rest.h"

namespace cairn::wandb {

// Safe from several threads.
class GraphQl {
 public:
  GraphQl(WandbOptions options, RemoteSettings settings)
      : options_(std::move(options)), settings_(std::move(settings)) {}

  const std::string& entity() const { return options_.entity; }
  const RemoteSettings& settings() const { return settings_; }

  // The field of the answer's data that is asked for; an empty object when it is null. StorageError
  // when the server says what is wrong with it; `doing` as "looking for a by". UsageError when
  // there is no key, or a URL that cannot be.
  nlohmann::json ask(const char* query, const nlohmann::json& variables, const char* field,
                     const std::string& doing);

 private:
  RestRemote& api();

  const WandbOptions options_;
  const RemoteSettings settings_;
  std::mutex mutex_;  // of what is made when it is first needed:
  std::unique_ptr<RestRemote> api_;
};

// The password that a file as ~/.netrc has for a machine; "" when it has none.
std::string netrc_password(const std::string& text, const std::string& machine);

}  // namespace cairn::wandb
