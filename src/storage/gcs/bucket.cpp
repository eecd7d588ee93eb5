// A Google bucket: lists and uploads in parts are S3's; versions are generations, and checksums are
// CRC-32C.
//
//  1. Every PUT contains its CRC-32C, which the server compares. After the PUT, generation and
//     checksum are requested and compared again.
//  2. Conditions compare generations. Google checks them for a PUT, but not for an upload in parts.
//     So cairn checks the condition itself before it completes an upload in parts.
#include <array>

#include "cairn/error.h"

#include "core/hash/crc32c.h"
#include "net/digest.h"
#include "storage/gcs/connection.h"
#include "storage/remote/store.h"
#include "storage/s3/part_crc.h"
#include "storage/s3/upload.h"

namespace cairn::gcs {
namespace {

constexpr const char* kWriteId = "x-goog-meta-cairn-write";
constexpr const char* kHash = "x-goog-hash";
constexpr std::string_view kCrc32c = "crc32c=";

// The text of a checksum in Google's headers.
std::string crc32c_text(std::uint32_t crc) {
  std::array<std::byte, 4> bytes;
  for (std::size_t i = 0; i < 4; ++i)
    bytes[i] = static_cast<std::byte>(crc >> (24 - 8 * i));
  return base64(bytes);
}

HttpHeader hash_header(const std::string& crc) { return {kHash, std::string(kCrc32c) + crc}; }

// There may be two such headers, or both kinds in one: "crc32c=n03x6A==,
// md5=Ojk9c3dhfxgoKVVHYwFbHQ==".
std::string crc32c_in(const HttpResponse& response) {
  for (const HttpHeader& header : response.headers) {
    const std::size_t at = header.name == kHash ? header.value.find(kCrc32c) : std::string::npos;
    if (at == std::string::npos) continue;
    const std::size_t begin = at + kCrc32c.size();
    return header.value.substr(begin, header.value.find_first_of(", ", begin) - begin);
  }
  return "";
}

class GoogleUpload final : public s3::Upload {
 public:
  using Upload::Upload;

  void note_gathered(ByteView bytes) override { of_part_.add(bytes); }

  RemoteRequest part(int number, const SharedBytes& bytes) override {
    RemoteRequest request = Upload::part(number, bytes);
    const std::uint32_t crc = of_part_.take(bytes.view);
    of_parts_.push_back(crc32c_text(crc));
    request.headers.push_back(hash_header(of_parts_.back()));
    crc_ = crc32c_joined(crc_, crc, bytes.view.size());
    return request;
  }

  void note_sent(int number, const HttpResponse& response) override {
    Upload::note_sent(number, response);
    const std::string given = crc32c_in(response);
    const std::string& wanted = of_parts_[static_cast<std::size_t>(number) - 1];
    if (given.empty() || given == wanted) return;
    throw StorageError("part " + std::to_string(number) +
                           " of an upload to gs:// arrived with CRC-32C " + given + " instead of " +
                           wanted + "; write it again",
                       response.status, /*retryable=*/true);
  }

  Completed complete(const std::vector<HttpHeader>& condition) override {
    Completed done = Upload::complete(condition);
    done.version = std::string(done.response.header("x-goog-generation"));  // not the ETag
    done.checksum = crc32c_text(crc_);
    return done;
  }

 private:
  s3::PartCrc<std::uint32_t, crc32c> of_part_;
  std::uint32_t crc_ = 0;
  std::vector<std::string> of_parts_;
};

class Bucket final : public RemoteContainer {
 public:
  explicit Bucket(std::shared_ptr<Connection> connection)
      : RemoteContainer(connection), bucket_(connection->bucket()) {}

  StoreFeatures features(const std::string& /*folder*/) override {
    return {.versioned_writes = true,
            .fenced_writes = false,  // not for uploads in parts
            .fenced_pointers = true,
            .server_copies = true};
  }

