// Servers whose requests have an authorization and whose answers are JSON: Databricks, MLflow, W&B.
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
  std::string keys = {};  // what to check after a refusal: "DATABRICKS_TOKEN"
  RemoteSettings settings = {};
};

// One group of endpoints. A key follows `base` in the URL's path, and `root` in messages.
class RestRemote : public Remote {
 public:
  RestRemote(RestServer server, std::string base, std::string root);

  std::string describe(const std::string& key) const override { return root_ + key; }
  // Sends the request and reads the answer.
  Json ask(RemoteRequest request, const std::string& doing);
  // Like Remote::check(). Throws StorageError, too, if the answer is no JSON object.
  Json read(const HttpResponse& response, const std::string& doing, const std::string& key) const;
  // Like ask(), with a body.
  Json post(const std::string& key, const Json& body, const std::string& doing);

 protected:
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  bool is_temporary(int status, const std::string& code) const override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  RestServer server_;
  std::string base_;
  std::string root_;
};

// The body of a request.
SharedBytes shared_text(std::string text);
// Throws UsageError if a text in `body` is no UTF-8, which JSON cannot represent. `doing` is a word
// like "reading".
SharedBytes json_body(const Json& body, const std::string& doing);

// Fields of an answer: "" or 0 if they are missing or have another type. Numbers may be texts, like
// 64-bit numbers in protobuf's JSON.
std::string text_of(const Json& object, const char* name);
std::uint64_t number_of(const Json& object, const char* name);
bool flag_of(const Json& object, const char* name);
// Return an empty array or object if the field is missing.
Json array_of(const Json& object, const char* name);
Json object_of(const Json& object, const char* name);

}  // namespace cairn
