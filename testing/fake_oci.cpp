#include "testing/fake_oci.h"

#include <algorithm>

#include "core/text/json.h"
#include "net/digest.h"
#include "net/net_time.h"
#include "net/url.h"
#include "testing/rsa_key.h"

namespace cairn::testing {
namespace {

using OciClock = std::chrono::system_clock;

constexpr std::size_t kOciPage = 1000;
constexpr std::chrono::minutes kOciSkew{5};

HttpReply problem(int status, const std::string& code) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = Json{{"code", code}, {"message", "of the fake: " + code}}.dump()};
}

HttpReply answer_with(const Json& json) {
  return {.headers = {{"Content-Type", "application/json"}}, .body = json.dump()};
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string raw_md5(const std::string& bytes) {
  const ByteView view = as_bytes(bytes);
  const Md5 hash = md5({&view, 1});
  return std::string(as_text(ByteView(hash)));
}

std::string base64_md5(const std::string& bytes) { return base64(as_bytes(raw_md5(bytes))); }

std::string iso_text(OciClock::time_point time) {
  const std::string basic = basic_iso_time(time);
  return basic.substr(0, 4) + "-" + basic.substr(4, 2) + "-" + basic.substr(6, 2) + "T" +
         basic.substr(9, 2) + ":" + basic.substr(11, 2) + ":" + basic.substr(13, 2) + ".123Z";
}

std::map<std::string, std::string> kept_with_object(const ReceivedRequest& asked) {
  std::map<std::string, std::string> kept;
  for (const auto& [name, value] : asked.headers)
    if (name.starts_with("opc-meta-")) kept[name] = value;
  return kept;
}

}  // namespace

FakeOci::FakeOci(FakeOciOptions options)
    : FakeServer(options.seed,
                 {problem(500, "InternalServerError"), problem(429, "TooManyRequests"),
                  problem(503, "ServiceUnavailable")}),
      options_(std::move(options)) {
  fault_rate_ = options_.fault_rate;
  start([this](const ReceivedRequest& asked) { return answer(asked); });
}

std::map<std::string, std::string> FakeOci::objects() {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> all;
  for (const auto& [key, object] : objects_)
    all[key] = object.bytes;
  return all;
}

void FakeOci::put_object(const std::string& key, const std::string& bytes) {
  const std::scoped_lock lock(mutex_);
  objects_[key] = {
      .bytes = bytes, .etag = "etag-" + std::to_string(++next_), .md5 = base64_md5(bytes)};
}

void FakeOci::age_uploads(std::chrono::hours age) {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, upload] : uploads_)
    upload.begun -= age;
}

std::size_t FakeOci::uploads() {
  const std::scoped_lock lock(mutex_);
  return uploads_.size();
}

// Checks which lines are signed, what they say, and whose key signed them. A request with an object
// or a part may omit the hash of its bytes. If the hash is sent, it is compared with the bytes.
HttpReply FakeOci::check_signature(const Asked& asked) const {
  const std::string text = asked.header("authorization");
  if (!text.starts_with("Signature version=\"1\",")) return problem(401, "NotAuthenticated");
  if (between(text, "keyId=\"", "\"") != options_.key_id ||
      between(text, "algorithm=\"", "\"") != "rsa-sha256") {
    return problem(401, "NotAuthenticated");
  }
  const auto names = split(lower_case(between(text, "headers=\"", "\"")), ' ');
  const std::string date_name = asked.header("x-date").empty() ? "date" : "x-date";
  std::vector<std::string> needed = {date_name, "(request-target)", "host"};
  const std::string hash = asked.header("x-content-sha256");
  if (asked.method == "POST" || !hash.empty()) {
    needed.insert(needed.end(), {"x-content-sha256", "content-type", "content-length"});
    if (hash != base64(sha256(asked.body))) return problem(401, "NotAuthenticated");
  }
  std::string lines;
  for (const std::string& name : names) {
    const std::string value = name == "(request-target)"
                                  ? lower_case(asked.method) + " " + asked.target
                                  : asked.header(name);
    lines += (lines.empty() ? "" : "\n") + name + ": " + value;
    std::erase(needed, name);
  }
  const auto date = parse_http_date(asked.header(date_name));
  const bool is_now = date && std::chrono::abs(*date - OciClock::now()) < kOciSkew;
  const std::string signature = base64_decoded(between(text, "signature=\"", "\"")).value_or("");
  return needed.empty() && is_now && is_signed_by_tests(lines, as_bytes(signature))
             ? kNoAnswerYet
             : problem(401, "NotAuthenticated");
}

