// Writing an object:
//
//  1. Bytes are gathered into a part. What fits into one is sent with one PUT by commit().
//  2. With the second part an upload is begun; parts go out while the next one is gathered, as many
//     at once as the options allow: then write() waits for the oldest. Each is tried again by
//     itself (connection.cpp); the server compares its SHA-256, which is signed, with what came.
//  3. commit() waits for all parts and completes the upload under the condition: only now anything
//     of the name is visible. When the answer is lost, the object's write id says whose it is.
//  4. Size, ETag and, where the server keeps it, the CRC-64 of the whole are compared with what was
//     sent.
//  5. The end of one that was not committed aborts the upload, as far as the server can be reached;
//     remove_leftovers() of the store does it for killed writers.
#include "storage/s3/write.h"

#include <algorithm>
#include <deque>

#include "cairn/error.h"

#include "core/crc64.h"
#include "storage/s3/answers.h"

namespace cairn::s3 {
namespace {

constexpr int kMostParts = 10'000;      // S3's own limit
constexpr int kPartsOfOneSize = 1'000;  // of a size that nobody told: then they grow
constexpr std::uint64_t kPartsOfKnown = 9'000;
constexpr int kAbortAttempts = 2;  // in a destructor, which nobody wants to wait for

using Part = std::vector<std::byte>;

class ObjectUpload final : public ObjectWrite {
 public:
  ObjectUpload(std::shared_ptr<Bucket> bucket, std::string key, const BeginOptions& options)
      : bucket_(std::move(bucket)),
        key_(std::move(key)),
        condition_(options.condition),
        first_part_bytes_(
            std::max(config().options.part_bytes, options.expected_bytes / kPartsOfKnown + 1)) {}

  ~ObjectUpload() override {
    under_way_.clear();
    if (!upload_id_.empty() && !is_done_) abort();
  }
  ObjectUpload(const ObjectUpload&) = delete;
  ObjectUpload& operator=(const ObjectUpload&) = delete;

  void write(ByteView bytes) override {
    while (!bytes.empty()) {
      if (part_ && part_->size() == part_bytes()) send_part();
      if (!part_) {
        part_ = std::make_shared<Part>();
        part_->reserve(upload_id_.empty() ? 0 : part_bytes());
      }
      const std::size_t now = std::min<std::size_t>(bytes.size(), part_bytes() - part_->size());
      part_->insert(part_->end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(now));
      bytes = bytes.subspan(now);
      size_ += now;
    }
  }

 private:
  struct SentCall {
    int number;
    std::string crc64;
    std::unique_ptr<Call> call;
  };

  const Config& config() const { return bucket_->connection()->config(); }
  Connection& connection() const { return *bucket_->connection(); }

  std::uint64_t part_bytes() const {
    return first_part_bytes_ << std::min(parts_begun_ / kPartsOfOneSize, 9);
  }

  void publish() override {
    if (upload_id_.empty()) {
      const SharedBytes bytes = part_ ? SharedBytes{*part_, part_} : SharedBytes{};
      bucket_->put({.key = key_, .bytes = bytes, .condition = condition_});
      return;
    }
    if (part_) send_part();
    while (!under_way_.empty())
      finish_part();
    complete();
  }

  void begin_upload() {
    write_id_ = new_write_id();
    Request request = {.method = "POST",
                       .key = key_,
                       .query = {{"uploads", ""}},
                       .headers = bucket_->write_headers(write_id_)};
    const bool asks_crc64 = bucket_->keeps_crc64().value_or(true);
    Request plain = request;
    if (asks_crc64) {
      request.headers.push_back({"x-amz-checksum-algorithm", "CRC64NVME"});
      request.headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
    }
    HttpResponse response = connection().send(std::move(request));
    if (asks_crc64 && (response.status == 400 || response.status == 501)) {
      response = connection().send(std::move(plain));
    }
    connection().check(response, "beginning to write", key_);
    with_crc64_ = response.header("x-amz-checksum-algorithm") == "CRC64NVME";
    upload_id_ = parse_upload_id(response.body);
    if (upload_id_.empty()) {
      throw StorageError("beginning to write " + connection().describe(key_) +
                             ": the server's answer has no upload id",
                         response.status);
    }
  }

