#include "storage/s3/connection.h"

#include <algorithm>
#include <array>

#include "cairn/error.h"

#include "core/printable.h"
#include "net/digest.h"
#include "net/net_time.h"
#include "storage/s3/sigv4.h"

namespace cairn::s3 {
namespace {

constexpr int kMostCorrections = 4;  // a region, the time, and keys twice
constexpr std::size_t kLongestMessage = 300;
constexpr std::chrono::minutes kMostSkew{4};  // less is no reason to refuse: AWS allows 15

bool is_one_of(const std::string& code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

// What the server, or the way to it, may do better the next time.
bool is_passing(int status, const std::string& code) {
  return status == 500 || status == 502 || status == 503 || status == 504 || status == 429 ||
         status == 408 ||
         is_one_of(code,
                   {"RequestTimeout", "RequestTimeoutException", "SlowDown", "InternalError",
                    "ServiceUnavailable", "Throttling", "ThrottlingException",
                    "RequestLimitExceeded", "BandwidthLimitExceeded", "IncompleteBody", "BadDigest",
                    "XAmzContentSHA256Mismatch", "OperationAborted", "ConditionalRequestConflict"});
}

std::string amazon_host(const std::string& region) {
  return "s3." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
}

// Nobody who reads a log may sign with what stands in it.
std::string without_secrets(std::string text, const Credentials& credentials) {
  for (const std::string& secret :
       {credentials.secret_key, credentials.session_token, credentials.access_key}) {
    if (secret.empty()) continue;
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
      text.replace(at, secret.size(), "***");
    }
  }
  return text;
}

std::string advice_for(int status, const std::string& code) {
  if (is_one_of(code, {"InvalidAccessKeyId", "SignatureDoesNotMatch"})) {
    return "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile's keys";
  }
  if (is_one_of(code, {"ExpiredToken", "InvalidToken"})) {
    return "; renew the keys: their session has ended";
  }
  if (status == 403) return "; check what these keys may do with the bucket";
  if (code == "NoSuchBucket") return "; make it, or check its name and the endpoint";
  return "";
}

}  // namespace

// --- Connection ----------------------------------------------------------------------------------

std::string Connection::describe(const std::string& key) const {
  return "s3://" + config_.options.bucket + (key.empty() ? "" : "/" + key);
}

NetTime Connection::now() const {
  const auto& clock = config_.retries.clock;
  return (clock ? *clock : *real_net_clock()).now() + std::chrono::milliseconds(skew_ms_.load());
}

std::string Connection::region() const {
  const std::scoped_lock lock(mutex_);
  if (!region_.empty()) return region_;
  return config_.options.region.empty() ? "us-east-1" : config_.options.region;
}

HttpRequest Connection::signed_request(const Request& request, const Credentials& by) {
  {
    const std::scoped_lock lock(mutex_);
    last_used_ = by;
  }
  const std::string region = this->region();
  const std::string& bucket = config_.options.bucket;
  Url url = config_.endpoint.value_or(Url{.scheme = "https", .host = amazon_host(region)});
  if (config_.is_path_style) {
    url.path += "/" + percent_encoded(bucket);
  } else {
    url.host = bucket + "." + url.host;
  }
  url.path += "/" + percent_encoded(request.key, /*keep_slashes=*/true);
  if (config_.is_path_style && request.key.empty()) url.path.pop_back();

  const NetTime time = now();
  ToSign to_sign = {.method = request.method,
                    .path = url.path,
                    .query = request.query,
                    .headers = request.headers,
                    .payload_hash = request.payload_hash};
  to_sign.headers.push_back({"host", url.host});
  to_sign.headers.push_back({"x-amz-content-sha256", to_sign.payload_hash});
  to_sign.headers.push_back({"x-amz-date", basic_iso_time(time)});
  if (!by.session_token.empty()) {
    to_sign.headers.push_back({"x-amz-security-token", by.session_token});
  }
  std::vector<HttpHeader> headers = to_sign.headers;
  headers.push_back(
      {"authorization", authorization(to_sign, {.time = time, .region = region}, by)});
  const std::string query = query_text(request.query);
  return {.method = request.method,
          .url = url.origin() + url.path + (query.empty() ? "" : "?" + query),
          .headers = std::move(headers),
          .body = request.body,
          .into = request.into,
          .most_bytes = request.most_bytes,
          .deadlines = config_.deadlines,
          .ca_file = config_.ca_file};
}

// The hash is signed, and the server compares it with the body. Over TLS a checksum does as well,
// where there is one.
std::string Connection::payload_hash(const Request& request) const {
  const bool is_tls = !config_.endpoint || config_.endpoint->scheme == "https";
  const bool has_checksum = std::any_of(
      request.headers.begin(), request.headers.end(),
      [](const HttpHeader& header) { return header.name == "x-amz-checksum-crc64nvme"; });
  if (is_tls && has_checksum && !request.body.empty() && request.method == "PUT") {
    return "UNSIGNED-PAYLOAD";
  }
  std::vector<ByteView> body;
  for (const SharedBytes& piece : request.body)
    body.push_back(piece.view);
  return hex(sha256(body));
}

bool Connection::correct(const HttpResponse& response, const ErrorAnswer& error,
                         const Credentials& used) {
  const bool is_refusal = response.status == 400 || response.status == 403;
  if (const auto date = parse_http_date(response.header("date")); date && is_refusal) {
    const auto skew = std::chrono::duration_cast<std::chrono::milliseconds>(*date - now());
    const bool has_no_code = error.code.empty() && response.status == 403;  // to HEAD
    if (error.code == "RequestTimeTooSkewed" ||
        (has_no_code && std::chrono::abs(skew) > kMostSkew)) {
      skew_ms_ += skew.count();
      return true;
    }
  }
  if (is_one_of(error.code, {"ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException"})) {
    config_.credentials->refused(used);
    return true;
  }
  const bool is_elsewhere = response.status == 301 || response.status == 307 ||
                            error.code == "AuthorizationHeaderMalformed" ||
                            error.code == "IllegalLocationConstraintException" ||
                            (response.status == 400 && error.code.empty());
  std::string region(response.header("x-amz-bucket-region"));
  if (region.empty()) region = error.region;
  if (!is_elsewhere || region.empty() || region == this->region()) return false;
  const std::scoped_lock lock(mutex_);
  region_ = region;
  return true;
}

void Connection::refuse(const HttpResponse& response, const std::string& doing,
                        const std::string& key) const {
  const ErrorAnswer error = parse_error(response.body);
  std::string text =
      doing + " " + describe(key) + ": the server answered " + std::to_string(response.status);
  if (!error.code.empty()) text += " " + error.code;
  if (!error.message.empty()) {
    text += ": " + printable_line(error.message.substr(0, kLongestMessage));
  }
  {
    const std::scoped_lock lock(mutex_);
    text = without_secrets(std::move(text), last_used_);
  }
  text += advice_for(response.status, error.code);
  if (response.status == 404) throw NotFoundError(text);
  if (response.status == 412) throw AlreadyExistsError(text);
  throw StorageError(text, response.status, is_passing(response.status, error.code));
}

void Connection::check(const HttpResponse& response, const std::string& doing,
                       const std::string& key) const {
  if (response.status < 200 || response.status > 299) refuse(response, doing, key);
}

// --- Call ----------------------------------------------------------------------------------------

Call::Call(Connection& connection, Request request)
    : connection_(connection),
      request_(std::move(request)),
      attempts_(connection.config().retries, request_.attempts),
      used_(connection.config().credentials->get()) {
  request_.payload_hash = connection_.payload_hash(request_);
  call_ = connection_.config().client->start(connection_.signed_request(request_, used_));
}

HttpResponse Call::wait() {
  for (;;) {
    HttpResponse response = call_->wait();
    if (answered(response)) {
      response.received += received_;
      return response;
    }
    used_ = connection_.config().credentials->get();
    call_.reset();
    call_ = connection_.config().client->start(connection_.signed_request(request_, used_));
  }
}

// Whether this is what wait() gives. Otherwise there is another attempt.
bool Call::answered(const HttpResponse& response) {
  if (response.failure.empty()) {
    const bool may_be_error = response.status >= 300 || request_.is_answered_late;
    const ErrorAnswer error = may_be_error ? parse_error(response.body) : ErrorAnswer();
    if (connection_.correct(response, error, used_) && ++refused_ <= kMostCorrections) return false;
    if (!is_passing(response.status, error.code)) {
      if (response.status == 206) check_range(response);
      return true;
    }
    return !attempts_.again(retry_after(response.header("retry-after"), connection_.now()));
  }
  if (resume_behind(response.received)) attempts_.progress();
  const std::string& key = request_.key;
  const std::string text = request_.method + " of " + connection_.describe(key) + ": " +
                           printable_line(response.failure);
  if (response.cancelled) throw CancelledError(text);
  if (response.may_work_later && attempts_.again()) return false;
  throw StorageError(
      text + (response.may_work_later ? " (tried " + std::to_string(attempts_.made()) + " times)"
                                      : std::string()),
      response.status, response.may_work_later);
}

// What a range asks for first: "bytes=5-9" is 5. nullopt when it is none, or the last bytes.
std::optional<std::uint64_t> Call::first_byte() const {
  constexpr std::string_view kUnit = "bytes=";
  for (const HttpHeader& header : request_.headers) {
    if (header.name != "range" || !header.value.starts_with(kUnit)) continue;
    if (header.value.find('-') == kUnit.size()) return std::nullopt;
    return std::stoull(header.value.substr(kUnit.size()));
  }
  return std::nullopt;
}

void Call::check_range(const HttpResponse& response) const {
  const auto first = first_byte();
  const std::string_view given = response.header("content-range");
  if (!first || given.starts_with("bytes " + std::to_string(*first) + "-")) return;
  throw StorageError("reading " + connection_.describe(request_.key) + ": asked for bytes from " +
                         std::to_string(*first) + " on, the server sent \"" +
                         printable_line(given) + "\"",
                     response.status);
}

// A range that broke off goes on where it stopped.
bool Call::resume_behind(std::size_t received) {
  const auto first = first_byte();
  if (received == 0 || !first || received >= request_.into.size()) return false;
  for (HttpHeader& header : request_.headers) {
    if (header.name != "range") continue;
    header.value =
        "bytes=" + std::to_string(*first + received) + header.value.substr(header.value.find('-'));
  }
  request_.into = request_.into.subspan(received);
  received_ += received;
  return true;
}

}  // namespace cairn::s3
