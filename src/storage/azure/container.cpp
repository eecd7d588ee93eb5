// An Azure container as a RemoteContainer:
//
//  1. A small object is one Put Blob with Content-MD5, which the server compares and keeps.
//  2. A large object is blocks (Put Block, each with its Content-MD5) and a list of the blocks (Put
//     Block List). Only the list makes the object visible. Azure wants all ids of blocks to have
//     the same length. The ids contain the id of the write, so the blocks of two writers of one
//     name are never mixed. The first writer's list makes the server forget the second writer's
//     blocks. The second writer's list is then refused, like an upload that is missing.
//  3. Blocks without a list cannot be removed. The server removes them after a week.
//  4. Azure checks every condition, for small and for large objects.
#include <array>

#include "cairn/error.h"

#include "net/digest.h"
#include "storage/azure/answers.h"
#include "storage/azure/config.h"
#include "storage/azure/connection.h"
#include "storage/remote/store.h"

namespace cairn::azure {
namespace {

// Names must be C# identifiers, without hyphens.
constexpr const char* kWriteId = "x-ms-meta-cairnwrite";
constexpr std::size_t kIdDigits = 8;

std::string md5_text(ByteView bytes) { return base64(md5({&bytes, 1})); }

// 16 characters of the write id and 8 digits: base64 needs no padding.
std::string block_id(const std::string& write_id, int number) {
  const std::string digits = std::to_string(number);
  const std::string text =
      write_id.substr(0, 16) + std::string(kIdDigits - digits.size(), '0') + digits;
  return base64(as_bytes(text));
}

class BlockUpload final : public PartedUpload {
 public:
  BlockUpload(Connection& connection, std::string key, std::string write_id)
      : connection_(connection), key_(std::move(key)), write_id_(std::move(write_id)) {}

  RemoteRequest part(int number, const SharedBytes& bytes) override {
    ids_.push_back(block_id(write_id_, number));
    md5s_.push_back(md5_text(bytes.view));
    return {.method = "PUT",
            .key = key_,
            .query = {{"comp", "block"}, {"blockid", ids_.back()}},
            .headers = {{"content-md5", md5s_.back()}},
            .body = {bytes}};
  }

  void note_sent(int number, const HttpResponse& response) override {
    const std::string_view has = response.header("content-md5");
    if (has.empty() || has == md5s_[static_cast<std::size_t>(number) - 1]) return;
    throw StorageError("writing part " + std::to_string(number) + " of " +
                           connection_.describe(key_) +
                           ": the server has other bytes than were sent; write it again",
                       response.status, /*retryable=*/true);
  }

  Completed complete(const std::vector<HttpHeader>& condition) override {
    const auto body = std::make_shared<const std::string>(block_list(ids_));
    std::vector<HttpHeader> headers = condition;
    headers.push_back({kWriteId, write_id_});
    headers.push_back({"x-ms-blob-content-type", "application/octet-stream"});
    headers.push_back({"content-type", "application/xml"});
    headers.push_back({"content-md5", md5_text(as_bytes(*body))});
    HttpResponse response = connection_.send({.method = "PUT",
                                              .key = key_,
                                              .query = {{"comp", "blocklist"}},
                                              .headers = std::move(headers),
                                              .body = {{as_bytes(*body), body}}});
    const bool is_done = is_success(response);
    if (!is_done && parse_error(response).code == "InvalidBlockList") {
      response.status = 404;  // Another writer's list made the server forget these blocks.
    }
    std::string version = is_done ? std::string(response.header("etag")) : "";
    return {.response = std::move(response), .is_done = is_done, .version = std::move(version)};
  }

  std::optional<RemoteRequest> abort() const override { return std::nullopt; }

 private:
  Connection& connection_;
  std::string key_;
  std::string write_id_;
  std::vector<std::string> ids_;
  std::vector<std::string> md5s_;
};

class Container final : public RemoteContainer {
 public:
  explicit Container(std::shared_ptr<Connection> connection)
      : RemoteContainer(connection), connection_(std::move(connection)) {}

  StoreFeatures features(const std::string& /*folder*/) override {
    return {.versioned_writes = true,
            .fenced_writes = true,
            .fenced_pointers = true,
            .server_copies = true};
  }

