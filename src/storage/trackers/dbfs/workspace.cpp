#include "storage/trackers/dbfs/workspace.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/environment.h"
#include "core/text/printable.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/compat/sections.h"
#include "storage/remote/key_server.h"

namespace cairn::dbfs {
namespace {

constexpr std::size_t kLongestCode = 300;
constexpr std::uint64_t kTokenLife = 3600;  // in seconds, if the server does not state it
constexpr std::uint64_t kLongestTokenLife = 86'400;

std::string in_section(const Section& section, const char* name) {
  const auto found = section.find(name);
  return found == section.end() ? "" : found->second;
}

// The settings of the profile. Empty if there is no such file, or the file has no DEFAULT.
Section load_section(const std::string& given) {
  const std::string name = first_given({given, environment("DATABRICKS_CONFIG_PROFILE")});
  std::string path = environment("DATABRICKS_CONFIG_FILE");
  const std::string home = environment("HOME");
  if (path.empty() && !home.empty()) path = join_path(home, ".databrickscfg");
  if (path.starts_with("~/")) path = join_path(home, path.substr(2));
  Sections sections;
  try {
    if (!path.empty()) sections = read_sections(path);
  } catch (const NotFoundError&) {
    if (!name.empty()) throw;
  }
  const auto found = sections.find(name.empty() ? "DEFAULT" : name);
  if (found != sections.end()) return found->second;
  if (name.empty()) return {};
  throw UsageError(path + " has no profile \"" + name + "\": check DATABRICKS_CONFIG_PROFILE");
}

Url workspace_url(const std::string& host) {
  const bool has_scheme = host.find("://") != std::string::npos;
  Url url = parse_http_url(has_scheme ? host : "https://" + host, "DATABRICKS_HOST");
  if (url.scheme != "https" && !is_of_this_machine(url.host)) {
    throw UsageError(
        "DATABRICKS_HOST must begin with https://: a token would cross the network "
        "in the clear");
  }
  url.path.clear();  // People copy the URL from their browser.
  return url;
}

// OAuth for machines: exchanges the service principal's secret for a token.
FetchedToken fetch_token(const RestServer& server, const std::string& id,
                         const std::string& secret) {
  const std::string where = "a token of " + server.url.origin() + "/oidc/v1/token";
  const HttpRequest request = {.method = "POST",
                               .url = server.url.origin() + "/oidc/v1/token",
                               .headers = {{"authorization", basic(id, secret)},
                                           {"content-type", "application/x-www-form-urlencoded"}},
                               .body = {shared_text(query_text(
                                   {{"grant_type", "client_credentials"}, {"scope", "all-apis"}}))},
                               .deadlines = server.settings.deadlines,
                               .ca_file = server.settings.ca_file};
  const HttpResponse response =
      ask_for_keys(*server.settings.client, server.settings.retries, request);
  const NetTime now = server.settings.retries.clock ? server.settings.retries.clock->now()
                                                    : real_net_clock()->now();
  if (!response.failure.empty()) {
    throw StorageError(where + " could not be fetched: " + printable_line(response.failure), 0,
                       true);
  }
  const auto json = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const std::string token = text_of(json, "access_token");
  if (response.status != 200 || token.empty()) {
    const std::vector<std::string> secrets = {secret, basic(id, secret).substr(6)};
    const std::string reason = masked(text_of(json, "error"), secrets).substr(0, kLongestCode);
    throw StorageError(where + " could not be fetched: the server answered " +
                           std::to_string(response.status) + " " + printable_line(reason) +
                           "; check DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET",
                       response.status, is_temporary_status(response.status));
  }
  const std::uint64_t expires_in = number_of(json, "expires_in");
  const std::uint64_t life = expires_in == 0 ? kTokenLife : std::min(expires_in, kLongestTokenLife);
  return {bearer(token), now + std::chrono::seconds(life)};
}

void add_authorization(RestServer& server, const DbfsOptions& options, const Section& section) {
  std::string token = first_given({options.token, environment("DATABRICKS_TOKEN")});
  std::string id = first_given({options.client_id, environment("DATABRICKS_CLIENT_ID")});
  std::string secret =
      first_given({options.client_secret, environment("DATABRICKS_CLIENT_SECRET")});
  if (token.empty() && id.empty() && secret.empty()) {
    token = in_section(section, "token");
    id = in_section(section, "client_id");
    secret = in_section(section, "client_secret");
  }
  const std::string type =
      first_given({environment("DATABRICKS_AUTH_TYPE"), in_section(section, "auth_type")});
  if (!type.empty() && type != "pat" && type != "oauth-m2m") {
    throw UnsupportedError("the Databricks auth_type " + printable_line(type) +
                           " is not supported by cairn, only pat and oauth-m2m; give it a token "
                           "(DATABRICKS_TOKEN)");
  }
  if (!token.empty() && !id.empty() && type.empty()) {
    throw UsageError(
        "Databricks: a token and a client id are given: set DATABRICKS_AUTH_TYPE to "
        "pat or oauth-m2m");
  }
  if (!token.empty() && type != "oauth-m2m") {
    server.keys = "DATABRICKS_TOKEN";
    server.authorization = fixed_authorization(bearer(token));
    return;
  }
  if (id.empty() || secret.empty()) {
    throw UsageError(
        "no credentials for Databricks were found: set DATABRICKS_TOKEN, or "
        "DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET, or name a profile of "
        "~/.databrickscfg that has them (DATABRICKS_CONFIG_PROFILE)");
  }
  server.keys = "DATABRICKS_CLIENT_ID";
  server.authorization =
      fetched_authorization([of = server, id, secret] { return fetch_token(of, id, secret); },
                            server.settings.retries.clock);
}

}  // namespace

RestServer find_workspace(const DbfsOptions& options, const Outside& outside) {
  const std::string given_host = first_given({options.host, environment("DATABRICKS_HOST")});
  const bool is_whole =
      !given_host.empty() && !first_given({options.token, environment("DATABRICKS_TOKEN"),
                                           options.client_id, environment("DATABRICKS_CLIENT_ID")})
                                  .empty();
  // A profile that another program made must not cause an error if nothing in it is needed.
  const Section section =
      is_whole && options.profile.empty() ? Section() : load_section(options.profile);
  const std::string host = first_given({given_host, in_section(section, "host")});
  if (host.empty()) {
    throw UsageError(
        "no Databricks workspace was found: set DATABRICKS_HOST to its URL, or name a "
        "profile of ~/.databrickscfg (DATABRICKS_CONFIG_PROFILE)");
  }
  RestServer server = {.url = workspace_url(host), .settings = remote_settings(outside)};
  add_authorization(server, options, section);
  return server;
}

}  // namespace cairn::dbfs
