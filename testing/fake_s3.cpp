#include "testing/fake_s3.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/hash/crc32.h"
#include "core/hash/crc64.h"
#include "net/digest.h"
#include "net/net_time.h"
#include "net/url.h"

namespace cairn::testing {
namespace {

using Clock = std::chrono::system_clock;

constexpr std::size_t kLeastPart = 5 << 20;
constexpr int kPage = 1000;
constexpr std::chrono::minutes kMaxSkew{15};
constexpr const char* kCrc = "x-amz-checksum-crc64nvme";
constexpr const char* kCrc32 = "x-amz-checksum-crc32";

std::string quoted_md5(const std::string& bytes) {
  const ByteView view = as_bytes(bytes);
  return "\"" + hex(md5({&view, 1})) + "\"";
}

std::string crc_text(std::uint64_t crc, int bits = 64) {
  std::string bytes;
  for (int shift = bits - 8; shift >= 0; shift -= 8)
    bytes += static_cast<char>(crc >> shift & 0xFF);
  return base64(as_bytes(bytes));
}

// Decodes quotes: clients write them in XML as they are or as an entity.
std::string without_entities(std::string text) {
  for (std::size_t at; (at = text.find("&quot;")) != std::string::npos;)
    text.replace(at, 6, "\"");
  return text;
}

// Decodes "aws-chunked": a line with its size in hex precedes each chunk, and headers follow the
// last chunk. Returns nullopt for a body of another form.
std::optional<ReceivedRequest> dechunked(const ReceivedRequest& asked) {
  ReceivedRequest plain = asked;
  plain.body.clear();
  std::size_t at = 0;
  for (std::size_t size = 1; size > 0; at += size > 0 ? 2 : 0) {
    const std::size_t end = asked.body.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    size = std::stoull(asked.body.substr(at, end - at), nullptr, 16);
    plain.body += asked.body.substr(end + 2, size);
    at = end + 2 + size;
  }
  const std::string trailer = asked.header("x-amz-trailer");
  if (!trailer.empty()) plain.headers[trailer] = between(asked.body, trailer + ":", "\r\n", at);
  const bool is_whole =
      asked.header("x-amz-decoded-content-length") == std::to_string(plain.body.size());
  return is_whole ? std::optional(plain) : std::nullopt;
}

// Encodes a key as lists with encoding-type=url do.
std::string encoded_key(const std::string& key) {
  std::string text;
  for (const char c : key) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string("-._~/").find(c) < 5) {
      text += c;
    } else if (c == ' ') {
      text += '+';
    } else {
      const std::byte byte = static_cast<std::byte>(c);
      text += "%" + hex({&byte, 1});
    }
  }
  return text;
}

// Escapes a key as XML text.
std::string escaped_key(const std::string& key) {
  std::string text;
  for (const unsigned char c : key) {
    const bool is_plain = c != '&' && c != '<' && c != '>' && c >= ' ';
    text += is_plain ? std::string(1, static_cast<char>(c)) : "&#" + std::to_string(c) + ";";
  }
  return text;
}

std::string iso_time(Clock::time_point time) {
  const std::string basic = basic_iso_time(time);
  return basic.substr(0, 4) + "-" + basic.substr(4, 2) + "-" + basic.substr(6, 2) + "T" +
         basic.substr(9, 2) + ":" + basic.substr(11, 2) + ":" + basic.substr(13, 2) + ".000Z";
}

// Computes the signature of the request as it was sent. Shares no code with the client under test.
std::string expected_signature(const ReceivedRequest& asked, const std::string& secret,
                               const std::vector<std::string>& scope,
                               const std::string& signed_headers) {
  std::vector<std::string> query = split(asked.raw_query(), '&');
  for (std::string& part : query)
    if (!part.empty() && part.find('=') == std::string::npos) part += "=";  // "?uploads"
  std::sort(query.begin(), query.end());
  std::string canonical = asked.method + "\n" + asked.path() + "\n";
  for (const std::string& part : query) {
    canonical += (&part == &query.front() ? "" : "&") + part;
  }
  canonical += "\n";
  for (const std::string& name : split(signed_headers, ';')) {
    canonical += name + ":" + asked.header(name) + "\n";
  }
  canonical += "\n" + signed_headers + "\n" + asked.header("x-amz-content-sha256");
  const std::string text = "AWS4-HMAC-SHA256\n" + asked.header("x-amz-date") + "\n" + scope[1] +
                           "/" + scope[2] + "/" + scope[3] + "/" + scope[4] + "\n" +
                           hex(sha256(canonical));
  const std::string first = "AWS4" + secret;
  Sha256 key = hmac_sha256(as_bytes(first), scope[1]);
  for (int i = 2; i < 5; ++i)
    key = hmac_sha256(key, scope[static_cast<std::size_t>(i)]);
  return hex(hmac_sha256(key, text));
}

}  // namespace

