#include "storage/s3/upload.h"

#include <set>
#include <utility>

#include "cairn/error.h"

namespace cairn::s3 {
namespace {

constexpr std::size_t kMaxUploadPages = 1000;  // The rest waits for the next call.

}  // namespace

RemoteRequest Upload::part(int number, const SharedBytes& bytes) {
  return {.method = "PUT",
          .key = key_,
          .query = {{"partNumber", std::to_string(number)}, {"uploadId", id_}},
          .body = {bytes}};
}

void Upload::note_sent(int number, const HttpResponse& response) {
  const std::string etag(response.header("etag"));
  if (etag.empty()) {
    throw StorageError("writing part " + std::to_string(number) + " of " + remote_.describe(key_) +
                           ": the server's answer has no ETag",
                       response.status);
  }
  parts_.push_back({.number = number, .etag = etag});
}

RemoteRequest Upload::copied_part(int number, std::vector<HttpHeader> source) const {
  return {.method = "PUT",
          .key = key_,
          .query = {{"partNumber", std::to_string(number)}, {"uploadId", id_}},
          .headers = std::move(source),
          .is_answered_late = true};
}

bool Upload::copied(int number, const HttpResponse& response) {
  std::string etag = parse_copy_etag(response.body);
  if (etag.empty()) return false;
  parts_.push_back({.number = number, .etag = std::move(etag)});
  return true;
}

HttpResponse Upload::send_complete(std::vector<HttpHeader> headers) {
  const auto body = std::make_shared<const std::string>(complete_body(parts_));
  headers.push_back({"content-type", "application/xml"});
  return remote_.send({.method = "POST",
                       .key = key_,
                       .query = {{"uploadId", id_}},
                       .headers = std::move(headers),
                       .body = {{as_bytes(*body), body}},
                       .is_answered_late = true});
}

PartedUpload::Completed Upload::completed(HttpResponse response) {
  const CompleteAnswer answer = parse_complete(response.body);
  return {.response = std::move(response), .is_done = answer.is_done, .version = answer.etag};
}

PartedUpload::Completed Upload::complete(const std::vector<HttpHeader>& condition) {
  return completed(send_complete(condition));
}

std::optional<RemoteRequest> Upload::abort() const {
  return RemoteRequest{.method = "DELETE", .key = key_, .query = {{"uploadId", id_}}};
}

std::string begun_upload(const Remote& remote, const std::string& key,
                         const HttpResponse& response) {
  remote.check(response, "beginning to write", key);
  std::string id = parse_upload_id(response.body);
  if (id.empty()) {
    throw StorageError(
        "beginning to write " + remote.describe(key) + ": the server's answer has no upload id",
        response.status);
  }
  return id;
}

std::vector<RemoteUpload> list_uploads(Remote& remote, const std::string& prefix) {
  std::vector<RemoteUpload> uploads;
  Query query = {{"uploads", ""}, {"prefix", prefix}};
  std::set<Query> asked;
  for (;;) {
    const HttpResponse response = remote.send({.query = query});
    if (response.status >= 300) return uploads;  // Some servers do not list uploads, or forbid it.
    UploadsAnswer answer = parse_uploads(response.body);
    for (RemoteUpload& upload : answer.uploads)
      uploads.push_back(std::move(upload));
    query = {{"uploads", ""},
             {"prefix", prefix},
             {"key-marker", answer.next_key},
             {"upload-id-marker", answer.next_id}};
    const bool is_last = answer.next_key.empty() || asked.size() == kMaxUploadPages;
    if (is_last || !asked.insert(query).second) return uploads;
  }
}

}  // namespace cairn::s3
