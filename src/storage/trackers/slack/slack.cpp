#include "storage/trackers/slack/slack.h"

#include <memory>

#include "cairn/error.h"

#include "core/text/json.h"
#include "core/text/printable.h"
#include "storage/remote/config.h"
#include "storage/trackers/rest/rest.h"

namespace cairn::slack {
namespace {

constexpr std::size_t kLongestError = 100;

// The path of a webhook is a secret: no message has it, also if the server's answer does.
class WebhookRemote final : public RestRemote {
 public:
  explicit WebhookRemote(const RestServer& server) : RestRemote(server, "", "Slack's webhook") {
    keep_secret({server.url.path});
  }
};

// The address of a message is the server's whole URL: its one endpoint has no key. A webhook is
// called "Slack's webhook" in messages, since its URL is a secret.
std::shared_ptr<RestRemote> remote_of(const Address& address) {
  const bool is_webhook = address.token.empty();
  const Url url = parse_http_url(address.url, is_webhook ? "SLACK_WEBHOOK_URL" : "api_url");
  if (url.scheme != "https" && !is_of_this_machine(url.host)) {
    throw UsageError(std::string(is_webhook ? "SLACK_WEBHOOK_URL" : "api_url") +
                     " must begin with https://: a secret would cross the network in the clear");
  }
  const RestServer server = {
      .url = url,
      .authorization = fixed_authorization(is_webhook ? "" : bearer(address.token)),
      .keys = is_webhook ? "SLACK_WEBHOOK_URL" : "SLACK_LOGGING_API_KEY",
      .settings = remote_settings()};
  if (is_webhook) return std::make_shared<WebhookRemote>(server);
  return std::make_shared<RestRemote>(server, "", "Slack's chat.postMessage");
}

// The API answers 200 for errors, too: {"ok": false, "error": "channel_not_found"}.
void check_answer(const Json& answer) {
  if (flag_of(answer, "ok")) return;
  const std::string error = text_of(answer, "error");
  const bool may_pass = error == "ratelimited" || error == "internal_error" ||
                        error == "fatal_error" || error == "service_unavailable" ||
                        error == "request_timeout";
  throw StorageError("Slack refused a message: " + printable_line(error.substr(0, kLongestError)) +
                         "; check SLACK_LOGGING_API_KEY and SLACK_LOGGING_CHANNEL_ID",
                     200, may_pass);
}

}  // namespace

std::function<void(const std::string& message)> sender(const Address& address) {
  const std::shared_ptr<RestRemote> remote = remote_of(address);
  const bool is_webhook = address.token.empty();
  return [remote, is_webhook](const std::string& message) {
    const RemoteRequest request = {.method = "POST",
                                   .headers = {{"content-type", "application/json; charset=utf-8"}},
                                   .body = {shared_text(message)}};
    if (is_webhook) {
      remote->check(remote->send(request), "sending a message to", "");
    } else {
      check_answer(remote->ask(request, "sending a message to"));
    }
  };
}

}  // namespace cairn::slack