HttpReply FakeS3::error(int status, const std::string& code, const std::string& more) {
  return {.status = status,
          .headers = {{"Content-Type", "application/xml"}},
          .body = "<?xml version=\"1.0\"?>\n<Error><Code>" + code +
                  "</Code><Message>of the fake: " + code + "</Message>" + more +
                  "<RequestId>1</RequestId></Error>"};
}

FakeS3::FakeS3(FakeS3Options options)
    : FakeServer(options.seed, {error(500, "InternalError"), error(503, "SlowDown"),
                                error(400, "RequestTimeout")}),
      options_(std::move(options)) {
  fault_rate_ = options_.fault_rate;
  start([this](const ReceivedRequest& asked) { return answer(asked); });
}

// --- What tests query and plan -------------------------------------------------------------------

std::map<std::string, std::string> FakeS3::objects() {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::string> all;
  for (const auto& [path, object] : objects_)
    all[path] = object.bytes;
  return all;
}

std::map<std::string, std::size_t> FakeS3::sizes() {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::size_t> all;
  for (const auto& [path, object] : objects_)
    all[path] = object.bytes.size();
  return all;
}

std::string FakeS3::object(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  const auto found = objects_.find(path);
  return found == objects_.end() ? "" : found->second.bytes;
}

void FakeS3::put_object(const std::string& path, const std::string& bytes) {
  const std::scoped_lock lock(mutex_);
  objects_[path] = {.bytes = bytes, .etag = quoted_md5(bytes), .generation = ++generation_};
}

std::map<std::string, std::string> FakeS3::metadata(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  return objects_[path].headers;
}

void FakeS3::age_uploads(std::chrono::hours age) {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, upload] : uploads_)
    upload.begun -= age;
}

std::size_t FakeS3::uploads() {
  const std::scoped_lock lock(mutex_);
  return uploads_.size();
}

void FakeS3::change(const FakeS3Options& options) {
  const std::scoped_lock lock(mutex_);
  options_ = options;
  fault_rate_ = options.fault_rate;
}

// --- Requests ------------------------------------------------------------------------------------

std::string FakeS3::path_of(const Asked& asked) const {
  std::string path = percent_decoded(asked.path()).substr(1);
  const std::string host = asked.header("host");
  const std::size_t own = host.find(".localhost");
  if (own != std::string::npos) path = host.substr(0, own) + "/" + path;  // virtual-hosted
  return path;
}

HttpReply FakeS3::answer(const Asked& asked) {
  HttpReply reply = check_signature(asked);
  if (reply.status == 0 && asked.header("content-encoding") == "aws-chunked") {
    const std::optional<ReceivedRequest> plain = dechunked(asked);
    reply = plain ? check_body(*plain) : error(400, "IncompleteBody");
    if (reply.status == 0) reply = dispatch(*plain, path_of(asked));
  } else if (reply.status == 0) {
    reply = check_body(asked);
    if (reply.status == 0) reply = dispatch(asked, path_of(asked));
  }
  reply.headers.emplace_back("Date",
                             http_date(Clock::now() + std::chrono::seconds(options_.skew_seconds)));
  reply.headers.emplace_back("x-amz-request-id", "1");
  if (asked.method == "HEAD" && reply.status >= 300) reply.body.clear();
  return reply;
}

