// A strict server in this process of Databricks' Files API, of MLflow's REST API with the storage
// behind it, and of W&B's, which fails as it is told: a request that is not as the documents have
// it is refused, and noted.
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
  std::string token = "canary-token-of-the-fake";  // what requests must bear
  std::string user = {};                           // with `password`, instead of the token
  std::string password = {};
  std::string client_id = {};  // with `client_secret`: gets tokens, one after another
  std::string client_secret = {};
  std::string signed_type = "AWS_PRESIGNED_URL";  // of the URLs that the workspace gives
  bool serves_artifacts = false;                  // runs are at mlflow-artifacts:/...
  std::size_t page = 1000;                        // of a list
  double fault_rate = 0;                          // of all requests
  unsigned seed = 1;
};

class FakeTrackers final : public FakeServer {
 public:
  explicit FakeTrackers(FakeTrackersOptions options = {});
  ~FakeTrackers() { stop(); }

  // What in requests is not as the documents have it.
  std::vector<std::string> violations();

  // "Volumes/c/s/v/a", "E/R/artifacts/a" or "wandb/entity/project/name:alias/a" to bytes.
  std::map<std::string, std::string> files();
  void put_file(const std::string& path, const std::string& bytes);
  // Of W&B's artifacts those that were begun, and never committed.
  std::size_t pending_artifacts();
  std::set<std::string> runs_of_wandb();  // "entity/project/id"
  // With what "entity/project/name:alias" was created; null when there is none.
  Json input_of_artifact(const std::string& name);
  // From now on what is committed has other bytes than were sent.
  void lose_bytes_of_wandb();
  // A run of the experiment; its id.
  std::string add_run(const std::string& experiment, const std::string& artifact_uri = "");
  std::size_t runs();
  // As if the signed URLs, or the tokens, that were given so far had ended.
  void end_urls();
  void end_tokens();

 private:
  struct File {
    std::string bytes;
    std::int64_t modified_ms = 0;
  };
  using Asked = HttpAsked;

  HttpReply answer(const Asked& asked);
  HttpReply token(const Asked& asked);
  HttpReply volume_file(const Asked& asked, const std::string& path);
  HttpReply volume_folder(const Asked& asked, const std::string& path);
  HttpReply mlflow(const Asked& asked, const std::string& endpoint);
  HttpReply make_run(const Json& body);
  HttpReply list_artifacts(const Asked& asked);
  HttpReply sign_url(const Json& body, bool is_write);
  HttpReply proxy(const Asked& asked, const std::string& path);
  // W&B's: fake_wandb.cpp.
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
  // A violation unless the request has these parameters and no others; "?" behind optional ones.
  HttpReply check_query(const Asked& asked, const std::set<std::string>& allowed);
  bool is_authorized(const Asked& asked);
  Json entries(const std::string& root, const std::string& folder, const char* kind);
  bool is_folder(const std::string& path) const;
  void keep(const std::string& path, const std::string& bytes);

  FakeTrackersOptions options_;
  std::map<std::string, File> files_;
  std::set<std::string> folders_;                                     // of volumes
  std::map<std::string, std::string> experiments_;                    // by name
  std::map<std::string, Json> runs_;                                  // RunInfo by id
  std::map<std::string, std::map<std::string, std::string>> blocks_;  // of Azure, by path
  struct Artifact {
    std::string collection = {};  // "entity/project/name"
    std::string run = {};         // "entity/project/id"
    std::string state = "PENDING";
    std::string digest = {};
    Json input = {};
    std::vector<std::string> aliases = {};
    std::string manifest_id = {};
    std::string manifest_digest = {};               // said with the second createArtifactManifest
    std::string manifest = {};                      // that came
    std::map<std::string, std::string> md5 = {};    // that were announced, by file
    std::map<std::string, std::string> files = {};  // that came
  };
  std::map<std::string, Artifact> artifacts_;         // by id
  std::map<std::string, std::string> named_;          // ids by "entity/project/name:alias"
  std::map<std::string, int> versions_;               // so many were committed, by collection
  std::map<std::string, std::string> wandb_clients_;  // ids of artifacts by their clientID
  std::set<std::string> wandb_runs_;                  // "entity/project/id"
  bool loses_bytes_ = false;
  int next_ = 0;
  int url_era_ = 0;
  int token_era_ = 0;
  std::int64_t last_ms_ = 0;
  std::string now_;  // the request that is answered
  std::vector<std::string> violations_;
};

}  // namespace cairn::testing
