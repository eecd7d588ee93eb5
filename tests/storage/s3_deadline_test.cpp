// Giving up takes only seconds if a server does not answer, or never does what a request asks for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cairn/error.h"
#include "cairn/storage/s3.h"

#include "io/bytes/source_part.h"
#include "io/threads/cancellation.h"
#include "storage/publish/upload_queue.h"
#include "storage/s3/config.h"
#include "testing/environment_variable.h"
#include "testing/http_server.h"
#include "testing/message_of.h"
#include "testing/s3_environment.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::HttpServer;
using testing::message_of;
using testing::ReceivedRequest;

constexpr auto kLong = std::chrono::hours(24);  // stalls and pauses would take days

// Begins uploads. A request whose line contains `held` is never answered, or always with the given
// status.
class StubbornServer {
 public:
  explicit StubbornServer(std::string held, int status = 0)
      : held_(std::move(held)), status_(status) {}
  ~StubbornServer() { end_.set_value(); }
  StubbornServer(const StubbornServer&) = delete;
  StubbornServer& operator=(const StubbornServer&) = delete;

  std::shared_ptr<ObjectStore> store() const {
    testing::CleanAwsEnvironment environment;
    S3Options options = {.bucket = "bucket",
                         .endpoint_url = server_.url(),
                         .part_bytes = 5 << 20,
                         .parallel_requests = 2};
    if (config_file_.empty()) {
      options.access_key_id = "AKIDFAKE";
      options.secret_access_key = "secret";
    } else {
      environment.set("AWS_CONFIG_FILE", config_file_.c_str());
    }
    s3::Config config = s3::resolve_config(options);
    config.settings.retries.policy = {.attempts = 9, .first_pause = kLong, .longest_pause = kLong};
    config.settings.deadlines.stall = kLong;
    return s3::make_s3_store(std::move(config));
  }
  void take_keys_of(std::string config_file) { config_file_ = std::move(config_file); }
  void wait_for_held() {
    arrived_.get_future().wait();
    if (when_held) when_held();
  }
  // Called when a request is held, or when the writer has ended.
  void arrive() {
    if (!has_arrived_.exchange(true)) arrived_.set_value();
  }
  int aborts() const { return aborts_; }

  std::function<void()> when_held = nullptr;

 private:
  HttpReply answer(const ReceivedRequest& asked) {
    if (asked.method == "DELETE") ++aborts_;
    const std::string line = asked.method + " " + asked.target;
    if (line.find(held_) != std::string::npos) {
      arrive();
      if (status_ != 0) return {.status = status_};
      ended_.wait();
    }
    if (asked.method == "HEAD") return {.status = 404};
    if (asked.method == "GET") return {.body = "<ListBucketResult></ListBucketResult>"};
    return {.body =
                "<InitiateMultipartUploadResult><UploadId>1</UploadId>"
                "</InitiateMultipartUploadResult>"};
  }

  std::string config_file_;
  const std::string held_;
  const int status_;
  std::atomic<int> aborts_ = 0;
  std::atomic<bool> has_arrived_ = false;
  std::promise<void> arrived_;
  std::promise<void> end_;
  const std::shared_future<void> ended_ = end_.get_future().share();
  HttpServer server_{[this](const ReceivedRequest& asked) { return answer(asked); }};
};

// Writes three parts until it is cancelled. Returns how long the writer then took to end.
std::chrono::duration<double> time_to_give_up(StubbornServer& server) {
  Cancellation cancellation("the time is over");
  const auto store = server.store();
  auto written = std::async(std::launch::async, [&] {
    const CancelScope scope(&cancellation);
    const std::string bytes(16 << 20, 'x');
    std::string said = message_of<std::exception>([&] {
      const auto object = store->begin("name");
      object->write(as_bytes(bytes));
      object->commit();
    });
    server.arrive();
    return said;
  });
  server.wait_for_held();
  const auto begin = std::chrono::steady_clock::now();
  cancellation.cancel();
  EXPECT_THAT(written.get(), HasSubstr("the time is over"));
  return std::chrono::steady_clock::now() - begin;
}

constexpr double kAFewSeconds = 20;  // on a slow machine; without an end it would be days

TEST(S3DeadlineTest, ARequestThatIsNotAnsweredEnds) {
  StubbornServer server("partNumber=");
  EXPECT_LT(time_to_give_up(server).count(), kAFewSeconds);
  EXPECT_EQ(server.aborts(), 1);
}

TEST(S3DeadlineTest, APauseBetweenAttemptsEnds) {
  StubbornServer server("partNumber=", 503);
  EXPECT_LT(time_to_give_up(server).count(), kAFewSeconds);
  EXPECT_EQ(server.aborts(), 1);
}

TEST(S3DeadlineTest, TheAbortIsTriedOnce) {
  StubbornServer silent("uploadId=");  // neither parts nor the abort are answered
  EXPECT_LT(time_to_give_up(silent).count(), kAFewSeconds);
  EXPECT_EQ(silent.aborts(), 1);
  StubbornServer busy("uploadId=", 503);
  EXPECT_LT(time_to_give_up(busy).count(), kAFewSeconds);
  EXPECT_EQ(busy.aborts(), 1);
}

// The keys have expired meanwhile, and the program that gives new ones never answers.
TEST(S3DeadlineTest, TheAbortWaitsForNoKeys) {
  const testing::TempFolder folder;
  const testing::EnvironmentVariable patience("CAIRN_PROGRAM_TIMEOUT", "86400");
  testing::write_file(folder / "keys", R"({"Version": 1, "AccessKeyId": "AKIDFAKE", )"
                                       R"("SecretAccessKey": "secret", "SessionToken": "token", )"
                                       R"("Expiration": "2001-01-01T00:00:00Z"})");
  testing::write_file(folder / "config", "[default]\ncredential_process = sh -c \"test -e '" +
                                             folder.path() + "/hangs' && sleep 86400; cat '" +
                                             folder.path() + "/keys'\"\n");
  StubbornServer server("partNumber=");
  server.take_keys_of(folder / "config");
  server.when_held = [&] { testing::write_file(folder / "hangs", ""); };
  EXPECT_LT(time_to_give_up(server).count(), kAFewSeconds);
  EXPECT_EQ(server.aborts(), 0);
}

TEST(S3DeadlineTest, AQueueEndsAtItsDeadline) {
  StubbornServer server("PUT");
  UploadQueue queue(server.store(), {});
  const auto text = std::make_shared<const std::string>("text");
  queue.submit({.name = "name", .file = source_of({as_bytes(*text), text}, "a file")});
  server.wait_for_held();
  EXPECT_THAT(queue.stop(UploadQueue::Clock::now()), ElementsAre("name"));
}

}  // namespace
}  // namespace cairn