HttpReply FakeS3::check_signature(const Asked& asked) {
  const std::string text = asked.header("authorization");
  const std::string names = between(text, "SignedHeaders=", ",");
  const std::vector<std::string> scope = split(between(text, "Credential=", ","), '/');
  if (!text.starts_with("AWS4-HMAC-SHA256 ") || scope.size() != 5 || scope[4] != "aws4_request" ||
      scope[3] != "s3") {
    return error(403, "AccessDenied");
  }
  const auto covered = split(names, ';');
  for (const auto& [name, value] : asked.headers) {
    const bool must_be = name == "host" || name.starts_with("x-amz-");
    if (must_be && std::find(covered.begin(), covered.end(), name) == covered.end()) {
      return error(403, "AccessDenied");
    }
  }
  if (scope[0] == options_.expired_key) return error(400, "ExpiredToken");
  if (scope[0] != options_.access_key) return error(403, "InvalidAccessKeyId");
  if (scope[2] != options_.region) {
    HttpReply reply = error(400, "AuthorizationHeaderMalformed", tag("Region", options_.region));
    reply.headers.emplace_back("x-amz-bucket-region", options_.region);
    return reply;
  }
  const std::string time = asked.header("x-amz-date");
  const auto when = parse_iso_time(
      time.size() < 16 ? ""
                       : time.substr(0, 4) + "-" + time.substr(4, 2) + "-" + time.substr(6, 5) +
                             ":" + time.substr(11, 2) + ":" + time.substr(13));
  const auto now = Clock::now() + std::chrono::seconds(options_.skew_seconds);
  if (!when || *when - now > kMaxSkew || now - *when > kMaxSkew) {
    return error(403, "RequestTimeTooSkewed");
  }
  if (asked.header("x-amz-security-token") != options_.session_token) {
    return error(400, "ExpiredToken");
  }
  const std::string given = between(text, "Signature=", ",");
  if (given != expected_signature(asked, options_.secret_key, scope, names)) {
    return error(403, "SignatureDoesNotMatch");
  }
  return kNoAnswerYet;
}

HttpReply FakeS3::check_body(const Asked& asked) {
  const std::string hash = asked.header("x-amz-content-sha256");
  const bool has_trailer =
      hash == "STREAMING-UNSIGNED-PAYLOAD-TRAILER" && !asked.header("x-amz-trailer").empty();
  const bool is_unsigned = (hash == "UNSIGNED-PAYLOAD" && options_.takes_unsigned) || has_trailer;
  if (!is_unsigned && hash != hex(sha256(asked.body))) {
    return error(400, "XAmzContentSHA256Mismatch");
  }
  for (const auto& [name, value] : asked.headers) {
    const bool is_checksum = name.starts_with("x-amz-checksum-") && name != "x-amz-checksum-mode";
    if (is_checksum && options_.refuses_checksums) return error(501, "NotImplemented");
  }
  const std::string crc = asked.header(kCrc);
  const bool is_of_body = asked.method == "PUT";
  if (options_.keeps_crc64 && is_of_body && !crc.empty() &&
      crc != crc_text(crc64_nvme(as_bytes(asked.body)))) {
    return error(400, "BadDigest");
  }
  const std::string crc32_sent = asked.header(kCrc32);
  if (is_of_body && !crc32_sent.empty() &&
      crc32_sent != crc_text(crc32(as_bytes(asked.body)), 32)) {
    return error(400, "BadDigest");
  }
  return kNoAnswerYet;
}

HttpReply FakeS3::dispatch(const Asked& asked, const std::string& path) {
  const auto query = asked.query();
  const std::size_t slash = path.find('/');
  const bool is_bucket = slash == std::string::npos || slash + 1 == path.size();
  const std::string bucket = path.substr(0, slash);
  if (bucket != "bucket") return error(404, "NoSuchBucket");
  if (is_bucket && asked.method == "GET") {
    return query.contains("uploads") ? list_uploads(asked, bucket) : list(asked, bucket);
  }
  if (is_bucket) return error(405, "MethodNotAllowed");
  if (asked.method == "GET" || asked.method == "HEAD") return get(asked, path);
  if (asked.method == "PUT" && query.contains("partNumber")) return put_part(asked);
  if (asked.method == "PUT") return put(asked, path);
  if (asked.method == "POST" && query.contains("uploads")) return begin_upload(asked, path);
  if (asked.method == "POST" && query.contains("uploadId")) return complete(asked, path);
  if (asked.method == "DELETE" && query.contains("uploadId")) return abort(asked);
  if (asked.method == "DELETE") {
    objects_.erase(path);
    return {.status = 204};
  }
  return error(405, "MethodNotAllowed");
}

