#include "storage/gcs/token.h"

#include <vector>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "net/url.h"
#include "storage/remote/key_server.h"
#include "storage/remote/remote.h"

namespace cairn::gcs {
namespace {

constexpr std::uint64_t kLongestFile = 1 << 20;
constexpr std::size_t kLongestReason = 300;
constexpr std::chrono::seconds kTokenLife{3600};  // the limit for service accounts
constexpr std::chrono::minutes kMaxTokenSkew{4};  // less does not explain a refusal
constexpr const char* kTokenUri = "https://oauth2.googleapis.com/token";
constexpr const char* kMayWrite = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr const char* kByJwt = "urn:ietf:params:oauth:grant-type:jwt-bearer";
constexpr const char* kMachines = "metadata.google.internal";
constexpr const char* kMachineToken = "/computeMetadata/v1/instance/service-accounts/default/token";

std::string field(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Account account_of(const Json& json, const std::string& where) {
  const std::string type = field(json, "type");
  Account account;
  account.token_uri = field(json, "token_uri");
  if (account.token_uri.empty()) account.token_uri = kTokenUri;
  bool is_whole = false;
  if (type == "service_account") {
    account.name = field(json, "client_email");
    account.key_id = field(json, "private_key_id");
    const std::string key = field(json, "private_key");
    is_whole = !account.name.empty() && !key.empty();
    if (is_whole) account.key = RsaKey::parse(key, "private_key of " + where);
  } else if (type == "authorized_user") {
    account.kind = Account::Kind::kUser;
    account.name = field(json, "client_id");
    account.client_secret = field(json, "client_secret");
    account.refresh_token = field(json, "refresh_token");
    is_whole = !account.name.empty() && !account.refresh_token.empty();
  } else {
    throw UnsupportedError(where + " holds credentials of type \"" + printable_line(type) +
                           "\": cairn knows service_account and authorized_user; or use an HMAC "
                           "key, GCS_KEY and GCS_SECRET");
  }
  if (!is_whole) throw UsageError(where + " lacks fields that credentials of its type have");
  return account;
}

// The server's reason for a refusal; empty if it repeats a secret.
std::string reason_in(const HttpResponse& response, const Account& account) {
  const Json json = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const std::string why = field(json, "error") + ": " + field(json, "error_description");
  // Checks the decoded text: in JSON, the secret may be written with escapes.
  const std::vector<std::string> secrets = {account.client_secret, account.refresh_token};
  if (masked(why, secrets) != why) return "";
  return why.size() > 2 ? " (" + printable_line(why.substr(0, kLongestReason)) + ")" : "";
}

s3::Credentials token_in(const std::string& body, const std::string& account,
                         const std::string& what, NetTime asked) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const std::string token = field(json, "access_token");
  const auto life = json.is_object() ? json.find("expires_in") : json.end();
  if (token.empty()) refuse_keys(what, "the answer has no token");
  const bool is_told = life != json.end() && life->is_number_unsigned();
  const std::chrono::seconds seconds =
      is_told ? std::chrono::seconds(std::min<std::uint64_t>(life->get<std::uint64_t>(), 86'400))
              : kTokenLife;
  return {.access_key = account,
          .secret_key = token,
          .session_token = token,
          .expires = asked + seconds};
}

NetTime now_of(const TokenContext& context) {
  return (context.retries.clock ? *context.retries.clock : *real_net_clock()).now();
}

Query form_for(const Account& account, NetTime now) {
  if (account.kind == Account::Kind::kService) {
    return {{"grant_type", kByJwt}, {"assertion", signed_claims(account, now)}};
  }
  return {{"grant_type", "refresh_token"},
          {"client_id", account.name},
          {"client_secret", account.client_secret},
          {"refresh_token", account.refresh_token}};
}

}  // namespace

Account read_account(const std::string& path) {
  const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestFile);
  const Json json = Json::parse(as_text(bytes.view), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw UsageError(path + " is no JSON file of Google credentials");
  return account_of(json, path);
}

std::string signed_claims(const Account& account, NetTime now) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  Json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (!account.key_id.empty()) header["kid"] = account.key_id;
  const Json claims = {{"iss", account.name},
                       {"scope", kMayWrite},
                       {"aud", account.token_uri},
                       {"iat", seconds},
                       {"exp", seconds + kTokenLife.count()}};
  const std::string text =
      base64_url(as_bytes(header.dump())) + "." + base64_url(as_bytes(claims.dump()));
  return text + "." + base64_url(account.key->sign_sha256(text));
}

s3::Credentials fetch_token(const TokenContext& context, const Account& account) {
  const NetTime now = now_of(context);
  const Url server = parse_http_url(account.token_uri, "token_uri of Google credentials");
  if (server.scheme != "https" && !is_of_this_machine(server.host)) {
    throw UsageError("token_uri of Google credentials names another machine without https");
  }
  const auto ask = [&](NetTime signed_at) {
    const auto body = std::make_shared<const std::string>(query_text(form_for(account, signed_at)));
    return ask_for_keys(*context.client, context.retries,
                        {.method = "POST",
                         .url = server.origin() + server.path,
                         .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                         .body = {{as_bytes(*body), body}},
                         .ca_file = context.ca_file});
  };
  HttpResponse response = ask(now);
  // The signed claims contain the time, so a wrong clock shows here, before any other request.
  const auto theirs = parse_http_date(response.header("date"));
  const bool may_be_skewed = response.failure.empty() && response.status == 400 && theirs &&
                             account.kind == Account::Kind::kService;
  if (may_be_skewed && std::chrono::abs(*theirs - now) > kMaxTokenSkew) response = ask(*theirs);
  const std::string what = "a token for gs:// from " + server.origin();
  if (response.failure.empty() && response.status != 200) {
    refuse_keys(what,
                "the answer was " + std::to_string(response.status) + reason_in(response, account),
                response.status);
  }
  return token_in(keys_answer(response, what), account.name, what, now);
}

s3::Credentials fetch_machine_token(const TokenContext& context) {
  const NetTime now = now_of(context);
  std::string host = environment("GCE_METADATA_HOST");
  if (host.empty()) host = kMachines;
  // Outside Google no server answers; short deadlines find that out quickly.
  const HttpResponse response = ask_for_keys(
      *context.client, context.retries,
      {.url = "http://" + host + kMachineToken,
       .headers = {{"metadata-flavor", "Google"}},
       .deadlines = {.connect = std::chrono::seconds(1), .total = std::chrono::seconds(5)},
       .is_direct = true});
  const std::string what =
      "a token for gs:// from this machine's metadata server, the last place to look for one "
      "(others: GCS_KEY and GCS_SECRET, or GOOGLE_APPLICATION_CREDENTIALS),";
  const std::string body = keys_answer(response, what);
  if (response.header("metadata-flavor") != "Google") {
    refuse_keys(what, "the server that answers there is no metadata server");
  }
  return token_in(body, "default", what, now);
}

}  // namespace cairn::gcs
