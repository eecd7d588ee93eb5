// Messages to Slack.
#pragma once

#include <functional>
#include <string>

namespace cairn::slack {

struct Address {
  std::string url;
  std::string token = {};  // empty: `url` is a webhook, and itself a secret
};

// Returns a function that sends one message, a JSON object. It throws StorageError, retryable() if
// the same message may arrive later. No message of an error contains the URL or the token. Throws
// UsageError for an invalid URL, and UnsupportedError without network stores.
std::function<void(const std::string& message)> sender(const Address& address);

}  // namespace cairn::slack
