// Servers whose requests bear an authorization and whose answers are JSON: Databricks, MLflow, W&B.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/text/json.h"
#include "net/url.h"
#include "storage/remote/remote.h"
#include "storage/trackers/rest/authorization.h"

namespace cairn {

struct RestServer {
  Url url = {};
  std::shared_ptr<Authorization> authorization = {};
  std::string keys = {};  // what to check when it is refused: "DATABRICKS_TOKEN"
  RemoteSettings settings = {};
};

// One family of its endpoints: a key is what stands behind `base` in the URL's path, and behind
// `root` in messages.
class RestRemote : public Remote {
 public:
  RestRemote(RestServer server, std::string base, std::string root);

  std::string describe(const std::string& key) const override { return root_ + key; }
  // Sends it and reads the answer.
  Json ask(RemoteRequest request, const std::string& doing);
  // As check(); StorageError, too, when the answer is no JSON object.
  Json read(const HttpResponse& response, const std::string& doing, const std::string& key) const;
  // The same, with a body.
  Json post(const std::string& key, const Json& body, const std::string& doing);

 protected:
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  bool is_passing(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  RestServer server_;
  std::string base_;
  std::string root_;
};

// The body of a request.
SharedBytes shared_text(std::string text);
// UsageError when a text in it is no UTF-8, which JSON cannot hold; `doing` as "reading".
SharedBytes json_body(const Json& body, const std::string& doing);

// Fields of an answer: "" or 0 when they are missing or of another type. Numbers may be texts, as
// 64-bit ones are in protobuf's JSON.
std::string text_of(const Json& object, const char* name);
std::uint64_t number_of(const Json& object, const char* name);
bool flag_of(const Json& object, const char* name);
// An array; an empty one when it is missing.
Json array_of(const Json& object, const char* name);
Json object_of(const Json& object, const char* name);

// The first that is not empty.
std::string first_given(std::initializer_list<std::string> candidates);

}  // namespace cairn
