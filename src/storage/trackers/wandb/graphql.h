// Queries to W&B's server, by GraphQL.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/storage/wandb.h"

#include "storage/trackers/rest/rest.h"

namespace cairn::wandb {

// Makes a run, or changes what W&B shows of it. Its other variables may be missing.
inline constexpr const char* kUpsertRun =
    "mutation UpsertBucket($name: String, $project: String, $entity: String, "
    "$groupName: String, $jobType: String, $displayName: String, $notes: String, "
    "$tags: [String!], $host: String, $config: JSONString) { "
    "upsertBucket(input: { name: $name, modelName: $project, entityName: $entity, "
    "groupName: $groupName, jobType: $jobType, displayName: $displayName, notes: $notes, "
    "tags: $tags, host: $host, config: $config }) { bucket { id name } inserted } }";

// Thread-safe.
class GraphQl {
 public:
  GraphQl(WandbOptions options, RemoteSettings settings)
      : options_(std::move(options)), settings_(std::move(settings)) {}

  const std::string& entity() const { return options_.entity; }
  const RemoteSettings& settings() const { return settings_; }

  // Returns the field `field` of the answer's data; it may be null. Throws StorageError if the
  // server reports an error. If the answer lacks the field, the StorageError is retryable(), since
  // the truth is then unknown. Throws UsageError if there is no key, or the URL is invalid. `doing`
  // is text like "looking for a by".
  Json ask(const char* query, const Json& variables, const char* field, const std::string& doing);
  // For requests that are no queries. Throws as ask() if there is no key, or the URL is invalid.
  RestRemote& api();

 private:
  const WandbOptions options_;
  const RemoteSettings settings_;
  std::mutex mutex_;  // guards api_, which is made when it is first needed
  std::unique_ptr<RestRemote> api_;
};

// An object that an answer must have, or null if the answer has null. Throws a retryable()
// StorageError if the field is missing, since that does not prove that there is no such object.
Json known_object(const Json& in, const char* name, const std::string& doing);
// The nodes on one page of a list, and the token of the next page ("" after the last). Throws a
// retryable() StorageError if the answer does not state them.
struct NodePage {
  std::vector<Json> nodes;
  std::string next;
};
NodePage known_page(const Json& in, const char* name, const std::string& doing);

// The password for a machine in the text of a file like ~/.netrc; "" if the text has none.
std::string netrc_password(const std::string& text, const std::string& machine);

}  // namespace cairn::wandb