HttpReply FakeS3::get(const Asked& asked, const std::string& path) {
  const auto found = objects_.find(path);
  if (found == objects_.end()) return error(404, "NoSuchKey");
  const Object& object = found->second;
  HttpReply reply = check_read(asked, object);
  if (reply.status != 0) return reply;
  reply = {.headers = {{"ETag", object.etag},
                       {"Last-Modified", http_date(Clock::now())},
                       {"Content-Type", "application/octet-stream"}},
           .body = object.bytes};
  for (const auto& [name, value] : object.headers)
    reply.headers.emplace_back(name, value);
  describe(asked, object, reply);
  if (!cut_to_range(asked.header("range"), reply)) return error(416, "InvalidRange");
  if (asked.method == "HEAD")
    reply.headers.emplace_back("Content-Length", std::to_string(object.bytes.size()));
  return reply;
}

HttpReply FakeS3::check_read(const Asked& asked, const Object& object) {
  const std::string wanted = asked.header("if-match");
  return wanted.empty() || wanted == object.etag || !options_.checks_reads
             ? kNoAnswerYet
             : error(412, "PreconditionFailed");
}

void FakeS3::describe(const Asked& asked, const Object& object, HttpReply& reply) {
  const bool is_told = asked.method == "PUT" || asked.header("x-amz-checksum-mode") == "ENABLED";
  if (is_told && !object.crc64.empty()) reply.headers.emplace_back(kCrc, object.crc64);
}

std::string FakeS3::listed(const Object& /*object*/) const { return ""; }

bool FakeS3::keeps_header(const std::string& name) const {
  return name.starts_with("x-amz-meta-") || name == "x-amz-acl" ||
         name.starts_with("x-amz-server-side-");
}

std::string FakeS3::copy_source(const Asked& asked) const {
  return asked.header("x-amz-copy-source");
}

const FakeS3::Object* FakeS3::find(const std::string& path) const {
  const auto found = objects_.find(path);
  return found == objects_.end() ? nullptr : &found->second;
}

// The headers of a request that are stored with the object.
std::map<std::string, std::string> FakeS3::kept_headers(const Asked& asked) const {
  std::map<std::string, std::string> kept;
  for (const auto& [name, value] : asked.headers)
    if (keeps_header(name)) kept[name] = value;
  return kept;
}

HttpReply FakeS3::check_condition(const Asked& asked, const std::string& path, bool is_upload) {
  const FakeS3Options::Conditions how =
      is_upload ? options_.upload_conditions : options_.conditions;
  const std::string match = asked.header("if-match");
  const std::string none = asked.header("if-none-match");
  if ((match.empty() && none.empty()) || how == FakeS3Options::Conditions::kIgnore)
    return kNoAnswerYet;
  if (how == FakeS3Options::Conditions::kRefuse) return error(501, "NotImplemented");
  if (how == FakeS3Options::Conditions::kBusy) return error(503, "SlowDown");
  const auto found = objects_.find(path);
  if (!none.empty()) {
    return found == objects_.end() ? kNoAnswerYet : error(412, "PreconditionFailed");
  }
  if (found == objects_.end()) return error(404, "NoSuchKey");
  const std::string etag =
      options_.like_ceph ? between(found->second.etag, "\"", "\"") : found->second.etag;
  return etag == match ? kNoAnswerYet : error(412, "PreconditionFailed");
}

void FakeS3::keep(const std::string& path, Object object) {
  if (!options_.keeps_old || !objects_.contains(path)) objects_[path] = std::move(object);
}

HttpReply FakeS3::put(const Asked& asked, const std::string& path) {
  if (!copy_source(asked).empty()) return copy(asked, path);
  const HttpReply refused = check_condition(asked, path, /*is_upload=*/false);
  if (refused.status != 0) return refused;
  Object object = {.bytes = asked.body,
                   .etag = quoted_md5(asked.body),
                   .headers = kept_headers(asked),
                   .generation = ++generation_};
  if (options_.keeps_crc64) object.crc64 = crc_text(crc64_nvme(as_bytes(asked.body)));
  HttpReply reply = {.headers = {{"ETag", object.etag}}};
  describe(asked, object, reply);
  keep(path, std::move(object));
  return reply;
}

