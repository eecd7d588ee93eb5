#include "storage/s3/connection.h"

#include <algorithm>
#include <array>

#include "net/digest.h"
#include "storage/s3/sigv4.h"

namespace cairn::s3 {
namespace {

bool is_one_of(const std::string& code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

std::string amazon_host(const std::string& region) {
  return "s3." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
}

// Splits the text that sign() passes to learn(): one value per line.
template <std::size_t kCount>
std::array<std::string, kCount> lines_of(std::string_view text) {
  std::array<std::string, kCount> lines;
  for (std::string& line : lines) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Connection::Connection(Config config) : Remote(config.settings), config_(std::move(config)) {}

std::string Connection::describe(const std::string& key) const {
  return "s3://" + config_.options.bucket + (key.empty() ? "" : "/" + key);
}

bool Connection::is_missing(const HttpResponse& response) const {
  return response.status == 404 && error_in(response).code != "NoSuchBucket";
}

std::string Connection::region() const {
  const std::scoped_lock lock(mutex_);
  if (!region_.empty()) return region_;
  return config_.options.region.empty() ? "us-east-1" : config_.options.region;
}

SignedRequest Connection::sign(const RemoteRequest& request) {
  const Credentials by = config_.credentials->get();
  keep_secret({by.secret_key, by.session_token, by.access_key});
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

  const auto [time, skew] = signing_time();
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
  return {.http = {.method = request.method,
                   .url = url.origin() + url.path + (query.empty() ? "" : "?" + query),
                   .headers = std::move(headers)},
          .signed_by = skew + "\n" + region + "\n" + by.access_key + "\n" + by.session_token};
}

// Returns true if the hash must be signed; the server then compares it with the body. Over TLS a
// checksum protects the body as well. Without TLS a checksum is enough for a part of an upload if
// the user says so (unsigned_payload): only for an upload is it certain that the server compares
// the checksum.
bool Connection::prepare(RemoteRequest& request) const {
  const bool is_tls = !config_.endpoint || config_.endpoint->scheme == "https";
  const bool is_part = !request.query.empty();
  const bool may_be_unsigned = is_tls || (is_part && config_.options.unsigned_payload);
  const bool has_checksum = std::any_of(
      request.headers.begin(), request.headers.end(),
      [](const HttpHeader& header) { return header.name == "x-amz-checksum-crc64nvme"; });
  if (may_be_unsigned && has_checksum && !request.body.empty() && request.method == "PUT") {
    request.payload_hash = "UNSIGNED-PAYLOAD";
    return false;
  }
  return true;
}

RemoteError Connection::error_in(const HttpResponse& response) const {
  const ErrorAnswer error = parse_error(response.body);
  return {.code = error.code, .message = error.message};
}

// The fault may be the clock, expired keys or another region.
bool Connection::learn(const HttpResponse& response, const RemoteError& error,
                       const std::string& signed_by) {
  const bool is_refusal = response.status == 400 || response.status == 403;
  const bool is_skewed = error.code == "RequestTimeTooSkewed";
  const bool has_no_code = error.code.empty() && response.status == 403;  // an answer to HEAD
  const auto [skew, region_signed, access_key, session_token] = lines_of<4>(signed_by);
  if (is_refusal && (is_skewed || has_no_code) && learn_time(response, is_skewed, skew)) {
    return true;
  }
  if (is_one_of(error.code, {"ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException"})) {
    config_.credentials->note_refused({.access_key = access_key, .session_token = session_token});
    return true;
  }
  const bool is_elsewhere = response.status == 301 || response.status == 307 ||
                            error.code == "AuthorizationHeaderMalformed" ||
                            error.code == "IllegalLocationConstraintException" ||
                            (response.status == 400 && error.code.empty());
  if (!is_elsewhere) return false;
  std::string region(response.header("x-amz-bucket-region"));
  if (region.empty()) region = parse_error(response.body).region;
  // Another thread may have learned the region since the request was signed.
  if (region.empty() || region == region_signed) return false;
  const std::scoped_lock lock(mutex_);
  region_ = region;
  return true;
}

bool Connection::is_temporary(int status, const std::string& code) const {
  return is_temporary_status(status) || is_temporary_code(code);
}

std::string Connection::advice_for(int status, const std::string& code) const {
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

}  // namespace cairn::s3
