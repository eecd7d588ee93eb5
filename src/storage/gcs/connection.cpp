#include "storage/gcs/connection.h"

#include <algorithm>

#include "net/digest.h"
#include "storage/s3/answers.h"
#include "storage/s3/sigv4.h"

namespace cairn::gcs {
namespace {

// AWS's scheme with other names.
constexpr s3::SignatureScheme kScheme = {
    .algorithm = "GOOG4-HMAC-SHA256", .key_prefix = "GOOG4", .end_of_scope = "goog4_request"};
constexpr const char* kContentHash = "x-goog-content-sha256";

}  // namespace

std::string Connection::describe(const std::string& key) const {
  return "gs://" + bucket() + (key.empty() ? "" : "/" + key);
}

bool Connection::is_missing(const HttpResponse& response) const {
  return response.status == 404 && error_in(response).code != "NoSuchBucket";
}

std::optional<HttpHeader> Connection::same_version(const HttpResponse& response) const {
  const std::string_view generation = response.header("x-goog-generation");
  if (generation.empty()) return std::nullopt;
  return HttpHeader{"x-goog-if-generation-match", std::string(generation)};
}

// Returns true if the hash must be signed; the server then compares it with the body. Over TLS a
// checksum protects the body as well.
bool Connection::prepare(RemoteRequest& request) const {
  if (!config_.is_hmac) return false;
  const bool has_checksum =
      std::any_of(request.headers.begin(), request.headers.end(),
                  [](const HttpHeader& header) { return header.name == "x-goog-hash"; });
  if (config_.endpoint.scheme == "https" && has_checksum) {
    request.payload_hash = "UNSIGNED-PAYLOAD";
    return false;
  }
  return true;
}

SignedRequest Connection::sign(const RemoteRequest& request) {
  const s3::Credentials by = config_.credentials->get();
  keep_secret({by.secret_key, by.session_token});
  const Url& endpoint = config_.endpoint;
  std::string path = endpoint.path + "/" + percent_encoded(bucket());
  if (!request.key.empty()) path += "/" + percent_encoded(request.key, /*keep_slashes=*/true);
  const std::string query = query_text(request.query);
  SignedRequest made = {
      .http = {.method = request.method,
               .url = endpoint.origin() + path + (query.empty() ? "" : "?" + query),
               .headers = request.headers},
      .signed_by = by.access_key + "\n" + by.session_token};
  std::vector<HttpHeader>& headers = made.http.headers;
  if (!config_.is_hmac) {
    headers.push_back({"authorization", "Bearer " + by.secret_key});
    return made;
  }
  SigningTime signing = signing_time();
  const NetTime time = signing.time;
  made.signed_by = std::move(signing.skew);
  headers.push_back({"host", endpoint.host});
  headers.push_back({kContentHash, request.payload_hash});
  headers.push_back({"x-goog-date", basic_iso_time(time)});
  const s3::ToSign to_sign = {.method = request.method,
                              .path = path,
                              .query = request.query,
                              .headers = headers,
                              .payload_hash = request.payload_hash};
  headers.push_back(
      {"authorization",
       s3::authorization(to_sign,
                         {.time = time, .region = "auto", .service = "storage", .scheme = kScheme},
                         by)});
  return made;
}

RemoteError Connection::error_in(const HttpResponse& response) const {
  const s3::ErrorAnswer error = s3::parse_error(response.body);
  return {.code = error.code, .message = error.message};
}

// The fault may be a token that ended early, or the clock.
bool Connection::learn(const HttpResponse& response, const RemoteError& error,
                       const std::string& signed_by) {
  if (!config_.is_hmac) {
    if (response.status != 401) return false;
    const std::size_t end = signed_by.find('\n');
    config_.credentials->note_refused(
        {.access_key = signed_by.substr(0, end), .session_token = signed_by.substr(end + 1)});
    return true;
  }
  if (response.status != 400 && response.status != 403) return false;
  const bool is_skewed = error.code == "RequestTimeTooSkewed";
  return (is_skewed || error.code.empty()) && learn_time(response, is_skewed, signed_by);
}

bool Connection::is_temporary(int status, const std::string& code) const {
  return is_temporary_status(status) || s3::is_temporary_code(code);
}

std::string Connection::advice_for(int status, const std::string& code) const {
  if (code == "NoSuchBucket") return "; make it, or check its name";
  if (status != 401 && status != 403) return "";
  if (code == "SignatureDoesNotMatch" || code == "InvalidAccessKeyId" ||
      code == "InvalidSecurity") {
    return "; check GCS_KEY and GCS_SECRET";
  }
  return config_.is_hmac ? "; check what the account of GCS_KEY may do with the bucket"
                         : "; check what the account of GOOGLE_APPLICATION_CREDENTIALS may do with "
                           "the bucket";
}

}  // namespace cairn::gcs
