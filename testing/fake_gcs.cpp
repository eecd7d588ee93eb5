#include "testing/fake_gcs.h"

#include <algorithm>
#include <chrono>

#include "core/hash/crc32c.h"
#include "core/text/json.h"
#include "net/digest.h"
#include "net/net_time.h"
#include "net/rsa.h"

namespace cairn::testing {
namespace {

using Clock = std::chrono::system_clock;

constexpr std::chrono::minutes kOldestRequest{15};
constexpr const char* kMachinesToken =
    "/computeMetadata/v1/instance/service-accounts/default/token";
constexpr const char* kGeneration = "x-goog-if-generation-match";

// Decodes the base64 of tokens: two characters differ from usual base64, and there is no padding.
std::string from_base64_url(std::string text) {
  if (text.find_first_of("+/=") != std::string::npos) return "";
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  text.append((4 - text.size() % 4) % 4, '=');
  return base64_decoded(text).value_or("");
}

// Computes the signature of the request as it was sent. Follows Google's own description of version
// 4.
std::string googles_signature(const ReceivedRequest& asked, const std::string& secret,
                              const std::vector<std::string>& scope, const std::string& names) {
  std::vector<std::string> query = split(asked.raw_query(), '&');
  std::sort(query.begin(), query.end());
  std::string canonical = asked.method + "\n" + asked.path() + "\n";
  for (const std::string& part : query)
    canonical += (&part == &query.front() ? "" : "&") + part;
  canonical += "\n";
  for (const std::string& name : split(names, ';'))
    canonical += name + ":" + asked.header(name) + "\n";
  canonical += "\n" + names + "\n" + asked.header("x-goog-content-sha256");
  const std::string text = "GOOG4-HMAC-SHA256\n" + asked.header("x-goog-date") + "\n" + scope[1] +
                           "/" + scope[2] + "/storage/goog4_request\n" + hex(sha256(canonical));
  const std::string first = "GOOG4" + secret;
  Sha256 key = hmac_sha256(as_bytes(first), scope[1]);
  for (const std::string& next : {scope[2], std::string("storage"), std::string("goog4_request")})
    key = hmac_sha256(key, next);
  return hex(hmac_sha256(key, text));
}

HttpReply json(int status, const Json& body) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}, {"Metadata-Flavor", "Google"}},
          .body = body.dump()};
}

}  // namespace

std::string crc32c_base64(const std::string& bytes) {
  const std::uint32_t crc = crc32c(as_bytes(bytes));
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8)
    text += static_cast<char>(crc >> shift & 0xFF);
  return base64(as_bytes(text));
}

FakeGcs::FakeGcs(FakeGcsOptions options)
    : FakeS3({.keeps_old = options.keeps_old,
              .keeps_crc64 = false,
              .fault_rate = options.fault_rate,
              .seed = options.seed}),
      gcs_(std::move(options)) {}

void FakeGcs::revoke_tokens() {
  const std::scoped_lock lock(mutex_);
  is_revoked_ = true;
}

std::size_t FakeGcs::tokens() {
  const std::scoped_lock lock(mutex_);
  return tokens_.size();
}

HttpReply FakeGcs::answer(const Asked& asked) {
  const std::string path = asked.path();
  if (path == "/token" || path.starts_with("/computeMetadata/")) {
    HttpReply reply = give_token(asked);
    reply.headers.emplace_back("Date", http_date(Clock::now()));
    return reply;
  }
  if (path.starts_with("/storage/v1/") || path.starts_with("/upload/storage/v1/")) {
    return json_api(asked);
  }
  HttpReply reply = FakeS3::answer(asked);
  // Google's own client accepts only this type for text.
  for (auto& [name, value] : reply.headers)
    if (value == "application/xml") value = "text/xml";
  return reply;
}

// Whether `token` is a service account's request for a token: issuer, scope, audience, expiry and
// the signature over them.
bool FakeGcs::is_assertion(const std::string& token) const {
  const auto parts = split(token, '.');
  if (parts.size() != 3) return false;
  const auto header = Json::parse(from_base64_url(parts[0]), nullptr, false);
  const auto claims = Json::parse(from_base64_url(parts[1]), nullptr, false);
  if (!header.is_object() || !claims.is_object()) return false;
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
  const std::string signature = base64_url(
      RsaKey::parse(gcs_.private_key, "the fake's").sign_sha256(parts[0] + "." + parts[1]));
  return header["alg"] == "RS256" && header["typ"] == "JWT" && claims["iss"] == gcs_.account &&
         claims["aud"] == url() + "/token" &&
         claims["scope"] == "https://www.googleapis.com/auth/devstorage.read_write" &&
         std::abs(claims["iat"].get<std::int64_t>() - now) < 300 &&
         claims["exp"].get<std::int64_t>() - claims["iat"].get<std::int64_t>() <= 3600 &&
         parts[2] == signature;
}

