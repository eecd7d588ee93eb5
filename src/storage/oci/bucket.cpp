// An Oracle bucket: lists and uploads in JSON, MD5 for checksums.
//
//  1. Every PUT contains its MD5, which the server compares. For an object in parts the server
//     keeps the MD5 of the parts' MD5s, which is compared after the write.
//  2. Conditions compare ETags, for a PUT and for the request that commits an upload.
#include <array>
#include <charconv>

#include "cairn/error.h"

#include "core/text/json.h"
#include "io/bytes/source_part.h"
#include "net/digest.h"
#include "storage/oci/connection.h"
#include "storage/pages.h"
#include "storage/remote/store.h"

namespace cairn::oci {
namespace {

constexpr const char* kWriteId = "opc-meta-cairn-write";

std::string md5_text(const Md5& md5) { return base64(md5); }

Md5 md5_of(ByteView bytes) { return md5({&bytes, 1}); }

// The fields of an answer: "" or 0 if there is no field of that name and type.
std::string text_in(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t size_in(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

Json parsed(const std::string& body) {
  return Json::parse(body, nullptr, /*allow_exceptions=*/false);
}

SharedBytes bytes_of(const Json& json) {
  const auto text = std::make_shared<const std::string>(json.dump());
  return {as_bytes(*text), text};
}

class OracleUpload final : public PartedUpload {
 public:
  OracleUpload(Remote& remote, std::string key, std::string id)
      : remote_(remote), key_(std::move(key)), id_(std::move(id)) {}

  RemoteRequest part(int number, const SharedBytes& bytes) override {
    const Md5 md5 = md5_of(bytes.view);
    hashes_.insert(hashes_.end(), md5.begin(), md5.end());
    return {.method = "PUT",
            .key = key_,
            .query = {{"uploadId", id_}, {"uploadPartNum", std::to_string(number)}},
            .headers = {{"content-md5", md5_text(md5)}},
            .body = {bytes}};
  }

  void note_sent(int number, const HttpResponse& response) override {
    const std::string etag(response.header("etag"));
    if (etag.empty()) {
      throw StorageError("writing part " + std::to_string(number) + " of " +
                             remote_.describe(key_) + ": the server's answer has no ETag",
                         response.status);
    }
    parts_.push_back({{"partNum", number}, {"etag", etag}});
  }

  Completed complete(const std::vector<HttpHeader>& condition) override {
    std::vector<HttpHeader> headers = condition;
    headers.push_back({"content-type", "application/json"});
    HttpResponse response = remote_.send({.method = "POST",
                                          .key = key_,
                                          .query = {{"uploadId", id_}},
                                          .headers = std::move(headers),
                                          .body = {bytes_of({{"partsToCommit", parts_}})}});
    const bool is_done = is_success(response);
    std::string version(response.header("etag"));
    return {.response = std::move(response),
            .is_done = is_done,
            .version = is_done ? std::move(version) : "",
            .checksum = md5_text(md5_of(hashes_)) + "-" + std::to_string(parts_.size())};
  }

  std::optional<RemoteRequest> abort() const override {
    return RemoteRequest{.method = "DELETE", .key = key_, .query = {{"uploadId", id_}}};
  }

 private:
  Remote& remote_;
  std::string key_;
  std::string id_;
  Json parts_ = Json::array();
  std::vector<std::byte> hashes_;  // of all parts, one after another
};

class Bucket final : public RemoteContainer {
 public:
  using RemoteContainer::RemoteContainer;

  StoreFeatures features(const std::string& /*folder*/) override {
    return {.versioned_writes = true,
            .fenced_writes = true,
            .fenced_pointers = true,
            .whole_folders = false};
  }

  std::vector<HttpHeader> condition_headers(const std::string& /*key*/,
                                            const WriteCondition& condition) override {
    return etag_condition(condition);
  }

  RemoteHead head_in(const HttpResponse& response) const override {
    std::string checksum(response.header("opc-multipart-md5"));
    if (checksum.empty()) checksum = response.header("content-md5");
    return {.size = content_length(response),
            .version = std::string(response.header("etag")),
            .modified = parse_http_date(response.header("last-modified")).value_or(NetTime()),
            .write_id = std::string(response.header(kWriteId)),
            .checksum = std::move(checksum)};
  }

  std::unique_ptr<PartedUpload> begin_upload(const std::string& key,
                                             const std::string& write_id) override {
    const HttpResponse response =
        server().send({.method = "POST",
                       .key = key,
                       .headers = {{"content-type", "application/json"}},
                       .body = {bytes_of({{"object", key},
                                          {"contentType", "application/octet-stream"},
                                          {"metadata", {{kWriteId, write_id}}}})}});
    server().check(response, "beginning to write", key);
    std::string id = text_in(parsed(response.body), "uploadId");
    if (id.empty()) {
      throw StorageError(
          "beginning to write " + server().describe(key) + ": the server's answer has no upload id",
          response.status);
    }
    return std::make_unique<OracleUpload>(server(), key, std::move(id));
  }

  // Lists the uploads of the whole bucket and filters them: Oracle takes no prefix.
  std::vector<RemoteUpload> uploads(const std::string& prefix) override {
    std::vector<RemoteUpload> found;
    for (Pages pages(server().describe(prefix));;) {
      Query query = {{kOfUploads, ""}};
      if (!pages.now().empty()) query.emplace_back("page", pages.now());
      const HttpResponse response = server().send({.query = std::move(query)});
      const Json json = is_success(response) ? parsed(response.body) : Json();
      if (!json.is_array()) return found;
      for (const Json& upload : json) {
        const std::string key = text_in(upload, "object");
        if (!key.starts_with(prefix)) continue;
        found.push_back({.key = key,
                         .id = text_in(upload, "uploadId"),
                         .begun = parse_iso_time(text_in(upload, "timeCreated"))});
      }
      const std::string next(response.header("opc-next-page"));
      if (!pages.advance(next)) return found;
    }
  }

 protected:
  RemoteRequest list_request(const ListQuery& asked) const override {
    Query query = {{"prefix", asked.prefix}, {"fields", "name,size,etag,timeModified"}};
    if (!asked.delimiter.empty()) query.emplace_back("delimiter", asked.delimiter);
    if (!asked.page.empty()) query.emplace_back("start", asked.page);
    if (asked.most > 0) query.emplace_back("limit", std::to_string(asked.most));
    return {.query = std::move(query)};
  }

  RemoteList list_in(const std::string& body) const override {
    const Json json = parsed(body);
    if (json.is_discarded()) {
      throw StorageError("the server's list of objects is broken: " + std::to_string(body.size()) +
                             " bytes, and no JSON",
                         0, /*retryable=*/true);
    }
    const auto objects = json.is_object() ? json.find("objects") : json.end();
    if (objects == json.end() || !objects->is_array()) {
      throw StorageError("the server's list of objects has no objects", 0);
    }
    RemoteList list;
    for (const Json& object : *objects) {
      list.objects.push_back(
          {.key = text_in(object, "name"),
           .size = size_in(object, "size"),
           .version = text_in(object, "etag"),
           .modified = parse_iso_time(text_in(object, "timeModified")).value_or(NetTime())});
    }
    if (const auto prefixes = json.find("prefixes"); prefixes != json.end()) {
      for (const Json& prefix : *prefixes)
        if (prefix.is_string()) list.prefixes.push_back(prefix.get<std::string>());
    }
    list.next = text_in(json, "nextStartWith");
    list.is_truncated = !list.next.empty();
    return list;
  }

  PutAnswer send_put(const RemotePut& put, const std::string& write_id) override {
    const std::string md5 = md5_text(md5_of(put.bytes.view));
    RemoteRequest request = {
        .method = "PUT", .key = put.key, .headers = {{kWriteId, write_id}, {"content-md5", md5}}};
    for (HttpHeader& header : condition_headers(put.key, put.condition)) {
      request.headers.push_back(std::move(header));
    }
    if (!put.bytes.view.empty()) request.body = {put.bytes};
    return {server().send(std::move(request)), md5};
  }
  const char* checksum_title() const override { return "MD5"; }
};

}  // namespace

std::shared_ptr<ObjectStore> make_oci_store(Config config) {
  const std::string prefix = config.options.prefix;
  return remote_store(std::make_shared<Bucket>(std::make_shared<Connection>(std::move(config))),
                      prefix);
}

}  // namespace cairn::oci