HttpReply FakeOci::answer(const Asked& asked) {
  HttpReply reply = check_signature(asked);
  if (reply.status == 0) {
    const std::string base = "/n/" + options_.name_space + "/b/bucket/";
    const std::string path = asked.path();
    const std::string key = path.size() > base.size() + 2
                                ? percent_decoded(path.substr(base.size() + 2))
                                : std::string();
    if (path == "/n/" || path == "/n") {
      reply = answer_with(options_.name_space);
    } else if (!path.starts_with(base)) {
      reply = problem(404, path.find("/b/bucket/") == std::string::npos ? "BucketNotFound"
                                                                        : "NamespaceNotFound");
    } else if (path.compare(base.size(), 1, "o") == 0) {
      reply = of_object(asked, key);
    } else {
      reply = of_upload(asked, key);
    }
  }
  reply.headers.emplace_back("Date", http_date(OciClock::now()));
  if (asked.method == "HEAD" && reply.status >= 300) reply.body.clear();
  return reply;
}

HttpReply FakeOci::of_object(const Asked& asked, const std::string& key) {
  if (key.empty()) return asked.method == "GET" ? list(asked) : problem(405, "MethodNotAllowed");
  if (asked.method == "GET" || asked.method == "HEAD") return get(asked, key);
  if (asked.method == "PUT") return put(asked, key);
  if (asked.method != "DELETE") return problem(405, "MethodNotAllowed");
  return objects_.erase(key) > 0 ? HttpReply{.status = 204} : problem(404, "ObjectNotFound");
}

HttpReply FakeOci::get(const Asked& asked, const std::string& key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return problem(404, "ObjectNotFound");
  const Object& object = found->second;
  const std::string wanted = asked.header("if-match");
  if (!wanted.empty() && wanted != object.etag) return problem(412, "IfMatchFailed");
  HttpReply reply = {
      .headers = {{"ETag", object.etag},
                  {"Last-Modified", http_date(OciClock::now())},
                  {object.is_of_parts ? "opc-multipart-md5" : "content-md5", object.md5}},
      .body = object.bytes};
  for (const auto& [name, value] : object.headers)
    reply.headers.emplace_back(name, value);
  if (!cut_to_range(asked.header("range"), reply)) return problem(416, "InvalidRange");
  if (asked.method == "HEAD") {
    reply.headers.emplace_back("Content-Length", std::to_string(object.bytes.size()));
  }
  return reply;
}

HttpReply FakeOci::check_condition(const Asked& asked, const std::string& key) const {
  const auto found = objects_.find(key);
  const bool is_there = found != objects_.end();
  if (asked.header("if-none-match") == "*" && is_there) return problem(412, "IfNoneMatchFailed");
  const std::string wanted = asked.header("if-match");
  if (wanted.empty() || (is_there && found->second.etag == wanted)) return kNoAnswerYet;
  return problem(412, is_there ? "IfMatchFailed" : "NoEtagMatch");
}

HttpReply FakeOci::keep(const std::string& key, Object object) {
  object.etag = "etag-" + std::to_string(++next_);
  const HttpReply reply = {.headers = {{"ETag", object.etag}}};
  if (!options_.keeps_old || !objects_.contains(key)) objects_[key] = std::move(object);
  return reply;
}

HttpReply FakeOci::put(const Asked& asked, const std::string& key) {
  const HttpReply refused = check_condition(asked, key);
  if (refused.status != 0) return refused;
  const std::string md5 = base64_md5(asked.body);
  const std::string given = asked.header("content-md5");
  if (!given.empty() && given != md5) return problem(400, "UnmatchedContentMD5");
  return keep(key,
              {.bytes = asked.body, .etag = {}, .md5 = md5, .headers = kept_with_object(asked)});
}

