// Google's JSON API, which Google's own clients speak, over the objects of the XML API. Also checks
// URLs that a service account has signed.
#include <algorithm>
#include <chrono>

#include "core/text/json.h"
#include "net/digest.h"
#include "net/net_time.h"
#include "net/rsa.h"
#include "net/url.h"
#include "testing/fake_gcs.h"

namespace cairn::testing {
namespace {

constexpr const char* kBuckets = "/storage/v1/b/";
constexpr const char* kUploads = "/upload/storage/v1/b/";
constexpr const char* kMetadata = "x-goog-meta-";
constexpr std::size_t kListedByGoogle = 1000;

HttpReply google_json(const Json& body, int status = 200) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json; charset=UTF-8"}},
          .body = body.dump()};
}

HttpReply google_error(int status, const std::string& reason) {
  const std::string message = "of the fake: " + reason;
  return google_json({{"error",
                       {{"code", status},
                        {"message", message},
                        {"errors", {{{"reason", reason}, {"message", message}}}}}}},
                     status);
}

// The bytes of part `number` in a multipart/related body.
std::string related_part(const ReceivedRequest& asked, std::size_t number) {
  std::string boundary = between(asked.header("content-type"), "boundary=", ";");
  std::erase(boundary, '"');
  std::size_t at = 0;
  for (std::size_t i = 0; i <= number && at != std::string::npos; ++i)
    at = asked.body.find("--" + boundary, at + (i > 0 ? 1 : 0));
  const std::size_t begin = asked.body.find("\r\n\r\n", at);
  const std::size_t end = asked.body.find("\r\n--" + boundary, begin);
  if (at == std::string::npos || begin == std::string::npos || end == std::string::npos) return {};
  return asked.body.substr(begin + 4, end - begin - 4);
}

// A file's resource, as documented: 64-bit numbers are strings.
Json resource_of(const std::string& path, const auto& object) {
  const std::string generation = std::to_string(object.generation);
  const std::size_t slash = path.find('/');
  const std::string now = "2026-01-02T03:04:05.678Z";
  Json resource = {{"kind", "storage#object"},
                   {"id", path + "/" + generation},
                   {"name", path.substr(slash + 1)},
                   {"bucket", path.substr(0, slash)},
                   {"generation", generation},
                   {"metageneration", "1"},
                   {"contentType", "application/octet-stream"},
                   {"storageClass", "STANDARD"},
                   {"size", std::to_string(object.bytes.size())},
                   {"crc32c", crc32c_base64(object.bytes)},
                   {"etag", "CA" + generation},
                   {"timeCreated", now},
                   {"updated", now}};
  const ByteView bytes = as_bytes(object.bytes);
  const bool is_of_parts = object.etag.find('-') != std::string::npos;
  if (!is_of_parts) resource["md5Hash"] = base64(md5({&bytes, 1}));
  for (const auto& [name, value] : object.headers) {
    if (name.starts_with(kMetadata)) resource["metadata"][name.substr(12)] = value;
  }
  return resource;
}

}  // namespace

HttpReply FakeGcs::json_api(const Asked& asked) {
  const std::string text = asked.header("authorization");
  const bool is_upload_of_session = asked.query().contains("upload_id");  // The id is the secret.
  if (!is_upload_of_session && (!text.starts_with("Bearer ") || !is_token(text.substr(7)))) {
    return google_error(401, "authError");
  }
  if (asked.path().starts_with(kUploads)) return json_upload(asked);
  const std::string rest = asked.path().substr(std::string(kBuckets).size());
  const std::string bucket = rest.substr(0, rest.find('/'));
  if (bucket != "bucket") return google_error(404, "notFound");
  if (rest == bucket + "/o" && asked.method == "GET") return json_list(asked);
  if (!rest.starts_with(bucket + "/o/")) return google_error(404, "notFound");
  const auto parts = split(rest.substr(bucket.size() + 3), '/');  // Slashes in names are encoded.
  const std::string path = "bucket/" + percent_decoded(parts[0]);
  if (parts.size() == 6 && parts[1] == "rewriteTo" && asked.method == "POST") {
    return json_rewrite(path, "bucket/" + percent_decoded(parts[5]));
  }
  return parts.size() == 1 ? json_object(asked, path) : google_error(404, "notFound");
}