  std::vector<HttpHeader> condition_headers(const std::string& /*key*/,
                                            const WriteCondition& condition) override {
    return etag_condition(condition);
  }

  bool is_refused(const HttpResponse& response, const WriteCondition& condition) const override {
    if (condition.when == WriteCondition::If::kAlways) return false;
    const std::string code = parse_error(response).code;
    return (response.status == 412 && (code.empty() || code == "ConditionNotMet")) ||
           (response.status == 409 && code == "BlobAlreadyExists") ||
           (response.status == 404 && code != "ContainerNotFound" &&
            condition.when == WriteCondition::If::kVersion);
  }

  RemoteHead head_in(const HttpResponse& response) const override {
    return {.size = content_length(response),
            .version = std::string(response.header("etag")),
            .modified = parse_http_date(response.header("last-modified")).value_or(NetTime()),
            .write_id = std::string(response.header(kWriteId)),
            .checksum = std::string(response.header("content-md5"))};
  }

  std::unique_ptr<PartedUpload> begin_upload(const std::string& key,
                                             const std::string& write_id) override {
    return std::make_unique<BlockUpload>(*connection_, key, write_id);
  }

 protected:
  RemoteRequest list_request(const ListQuery& asked) const override {
    Query query = {{"restype", "container"}, {"comp", "list"}, {"prefix", asked.prefix}};
    if (!asked.delimiter.empty()) query.emplace_back("delimiter", asked.delimiter);
    if (!asked.page.empty()) query.emplace_back("marker", asked.page);
    if (asked.most > 0) query.emplace_back("maxresults", std::to_string(asked.most));
    return {.query = std::move(query)};
  }

  RemoteList list_in(const std::string& body) const override { return parse_list(body); }

  PutAnswer send_put(const RemotePut& put, const std::string& write_id) override {
    std::string checksum = md5_text(put.bytes.view);
    RemoteRequest request = {.method = "PUT",
                             .key = put.key,
                             .headers = {{"content-type", "application/octet-stream"},
                                         {"content-md5", checksum},
                                         {"x-ms-blob-type", "BlockBlob"},
                                         {kWriteId, write_id}}};
    for (HttpHeader& header : condition_headers(put.key, put.condition)) {
      request.headers.push_back(std::move(header));
    }
    if (!put.bytes.view.empty()) request.body = {put.bytes};
    return {connection_->send(std::move(request)), std::move(checksum)};
  }

  std::optional<CopyAnswer> send_copy(const RemoteCopy& copy) override {
    std::vector<HttpHeader> headers = condition_headers(copy.to, copy.condition);
    headers.push_back({"x-ms-copy-source", connection_->copy_source(copy.from)});
    headers.push_back({"x-ms-source-if-match", copy.source.version});
    HttpResponse response =
        connection_->send({.method = "PUT", .key = copy.to, .headers = std::move(headers)});
    if (is_success(response)) response = copied(copy.to, std::move(response));
    return CopyAnswer{.response = std::move(response), .write_id = copy.source.write_id};
  }

  const char* checksum_title() const override { return "MD5"; }

 private:
  // Waits for a copy that continues after its answer.
  HttpResponse copied(const std::string& to, HttpResponse response) {
    Attempts attempts(connection_->settings().retries);
    std::string progress;
    while (response.header("x-ms-copy-status") == "pending") {
      if (std::string now(response.header("x-ms-copy-progress")); now != progress) {
        progress = std::move(now);
        attempts.reset();
      }
      if (!attempts.wait_for_next()) refuse_copy(to, "makes no progress");
      response = connection_->send({.method = "HEAD", .key = to});
      connection_->check(response, "copying to", to);
    }
    if (response.header("x-ms-copy-status") != "success") refuse_copy(to, "failed");
    return response;
  }

  [[noreturn]] void refuse_copy(const std::string& to, const std::string& what) const {
    throw StorageError("the copy to " + connection_->describe(to) + " within the server " + what +
                           "; try it again",
                       0, /*retryable=*/true);
  }

  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::shared_ptr<ObjectStore> make_azure_store(Config config) {
  const std::string prefix = config.prefix;
  return remote_store(std::make_shared<Container>(std::make_shared<Connection>(std::move(config))),
                      prefix);
}

}  // namespace cairn::azure