HttpReply FakeOci::list(const Asked& asked) const {
  auto query = asked.query();
  const std::string prefix = query["prefix"];
  const std::size_t most = query["limit"].empty()
                               ? kOciPage
                               : std::min<std::size_t>(kOciPage, std::stoul(query["limit"]));
  Json objects = Json::array();
  Json prefixes = Json::array();
  std::string last;
  Json answer;
  for (auto at = objects_.lower_bound(std::max(prefix, query["start"])); at != objects_.end();
       ++at) {
    if (!at->first.starts_with(prefix)) break;
    const std::size_t end =
        query["delimiter"].empty() ? std::string::npos : at->first.find('/', prefix.size());
    const std::string name = at->first.substr(0, end == std::string::npos ? end : end + 1);
    if (name == last) continue;
    if (objects.size() + prefixes.size() == most) {
      answer["nextStartWith"] = at->first;
      break;
    }
    last = name;
    if (end != std::string::npos) {
      prefixes.push_back(name);
      continue;
    }
    objects.push_back({{"name", name},
                       {"size", at->second.bytes.size()},
                       {"etag", at->second.etag},
                       {"timeModified", iso_text(OciClock::now())}});
  }
  answer["objects"] = objects;
  if (!query["delimiter"].empty()) answer["prefixes"] = prefixes;
  return answer_with(answer);
}

HttpReply FakeOci::of_upload(const Asked& asked, const std::string& key) {
  auto query = asked.query();
  if (key.empty()) return asked.method == "POST" ? begin_upload(asked) : list_uploads();
  const auto upload = uploads_.find(query["uploadId"]);
  if (upload == uploads_.end() || upload->second.key != key) return problem(404, "NoSuchUpload");
  if (asked.method == "POST") return commit(asked, key);
  if (asked.method == "DELETE") {
    uploads_.erase(upload);
    return {.status = 204};
  }
  const int number = std::stoi(query["uploadPartNum"]);
  if (asked.method != "PUT" || number < 1 || number > 10'000) {
    return problem(400, "InvalidParameter");
  }
  const std::string md5 = asked.header("content-md5");
  if (!md5.empty() && md5 != base64_md5(asked.body)) return problem(400, "UnmatchedContentMD5");
  Object part = {
      .bytes = asked.body, .etag = "part-" + std::to_string(++next_), .md5 = raw_md5(asked.body)};
  const HttpReply reply = {.headers = {{"ETag", part.etag}}};
  upload->second.parts[number] = std::move(part);
  return reply;
}

HttpReply FakeOci::begin_upload(const Asked& asked) {
  const Json json = Json::parse(asked.body, nullptr, false);
  if (!json.is_object() || !json.contains("object")) return problem(400, "InvalidParameter");
  const std::string id = "upload-" + std::to_string(++next_);
  Upload upload = {.key = json["object"].get<std::string>(), .headers = {}};
  if (json.contains("metadata")) {
    upload.headers = json["metadata"].get<std::map<std::string, std::string>>();
  }
  uploads_[id] = std::move(upload);
  return answer_with({{"uploadId", id}, {"object", json["object"]}, {"bucket", "bucket"}});
}

HttpReply FakeOci::list_uploads() const {
  Json all = Json::array();
  for (const auto& [id, upload] : uploads_) {
    all.push_back(
        {{"object", upload.key}, {"uploadId", id}, {"timeCreated", iso_text(upload.begun)}});
  }
  return answer_with(all);
}

HttpReply FakeOci::commit(const Asked& asked, const std::string& key) {
  const HttpReply refused = check_condition(asked, key);
  if (refused.status != 0) return refused;
  const auto upload = uploads_.find(asked.query()["uploadId"]);
  const Json json = Json::parse(asked.body, nullptr, false);
  if (!json.is_object() || !json["partsToCommit"].is_array() || json["partsToCommit"].empty()) {
    return problem(400, "InvalidParameter");
  }
  Object object = {
      .bytes = {}, .etag = {}, .md5 = {}, .is_of_parts = true, .headers = upload->second.headers};
  std::string hashes;
  for (const Json& part : json["partsToCommit"]) {
    const auto sent = upload->second.parts.find(part["partNum"].get<int>());
    if (sent == upload->second.parts.end() ||
        sent->second.etag != part["etag"].get<std::string>()) {
      return problem(400, "InvalidUploadPart");
    }
    object.bytes += sent->second.bytes;
    hashes += sent->second.md5;
  }
  object.md5 = base64_md5(hashes) + "-" + std::to_string(json["partsToCommit"].size());
  HttpReply reply = keep(key, std::move(object));
  uploads_.erase(upload);
  return reply;
}

}  // namespace cairn::testing