  void send_part() {
    if (upload_id_.empty()) begin_upload();
    if (parts_begun_ == kMostParts) {
      throw UsageError(connection().describe(key_) + " is larger than " +
                       std::to_string(kMostParts) +
                       " parts: tell its size when it is begun, or choose larger part_bytes");
    }
    while (under_way_.size() >= static_cast<std::size_t>(config().options.parallel_requests)) {
      finish_part();
    }
    const SharedBytes bytes{*part_, part_};
    part_.reset();
    const int number = ++parts_begun_;
    Request request = {.method = "PUT",
                       .key = key_,
                       .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_id_}},
                       .body = {bytes}};
    std::string crc64;
    if (with_crc64_) {
      const std::uint64_t crc = crc64_nvme(bytes.view);
      crc64 = crc64_text(crc);
      request.headers.push_back({"x-amz-checksum-crc64nvme", crc64});
      crc64_ = crc64_nvme_joined(crc64_, crc, bytes.view.size());
    }
    under_way_.push_back(
        {number, std::move(crc64), std::make_unique<Call>(connection(), std::move(request))});
  }

  // Waits for the oldest part.
  void finish_part() {
    SentCall sent = std::move(under_way_.front());
    under_way_.pop_front();
    const HttpResponse response = sent.call->wait();
    connection().check(response, "writing part " + std::to_string(sent.number) + " of", key_);
    const std::string etag(response.header("etag"));
    if (etag.empty()) {
      throw StorageError("writing part " + std::to_string(sent.number) + " of " +
                             connection().describe(key_) + ": the server's answer has no ETag",
                         response.status);
    }
    parts_.push_back({.number = sent.number, .etag = etag, .crc64 = std::move(sent.crc64)});
  }

  HttpResponse send_complete(std::vector<HttpHeader> headers) {
    const auto body = std::make_shared<const std::string>(complete_body(parts_));
    if (with_crc64_) {
      headers.push_back({"x-amz-checksum-crc64nvme", crc64_text(crc64_)});
      headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
    }
    headers.push_back({"content-type", "application/xml"});
    return connection().send({.method = "POST",
                              .key = key_,
                              .query = {{"uploadId", upload_id_}},
                              .headers = std::move(headers),
                              .body = {{as_bytes(*body), body}},
                              .is_answered_late = true});
  }

  void complete() {
    const auto condition = bucket_->condition_headers(key_, condition_);
    bucket_->check_condition(key_, condition_);  // some check it for a PUT only
    HttpResponse response = send_complete(condition);
    if (!condition.empty() && (response.status == 501 || response.status == 400)) {
      response = send_complete({});
    }
    const CompleteAnswer answer = parse_complete(response.body);
    if (!answer.is_done) check_whose(response);
    is_done_ = true;
    verify_sent(*bucket_, {.key = key_,
                           .size = size_,
                           .etag = answer.etag,
                           .crc64 = with_crc64_ ? crc64_text(crc64_) : "",
                           .write_id = write_id_});
  }

  // The upload is not there any more, or the condition does not hold: perhaps because an attempt
  // before had done it, and its answer was lost.
  void check_whose(const HttpResponse& response) {
    if (response.status == 404 || response.status == 412) {
      const auto there = bucket_->head(key_);
      if (there && there->write_id == write_id_) return;
      if (response.status == 412) refuse_condition(connection().describe(key_), condition_);
      throw StorageError("writing " + connection().describe(key_) +
                             ": the upload was removed before it was complete; write it again",
                         response.status, /*retryable=*/true);
    }
    connection().refuse(response, "completing", key_);
  }

  void abort() noexcept {
    try {
      connection().send({.method = "DELETE",
                         .key = key_,
                         .query = {{"uploadId", upload_id_}},
                         .attempts = kAbortAttempts});
    } catch (...) {
      // remove_leftovers() will find it
    }
  }

  std::shared_ptr<Bucket> bucket_;
  std::string key_;
  WriteCondition condition_;
  std::uint64_t first_part_bytes_;
  std::uint64_t size_ = 0;
  std::shared_ptr<Part> part_;  // being gathered
  std::string write_id_;
  std::string upload_id_;  // empty: nothing was sent yet
  bool with_crc64_ = false;
  std::uint64_t crc64_ = 0;
  int parts_begun_ = 0;
  std::vector<SentPart> parts_;
  bool is_done_ = false;
  std::deque<SentCall> under_way_;
};

}  // namespace

std::unique_ptr<ObjectWrite> write_object(std::shared_ptr<Bucket> bucket, std::string key,
                                          const BeginOptions& options) {
  return std::make_unique<ObjectUpload>(std::move(bucket), std::move(key), options);
}

}  // namespace cairn::s3
