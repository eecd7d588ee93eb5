// W&B's part of the fake. It expects the requests of W&B's own tools, in the same order, with the
// variables that the tools' source declares.
#include <algorithm>

#include "net/digest.h"
#include "testing/fake_trackers.h"

namespace cairn::testing {
namespace {

using WandbJson = Json;

struct Variable {
  const char* name;
  const char* type;  // As a query declares it. With "!" it is required.
};

struct Operation {
  const char* call;  // The text by which a query is recognized.
  std::vector<Variable> variables;
  std::vector<const char*> asks;  // The fields that the query must ask for.
};

// The variables that the mutation that makes or changes a run declares.
const std::vector<Variable>& variables_of_run() {
  static const std::vector<Variable> all = {
      {"id", "String"},
      {"name", "String"},
      {"project", "String"},
      {"entity", "String"},
      {"groupName", "String"},
      {"description", "String"},
      {"displayName", "String"},
      {"notes", "String"},
      {"commit", "String"},
      {"config", "JSONString"},
      {"host", "String"},
      {"debug", "Boolean"},
      {"program", "String"},
      {"repo", "String"},
      {"jobType", "String"},
      {"state", "String"},
      {"sweep", "String"},
      {"tags", "[String!]"},
      {"summaryMetrics", "JSONString"},
  };
  return all;
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"{ id files(",
       {{"entity", "String!"}, {"project", "String!"}, {"name", "String!"}, {"cursor", "String"}},
       {"project(name: $project, entityName: $entity)", "artifact(name: $name)", "after: $cursor",
        "pageInfo { endCursor hasNextPage }", "directUrl"}},
      {"artifact(id: $id)", {{"id", "ID!"}}, {"state", "digest", "sizeBytes"}},
      {"{ id artifactSequence {",
       {{"entity", "String!"}, {"project", "String!"}, {"name", "String!"}},
       {"project(name: $project, entityName: $entity)", "artifact(name: $name)"}},
      {"artifactCollections(",
       {{"entity", "String!"}, {"project", "String!"}, {"cursor", "String"}},
       {"project(name: $project, entityName: $entity)", "after: $cursor",
        "pageInfo { endCursor hasNextPage }"}},
      {"viewer {", {}, {"entity"}},
      {"upsertBucket(",
       variables_of_run(),
       {"name: $name", "modelName: $project", "entityName: $entity"}},
      {"createArtifact(", {{"input", "CreateArtifactInput!"}}, {"input: $input", "state"}},
      {"createArtifactManifest(",
       {{"artifactID", "ID!"},
        {"baseArtifactID", "ID"},
        {"name", "String!"},
        {"digest", "String!"},
        {"entityName", "String!"},
        {"projectName", "String!"},
        {"runName", "String!"},
        {"manifestType", "ArtifactManifestType!"},
        {"includeUpload", "Boolean!"}},
       {"artifactID: $artifactID", "baseArtifactID: $baseArtifactID", "name: $name",
        "digest: $digest", "entityName: $entityName", "projectName: $projectName",
        "runName: $runName", "type: $manifestType", "uploadUrl @include(if: $includeUpload)",
        "uploadHeaders @include(if: $includeUpload)"}},
      {"createArtifactFiles(",
       {{"artifactFiles", "[CreateArtifactFileSpecInput!]!"},
        {"storageLayout", "ArtifactStorageLayout!"}},
       {"artifactFiles: $artifactFiles", "storageLayout: $storageLayout", "uploadUrl",
        "uploadHeaders", "artifact { id }"}},
      {"commitArtifact(", {{"artifactID", "ID!"}}, {"artifactID: $artifactID"}},
      {"deleteArtifact(", {{"input", "DeleteArtifactInput!"}}, {"input: $input"}},
      {"deleteArtifactSequence(", {{"id", "ID!"}}, {"artifactSequenceID: $id"}},
  };
  return all;
}

bool is_of_type(const WandbJson& value, std::string type) {
  if (type.ends_with('!')) type.pop_back();
  if (type == "Boolean") return value.is_boolean();
  if (type.starts_with('[')) return value.is_array();
  if (type.ends_with("Input")) return value.is_object();
  return value.is_string();
}