HttpReply FakeGcs::json_object(const Asked& asked, const std::string& path) {
  const Object* const object = find(path);
  if (object == nullptr) return google_error(404, "notFound");
  const std::string wanted = asked.query()["ifGenerationMatch"];
  if (!wanted.empty() && wanted != std::to_string(object->generation)) {
    return google_error(412, "conditionNotMet");
  }
  if (asked.method == "DELETE") {
    objects_.erase(path);
    return {.status = 204};
  }
  if (asked.method != "GET") return google_error(405, "methodNotAllowed");
  if (asked.query()["alt"] != "media") return google_json(resource_of(path, *object));
  HttpReply reply = {.headers = {{"Content-Type", "application/octet-stream"},
                                 {"ETag", "CA" + std::to_string(object->generation)}},
                     .body = object->bytes};
  describe(asked, *object, reply);
  if (!cut_to_range(asked.header("range"), reply))
    return google_error(416, "requestedRangeNotSatisfiable");
  return reply;
}

HttpReply FakeGcs::json_rewrite(const std::string& from, const std::string& to) {
  const Object* const object = find(from);
  if (object == nullptr) return google_error(404, "notFound");
  Object copy = *object;
  copy.generation = ++generation_;
  const std::string size = std::to_string(copy.bytes.size());
  const Json resource = resource_of(to, copy);
  keep(to, std::move(copy));
  return google_json({{"kind", "storage#rewriteResponse"},
                      {"totalBytesRewritten", size},
                      {"objectSize", size},
                      {"done", true},
                      {"resource", resource}});
}

HttpReply FakeGcs::json_keep(const Asked& asked, const std::string& resource_text,
                             const std::string& bytes) {
  const Json resource =
      resource_text.empty() ? Json::object() : Json::parse(resource_text, nullptr, false);
  if (!resource.is_object()) return google_error(400, "parseError");
  auto query = asked.query();
  const std::string name = query["name"].empty() ? resource.value("name", "") : query["name"];
  if (name.empty()) return google_error(400, "required");
  const std::string path = "bucket/" + name;
  const Object* const there = find(path);
  const std::string wanted = query["ifGenerationMatch"];
  if (!wanted.empty() && wanted != std::to_string(there == nullptr ? 0 : there->generation)) {
    return google_error(412, "conditionNotMet");
  }
  if (resource.value("crc32c", crc32c_base64(bytes)) != crc32c_base64(bytes)) {
    return google_error(400, "invalid");
  }
  const ByteView view = as_bytes(bytes);
  Object object = {.bytes = bytes,
                   .etag = "\"" + hex(md5({&view, 1})) + "\"",
                   .headers = {},
                   .generation = ++generation_};
  if (resource.contains("metadata")) {
    for (const auto& [key, value] : resource["metadata"].items())
      object.headers[kMetadata + key] = value;
  }
  const Json made = resource_of(path, object);
  keep(path, std::move(object));
  return google_json(made);
}

HttpReply FakeGcs::json_upload(const Asked& asked) {
  auto query = asked.query();
  const std::string type = query["uploadType"];
  if (asked.path() != std::string(kUploads) + "bucket/o") return google_error(404, "notFound");
  if (type == "media") return json_keep(asked, "", asked.body);
  if (type == "multipart") return json_keep(asked, related_part(asked, 0), related_part(asked, 1));
  if (type != "resumable") return google_error(400, "invalidParameter");
  if (!query["upload_id"].empty()) return json_session(asked);
  const std::string id = "session-" + std::to_string(++generation_);
  sessions_[id] = {.begun = asked, .resource = asked.body};
  return {.headers = {{"Location", url() + asked.target + "&upload_id=" + id}}};
}

HttpReply FakeGcs::json_session(const Asked& asked) {
  const auto session = sessions_.find(asked.query()["upload_id"]);
  if (session == sessions_.end()) return google_error(404, "notFound");
  std::string& bytes = session->second.bytes;
  const std::string range = asked.header("content-range");  // "bytes 0-99/*", "bytes */100"
  const std::string total = range.substr(range.find('/') + 1);
  if (!range.empty() && !range.starts_with("bytes */") &&
      between(range, "bytes ", "-") != std::to_string(bytes.size())) {
    return google_error(503, "backendError");
  }
  bytes += asked.body;
  if (range.empty() || total == std::to_string(bytes.size())) {
    HttpReply reply = json_keep(session->second.begun, session->second.resource, bytes);
    sessions_.erase(session);
    return reply;
  }
  HttpReply reply = {.status = 308};
  if (!bytes.empty()) {
    reply.headers.emplace_back("Range", "bytes=0-" + std::to_string(bytes.size() - 1));
  }
  return reply;
}

