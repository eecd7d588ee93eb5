#include "storage/s3/bucket.h"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <iterator>

#include "core/hash/crc64.h"
#include "net/digest.h"
#include "storage/remote/store.h"
#include "storage/s3/part_crc.h"
#include "storage/s3/upload.h"

namespace cairn::s3 {
namespace {

constexpr const char* kWriteId = "x-amz-meta-cairn-write";
constexpr const char* kCrc64 = "x-amz-checksum-crc64nvme";
constexpr std::string_view kNoEtag = "\"00000000000000000000000000000000\"";

// The text of a checksum in S3's headers.
std::string crc64_text(std::uint64_t crc) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<std::byte>(crc >> (56 - 8 * i));
  return base64(bytes);
}

// Sends the CRC-64 of every part and of the whole object, if the server keeps CRC-64 checksums.
class BucketUpload final : public Upload {
 public:
  BucketUpload(Bucket& bucket, const std::string& key, std::string id, bool with_crc64)
      : Upload(*bucket.remote(), key, std::move(id)), bucket_(bucket), with_crc64_(with_crc64) {}

  void note_gathered(ByteView bytes) override {
    if (with_crc64_) of_part_.add(bytes);
  }

  RemoteRequest part(int number, const SharedBytes& bytes) override {
    RemoteRequest request = Upload::part(number, bytes);
    if (!with_crc64_) return request;
    const std::uint64_t crc = of_part_.take(bytes.view);
    of_parts_.push_back(crc64_text(crc));
    request.headers.push_back({kCrc64, of_parts_.back()});
    crc64_ = crc64_nvme_joined(crc64_, crc, bytes.view.size());
    return request;
  }

  void note_sent(int number, const HttpResponse& response) override {
    Upload::note_sent(number, response);
    if (with_crc64_) parts().back().crc64 = of_parts_[static_cast<std::size_t>(number) - 1];
  }

  Completed complete(const std::vector<HttpHeader>& condition) override {
    HttpResponse response = send_complete(with_checksum(condition));
    const bool is_without =
        !condition.empty() && refuses_conditions(response.status, response.body);
    if (is_without) response = send_complete(with_checksum({}));
    Completed done = completed(std::move(response));
    if (is_without && done.is_done) bucket_.learn_no_upload_conditions();
    if (with_crc64_) done.checksum = crc64_text(crc64_);
    return done;
  }

 private:
  std::vector<HttpHeader> with_checksum(std::vector<HttpHeader> headers) const {
    if (!with_crc64_) return headers;
    headers.push_back({kCrc64, crc64_text(crc64_)});
    headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
    return headers;
  }

  Bucket& bucket_;
  bool with_crc64_;
  PartCrc<std::uint64_t, crc64_nvme> of_part_;
  std::uint64_t crc64_ = 0;
  std::vector<std::string> of_parts_;
};

// The destructor gives up the upload unless is_done is true.
class AbortGuard {
 public:
  AbortGuard(RemoteContainer& container, const PartedUpload& upload)
      : container_(container), upload_(upload) {}
  ~AbortGuard() {
    if (!is_done) container_.abort(upload_);
  }
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;

  bool is_done = false;