// The problem of a query and its variables. "" if there is none.
std::string problem_of(const Operation& operation, const std::string& query,
                       const WandbJson& variables) {
  for (const char* part : operation.asks) {
    if (query.find(part) == std::string::npos) return "no " + std::string(part);
  }
  for (const auto& [name, value] : variables.items()) {
    const auto known =
        std::find_if(operation.variables.begin(), operation.variables.end(),
                     [&wanted = name](const Variable& each) { return each.name == wanted; });
    if (known == operation.variables.end()) return "the variable " + name;
    const std::string declared = "$" + name + ": " + known->type;
    const std::size_t at = query.find(declared);
    const bool is_declared =
        at != std::string::npos && std::string(",) \n").find(query[at + declared.size()]) < 4;
    if (!is_declared) return "a variable that the query does not have: " + name;
    if (!is_of_type(value, known->type)) return "the type of " + name;
  }
  for (const Variable& each : operation.variables) {
    if (std::string(each.type).ends_with('!') && !variables.contains(each.name)) {
      return "no " + std::string(each.name);
    }
  }
  return {};
}

// The problem of an input's fields. "" if there is none. `types`: 's'tring, 'b'oolean, 'a'rray;
// capital letters mark required fields.
std::string problem_of_fields(const WandbJson& input, const std::map<std::string, char>& types) {
  for (const auto& [name, value] : input.items()) {
    const auto known = types.find(name);
    if (known == types.end()) return "the field " + name;
    const char type = static_cast<char>(known->second | 0x20);
    const bool is_right = type == 's'   ? value.is_string()
                          : type == 'b' ? value.is_boolean()
                                        : value.is_array();
    if (!is_right) return "the type of the field " + name;
  }
  for (const auto& [name, type] : types) {
    if (type < 'a' && !input.contains(name)) return "no field " + name;
  }
  return {};
}

bool is_legal_collection(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

std::string problem_of_artifact(const WandbJson& input) {
  const std::string problem = problem_of_fields(input, {{"entityName", 'S'},
                                                        {"projectName", 'S'},
                                                        {"artifactTypeName", 'S'},
                                                        {"artifactCollectionName", 'S'},
                                                        {"runName", 's'},
                                                        {"digest", 'S'},
                                                        {"digestAlgorithm", 'S'},
                                                        {"description", 's'},
                                                        {"aliases", 'A'},
                                                        {"metadata", 's'},
                                                        {"enableDigestDeduplication", 'B'},
                                                        {"clientID", 'S'},
                                                        {"sequenceClientID", 'S'}});
  if (!problem.empty()) return problem;
  if (!is_legal_collection(input["artifactCollectionName"])) return "the name";
  if (input["digestAlgorithm"] != "MANIFEST_MD5") return "the algorithm";
  if (std::string(input["digest"]).size() != 32) return "a digest in hex";
  for (const char* id : {"clientID", "sequenceClientID"}) {
    if (std::string(input[id]).size() != 128) return "ids of clients have 128 characters";
  }
  if (!input.contains("metadata")) return {};
  const WandbJson metadata = WandbJson::parse(std::string(input["metadata"]), nullptr, false);
  return metadata.is_object() ? "" : "metadata that are no JSON";
}

std::string md5_text(const std::string& bytes) {
  const ByteView view = as_bytes(bytes);
  return base64(md5({&view, 1}));
}

HttpReply data(const WandbJson& body) {
  return {.headers = {{"Content-Type", "application/json"}},
          .body = WandbJson{{"data", body}}.dump()};
}

HttpReply graphql_error(const std::string& message) {
  return {.headers = {{"Content-Type", "application/json"}},
          .body = WandbJson{{"errors", {{{"message", message}}}}, {"data", nullptr}}.dump()};
}

}  // namespace

std::size_t FakeTrackers::pending_artifacts() {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(artifacts_.begin(), artifacts_.end(),
                    [](const auto& each) { return each.second.state == "PENDING"; }));
}

void FakeTrackers::lose_bytes_of_wandb() {
  const std::scoped_lock lock(mutex_);
  loses_bytes_ = true;
}

Json FakeTrackers::input_of_artifact(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto found = named_.find(name);
  return found == named_.end() ? Json() : artifacts_[found->second].input;
}

std::set<std::string> FakeTrackers::runs_of_wandb() {
  const std::scoped_lock lock(mutex_);
  std::set<std::string> runs;
  for (const auto& [run, shown] : wandb_runs_)
    runs.insert(run);
  return runs;
}

