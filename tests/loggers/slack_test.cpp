// SlackLogger, with a server that checks what Slack's documents say.

#include <gmock/gmock.h>

#include <atomic>

#include "cairn/error.h"
#include "cairn/loggers/slack_logger.h"
#include "cairn/train/state.h"
#include "cairn/train/trainer.h"

#include "core/text/json.h"
#include "io/file.h"
#include "testing/environment_variable.h"
#include "testing/http_server.h"
#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::HttpServer;
using ::testing::IsEmpty;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using testing::ReceivedRequest;
using testing::TempFolder;

struct SlackTest : ::testing::Test {
  HttpReply answer(const ReceivedRequest& asked) {
    const std::scoped_lock lock(mutex);
    const Json body = Json::parse(asked.body, nullptr, /*allow_exceptions=*/false);
    if (asked.method != "POST" || !asked.header("content-type").starts_with("application/json") ||
        !body.is_object() || !body.contains("blocks") || body["blocks"].size() > 50) {
      return {.status = 400, .body = "invalid_payload"};
    }
    if (asked.path() == "/hook/secret" && is_refusing) {
      return {.status = 400, .body = R"({"message": "no hook at /hook/secret"})"};
    }
    if (asked.path() == "/hook/secret") {
      bodies.push_back(body);
      return {.body = "ok"};
    }
    if (asked.header("authorization") != "Bearer xoxb-canary") {
      return {.body = R"({"ok": false, "error": "invalid_auth"})"};
    }
    if (body.value("channel", "") != "C1") {
      return {.body = R"({"ok": false, "error": "channel_not_found"})"};
    }
    bodies.push_back(body);
    return {.body = R"({"ok": true})"};
  }
  SlackLoggerOptions options() const {
    return {.include_keys = {"loss/.*", "metrics"},
            .webhook_url = server.url() + "/hook/secret",
            .spool_folder = folder / "spool",
            .upload_timeout = std::chrono::seconds(60)};
  }
  // The texts of each message's blocks.
  std::vector<std::vector<std::string>> texts() {
    const std::scoped_lock lock(mutex);
    std::vector<std::vector<std::string>> all;
    for (const Json& body : bodies) {
      auto& made = all.emplace_back();
      for (const Json& block : body["blocks"])
        made.push_back(block["text"]["text"]);
    }
    return all;
  }
  void log_and_close(SlackLogger logger) {
    State state;
    Logger log(state);
    log.add(recorder);
    logger.init(state, log);
    logger.log_metrics(Dict{{"loss/a", 0.5}, {"my/loss/b", 1.0}, {"metrics/x", 2}}, 1);
    logger.close(state, log);
  }

  testing::EnvironmentVariable webhook{"SLACK_WEBHOOK_URL", nullptr};
  testing::EnvironmentVariable key{"SLACK_LOGGING_API_KEY", nullptr};
  testing::EnvironmentVariable channel{"SLACK_LOGGING_CHANNEL_ID", nullptr};
  TempFolder folder;
  std::mutex mutex;
  std::vector<Json> bodies;
  std::atomic<bool> is_refusing = false;  // with an answer that repeats the address
  std::shared_ptr<LogRecorder> recorder = std::make_shared<LogRecorder>();
  HttpServer server{[this](const ReceivedRequest& asked) { return answer(asked); }};
};

TEST_F(SlackTest, AWebhookGetsTheNamesThatWereChosen) {
  log_and_close(SlackLogger(options()));
  EXPECT_THAT(texts(), ElementsAre(ElementsAre("*loss/a:* 0.5000", "*metrics/x:* 2")));
  EXPECT_EQ(bodies.at(0)["text"], "Logged 2 items to Slack");
  EXPECT_FALSE(bodies.at(0).contains("channel"));
}

TEST_F(SlackTest, AChannelNeedsTheToken) {
  SlackLoggerOptions made = options();
  made.webhook_url = std::nullopt;
  made.slack_logging_api_key = "xoxb-canary";
  made.channel_id = "C1";
  made.api_url = server.url() + "/api/chat.postMessage";
  log_and_close(SlackLogger(made));
  EXPECT_EQ(texts().size(), 1U);
  made.channel_id = "C2";
  log_and_close(SlackLogger(made));
  EXPECT_EQ(texts().size(), 1U);
  EXPECT_THAT(recorder->messages,
              Contains(AllOf(HasSubstr("1 were refused"), HasSubstr("channel_not_found"))));
}

TEST_F(SlackTest, ARunSendsTheLastValuesOfEachInterval) {
  SlackLoggerOptions made = options();
  made.log_interval = "2ba";
  TrainerOptions training = testing::tiny_options();
  training.max_duration = "5ba";
  training.loggers = SlackLogger(made);
  Trainer trainer(std::move(training));
  trainer.fit();
  trainer.close();
  // After batches 1, 2 and 4, and at the end.
  EXPECT_EQ(texts().size(), 4U);
}

TEST_F(SlackTest, LongMessagesAreCutAndFormatsAreYours) {
  SlackLoggerOptions made = options();
  made.max_logs_per_message = 1;
  made.formatter_func = [](const Dict& entries) {
    return List{Dict{{"text", Dict{{"text", std::to_string(entries.size())}}}}};
  };
  log_and_close(SlackLogger(made));
  EXPECT_THAT(texts(), ElementsAre(ElementsAre("1"), ElementsAre("1")));
}

TEST_F(SlackTest, AnAnswerWithTheWebhookIsShownWithoutIt) {
  is_refusing = true;
  log_and_close(SlackLogger(options()));
  ASSERT_THAT(recorder->messages, ::testing::SizeIs(1));
  EXPECT_THAT(recorder->messages[0], AllOf(HasSubstr("1 were refused"),
                                           HasSubstr("Slack's webhook"), Not(HasSubstr("secret"))));
}

TEST_F(SlackTest, NoErrorShowsTheWebhook) {
  SlackLoggerOptions made = options();
  {
    const HttpServer gone([](const ReceivedRequest&) { return HttpReply(); });
    made.webhook_url = gone.url() + "/hook/secret";
  }
  made.upload_timeout = std::chrono::seconds(0);
  log_and_close(SlackLogger(made));
  ASSERT_THAT(recorder->messages, ::testing::SizeIs(1));
  EXPECT_THAT(recorder->messages[0],
              AllOf(HasSubstr("1 entries wait in"), Not(HasSubstr("secret"))));
  log_and_close(SlackLogger(options()));  // the next start
  EXPECT_EQ(texts().size(), 2U);
}

TEST_F(SlackTest, WrongOptionsAreRefused) {
  EXPECT_THROW(SlackLogger({.log_interval = "3sp"}), UsageError);
  EXPECT_THROW(SlackLogger({.max_logs_per_message = 0}), UsageError);
  EXPECT_THROW(SlackLogger({.include_keys = {"("}}), UsageError);
  EXPECT_THAT(message_of<UsageError>([&] { log_and_close(SlackLogger({})); }),
              HasSubstr("SLACK_WEBHOOK_URL"));
  SlackLoggerOptions made = options();
  made.webhook_url = "http://example.org/hook/secret";
  EXPECT_THAT(message_of<UsageError>([&] { log_and_close(SlackLogger(made)); }),
              AllOf(HasSubstr("https://"), Not(HasSubstr("secret/"))));
}

}  // namespace
}  // namespace cairn
