// SlackLogger: chosen metrics as messages in a channel of Slack (composer/loggers/slack_logger.py).
//
//   options.loggers = {SlackLogger({.include_keys = {"metrics/eval"}, .log_interval = "1ep"})};
//
// It sends to an incoming webhook (SLACK_WEBHOOK_URL), or with a token to a channel
// (SLACK_LOGGING_API_KEY, SLACK_LOGGING_CHANNEL_ID). A thread of its own sends the messages, and
// training never waits. Messages that Slack cannot take now wait in a folder, and arrive later.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/interval.h"
#include "cairn/train/logger.h"

namespace CAIRN_PUBLIC cairn {

// Composer's arguments in Composer's order, then the options that only cairn has.
struct SlackLoggerOptions {
  // Regular expressions: a name that begins as one of them is logged. Empty: all names.
  std::vector<std::string> include_keys = {};
  // Makes the blocks of a message (Slack's Block Kit) from the values by name: a list of dicts. By
  // default a line "*name:* value" for each.
  std::function<List(const Dict& entries)> formatter_func = nullptr;
  Interval log_interval = "1ba";  // epochs or batches; the first one is logged, too
  int max_logs_per_message = 50;  // Slack takes no more
  std::optional<std::string> slack_logging_api_key = std::nullopt;
  std::optional<std::string> channel_id = std::nullopt;

  // An incoming webhook, in place of a token and a channel.
  std::optional<std::string> webhook_url = std::nullopt;
  // The folder of messages that wait: dist variables. At most 256 MiB; then the oldest is lost.
  std::string spool_folder = "{run_name}/slack";
  // How long close() waits for Slack.
  std::chrono::seconds upload_timeout{10};
  // Where messages with a token go; tests have a server of their own.
  std::string api_url = "https://slack.com/api/chat.postMessage";
};

// Logs on rank 0. Within an interval the last value of a name counts.
class SlackLogger final : public LoggerDestination {
 public:
  // Throws UsageError for other units of log_interval, a wrong regular expression, or a
  // max_logs_per_message below 1.
  explicit SlackLogger(SlackLoggerOptions options = {});
  explicit SlackLogger(EmptyBraces)  // SlackLogger({.include_keys = {"loss"}})
      : SlackLogger(SlackLoggerOptions()) {}
  ~SlackLogger() override;
  SlackLogger(SlackLogger&&) noexcept;
  SlackLogger& operator=(SlackLogger&&) noexcept;

  std::string name() const override { return "SlackLogger"; }
  // Sends nothing yet. Throws UsageError without an address or for an invalid one, and
  // UnsupportedError if cairn was built without network stores.
  void init(State& state, Logger& logger) override;
  void log_metrics(const Dict& metrics, std::int64_t step) override;
  void log_hyperparameters(const Dict& hyperparameters) override;
  void log_traces(const Dict& traces) override;

  void batch_end(State& state, Logger& logger) override;
  void epoch_end(State& state, Logger& logger) override;
  // Waits for Slack, and logs what did not arrive.
  void close(State& state, Logger& logger) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