bool FakeTrackers::is_logged_in(const Asked& asked) const {
  return asked.header("authorization") == "Basic " + base64(as_bytes("api:" + options_.token));
}

HttpReply FakeTrackers::graphql(const Asked& asked) {
  if (asked.method != "POST") return violation("the method");
  if (asked.header("content-type") != "application/json") return violation("JSON says what it is");
  if (!is_logged_in(asked)) return {.status = 401, .body = R"({"error": "user is not logged in"})"};
  const Json body = Json::parse(asked.body, nullptr, /*allow_exceptions=*/false);
  const std::size_t names = body.is_object() && body.contains("operationName") ? 1 : 0;
  const bool is_right = body.is_object() && body.size() == 2 + names && body.contains("query") &&
                        body["query"].is_string() && body.contains("variables") &&
                        body["variables"].is_object();
  if (!is_right) return violation("a query and its variables");
  const std::string query = body["query"];
  if (std::count(query.begin(), query.end(), '{') != std::count(query.begin(), query.end(), '}')) {
    return violation("the braces");
  }
  for (const Operation& operation : operations()) {
    if (query.find(operation.call) == std::string::npos) continue;
    const std::string problem = problem_of(operation, query, body["variables"]);
    if (!problem.empty()) return violation(operation.call + problem);
    const std::string call = operation.call;
    const bool is_change = query.find("mutation") == query.find_first_not_of(" \n");
    return is_change ? wandb_change(call, body["variables"]) : wandb_query(call, body["variables"]);
  }
  return violation("a query that W&B's tools do not have");
}

// --- What is there -------------------------------------------------------------------------------

HttpReply FakeTrackers::wandb_query(const std::string& call, const Json& of) {
  if (call == "viewer {") {
    return data({{"viewer",
                  {{"id", "VXNlcg"},
                   {"entity", "entity"},
                   {"flags", "{}"},
                   {"teams", {{"edges", Json::array()}}}}}});
  }
  if (call == "artifact(id: $id)") {
    const auto found = artifacts_.find(of["id"]);
    if (found == artifacts_.end()) return data({{"artifact", nullptr}});
    Json edges = Json::array();
    for (const auto& [name, bytes] : found->second.files) {
      edges.push_back({{"node",
                        {{"sizeBytes", std::to_string(bytes.size())},
                         {"digest", loses_bytes_ ? "bG9zdA==" : md5_text(bytes)}}}});
    }
    return data({{"artifact",
                  {{"id", found->first},
                   {"state", found->second.state},
                   {"digest", found->second.digest},
                   {"files", {{"edges", edges}}}}}});
  }
  const std::string in = of.value("entity", "") + "/" + of.value("project", "") + "/";
  const std::string project = "wandb/" + in;
  const auto has = [&](const std::string& beginning) {
    const auto first = files_.lower_bound(beginning);
    return first != files_.end() && first->first.starts_with(beginning);
  };
  const auto run = wandb_runs_.lower_bound(in);
  const bool has_run = run != wandb_runs_.end() && run->first.starts_with(in);
  if (!has(project) && !has_run) return data({{"project", nullptr}});
  if (call == "artifactCollections(") {
    return data(
        {{"project", {{"artifactCollections", collections(project, of.value("cursor", ""))}}}});
  }
  const std::string name = of.value("name", "");
  if (!has(project + name + "/")) return data({{"project", {{"artifact", nullptr}}}});
  const auto known = named_.find(in + name);
  Json artifact = {{"id", known == named_.end() ? "QXJ0" : known->second}};
  if (call == "{ id files(") {
    artifact["files"] = artifact_files(project + name + "/", of.value("cursor", ""));
  } else {
    artifact["artifactSequence"] = {{"id", "seq:" + in + name.substr(0, name.find(':'))}};
  }
  return data({{"project", {{"artifact", artifact}}}});
}

Json FakeTrackers::artifact_files(const std::string& root, const std::string& cursor) {
  Json edges = Json::array();
  bool has_next = false;
  std::string last;
  for (const auto& [path, file] : files_) {
    if (!path.starts_with(root) || path <= root + cursor) continue;
    has_next = edges.size() == options_.page;
    if (has_next) break;
    last = path.substr(root.size());
    edges.push_back({{"node",
                      {{"name", last},
                       {"sizeBytes", std::to_string(file.bytes.size())},
                       {"digest", md5_text(file.bytes)},
                       {"updatedAt", "2026-01-02T03:04:05Z"},
                       {"directUrl", url() + "/storage/" + path + "?op=r&sig=canary-signature-" +
                                         std::to_string(url_era_)}}}});
  }
  return {{"pageInfo", {{"endCursor", last}, {"hasNextPage", has_next}}}, {"edges", edges}};
}

