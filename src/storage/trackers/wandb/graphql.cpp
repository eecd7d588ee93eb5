#include "storage/trackers/wandb/graphql.h"

#include <sstream>

#include "cairn/error.h"

#include "core/environment.h"
#include "io/bytes/source_part.h"
#include "io/file.h"

namespace cairn::wandb {
namespace {

constexpr std::uint64_t kLongestNetrc = 1 << 20;

Url server_url(const WandbOptions& options) {
  const std::string text =
      first_given({options.base_url, environment("WANDB_BASE_URL"), "https://api.wandb.ai"});
  Url url = parse_http_url(text, "WANDB_BASE_URL");
  if (url.scheme != "https" && !is_of_this_machine(url.host)) {
    throw UsageError(
        "WANDB_BASE_URL must begin with https://: a key would cross the network in the clear");
  }
  return url;
}

std::string key_of(const WandbOptions& options, const Url& url) {
  const std::string given = first_given({options.api_key, environment("WANDB_API_KEY")});
  if (!given.empty()) return given;
  const std::string home = environment("HOME");
  const std::string path =
      first_given({environment("NETRC"), home.empty() ? "" : join_path(home, ".netrc")});
  std::string found;
  try {
    if (!path.empty()) {
      const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestNetrc);
      found = netrc_password(std::string(as_text(bytes.view)), url.host);
    }
  } catch (const NotFoundError&) {
    // There is no key.
  }
  if (!found.empty()) return found;
  throw UsageError(
      "no key for W&B was found: set WANDB_API_KEY, or let `wandb login` write it to "
      "~/.netrc");
}

[[noreturn]] void refuse_lacking(const std::string& name, const std::string& doing) {
  throw StorageError(doing + " W&B: its answer does not report " + name + "; try it again", 200,
                     /*retryable=*/true);
}

}  // namespace

Json known_object(const Json& in, const char* name, const std::string& doing) {
  const auto found = in.is_object() ? in.find(name) : in.end();
  const bool is_known = found != in.end() && (found->is_object() || found->is_null());
  if (!is_known) refuse_lacking(name, doing);
  return *found;
}

NodePage known_page(const Json& in, const char* name, const std::string& doing) {
  const Json list = known_object(in, name, doing);
  const Json info = known_object(list, "pageInfo", doing);
  const auto edges = list.find("edges");
  const auto goes_on = info.find("hasNextPage");
  const bool is_known =
      edges != list.end() && edges->is_array() && goes_on != info.end() && goes_on->is_boolean();
  if (!is_known) refuse_lacking(name, doing);
  NodePage page;
  for (const Json& edge : *edges)
    page.nodes.push_back(known_object(edge, "node", doing));
  if (!goes_on->get<bool>()) return page;
  page.next = text_of(info, "endCursor");
  if (page.next.empty()) refuse_lacking(std::string(name) + " after this page", doing);
  return page;
}

std::string netrc_password(const std::string& text, const std::string& machine) {
  std::istringstream words(text);
  std::string word;
  bool is_meant = false;
  while (words >> word) {
    if (word == "machine") {
      is_meant = static_cast<bool>(words >> word) && word == machine;
    } else if (word == "default") {
      is_meant = false;
    } else if (word == "password" && words >> word && is_meant) {
      return word;
    }
  }
  return {};
}

RestRemote& GraphQl::api() {
  const std::scoped_lock lock(mutex_);
  if (api_ == nullptr) {
    const Url url = server_url(options_);
    api_ = std::make_unique<RestRemote>(
        RestServer{.url = url,
                   .authorization = fixed_authorization(basic("api", key_of(options_, url))),
                   .keys = "WANDB_API_KEY",
                   .settings = settings_},
        "/", "W&B's ");
  }
  return *api_;
}

Json GraphQl::ask(const char* query, const Json& variables, const char* field,
                  const std::string& doing) {
  const Json answer = api().post("graphql", {{"query", query}, {"variables", variables}}, doing);
  const Json errors = array_of(answer, "errors");
  if (!errors.empty()) {
    throw StorageError(doing + " W&B: " + api().safe_text(text_of(errors.front(), "message")), 200);
  }
  return known_object(known_object(answer, "data", doing), field, doing);
}

}  // namespace cairn::wandb