  std::vector<HttpHeader> condition_headers(const std::string& /*key*/,
                                            const WriteCondition& condition) override {
    if (condition.when == WriteCondition::If::kAlways) return {};
    const bool is_version = condition.when == WriteCondition::If::kVersion;
    return {{"x-goog-if-generation-match", is_version ? condition.version : "0"}};
  }
  std::vector<HttpHeader> upload_condition_headers(const std::string& /*key*/,
                                                   const WriteCondition& /*condition*/) override {
    return {};
  }

  RemoteHead head_in(const HttpResponse& response) const override {
    return {.size = content_length(response),
            .version = std::string(response.header("x-goog-generation")),
            .modified = parse_http_date(response.header("last-modified")).value_or(NetTime()),
            .write_id = std::string(response.header(kWriteId)),
            .checksum = crc32c_in(response)};
  }

  std::unique_ptr<PartedUpload> begin_upload(const std::string& key,
                                             const std::string& write_id) override {
    const HttpResponse response = server().send({.method = "POST",
                                                 .key = key,
                                                 .query = {{"uploads", ""}},
                                                 .headers = write_headers(write_id)});
    return std::make_unique<GoogleUpload>(server(), key, s3::begun_upload(server(), key, response));
  }
  std::vector<RemoteUpload> uploads(const std::string& prefix) override {
    return s3::list_uploads(server(), prefix);
  }

 protected:
  RemoteRequest list_request(const ListQuery& asked) const override {
    Query query = {{"list-type", "2"}, {"prefix", asked.prefix}};
    if (!asked.delimiter.empty()) query.emplace_back("delimiter", asked.delimiter);
    if (!asked.page.empty()) query.emplace_back("continuation-token", asked.page);
    if (asked.most > 0) query.emplace_back("max-keys", std::to_string(asked.most));
    return {.query = std::move(query)};
  }
  RemoteList list_in(const std::string& body) const override {
    return s3::parse_list(body, "Generation");
  }

  PutAnswer send_put(const RemotePut& put, const std::string& write_id) override {
    const std::string crc = crc32c_text(crc32c(put.bytes.view));
    RemoteRequest request = {.method = "PUT", .key = put.key, .headers = write_headers(write_id)};
    for (HttpHeader& header : condition_headers(put.key, put.condition)) {
      request.headers.push_back(std::move(header));
    }
    request.headers.push_back(hash_header(crc));
    if (!put.bytes.view.empty()) request.body = {put.bytes};
    return {server().send(std::move(request)), crc};
  }
  std::optional<CopyAnswer> send_copy(const RemoteCopy& copy) override {
    if (copy.source.size > kLargestCopy) return std::nullopt;
    std::vector<HttpHeader> headers = condition_headers(copy.to, copy.condition);
    headers.push_back(
        {"x-goog-copy-source",
         "/" + percent_encoded(bucket_) + "/" + percent_encoded(copy.from, /*keep_slashes=*/true)});
    headers.push_back({"x-goog-copy-source-if-generation-match", copy.source.version});
    HttpResponse response = server().send(
        {.method = "PUT", .key = copy.to, .headers = std::move(headers), .is_answered_late = true});
    if (is_success(response) && s3::parse_copy_etag(response.body).empty()) {
      server().refuse(response, "copying to", copy.to);
    }
    return CopyAnswer{.response = std::move(response), .write_id = copy.source.write_id};
  }

  const char* version_title() const override { return "generation"; }
  const char* checksum_title() const override { return "CRC-32C"; }

 private:
  static std::vector<HttpHeader> write_headers(const std::string& write_id) {
    return {{"content-type", "application/octet-stream"}, {kWriteId, write_id}};
  }

  const std::string bucket_;
};

}  // namespace

std::shared_ptr<ObjectStore> make_gcs_store(Config config) {
  const std::string prefix = config.options.prefix;
  return remote_store(std::make_shared<Bucket>(std::make_shared<Connection>(std::move(config))),
                      prefix);
}

}  // namespace cairn::gcs