Json FakeTrackers::collections(const std::string& project, const std::string& cursor) {
  std::set<std::string> names;
  for (const auto& [path, file] : files_) {
    if (path.starts_with(project)) {
      names.insert(path.substr(project.size(), path.find(':') - project.size()));
    }
  }
  Json edges = Json::array();
  auto name = cursor.empty() ? names.begin() : names.upper_bound(cursor);
  for (; name != names.end() && edges.size() < options_.page; ++name)
    edges.push_back({{"node", {{"id", "seq:" + project.substr(6) + *name}, {"name", *name}}}});
  const std::string last = edges.empty() ? "" : std::string(edges.back()["node"]["name"]);
  return {{"pageInfo", {{"endCursor", last}, {"hasNextPage", name != names.end()}}},
          {"edges", edges}};
}

// --- What is written -----------------------------------------------------------------------------

HttpReply FakeTrackers::wandb_change(const std::string& call, const Json& of) {
  if (call == "createArtifact(") return create_artifact(of["input"]);
  if (call == "createArtifactManifest(") return create_manifest(of);
  if (call == "createArtifactFiles(") return create_files(of);
  if (call == "commitArtifact(") return commit_artifact(of["artifactID"]);
  if (call == "deleteArtifact(") return remove_artifact(of["input"]);
  if (call == "deleteArtifactSequence(") return remove_collection(of["id"]);
  if (call != "upsertBucket(") return violation("a query that says to be a mutation");
  for (const char* name : {"name", "project", "entity"}) {
    if (of.value(name, "").empty()) return violation(std::string("a run without ") + name);
  }
  const std::string entity = of.value("entity", "");
  const std::string project = of.value("project", "");
  const std::string name = of.value("name", "");
  const Json empty = {{"history", Json::array()}, {"summary", nullptr}, {"exitcode", nullptr}};
  const auto [run, is_new] = wandb_runs_.try_emplace(entity + "/" + project + "/" + name, empty);
  run->second["fields"] = of;
  const Json its_project = {
      {"id", "UHI"}, {"name", project}, {"entity", {{"id", "RW4"}, {"name", entity}}}};
  const Json bucket = {{"id", "UnVu"},
                       {"name", name},
                       {"displayName", of.value("displayName", name)},
                       {"description", nullptr},
                       {"config", of.value("config", "{}")},
                       {"sweepName", nullptr},
                       {"project", its_project}};
  return data({{"upsertBucket", {{"bucket", bucket}, {"inserted", is_new}}}});
}

HttpReply FakeTrackers::create_artifact(const Json& input) {
  const std::string problem = problem_of_artifact(input);
  if (!problem.empty()) return violation("createArtifact: " + problem);
  const std::string in =
      std::string(input["entityName"]) + "/" + std::string(input["projectName"]) + "/";
  const std::string collection = input["artifactCollectionName"];
  const std::string client = input["clientID"];
  Artifact made = {.collection = in + collection,
                   .run = in + input.value("runName", ""),
                   .digest = input["digest"],
                   .input = input};
  if (!wandb_runs_.contains(made.run)) return graphql_error("run not found");
  for (const Json& alias : input["aliases"]) {
    const std::string wrong =
        problem_of_fields(alias, {{"alias", 'S'}, {"artifactCollectionName", 'S'}});
    if (!wrong.empty() || alias["artifactCollectionName"] != collection) {
      return violation("an alias: " + wrong);
    }
    made.aliases.push_back(alias["alias"]);
  }
  std::string id = wandb_clients_[client];
  for (const auto& [other, there] : artifacts_) {
    const bool is_same = there.state == "COMMITTED" && there.collection == made.collection &&
                         there.digest == made.digest;
    if (id.empty() && is_same && input["enableDigestDeduplication"]) id = other;
  }
  if (id.empty()) {
    id = "artifact-" + std::to_string(++next_);
    artifacts_[id] = made;
  } else if (artifacts_[id].state == "COMMITTED") {
    artifacts_[id].aliases = made.aliases;
    name_artifact(id);
  }
  wandb_clients_[client] = id;
  const auto latest = named_.find(made.collection + ":latest");
  const Json newest = latest == named_.end() ? Json() : Json{{"id", latest->second}};
  return data({{"createArtifact",
                {{"artifact",
                  {{"id", id},
                   {"state", artifacts_[id].state},
                   {"artifactSequence", {{"latestArtifact", newest}}}}}}}});
}