 private:
  RemoteContainer& container_;
  const PartedUpload& upload_;
};

HttpHeader range_header(std::uint64_t begin, std::uint64_t end) {
  return {"x-amz-copy-source-range",
          "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)};
}

// Headers that name the source of a copy and its version.
std::vector<HttpHeader> source_headers(const Connection& connection, const RemoteCopy& copy) {
  const std::string bucket = percent_encoded(connection.config().options.bucket);
  return {
      {"x-amz-copy-source", "/" + bucket + "/" + percent_encoded(copy.from, /*keep_slashes=*/true)},
      {"x-amz-copy-source-if-match", copy.source.version}};
}

// Copies several parts at once. Returns the first answer that is no success.
std::optional<HttpResponse> copy_parts(Connection& connection, const RemoteCopy& copy,
                                       Upload& upload) {
  // Copied parts may be larger than sent parts: their bytes do not pass through memory.
  constexpr std::uint64_t kLargerThanSent = 8;
  constexpr std::uint64_t kMaxParts = 9'000;
  const RemoteSettings& settings = connection.settings();
  const std::uint64_t size = copy.source.size;
  const std::uint64_t step = std::max(settings.part_bytes * kLargerThanSent, size / kMaxParts + 1);
  const auto most = static_cast<std::size_t>(settings.parallel_requests);
  std::deque<std::unique_ptr<RemoteCall>> calls;
  std::uint64_t begun = 0;
  for (int number = 1; begun < size || !calls.empty(); ++number) {
    for (; begun < size && calls.size() < most; begun = std::min(size, begun + step)) {
      const int next = number + static_cast<int>(calls.size());
      RemoteRequest request = upload.copied_part(next, source_headers(connection, copy));
      if (step < size) request.headers.push_back(range_header(begun, std::min(size, begun + step)));
      calls.push_back(std::make_unique<RemoteCall>(connection, std::move(request)));
    }
    HttpResponse response = calls.front()->wait();
    calls.pop_front();
    if (!is_success(response)) return response;
    if (!upload.copied(number, response)) connection.refuse(response, "copying to", copy.to);
  }
  return std::nullopt;
}

}  // namespace

StoreFeatures Bucket::features(const std::string& folder) {
  const Conditions known = conditions(folder);
  const bool is_fenced = known.version && known.absent;
  return {.versioned_writes = known.version,
          .fenced_writes = is_fenced && checks_upload_conditions(folder),
          .fenced_pointers = is_fenced,
          .server_copies = true};
}

std::vector<HttpHeader> Bucket::head_headers() const {
  return {{"x-amz-checksum-mode", "ENABLED"}};
}

RemoteHead Bucket::head_in(const HttpResponse& response) const {
  return {.size = content_length(response),
          .version = std::string(response.header("etag")),
          .modified = parse_http_date(response.header("last-modified")).value_or(NetTime()),
          .write_id = std::string(response.header(kWriteId)),
          .checksum = std::string(response.header(kCrc64))};
}

RemoteRequest Bucket::list_request(const ListQuery& asked) const {
  Query query = {{"list-type", "2"}, {"prefix", asked.prefix}, {"encoding-type", "url"}};
  if (!asked.delimiter.empty()) query.emplace_back("delimiter", asked.delimiter);
  if (!asked.page.empty()) query.emplace_back("continuation-token", asked.page);
  if (asked.most > 0) query.emplace_back("max-keys", std::to_string(asked.most));
  return {.query = std::move(query)};
}

RemoteList Bucket::list_in(const std::string& body) const { return parse_list(body); }

std::vector<RemoteUpload> Bucket::uploads(const std::string& prefix) {
  return list_uploads(*connection_, prefix);
}

std::vector<HttpHeader> Bucket::write_headers(const std::string& write_id) const {
  std::vector<HttpHeader> headers = option_headers();
  headers.push_back({"content-type", "application/octet-stream"});
  headers.push_back({kWriteId, write_id});
  return headers;
}

std::vector<HttpHeader> Bucket::option_headers() const {
  const S3Options& options = connection_->config().options;
  std::vector<HttpHeader> headers;
  if (!options.canned_acl.empty()) headers.push_back({"x-amz-acl", options.canned_acl});
  if (!options.server_side_encryption.empty()) {
    headers.push_back({"x-amz-server-side-encryption", options.server_side_encryption});
  }
  if (!options.sse_kms_key_id.empty()) {
    headers.push_back({"x-amz-server-side-encryption-aws-kms-key-id", options.sse_kms_key_id});
  }
  return headers;
}

std::vector<HttpHeader> Bucket::condition_headers(const std::string& key,
                                                  const WriteCondition& condition) {
  if (condition.when == WriteCondition::If::kAlways) return {};
  const Conditions known = conditions(key.substr(0, key.rfind('/') + 1));
  if (condition.when == WriteCondition::If::kVersion) {
    if (known.version) {
      return {{"if-match", known.bare ? unquoted(condition.version) : condition.version}};
    }
  } else if (known.absent) {
    return {{"if-none-match", "*"}};
  }
  return {};
}

std::vector<HttpHeader> Bucket::upload_condition_headers(const std::string& key,
                                                         const WriteCondition& condition) {
  return takes_upload_conditions_ ? condition_headers(key, condition) : std::vector<HttpHeader>();
}

std::optional<bool> Bucket::keeps_crc64() {
  const std::scoped_lock lock(mutex_);
  return keeps_crc64_;
}

void Bucket::learn_crc64(bool keeps) {
  const std::scoped_lock lock(mutex_);
  keeps_crc64_ = keeps;
}

HttpResponse Bucket::put_once(const RemotePut& put, const std::string& write_id,
                              const std::string& crc64) {
  RemoteRequest request = {.method = "PUT", .key = put.key, .headers = write_headers(write_id)};
  for (HttpHeader& header : condition_headers(put.key, put.condition)) {
    request.headers.push_back(std::move(header));
  }
  if (!crc64.empty()) request.headers.push_back({kCrc64, crc64});
  if (!put.bytes.view.empty()) request.body = {put.bytes};
  return connection_->send(std::move(request));
}

RemoteContainer::PutAnswer Bucket::send_put(const RemotePut& put, const std::string& write_id) {
  const auto keeps = keeps_crc64();
  std::string crc64 = keeps.value_or(true) ? crc64_text(crc64_nvme(put.bytes.view)) : "";
  HttpResponse response = put_once(put, write_id, crc64);
  if (!keeps && (response.status == 400 || response.status == 501)) {
    crc64.clear();  // The server may not support this header.
    response = put_once(put, write_id, crc64);
    if (is_success(response)) learn_crc64(false);
  }
  if (!keeps && is_success(response) && !crc64.empty()) {
    learn_crc64(response.header(kCrc64) == crc64);
    if (response.header(kCrc64).empty()) crc64.clear();
  }
  return {std::move(response), std::move(crc64)};
}

std::unique_ptr<PartedUpload> Bucket::begin_upload(const std::string& key,
                                                   const std::string& write_id) {
  RemoteRequest request = {
      .method = "POST", .key = key, .query = {{"uploads", ""}}, .headers = write_headers(write_id)};
  const bool asks_crc64 = keeps_crc64().value_or(true);
  RemoteRequest plain = request;
  if (asks_crc64) {
    request.headers.push_back({"x-amz-checksum-algorithm", "CRC64NVME"});
    request.headers.push_back({"x-amz-checksum-type", "FULL_OBJECT"});
  }
  HttpResponse response = connection_->send(std::move(request));
  if (asks_crc64 && (response.status == 400 || response.status == 501)) {
    response = connection_->send(std::move(plain));
  }
  return std::make_unique<BucketUpload>(*this, key, begun_upload(*connection_, key, response),
                                        response.header("x-amz-checksum-algorithm") == "CRC64NVME");
}

// Copies with one request if that is enough. Only some servers check a condition on a copy. So with
// a condition a copy is an upload whose parts the server copies, since completing an upload has
// conditions. The copy has its source's bytes and metadata, but not its access rights or its
// encryption.
std::optional<RemoteContainer::CopyAnswer> Bucket::send_copy(const RemoteCopy& copy) {
  const bool is_large = copy.source.size > kLargestCopy;
  if (is_large || copy.condition.when != WriteCondition::If::kAlways) return copy_in_parts(copy);
  std::vector<HttpHeader> headers = option_headers();
  std::ranges::move(source_headers(*connection_, copy), std::back_inserter(headers));
  HttpResponse response = connection_->send(
      {.method = "PUT", .key = copy.to, .headers = std::move(headers), .is_answered_late = true});
  if (is_success(response) && parse_copy_etag(response.body).empty()) {
    connection_->refuse(response, "copying to", copy.to);
  }
  return CopyAnswer{.response = std::move(response), .write_id = copy.source.write_id};
}

std::optional<RemoteContainer::CopyAnswer> Bucket::copy_in_parts(const RemoteCopy& copy) {
  if (copy.source.size == 0) return std::nullopt;  // A part cannot be empty.
  const std::string write_id = new_write_id();
  const HttpResponse begun = connection_->send({.method = "POST",
                                                .key = copy.to,
                                                .query = {{"uploads", ""}},
                                                .headers = write_headers(write_id)});
  BucketUpload upload(*this, copy.to, begun_upload(*connection_, copy.to, begun),
                      /*with_crc64=*/false);
  AbortGuard unfinished(*this, upload);
  if (auto failed = copy_parts(*connection_, copy, upload)) {
    const bool is_unknown = failed->status == 501;
    return is_unknown ? std::nullopt : std::optional<CopyAnswer>({*std::move(failed), write_id});
  }
  PartedUpload::Completed done = upload.complete(upload_condition_headers(copy.to, copy.condition));
  unfinished.is_done = done.is_done;
  if (!done.is_done && is_success(done.response)) {
    connection_->refuse(done.response, "completing", copy.to);
  }
  return CopyAnswer{std::move(done.response), write_id};
}

namespace {

// A new object for a probe, so that no existing object is touched.
class ProbeObject {
 public:
  ProbeObject(Connection& connection, const std::string& folder)
      : connection_(connection), key_(folder + ".cairn-probe-" + new_write_id()) {}
  // Removes what the probe made. The credentials may allow writing but not removing. Then the
  // probe's object stays, which does no harm.
  ~ProbeObject() {
    if (!upload_.empty()) remove({{"uploadId", upload_}});
    if (is_there_) remove({});
  }
  ProbeObject(const ProbeObject&) = delete;
  ProbeObject& operator=(const ProbeObject&) = delete;

