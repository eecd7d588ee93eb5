#include "cairn/loggers/slack_logger.h"

#include <algorithm>
#include <regex>
#include <utility>

#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/state.h"

#include "core/environment.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "loggers/spool.h"
#include "storage/trackers/slack/slack.h"
#include "value/plain_json.h"

namespace cairn {
namespace {

constexpr int kMostBlocks = 50;  // of a message of Slack's

List default_blocks(const Dict& entries) {
  List blocks;
  for (const auto& [key, value] : entries) {
    const std::string text = "*" + key.as_str() + ":* " + format_log_value(value);
    blocks.emplace_back(
        Dict{{"type", "section"}, {"text", Dict{{"type", "mrkdwn"}, {"text", text}}}});
  }
  return blocks;
}

std::vector<std::regex> patterns_of(const std::vector<std::string>& keys) {
  std::vector<std::regex> patterns;
  for (const std::string& key : keys) {
    try {
      patterns.emplace_back(key);
    } catch (const std::regex_error& error) {
      throw UsageError("SlackLogger: include_keys has \"" + key +
                       "\", which is no regular expression: " + error.what());
    }
  }
  return patterns;
}

}  // namespace

struct SlackLogger::Impl {
  SlackLoggerOptions options;
  std::vector<std::regex> patterns;
  std::string channel;           // empty: a webhook's
  std::unique_ptr<Spool> spool;  // null before init, and on other ranks
  Dict entries;                  // not sent yet

  bool is_included(const std::string& key) const {
    return patterns.empty() ||
           std::any_of(patterns.begin(), patterns.end(), [&](const std::regex& pattern) {
             return std::regex_search(key, pattern, std::regex_constants::match_continuous);
           });
  }
  void add(const Dict& logged) {
    if (spool == nullptr) return;
    for (const auto& [key, value] : logged) {
      if (is_included(key.as_str())) entries.set(key, value);
    }
    if (entries.size() >= static_cast<std::size_t>(options.max_logs_per_message)) flush();
  }
  void flush() {
    Dict part;
    const Dict all = std::exchange(entries, {});
    for (const auto& [key, value] : all) {
      part.set(key, value);
      if (part.size() == static_cast<std::size_t>(options.max_logs_per_message)) {
        send(std::exchange(part, {}));
      }
    }
    if (!part.empty()) send(part);
  }
  void send(const Dict& part) {
    const List blocks =
        options.formatter_func ? options.formatter_func(part) : default_blocks(part);
    Json message = {{"blocks", plain_json(blocks)},
                    {"text", "Logged " + std::to_string(part.size()) + " items to Slack"}};
    if (!channel.empty()) message["channel"] = channel;
    spool->add(json_text(message, -1));
  }
  void flush_if_due(TimeUnit unit, std::int64_t count) {
    const Time* interval = options.log_interval.time();
    if (spool == nullptr || interval->unit() != unit) return;
    if (count % interval->value() == 0 || count == 1) flush();
  }
};

SlackLogger::SlackLogger(SlackLoggerOptions options) : impl_(std::make_unique<Impl>()) {
  const Time* interval = options.log_interval.time();
  const bool is_right =
      interval != nullptr && interval->value() > 0 &&
      (interval->unit() == TimeUnit::kEpoch || interval->unit() == TimeUnit::kBatch);
  if (!is_right) throw UsageError("SlackLogger: log_interval is in epochs or batches, as \"10ba\"");
  if (options.max_logs_per_message < 1) {
    throw UsageError("SlackLogger: max_logs_per_message is at least 1, not " +
                     std::to_string(options.max_logs_per_message));
  }
  options.max_logs_per_message = std::min(options.max_logs_per_message, kMostBlocks);
  impl_->patterns = patterns_of(options.include_keys);
  impl_->options = std::move(options);
}
SlackLogger::~SlackLogger() = default;
SlackLogger::SlackLogger(SlackLogger&&) noexcept = default;
SlackLogger& SlackLogger::operator=(SlackLogger&&) noexcept = default;

void SlackLogger::init(State& state, Logger& /*logger*/) {
  if (dist::rank() != 0) return;
  const SlackLoggerOptions& options = impl_->options;
  const std::string webhook =
      first_given({options.webhook_url.value_or(""), environment("SLACK_WEBHOOK_URL")});
  const std::string token = first_given(
      {options.slack_logging_api_key.value_or(""), environment("SLACK_LOGGING_API_KEY")});
  impl_->channel =
      first_given({options.channel_id.value_or(""), environment("SLACK_LOGGING_CHANNEL_ID")});
  const bool has_channel = !token.empty() && !impl_->channel.empty();
  if (webhook.empty() && !has_channel) {
    throw UsageError(
        "SlackLogger has no address: set SLACK_WEBHOOK_URL, or SLACK_LOGGING_API_KEY "
        "and SLACK_LOGGING_CHANNEL_ID");
  }
  if (!webhook.empty()) impl_->channel.clear();
  const auto send = slack::sender(webhook.empty() ? slack::Address{options.api_url, token}
                                                  : slack::Address{webhook});
  impl_->spool = std::make_unique<Spool>(SpoolOptions{
      .folder = strict_format(NameFormat(options.spool_folder), dist_variables(state.run_name)),
      .send = send});
}

void SlackLogger::log_metrics(const Dict& metrics, std::int64_t /*step*/) { impl_->add(metrics); }
void SlackLogger::log_hyperparameters(const Dict& hyperparameters) { impl_->add(hyperparameters); }
void SlackLogger::log_traces(const Dict& traces) { impl_->add(traces); }

void SlackLogger::batch_end(State& state, Logger& logger) {
  if (impl_->spool == nullptr) return;
  log_warning(*impl_->spool, "SlackLogger", logger);
  impl_->flush_if_due(TimeUnit::kBatch, state.timestamp.batch);
}

void SlackLogger::epoch_end(State& state, Logger& /*logger*/) {
  impl_->flush_if_due(TimeUnit::kEpoch, state.timestamp.epoch);
}

void SlackLogger::close(State& /*state*/, Logger& logger) {
  if (impl_->spool == nullptr) return;
  impl_->flush();
  finish(*impl_->spool, impl_->options.upload_timeout, "SlackLogger", logger);
  impl_->spool.reset();
}

}  // namespace cairn