HttpReply FakeGcs::give_token(const Asked& asked) {
  bool is_known = false;
  if (asked.path().starts_with("/computeMetadata/") && asked.path() != kMachinesToken) {
    return {.status = 404, .headers = {{"Metadata-Flavor", "Google"}}};
  }
  if (asked.method == "GET") {
    is_known = asked.header("metadata-flavor") == "Google" && asked.header("authorization").empty();
  } else {
    ReceivedRequest form;
    form.target = "/?" + asked.body;
    auto fields = form.query();
    is_known = fields["grant_type"] == "refresh_token"
                   ? fields["refresh_token"] == gcs_.refresh_token &&
                         fields["client_secret"] == gcs_.client_secret
                   : fields["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" &&
                         is_assertion(fields["assertion"]);
  }
  if (!is_known) {
    return json(400, {{"error", "invalid_grant"}, {"error_description", "Invalid signature."}});
  }
  tokens_.push_back("canary-token-" + std::to_string(tokens_.size() + 1));
  is_revoked_ = false;
  return json(200, {{"access_token", tokens_.back()},
                    {"expires_in", gcs_.token_seconds},
                    {"token_type", "Bearer"}});
}

bool FakeGcs::is_token(const std::string& token) const {
  return !tokens_.empty() && !is_revoked_ && token == tokens_.back();
}

HttpReply FakeGcs::check_signature(const Asked& asked) {
  for (const auto& [name, value] : asked.headers) {
    if (name.starts_with("x-amz-")) return error(400, "InvalidArgument");
  }
  const std::string text = asked.header("authorization");
  if (text.starts_with("Bearer ")) {
    return is_token(text.substr(7)) ? kNoAnswerYet : error(401, "AuthenticationRequired");
  }
  if (asked.query().contains("X-Goog-Signature")) return check_signed_url(asked);
  const std::string names = between(text, "SignedHeaders=", ",");
  const std::vector<std::string> scope = split(between(text, "Credential=", ","), '/');
  if (!text.starts_with("GOOG4-HMAC-SHA256 ") || scope.size() != 5 || scope[3] != "storage" ||
      scope[4] != "goog4_request") {
    return error(403, "AccessDenied");
  }
  const auto covered = split(names, ';');
  for (const auto& [name, value] : asked.headers) {
    const bool must_be = name == "host" || name.starts_with("x-goog-");
    if (must_be && std::find(covered.begin(), covered.end(), name) == covered.end()) {
      return error(403, "AccessDenied");
    }
  }
  if (scope[0] != gcs_.key) return error(403, "InvalidAccessKeyId");
  const std::string time = asked.header("x-goog-date");
  const Clock::time_point now = Clock::now();
  const bool is_now = time >= basic_iso_time(now - kOldestRequest) &&
                      time <= basic_iso_time(now + kOldestRequest) && time.starts_with(scope[1]);
  if (!is_now) return error(403, "RequestTimeTooSkewed");
  const std::string given = between(text, "Signature=", ",");
  return given == googles_signature(asked, gcs_.secret, scope, names)
             ? kNoAnswerYet
             : error(403, "SignatureDoesNotMatch");
}

HttpReply FakeGcs::check_body(const Asked& asked) {
  const bool is_signed = asked.header("authorization").starts_with("GOOG4-");
  if (is_signed && asked.header("x-goog-content-sha256") != hex(sha256(asked.body))) {
    return error(400, "XAmzContentSHA256Mismatch");
  }
  const std::string hash = asked.header("x-goog-hash");
  if (!hash.empty() && hash != "crc32c=" + crc32c_base64(asked.body))
    return error(400, "BadDigest");
  return kNoAnswerYet;
}

HttpReply FakeGcs::check_read(const Asked& asked, const Object& object) {
  const std::string wanted = asked.header(kGeneration);
  return wanted.empty() || wanted == std::to_string(object.generation)
             ? kNoAnswerYet
             : error(412, "PreconditionFailed");
}

// Google has no conditions for an upload in parts.
HttpReply FakeGcs::check_condition(const Asked& asked, const std::string& path, bool is_upload) {
  const std::string wanted = asked.header(kGeneration);
  if (!asked.header("if-match").empty() || !asked.header("if-none-match").empty()) {
    return error(400, "InvalidArgument");
  }
  if (wanted.empty()) return kNoAnswerYet;
  if (is_upload) return error(400, "InvalidArgument");
  const Object* const there = find(path);
  const int generation = there == nullptr ? 0 : there->generation;
  return wanted == std::to_string(generation) ? kNoAnswerYet : error(412, "PreconditionFailed");
}

void FakeGcs::describe(const Asked& /*asked*/, const Object& object, HttpReply& reply) {
  reply.headers.emplace_back("x-goog-generation", std::to_string(object.generation));
  reply.headers.emplace_back("x-goog-hash", "crc32c=" + crc32c_base64(object.bytes));
  const ByteView bytes = as_bytes(object.bytes);
  const bool is_of_parts = object.etag.find('-') != std::string::npos;
  if (!is_of_parts) reply.headers.emplace_back("x-goog-hash", "md5=" + base64(md5({&bytes, 1})));
}

std::string FakeGcs::listed(const Object& object) const {
  return tag("Generation", std::to_string(object.generation)) + tag("MetaGeneration", "1");
}

bool FakeGcs::keeps_header(const std::string& name) const {
  return name.starts_with("x-goog-meta-");
}

std::string FakeGcs::copy_source(const Asked& asked) const {
  return asked.header("x-goog-copy-source");
}

HttpReply FakeGcs::check_source(const Asked& asked, const Object& object) {
  const std::string wanted = asked.header("x-goog-copy-source-if-generation-match");
  const bool holds = wanted.empty() || wanted == std::to_string(object.generation);
  return holds ? kNoAnswerYet : error(412, "PreconditionFailed");
}

}  // namespace cairn::testing