std::string FakeTrackers::wandb_upload_url(const std::string& path) const {
  return url() + "/storage/" + path + "?op=w&sig=canary-signature-" + std::to_string(url_era_);
}

HttpReply FakeTrackers::create_manifest(const Json& of) {
  const auto found = artifacts_.find(of["artifactID"]);
  if (found == artifacts_.end()) return graphql_error("artifact not found");
  Artifact& artifact = found->second;
  const std::string in = std::string(of["entityName"]) + "/" + std::string(of["projectName"]) + "/";
  if (in + std::string(of["runName"]) != artifact.run) return violation("another run's manifest");
  if (of["name"] != "wandb_manifest.json" || of["manifestType"] != "FULL") {
    return violation("the name or type of a manifest");
  }
  if (of.contains("baseArtifactID") && !artifacts_.contains(of["baseArtifactID"])) {
    return graphql_error("base artifact not found");
  }
  const bool is_for_upload = of["includeUpload"];
  const std::string digest = of["digest"];
  if (is_for_upload == digest.empty()) return violation("a digest comes with the upload");
  if (is_for_upload && artifact.md5.empty()) return violation("a manifest before its files");
  for (const auto& [name, md5] : artifact.md5) {
    if (is_for_upload && !artifact.files.contains(name)) {
      return violation("a manifest before the bytes of " + name);
    }
  }
  artifact.manifest_id = "manifest-" + std::to_string(++next_);
  Json file = {{"id", "RmlsZQ"}};
  if (is_for_upload) {
    artifact.manifest_digest = digest;
    file["uploadUrl"] = wandb_upload_url("wandb-manifest/" + found->first);
    file["uploadHeaders"] = {"Content-MD5:" + digest, "Content-Type: application/json"};
  }
  return data({{"createArtifactManifest",
                {{"artifactManifest", {{"id", artifact.manifest_id}, {"file", file}}}}}});
}

HttpReply FakeTrackers::create_files(const Json& of) {
  if (of["storageLayout"] != "V2") return violation("the layout");
  Json edges = Json::array();
  for (const Json& spec : of["artifactFiles"]) {
    const std::string problem = problem_of_fields(
        spec, {{"artifactID", 'S'}, {"artifactManifestID", 'S'}, {"name", 'S'}, {"md5", 'S'}});
    if (!problem.empty()) return violation("createArtifactFiles: " + problem);
    const auto found = artifacts_.find(spec["artifactID"]);
    if (found == artifacts_.end()) return graphql_error("artifact not found");
    if (found->second.state != "PENDING") return violation("files of what is committed");
    if (spec["artifactManifestID"] != found->second.manifest_id) {
      return violation("files of no manifest, or of another one");
    }
    const std::string md5 = spec["md5"];
    const auto decoded = base64_decoded(md5);
    if (!decoded || decoded->size() != 16) return violation("an MD5 in base64");
    found->second.md5[spec["name"]] = md5;
    edges.push_back(
        {{"node",
          {{"uploadUrl",
            wandb_upload_url("wandb-file/" + found->first + "/" + std::string(spec["name"]))},
           {"uploadHeaders", {"Content-MD5:" + md5, "Content-Type: application/octet-stream"}},
           {"artifact", {{"id", found->first}}}}}});
  }
  return data({{"createArtifactFiles", {{"files", {{"edges", edges}}}}}});
}