HttpReply FakeGcs::json_list(const Asked& asked) {
  auto query = asked.query();
  const std::string prefix = "bucket/" + query["prefix"];
  const std::size_t most =
      query["maxResults"].empty()
          ? kListedByGoogle
          : std::min<std::size_t>(kListedByGoogle, std::stoul(query["maxResults"]));
  Json items = Json::array();
  Json prefixes = Json::array();
  Json answer = {{"kind", "storage#objects"}};
  std::string last = query["pageToken"].empty() ? "" : "bucket/" + query["pageToken"];
  for (const auto& [path, object] : objects_) {
    if (!path.starts_with(prefix)) continue;
    const std::size_t end =
        query["delimiter"].empty() ? std::string::npos : path.find('/', prefix.size());
    const std::string name = path.substr(0, end == std::string::npos ? end : end + 1);
    if (name <= last) continue;
    if (items.size() + prefixes.size() == most) {
      answer["nextPageToken"] = last.substr(7);
      break;
    }
    last = name;
    if (end == std::string::npos) {
      items.push_back(resource_of(path, object));
    } else {
      prefixes.push_back(name.substr(7));
    }
  }
  if (!items.empty()) answer["items"] = items;
  if (!prefixes.empty()) answer["prefixes"] = prefixes;
  return google_json(answer);
}

// Checks a signature of version 4 (GOOG4-RSA-SHA256 in the query) with the service account's key.
HttpReply FakeGcs::check_signed_url(const Asked& asked) const {
  auto query = asked.query();
  const auto scope = split(query["X-Goog-Credential"], '/');
  const std::string time = query["X-Goog-Date"];
  const auto now = std::chrono::system_clock::now();
  const std::string expires = query["X-Goog-Expires"];
  const bool is_right = query["X-Goog-Algorithm"] == "GOOG4-RSA-SHA256" && scope.size() == 5 &&
                        scope[0] == gcs_.account && scope[3] == "storage" &&
                        scope[4] == "goog4_request" && time.starts_with(scope[1]) &&
                        !expires.empty() && time <= basic_iso_time(now + std::chrono::minutes(1)) &&
                        time >= basic_iso_time(now - std::chrono::seconds(std::stoll(expires)));
  if (!is_right) return error(403, "AccessDenied");
  std::vector<std::string> parts = split(asked.raw_query(), '&');
  std::erase_if(parts,
                [](const std::string& part) { return part.starts_with("X-Goog-Signature="); });
  std::sort(parts.begin(), parts.end());
  std::string canonical = asked.method + "\n" + asked.path() + "\n";
  for (const std::string& part : parts)
    canonical += (&part == &parts.front() ? "" : "&") + part;
  canonical += "\n";
  const std::string names = query["X-Goog-SignedHeaders"];
  const auto covered = split(names, ';');
  for (const auto& [name, value] : asked.headers) {
    const bool must_be = name == "host" || name.starts_with("x-goog-");
    if (must_be && std::find(covered.begin(), covered.end(), name) == covered.end()) {
      return error(403, "AccessDenied");
    }
  }
  // Google's client signs the host without its port. Google's own address has no port.
  for (const std::string& name : covered) {
    const std::string value = asked.header(name);
    canonical += name + ":" + (name == "host" ? value.substr(0, value.find(':')) : value) + "\n";
  }
  canonical += "\n" + names + "\nUNSIGNED-PAYLOAD";
  const std::string text = "GOOG4-RSA-SHA256\n" + time + "\n" + scope[1] + "/" + scope[2] +
                           "/storage/goog4_request\n" + hex(sha256(canonical));
  const auto signature = RsaKey::parse(gcs_.private_key, "the fake's").sign_sha256(text);
  return query["X-Goog-Signature"] == hex(signature) ? kNoAnswerYet
                                                     : error(403, "SignatureDoesNotMatch");
}

}  // namespace cairn::testing