HttpReply FakeS3::check_source(const Asked& asked, const Object& object) {
  const std::string wanted = asked.header("x-amz-copy-source-if-match");
  return wanted.empty() || wanted == object.etag ? kNoAnswerYet : error(412, "PreconditionFailed");
}

const FakeS3::Object* FakeS3::source_of(const Asked& asked) const {
  const std::string source = percent_decoded(copy_source(asked));
  return find(source.substr(source.starts_with('/') ? 1 : 0));
}

// If the server supports a condition here, the condition applies to `path`.
HttpReply FakeS3::copy(const Asked& asked, const std::string& path) {
  const Object* const from = source_of(asked);
  if (from == nullptr) return error(404, "NoSuchKey");
  HttpReply refused = check_source(asked, *from);
  if (refused.status == 0) refused = check_condition(asked, path, /*is_upload=*/false);
  if (refused.status != 0) return refused;
  Object copy = *from;
  copy.generation = ++generation_;
  const std::string etag = copy.etag;
  keep(path, std::move(copy));
  return xml(tag("CopyObjectResult", tag("ETag", etag)));
}

// Like Amazon, allows a range only if the source is larger than the minimum part size.
HttpReply FakeS3::copy_part(const Asked& asked, Object& part) {
  const Object* const from = source_of(asked);
  if (from == nullptr) return error(404, "NoSuchKey");
  const HttpReply refused = check_source(asked, *from);
  if (refused.status != 0) return refused;
  HttpReply cut = {.body = from->bytes};
  const std::string range = asked.header("x-amz-copy-source-range");
  const bool is_small = from->bytes.size() <= kLeastPart;
  if (!range.empty() && (is_small || !cut_to_range(range, cut))) {
    return error(400, "InvalidRequest");
  }
  part = {.bytes = cut.body, .etag = quoted_md5(cut.body)};
  return xml(tag("CopyPartResult", tag("ETag", part.etag)));
}

HttpReply FakeS3::list(const Asked& asked, const std::string& bucket) {
  const auto query = asked.query();
  const auto of = [&](const char* name) {
    const auto found = query.find(name);
    return found == query.end() ? std::string() : found->second;
  };
  if (of("list-type") != "2") return error(400, "InvalidArgument");
  const bool is_encoded = of("encoding-type") == "url";
  const std::string prefix = bucket + "/" + of("prefix");
  const std::string delimiter = of("delimiter");
  const int most = of("max-keys").empty() ? kPage : std::min(kPage, std::stoi(of("max-keys")));
  std::string after = of("continuation-token");
  std::string body;
  std::string last_prefix;
  int count = 0;
  bool is_truncated = false;
  for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    const std::size_t end =
        delimiter.empty() ? std::string::npos : at->first.find(delimiter, prefix.size());
    const std::string name =
        at->first.substr(0, end == std::string::npos ? end : end + delimiter.size());
    if ((!after.empty() && name <= after) || name == last_prefix) continue;
    is_truncated = count == most;
    if (is_truncated) break;
    ++count;
    const std::string plain = name.substr(bucket.size() + 1);
    const std::string key = is_encoded ? encoded_key(plain) : escaped_key(plain);
    if (end == std::string::npos) {
      body += tag("Contents",
                  tag("Key", key) + tag("LastModified", iso_time(Clock::now())) +
                      tag("ETag", "&quot;" + between(at->second.etag, "\"", "\"") + "&quot;") +
                      tag("Size", std::to_string(at->second.bytes.size())) + listed(at->second));
    } else {
      last_prefix = name;
      body += tag("CommonPrefixes", tag("Prefix", key));
    }
    if (count == most) after = name;
  }
  return xml(tag("ListBucketResult", (is_encoded ? tag("EncodingType", "url") : "") +
                                         tag("IsTruncated", is_truncated ? "true" : "false") +
                                         (is_truncated ? tag("NextContinuationToken", after) : "") +
                                         body));
}

HttpReply FakeS3::list_uploads(const Asked& asked, const std::string& bucket) {
  std::string body;
  for (const auto& [id, upload] : uploads_) {
    const std::string key = upload.path.substr(bucket.size() + 1);
    if (!key.starts_with(asked.query()["prefix"])) continue;
    body += tag("Upload", tag("Key", key) + tag("UploadId", id) +
                              tag("Initiated", options_.initiated.empty() ? iso_time(upload.begun)
                                                                          : options_.initiated));
  }
  return xml(tag("ListMultipartUploadsResult", tag("IsTruncated", "false") + body));
}

