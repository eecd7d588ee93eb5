#include "storage/oci/connection.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/text/json.h"
#include "net/digest.h"
#include "storage/remote/key_server.h"

namespace cairn::oci {
namespace {

std::string field(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string lower_method(std::string method) {
  for (char& c : method)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return method;
}

}  // namespace

std::string Connection::describe(const std::string& key) const {
  return "oci://" + config_.options.bucket + (key.empty() ? "" : "/" + key);
}

bool Connection::is_missing(const HttpResponse& response) const {
  // Other 404s may mean that access is denied: BucketNotFound, NotAuthorizedOrNotFound.
  const std::string code = error_in(response).code;
  return response.status == 404 && (code == "ObjectNotFound" || code == "NoSuchUpload");
}

// A body is signed by its hash.
bool Connection::prepare(RemoteRequest& request) const {
  if (request.method != "PUT" && request.method != "POST") return false;
  const bool has_type = std::any_of(request.headers.begin(), request.headers.end(),
                                    [](const auto& h) { return h.name == "content-type"; });
  if (!has_type) request.headers.push_back({"content-type", "application/octet-stream"});
  return true;
}

// Signs the lines "name: value", and adds the header with the signature.
SignedRequest Connection::signed_request(HttpRequest request, const std::string& target,
                                         const std::string& payload_hash) const {
  SigningTime now = signing_time();
  request.headers.push_back({"date", http_date(now.time)});
  request.headers.push_back({"host", config_.endpoint.host});
  std::string names = "date (request-target) host";
  if (!payload_hash.empty()) {
    std::size_t size = 0;
    for (const SharedBytes& piece : request.body)
      size += piece.view.size();
    request.headers.push_back({"x-content-sha256", payload_hash});
    request.headers.push_back({"content-length", std::to_string(size)});
    names += " x-content-sha256 content-type content-length";
  }
  std::string text;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(' ', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    std::string value = lower_method(request.method) + " " + target;
    for (const HttpHeader& header : request.headers) {
      if (header.name == name) value = header.value;
    }
    text += (begin == 0 ? "" : "\n") + name + ": " + value;
    begin = end + 1;
  }
  request.headers.push_back({"authorization", "Signature version=\"1\",keyId=\"" + config_.key_id +
                                                  "\",algorithm=\"rsa-sha256\",headers=\"" + names +
                                                  "\",signature=\"" +
                                                  base64(config_.key->sign_sha256(text)) + "\""});
  request.url = config_.endpoint.origin() + target;
  return {.http = std::move(request), .signed_by = std::move(now.skew)};
}

std::string Connection::name_space() {
  if (!config_.name_space.empty()) return config_.name_space;
  const Turn turn(turns_);
  if (!name_space_.empty()) return name_space_;
  const HttpRequest request = {.url = {}, .ca_file = config_.settings.ca_file};
  std::string signed_by;
  const auto ask = [&] {
    const SignedRequest made = signed_request(request, config_.endpoint.path + "/n/", "");
    signed_by = made.signed_by;
    return ask_for_keys(*config_.settings.client, config_.settings.retries, made.http);
  };
  HttpResponse response = ask();
  // This may be the first request of all, so its answer may show that the clock is wrong.
  if (response.failure.empty() && learn(response, {}, signed_by)) response = ask();
  if (response.failure.empty() && response.status != 200) {
    refuse(response, "asking for the namespace of", "");
  }
  const Json json = Json::parse(keys_answer(response, "the namespace of " + describe("")), nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_string() || json.get<std::string>().empty()) {
    throw StorageError("the answer to " + config_.endpoint.origin() + "/n/ is no namespace",
                       response.status);
  }
  name_space_ = json.get<std::string>();
  return name_space_;
}

std::string Connection::target_of(const RemoteRequest& request) {
  std::string path = config_.endpoint.path + "/n/" + percent_encoded(name_space()) + "/b/" +
                     percent_encoded(config_.options.bucket);
  Query query = request.query;
  const bool lists_uploads =
      std::erase_if(query, [](const auto& part) { return part.first == kOfUploads; }) > 0;
  const bool is_of_one = std::any_of(query.begin(), query.end(),
                                     [](const auto& part) { return part.first == "uploadId"; });
  const bool begins_one = request.method == "POST" && !is_of_one;
  path += lists_uploads || is_of_one || begins_one ? "/u" : "/o";
  if (!request.key.empty() && !begins_one) path += "/" + percent_encoded(request.key);
  const std::string text = query_text(query);
  return path + (text.empty() ? "" : "?" + text);
}

SignedRequest Connection::sign(const RemoteRequest& request) {
  HttpRequest http = {
      .method = request.method, .url = {}, .headers = request.headers, .body = request.body};
  return signed_request(std::move(http), target_of(request), request.payload_hash);
}

RemoteError Connection::error_in(const HttpResponse& response) const {
  const Json json = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  return {.code = field(json, "code"), .message = field(json, "message")};
}

// Only a wrong clock can be corrected: Oracle allows five minutes.
bool Connection::learn(const HttpResponse& response, const RemoteError& /*error*/,
                       const std::string& signed_by) {
  return response.status == 401 && learn_time(response, /*is_certain=*/false, signed_by);
}

bool Connection::is_temporary(int status, const std::string& code) const {
  return is_temporary_status(status) || code == "ConcurrentObjectUpdate" ||
         code == "IncorrectState" || code == "UnmatchedContentMD5" || code == "RequestTimeout";
}

std::string Connection::advice_for(int status, const std::string& code) const {
  if (status == 401) return "; check user, fingerprint and key_file of the profile";
  if (code == "BucketNotFound") {
    return "; make it, check its name and the region, and what the profile's user may see";
  }
  if (status == 403) return "; check what the profile's user may do with the bucket";
  return "";
}

}  // namespace cairn::oci
