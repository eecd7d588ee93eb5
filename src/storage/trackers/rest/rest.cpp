#include "storage/trackers/rest/rest.h"

#include <algorithm>
#include <charconv>

#include "cairn/error.h"

#include "core/environment.h"
#include "net/digest.h"

namespace cairn {
namespace {

constexpr std::string_view kPassingCodes[] = {
    "TEMPORARILY_UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED",      "REQUEST_LIMIT_EXCEEDED",
    "RESOURCE_EXHAUSTED",      "DATA_LOSS",         "INVALID_STATE"};

constexpr int kMaxDepth = 100;
constexpr const char* kRefused = "PERMISSION_DENIED";

Json parse_object(const std::string& text) {
  // Drops deeper levels: they are not needed, and copying recurses.
  const auto is_shallow = [](int depth, auto, auto&) { return depth <= kMaxDepth; };
  Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json();
}

// The password in base64 text of "user:password"; "" if the text is something else.
std::string password_in(const std::string& keys) {
  const auto plain = base64_decoded(keys);
  const std::size_t colon = plain ? plain->find(':') : std::string::npos;
  return colon == std::string::npos ? "" : plain->substr(colon + 1);
}

// Recognizes MLflow's message that MLflow's storage refused a request: another attempt would not
// help.
bool is_storage_refusal(const std::string& message) {
  return message.find("401 Client Error") != std::string::npos ||
         message.find("403 Client Error") != std::string::npos;
}

}  // namespace

RestRemote::RestRemote(RestServer server, std::string base, std::string root)
    : Remote(server.settings),
      server_(std::move(server)),
      base_(std::move(base)),
      root_(std::move(root)) {}

Json RestRemote::ask(RemoteRequest request, const std::string& doing) {
  const std::string key = request.key;
  return read(send(std::move(request)), doing, key);
}

Json RestRemote::read(const HttpResponse& response, const std::string& doing,
                      const std::string& key) const {
  check(response, doing, key);
  Json json = parse_object(response.body);
  if (json.is_null()) {
    throw StorageError(doing + " " + describe(key) + ": the server's answer is no JSON object",
                       response.status);
  }
  return json;
}

Json RestRemote::post(const std::string& key, const Json& body, const std::string& doing) {
  return ask({.method = "POST",
              .key = key,
              .headers = {{"content-type", "application/json"}},
              .body = {json_body(body, doing)}},
             doing);
}

SignedRequest RestRemote::sign(const RemoteRequest& request) {
  const std::string header = server_.authorization->header();
  const std::size_t space = header.find(' ');
  const std::string keys = space == std::string::npos ? "" : header.substr(space + 1);
  keep_secret({header, keys, password_in(keys)});
  const std::string query = query_text(request.query);
  SignedRequest made = {.http = {.method = request.method,
                                 .url = server_.url.origin() + server_.url.path + base_ +
                                        percent_encoded(request.key, /*keep_slashes=*/true) +
                                        (query.empty() ? "" : "?" + query),
                                 .headers = request.headers},
                        .signed_by = header};
  if (!header.empty()) made.http.headers.push_back({"authorization", header});
  return made;
}

RemoteError RestRemote::error_in(const HttpResponse& response) const {
  const Json json = parse_object(response.body);
  RemoteError error = {
      .code = first_given({text_of(json, "error_code"), text_of(json, "error")}),
      .message = first_given({text_of(json, "message"), text_of(json, "error_description")})};
  if (error.code == "INTERNAL_ERROR" && is_storage_refusal(error.message)) error.code = kRefused;
  return error;
}

bool RestRemote::learn(const HttpResponse& response, const RemoteError& /*error*/,
                       const std::string& signed_by) {
  return response.status == 401 && server_.authorization->note_refused(signed_by);
}

bool RestRemote::is_temporary(int status, const std::string& code) const {
  if (code == kRefused) return false;
  return Remote::is_temporary(status, code) ||
         std::find(std::begin(kPassingCodes), std::end(kPassingCodes), code) !=
             std::end(kPassingCodes);
}

std::string RestRemote::advice_for(int status, const std::string& /*code*/) const {
  if (status == 401) return "; check " + server_.keys;
  if (status == 403) return "; check what the owner of " + server_.keys + " may do there";
  return {};
}

SharedBytes shared_text(std::string text) {
  const auto kept = std::make_shared<const std::string>(std::move(text));
  return {as_bytes(*kept), kept};
}

SharedBytes json_body(const Json& body, const std::string& doing) {
  try {
    return shared_text(body.dump());
  } catch (const Json::type_error&) {
    throw UsageError(doing + " the server: a name is no UTF-8, and cannot be sent; rename it");
  }
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::uint64_t number_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (found == object.end()) return 0;
  if (found->is_number_unsigned()) return found->get<std::uint64_t>();
  const std::string text = text_of(object, name);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool flag_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Json array_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_array() ? *found : Json::array();
}

Json object_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_object() ? *found : Json::object();
}

}  // namespace cairn