HttpReply FakeS3::begin_upload(const Asked& asked, const std::string& path) {
  const std::string id = "upload-" + std::to_string(++next_upload_);
  const bool with_crc64 = options_.keeps_crc64 &&
                          asked.header("x-amz-checksum-algorithm") == "CRC64NVME" &&
                          asked.header("x-amz-checksum-type") == "FULL_OBJECT";
  uploads_[id] = {.path = path, .headers = kept_headers(asked), .with_crc64 = with_crc64};
  HttpReply reply = xml(tag("InitiateMultipartUploadResult", tag("UploadId", id)));
  if (with_crc64) reply.headers.emplace_back("x-amz-checksum-algorithm", "CRC64NVME");
  return reply;
}

HttpReply FakeS3::put_part(const Asked& asked) {
  auto query = asked.query();
  const auto upload = uploads_.find(query["uploadId"]);
  if (upload == uploads_.end()) return error(404, "NoSuchUpload");
  const int number = std::stoi(query["partNumber"]);
  if (number < 1 || number > 10'000) return error(400, "InvalidArgument");
  if (!copy_source(asked).empty()) {
    Object copied;
    HttpReply reply = copy_part(asked, copied);
    if (reply.status == 200) upload->second.parts[number] = std::move(copied);
    return reply;
  }
  if (upload->second.with_crc64 && asked.header(kCrc).empty()) return error(400, "InvalidRequest");
  Object part = {.bytes = asked.body, .etag = quoted_md5(asked.body), .crc64 = asked.header(kCrc)};
  HttpReply reply = {.headers = {{"ETag", part.etag}}};
  upload->second.parts[number] = std::move(part);
  return reply;
}

HttpReply FakeS3::complete(const Asked& asked, const std::string& path) {
  const auto upload = uploads_.find(asked.query()["uploadId"]);
  if (upload == uploads_.end()) return error(404, "NoSuchUpload");
  const HttpReply refused = check_condition(asked, path, /*is_upload=*/true);
  if (refused.status != 0) return refused;
  std::string bytes;
  std::string hashes;
  int count = 0;
  int last = 0;
  for (std::size_t at = 0; (at = asked.body.find("<Part>", at)) != std::string::npos; ++at) {
    const int number = std::stoi(between(asked.body, "<PartNumber>", "<", at));
    const auto part = upload->second.parts.find(number);
    if (number <= last) return error(400, "InvalidPartOrder");
    if (part == upload->second.parts.end() ||
        without_entities(between(asked.body, "<ETag>", "<", at)) != part->second.etag) {
      return error(400, "InvalidPart");
    }
    const bool is_last = asked.body.find("<Part>", at + 1) == std::string::npos;
    if (!is_last && part->second.bytes.size() < kLeastPart) return error(400, "EntityTooSmall");
    bytes += part->second.bytes;
    hashes += part->second.etag;
    last = number;
    ++count;
  }
  if (count == 0) return error(400, "MalformedXML");
  const std::string crc = crc_text(crc64_nvme(as_bytes(bytes)));
  if (upload->second.with_crc64 && asked.header(kCrc) != crc) return error(400, "BadDigest");
  const std::string md5 = quoted_md5(hashes);
  Object object = {.bytes = bytes,
                   .etag = md5.substr(0, md5.size() - 1) + "-" + std::to_string(count) + "\"",
                   .headers = upload->second.headers,
                   .generation = ++generation_};
  if (options_.keeps_crc64) object.crc64 = crc;
  HttpReply reply =
      xml(tag("CompleteMultipartUploadResult", tag("ETag", options_.like_ceph ? "" : object.etag)));
  describe(asked, object, reply);
  keep(path, std::move(object));
  uploads_.erase(upload);
  return reply;
}

HttpReply FakeS3::abort(const Asked& asked) {
  const bool was_there = uploads_.erase(asked.query()["uploadId"]) > 0;
  return was_there ? HttpReply{.status = 204} : error(404, "NoSuchUpload");
}

}  // namespace cairn::testing
