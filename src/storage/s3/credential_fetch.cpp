#include "storage/s3/credential_fetch.h"

#include <pugixml.hpp>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "io/process/program.h"
#include "net/url.h"
#include "storage/remote/key_server.h"

namespace cairn::s3 {
namespace {

constexpr std::uint64_t kLongestToken = 64 << 10;
constexpr std::size_t kLongestAnswer = std::size_t{1} << 20;
constexpr const char* kOfContainers = "http://169.254.170.2";
constexpr const char* kOfInstances = "http://169.254.169.254";

[[noreturn]] void refuse_fetch(const std::string& where, const std::string& why, int status = 0) {
  refuse_keys("keys for S3 from " + where, why, status);
}

HttpResponse ask(const CredentialContext& context, const HttpRequest& request) {
  return ask_for_keys(*context.client, context.retries, request);
}

std::string answer_of(const HttpResponse& response, const std::string& where) {
  return keys_answer(response, "keys for S3 from " + where);
}

// When the keys expire. nullopt, which means never, if the answer does not say.
std::optional<NetTime> end_in(const std::string& text, const std::string& where) {
  if (text.empty()) return std::nullopt;
  const auto end = parse_iso_time(text);
  if (!end) refuse_fetch(where, "the answer's Expiration is no time: " + printable_line(text));
  return end;
}

// The keys in an answer. All these servers answer in nearly the same format.
Credentials credentials_of(const std::string& text, const std::string& where, const char* token) {
  const auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto field = [&](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Credentials credentials = {.access_key = field("AccessKeyId"),
                             .secret_key = field("SecretAccessKey"),
                             .session_token = field(token),
                             .expires = end_in(field("Expiration"), where)};
  if (!credentials.complete()) refuse_fetch(where, "the answer has no keys");
  return credentials;
}

std::string token_in(const std::string& path) {
  const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestToken);
  std::string token(as_text(bytes.view));
  while (token.ends_with('\n') || token.ends_with('\r'))
    token.pop_back();
  return token;
}

class Gathered final : public ByteSink {
 public:
  void write(ByteView bytes) override {
    if (text_.size() + bytes.size() > kLongestAnswer) {
      throw StorageError("its output is longer than " + std::to_string(kLongestAnswer) + " bytes",
                         0);
    }
    text_ += as_text(bytes);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

Credentials fetch_web_identity(const CredentialContext& context, const WebIdentity& identity) {
  const std::string region = context.region.empty() ? "us-east-1" : context.region;
  std::string url = environment("AWS_ENDPOINT_URL_STS");
  if (url.empty()) url = environment("AWS_ENDPOINT_URL");
  if (url.empty()) url = "https://sts." + region + ".amazonaws.com";
  const Url server = parse_http_url(url, "AWS_ENDPOINT_URL_STS");
  const std::string session = identity.session.empty() ? "cairn" : identity.session;
  const auto form = std::make_shared<const std::string>(
      query_text({{"Action", "AssumeRoleWithWebIdentity"},
                  {"Version", "2011-06-15"},
                  {"RoleArn", identity.role},
                  {"RoleSessionName", session},
                  {"WebIdentityToken", token_in(identity.token_file)}}));
  const std::string where = "a web identity (" + server.origin() + ")";
  const std::string body =
      answer_of(ask(context, {.method = "POST",
                              .url = server.origin() + server.path + "/",
                              .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                              .body = {{as_bytes(*form), form}},
                              .ca_file = context.ca_file}),
                where);
  pugi::xml_document document;
  document.load_buffer(body.data(), body.size());
  const pugi::xml_node keys = document.child("AssumeRoleWithWebIdentityResponse")
                                  .child("AssumeRoleWithWebIdentityResult")
                                  .child("Credentials");
  Credentials credentials = {.access_key = keys.child("AccessKeyId").text().get(),
                             .secret_key = keys.child("SecretAccessKey").text().get(),
                             .session_token = keys.child("SessionToken").text().get(),
                             .expires = end_in(keys.child("Expiration").text().get(), where)};
  if (!credentials.complete()) refuse_fetch(where, "the answer has no keys");
  return credentials;
}

Credentials fetch_container(const CredentialContext& context, const std::string& given) {
  const std::string text = given.starts_with('/') ? kOfContainers + given : given;
  const std::size_t mark = std::min(text.find('?'), text.size());
  const Url url = parse_http_url(text.substr(0, mark), "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (url.scheme != "https" && !is_of_this_machine(url.host)) {
    throw UsageError(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI names another machine without https: keys would cross "
        "the network in the clear");
  }
  std::string token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string token_file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!token_file.empty()) token = token_in(token_file);
  HttpRequest request = {.url = url.origin() + url.path + text.substr(mark),
                         .ca_file = context.ca_file,
                         .is_direct = true};
  if (!token.empty()) request.headers.push_back({"authorization", token});
  const std::string where = "the container's endpoint (" + url.origin() + ")";
  return credentials_of(answer_of(ask(context, request), where), where, "Token");
}

Credentials fetch_instance(const CredentialContext& context) {
  std::string base = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (base.empty()) base = kOfInstances;
  const Url server = parse_http_url(base, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
  // Outside EC2 there is no such server, and short deadlines find that out quickly. A missed
  // deadline proves nothing: on EC2 the service is sometimes late, too.
  const HttpDeadlines deadlines = {.connect = std::chrono::seconds(1),
                                   .total = std::chrono::seconds(5)};
  HttpRequest request = {.method = "PUT",
                         .url = server.origin() + "/latest/api/token",
                         .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                         .deadlines = deadlines,
                         .is_direct = true};
  const HttpResponse first = ask(context, request);
  if (first.failure.empty() && first.status == 404) return {};
  const std::string where =
      "the instance's metadata service, the last place to look for them (others: "
      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE),";
  const std::string token = answer_of(first, where);
  const std::string roles = "/latest/meta-data/iam/security-credentials/";
  request = {.url = server.origin() + roles,
             .headers = {{"x-aws-ec2-metadata-token", token}},
             .deadlines = deadlines,
             .is_direct = true};
  const HttpResponse listed = ask(context, request);
  if (listed.failure.empty() && listed.status == 404) return {};  // The instance has no role.
  const std::string role = answer_of(listed, where);
  request.url += percent_encoded(role.substr(0, role.find('\n')));
  return credentials_of(answer_of(ask(context, request), where), where, "Token");
}

std::vector<std::string> split_command(const std::string& command) {
  std::vector<std::string> arguments;
  bool is_begun = false;
  char quote = '\0';
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (quote == '\0' && (c == ' ' || c == '\t')) {
      is_begun = false;
      continue;
    }
    if (!is_begun) arguments.emplace_back();
    is_begun = true;
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      arguments.back() += command[++i];
    } else {
      arguments.back() += c;
    }
  }
  return arguments;
}

Credentials fetch_process(const std::string& command) {
  const std::vector<std::string> arguments = split_command(command);
  if (arguments.empty()) throw UsageError("the profile's credential_process is empty");
  const std::string where = "the profile's credential_process (" + arguments.front() + ")";
  Gathered output;
  PipeThrough program(arguments, output, ProgramLimits::of_answer());
  std::string complaint;
  try {
    complaint = program.finish();
  } catch (StorageError& e) {
    e.add_context("keys for S3 from " + where + " could not be fetched");
    throw;
  }
  // The program's messages may contain secrets that it was given.
  if (!complaint.empty()) refuse_fetch(where, "it failed");
  return credentials_of(output.text(), where, "SessionToken");
}

}  // namespace cairn::s3
