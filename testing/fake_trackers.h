// A strict server in this process. It serves Databricks' Files API, MLflow's REST API with the
// storage below MLflow, and W&B's API. It fails as a test tells it to. It refuses and notes each
// request that does not follow the documents of these APIs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "testing/fake_server.h"

namespace cairn::testing {

struct FakeTrackersOptions {
  std::string token = "canary-token-of-the-fake";  // Requests must send it.
  std::string user = {};                           // Used with `password`, instead of `token`.
  std::string password = {};
  std::string client_id = {};  // With `client_secret`, the client gets one token after another.
  std::string client_secret = {};
  std::string signed_type = "AWS_PRESIGNED_URL";  // The type of URLs that the workspace signs.
  bool serves_artifacts = false;                  // Runs are at mlflow-artifacts:/...
  std::size_t page = 1000;                        // Entries per page of a list.
  double fault_rate = 0;                          // The share of requests that fail.
  unsigned seed = 1;
};

class FakeTrackers final : public FakeServer {
 public:
  explicit FakeTrackers(FakeTrackersOptions options = {});
  ~FakeTrackers() { stop(); }

  // The rules of the documents that requests did not follow.
  std::vector<std::string> violations();

  // All files: "Volumes/c/s/v/a", "E/R/artifacts/a" or "wandb/entity/project/name:alias/a" to
  // bytes.
  std::map<std::string, std::string> files();
  void put_file(const std::string& path, const std::string& bytes);
  // How many of W&B's artifacts were begun and never committed.
  std::size_t pending_artifacts();
  std::set<std::string> runs_of_wandb();  // "entity/project/id"
  // The run "entity/project/id" as W&B's server has it, or null. It has "fields", "history" (a list
  // of rows), "summary", and "exitcode" (null before the end).
  Json streamed_to(const std::string& run);
  void lose_runs_of_wandb();
  // The input that created "entity/project/name:alias". Null if there is none.
  Json input_of_artifact(const std::string& name);
  // From now on, committed files have other bytes than the client sent.
  void lose_bytes_of_wandb();
  // Adds a run to the experiment, and returns its id.
  std::string add_run(const std::string& experiment, const std::string& artifact_uri = "");
  std::size_t runs();
  // {"name", "tags", "status", "metrics": [...], "params": {...}} of MLflow's run.
  Json logged_to(const std::string& run);
  // Makes the signed URLs, or the tokens, that were given so far expire.
  void end_urls();
  void end_tokens();

 private:
  struct File {
    std::string bytes;
    std::int64_t modified_ms = 0;
  };
  using Asked = ReceivedRequest;

  HttpReply answer(const Asked& asked);
  HttpReply token(const Asked& asked);
  HttpReply volume_file(const Asked& asked, const std::string& path);
  HttpReply volume_folder(const Asked& asked, const std::string& path);
  HttpReply mlflow(const Asked& asked, const std::string& endpoint);
  HttpReply make_run(const Json& body);
  HttpReply log_batch(const Json& body);
  HttpReply update_run(const Json& body);
  HttpReply list_artifacts(const Asked& asked);
  HttpReply sign_url(const Json& body, bool is_write);
  HttpReply proxy(const Asked& asked, const std::string& path);
  // W&B's API, in fake_wandb.cpp.
  bool is_logged_in(const Asked& asked) const;
  HttpReply graphql(const Asked& asked);
  HttpReply file_stream(const Asked& asked, const std::string& path);
  HttpReply wandb_query(const std::string& call, const Json& variables);
  HttpReply wandb_change(const std::string& call, const Json& variables);
  Json artifact_files(const std::string& root, const std::string& cursor);
  Json collections(const std::string& project, const std::string& cursor);
  HttpReply create_artifact(const Json& input);
  HttpReply create_manifest(const Json& variables);
  HttpReply create_files(const Json& variables);
  HttpReply commit_artifact(const std::string& id);
  HttpReply remove_artifact(const Json& input);
  HttpReply remove_collection(const std::string& id);
  HttpReply wandb_put(const Asked& asked, const std::string& path);
  std::string wandb_upload_url(const std::string& path) const;
  void name_artifact(const std::string& id);
  HttpReply storage(const Asked& asked, const std::string& path);
  HttpReply storage_put(const Asked& asked, const std::string& path);
  HttpReply serve(const Asked& asked, const File& file, bool suffix_ranges);
  HttpReply violation(const std::string& what);
  // A violation unless the request has these parameters and no others. Optional ones end with "?".
  HttpReply check_query(const Asked& asked, const std::set<std::string>& allowed);
  bool is_authorized(const Asked& asked);
  Json entries(const std::string& root, const std::string& folder, const char* kind);
  bool is_folder(const std::string& path) const;
  void keep(const std::string& path, const std::string& bytes);

  FakeTrackersOptions options_;
  std::map<std::string, File> files_;
  std::set<std::string> folders_;                                     // Of volumes.
  std::map<std::string, std::string> experiments_;                    // By name.
  std::map<std::string, Json> runs_;                                  // RunInfo by id.
  std::map<std::string, Json> logged_;                                // logged_to(), by id.
  std::map<std::string, std::map<std::string, std::string>> blocks_;  // Azure's, by path.
  struct Artifact {
    std::string collection = {};  // "entity/project/name"
    std::string run = {};         // "entity/project/id"
    std::string state = "PENDING";
    std::string digest = {};
    Json input = {};
    std::vector<std::string> aliases = {};
    std::string manifest_id = {};
    std::string manifest_digest = {};               // Sent with the second createArtifactManifest.
    std::string manifest = {};                      // The manifest that was uploaded.
    std::map<std::string, std::string> md5 = {};    // Announced, by file.
    std::map<std::string, std::string> files = {};  // Uploaded.
  };
  std::map<std::string, Artifact> artifacts_;  // By id.
  std::map<std::string, std::string> named_;   // Ids by "entity/project/name:alias".
  std::map<std::string, int> versions_;        // Number of committed versions, by collection.
  std::map<std::string, std::string> wandb_clients_;  // Ids of artifacts by clientID.
  std::map<std::string, Json> wandb_runs_;            // streamed_to(), by "entity/project/id".
  bool loses_bytes_ = false;
  int next_ = 0;
  int url_era_ = 0;
  int token_era_ = 0;
  std::int64_t last_ms_ = 0;
  std::string now_;  // The request that is being answered.
  std::vector<std::string> violations_;
};

}  // namespace cairn::testing