  const std::string& key() const { return key_; }
  void note_created() { is_there_ = true; }
  // The id of an unfinished upload; "" for none.
  void set_upload(const std::string& id) { upload_ = id; }

 private:
  void remove(Query query) {
    try {
      const bool is_given_up = std::uncaught_exceptions() > exceptions_;
      connection_.send(
          {.method = "DELETE", .key = key_, .query = std::move(query), .is_cleanup = is_given_up});
    } catch (const std::exception&) {
    }
  }

  Connection& connection_;
  const std::string key_;
  const int exceptions_ = std::uncaught_exceptions();
  bool is_there_ = false;
  std::string upload_ = {};
};

}  // namespace

// Throws StorageError if the server is too busy: its answer then proves nothing about conditions.
HttpResponse Bucket::ask(RemoteRequest request) {
  const std::string key = request.key;
  HttpResponse response = connection_->send(std::move(request));
  // Some servers answer 500 to what they do not support.
  const bool is_busy =
      response.status != 500 &&
      (is_temporary_status(response.status) || is_temporary_code(parse_error(response.body).code));
  if (is_busy)
    connection_->refuse(response, "finding out whether the server checks conditions of", key);
  return response;
}

// A server that checks a condition refuses a write whose condition fails, and carries out a write
// whose condition holds. Only both results together prove that the server checks conditions.
Conditions Bucket::probe(const std::string& folder) {
  ProbeObject object(*connection_, folder);
  const std::string& key = object.key();
  const auto put = [&](std::optional<HttpHeader> condition) {
    RemoteRequest request = {.method = "PUT", .key = key, .headers = write_headers(new_write_id())};
    if (condition) request.headers.push_back(*std::move(condition));
    return ask(std::move(request));
  };
  const auto holds = [&](const char* name, const std::string& value) {
    return is_success(put(HttpHeader{name, value}));
  };
  const HttpResponse made = put(std::nullopt);
  connection_->check(made, "writing", key);
  object.note_created();
  const std::string etag(made.header("etag"));
  Conditions found;
  found.absent = put(HttpHeader{"if-none-match", "*"}).status == 412;
  if (put(HttpHeader{"if-match", std::string(kNoEtag)}).status == 412 && !etag.empty()) {
    found.version = holds("if-match", etag);
    found.bare = !found.version && holds("if-match", unquoted(etag));
    found.version = found.version || found.bare;
  }
  return found;
}

Conditions Bucket::conditions(const std::string& folder) {
  if (!connection_->config().endpoint) return {.absent = true, .version = true};  // Amazon
  {
    const std::scoped_lock lock(mutex_);
    if (conditions_) return *conditions_;
  }
  const Conditions found = probe(folder);
  const std::scoped_lock lock(mutex_);
  if (!conditions_) conditions_ = found;
  return *conditions_;
}

// Like probe(): completes uploads whose condition fails, and then one whose condition holds.
bool Bucket::probe_upload(const std::string& folder) {
  ProbeObject object(*connection_, folder);
  const std::string& key = object.key();
  const std::vector<HttpHeader> headers = write_headers(new_write_id());
  const HttpResponse made = ask({.method = "PUT", .key = key, .headers = headers});
  connection_->check(made, "writing", key);
  object.note_created();
  const WriteCondition its_own = WriteCondition::of_version(std::string(made.header("etag")));
  const HttpResponse begun =
      ask({.method = "POST", .key = key, .query = {{"uploads", ""}}, .headers = headers});
  const std::string id = is_success(begun) ? parse_upload_id(begun.body) : "";
  if (id.empty()) return false;
  object.set_upload(id);
  const auto byte = std::make_shared<const std::string>("x");
  const HttpResponse part = ask({.method = "PUT",
                                 .key = key,
                                 .query = {{"partNumber", "1"}, {"uploadId", id}},
                                 .body = {{as_bytes(*byte), byte}}});
  const auto body = std::make_shared<const std::string>(
      complete_body({{.number = 1, .etag = std::string(part.header("etag"))}}));
  const auto complete = [&](std::vector<HttpHeader> condition) {
    condition.push_back({"content-type", "application/xml"});
    return ask({.method = "POST",
                .key = key,
                .query = {{"uploadId", id}},
                .headers = std::move(condition),
                .body = {{as_bytes(*body), body}},
                .is_answered_late = true});
  };
  const auto refuses = [&](const std::string& name, const std::string_view value) {
    return complete({{name, std::string(value)}}).status == 412;
  };
  bool checks = is_success(part) && refuses("if-none-match", "*") && refuses("if-match", kNoEtag);
  if (checks) checks = parse_complete(complete(condition_headers(key, its_own)).body).is_done;
  if (checks) object.set_upload("");
  return checks;
}

bool Bucket::checks_upload_conditions(const std::string& folder) {
  if (!connection_->config().endpoint) return true;  // Amazon
  {
    const std::scoped_lock lock(mutex_);
    if (checks_upload_conditions_) return *checks_upload_conditions_;
  }
  const bool checks = probe_upload(folder);
  const std::scoped_lock lock(mutex_);
  if (!checks_upload_conditions_) checks_upload_conditions_ = checks;
  return *checks_upload_conditions_;
}

std::shared_ptr<ObjectStore> make_s3_store(Config config) {
  const std::string prefix = config.options.prefix;
  return remote_store(std::make_shared<Bucket>(std::make_shared<Connection>(std::move(config))),
                      prefix);
}

}  // namespace cairn::s3