HttpReply FakeTrackers::wandb_put(const Asked& asked, const std::string& path) {
  if (asked.header("content-md5") != md5_text(asked.body)) {
    return {.status = 400, .body = "<Error><Code>BadDigest</Code></Error>"};
  }
  const std::size_t slash = path.find('/');
  const std::string id = path.substr(slash + 1, path.find('/', slash + 1) - slash - 1);
  const auto found = artifacts_.find(id);
  if (found == artifacts_.end()) return {.status = 403};
  Artifact& artifact = found->second;
  if (path.starts_with("wandb-manifest/")) {
    if (asked.header("content-type") != "application/json") return violation("the URL's headers");
    if (md5_text(asked.body) != artifact.manifest_digest) return violation("another manifest");
    artifact.manifest = asked.body;
    return {};
  }
  const std::string name = path.substr(slash + id.size() + 2);
  if (asked.header("content-type") != "application/octet-stream") {
    return violation("the URL's headers");
  }
  if (!artifact.md5.contains(name) || md5_text(asked.body) != artifact.md5[name]) {
    return violation("a file that was not announced");
  }
  artifact.files[name] = asked.body;
  return {};
}

HttpReply FakeTrackers::commit_artifact(const std::string& id) {
  const auto found = artifacts_.find(id);
  if (found == artifacts_.end()) return graphql_error("artifact not found");
  Artifact& artifact = found->second;
  const HttpReply done =
      data({{"commitArtifact", {{"artifact", {{"id", id}, {"digest", artifact.digest}}}}}});
  if (artifact.state == "COMMITTED") return done;
  if (artifact.manifest.empty()) return violation("a commit before the manifest");
  Json contents = Json::object();
  std::string digests = "wandb-artifact-manifest-v1\n";
  for (const auto& [name, bytes] : artifact.files) {
    digests += name + ":" + md5_text(bytes) + "\n";
    contents[name] = {{"digest", md5_text(bytes)},
                      {"size", bytes.size()},
                      {"birthArtifactID", id},
                      {"skip_cache", false}};
  }
  const Json expected = {{"version", 1},
                         {"storagePolicy", "wandb-storage-policy-v1"},
                         {"storagePolicyConfig", {{"storageLayout", "V2"}}},
                         {"contents", contents}};
  if (Json::parse(artifact.manifest, nullptr, false) != expected) {
    return violation("a manifest that is not of these files");
  }
  const ByteView view = as_bytes(digests);
  if (artifact.digest != hex(md5({&view, 1}))) return violation("the digest of all files");
  artifact.state = "COMMITTED";
  artifact.aliases.push_back("v" + std::to_string(versions_[artifact.collection]++));
  name_artifact(id);
  return done;
}

// From now on, the artifact's aliases name this artifact.
void FakeTrackers::name_artifact(const std::string& id) {
  const Artifact& artifact = artifacts_[id];
  for (const std::string& alias : artifact.aliases) {
    const std::string name = artifact.collection + ":" + alias;
    const std::string root = "wandb/" + name + "/";
    std::erase_if(files_, [&](const auto& each) { return each.first.starts_with(root); });
    named_[name] = id;
    for (const auto& [file, bytes] : artifact.files)
      keep(root + file, bytes);
  }
}

HttpReply FakeTrackers::remove_artifact(const Json& input) {
  const std::string problem =
      problem_of_fields(input, {{"artifactID", 'S'}, {"deleteAliases", 'b'}});
  if (!problem.empty()) return violation("deleteArtifact: " + problem);
  const std::string id = input["artifactID"];
  if (!artifacts_.contains(id)) return graphql_error("artifact not found");
  if (!input.value("deleteAliases", false)) return graphql_error("the artifact has aliases");
  for (const auto& [name, artifact] : named_) {
    if (artifact != id) continue;
    const std::string root = "wandb/" + name + "/";
    std::erase_if(files_, [&](const auto& each) { return each.first.starts_with(root); });
  }
  std::erase_if(named_, [&](const auto& each) { return each.second == id; });
  artifacts_[id].state = "DELETED";
  return data({{"deleteArtifact", {{"artifact", {{"id", id}}}}}});
}

HttpReply FakeTrackers::remove_collection(const std::string& id) {
  if (!id.starts_with("seq:")) return violation("the id of a sequence");
  const std::string beginning = id.substr(4) + ":";
  std::erase_if(files_,
                [&](const auto& each) { return each.first.starts_with("wandb/" + beginning); });
  std::erase_if(named_, [&](const auto& each) { return each.first.starts_with(beginning); });
  std::erase_if(artifacts_,
                [&](const auto& each) { return each.second.collection + ":" == beginning; });
  return data(
      {{"deleteArtifactSequence", {{"artifactCollection", {{"__typename", "ArtifactSequence"}}}}}});
}

}  // namespace cairn::testing
