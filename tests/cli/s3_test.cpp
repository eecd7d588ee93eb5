// The tool takes s3:// wherever it takes a path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "cairn/checkpoint/checkpoint.h"

#include "cli/runs/run_log.h"
#include "cli/serve/run_pages.h"
#include "eventful_clock.h"
#include "io/file.h"
#include "run_tool.h"
#include "storage/place.h"
#include "storage/remote/source.h"
#include "testing/fake_s3.h"
#include "testing/s3_environment.h"
#include "testing/sample_checkpoint.h"

namespace cairn::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kRunFolder = "s3://bucket/run";
constexpr const char* kFirst = "s3://bucket/run/ep0-ba1-rank0.pt";
constexpr const char* kSecond = "s3://bucket/run/ep0-ba2-rank0.pt";

class ToolOnS3Test : public ::testing::Test {
 protected:
  ToolOnS3Test() {
    save(testing::sample_checkpoint(1), kFirst);
    save(testing::sample_checkpoint(2), kSecond);
  }

  testing::FakeS3 fake_;
  testing::S3Environment environment_{fake_};
};

TEST_F(ToolOnS3Test, EveryCommandReadsIt) {
  EXPECT_THAT(run({"ls", kRunFolder}).out,
              AllOf(HasSubstr("ep0-ba1-rank0.pt"), HasSubstr("ep0-ba2")));
  EXPECT_THAT(run({"inspect", kFirst}).out, HasSubstr("a torch.save file"));
  EXPECT_EQ(run({"verify", "--full", kRunFolder}).code, 0);
  EXPECT_EQ(run({"diff", kFirst, kFirst}).code, 0);
  EXPECT_EQ(run({"diff", kFirst, kSecond}).code, 1);
  EXPECT_EQ(run({"dump", kFirst}).code, 0);
}

TEST_F(ToolOnS3Test, ConvertAndPruneWriteToIt) {
  EXPECT_EQ(run({"convert", kFirst, "s3://bucket/copy/a.pt"}).code, 0);
  EXPECT_EQ(testing::batch_of_sample(load("s3://bucket/copy/a.pt")), 1);
  EXPECT_THAT(run({"prune", kRunFolder, "--keep-last", "1"}).out, HasSubstr("ep0-ba"));
}

TEST_F(ToolOnS3Test, ReportReadsARunAndWritesItsPage) {
  const std::string log = std::string(kRunFolder) + "/logs-rank0.jsonl";
  const std::string page = std::string(kRunFolder) + "/report.html";
  const auto store = store_of(log, nullptr);
  const auto file = store->begin(log);
  file->write(as_bytes(R"({"batch":7,"metric":"loss","value":0.5})"
                       "\n"));
  file->commit();
  const Answer answer = run({"report", kRunFolder, "-o", page});
  EXPECT_EQ(answer.code, 0) << answer.err;
  const auto source = store->open(page);
  const SharedBytes bytes = source->view(0, source->size());
  EXPECT_THAT(std::string(as_text(bytes.view)),
              AllOf(HasSubstr(R"("log":"s3://bucket/run/logs-rank0.jsonl")"),
                    HasSubstr(R"("batches":[7])"), HasSubstr("ep0-ba1-rank0.pt"),
                    HasSubstr(R"("path":"s3://bucket/run/ep0-ba2-rank0.pt")")));
}

TEST_F(ToolOnS3Test, ServeAsksOnceInAnInterval) {
  std::string text;
  const auto append = [&](std::int64_t batch) {
    text += "{\"batch\":" + std::to_string(batch) + ",\"metric\":\"loss\",\"value\":0.5}\n";
    fake_.put_object("bucket/run/logs-rank0.jsonl", text);
  };
  append(7);
  Moment now = Moment::now();
  RunPages pages({.place = "s3://bucket", .clock = [&] { return now; }});
  const auto data = [&] { return *pages.answer({.path = "/data.json"}).body; };
  EXPECT_THAT(data(), AllOf(HasSubstr(R"("name":"run")"), HasSubstr(R"("batches":[7])"),
                            HasSubstr(R"("path":"s3://bucket/run/ep0-ba2-rank0.pt")")));
  append(8);
  fake_.forget_log();
  for (int i = 0; i < 20; ++i)
    EXPECT_THAT(data(), HasSubstr(R"("batches":[7])"));
  EXPECT_THAT(fake_.log(), IsEmpty());
  now.steady += std::chrono::seconds(30);
  EXPECT_THAT(data(), HasSubstr(R"("batches":[7,8])"));
  EXPECT_LE(fake_.log().size(), 5U) << ::testing::PrintToString(fake_.log());
}

// The log grows as an object that is replaced, and a look that finds nothing new reads nothing.
TEST_F(ToolOnS3Test, WatchFollowsARunInABucket) {
  const std::string begin =
      R"({"time":"2026-01-31T12:00:00.000Z","batch":0,"event":"fit_start","max_duration":"9ba"})"
      "\n";
  const std::string loss = R"({"batch":5,"metric":"loss","value":0.5})"
                           "\n";
  const std::string end = R"({"time":"2026-01-31T12:01:00.000Z","batch":9,"event":"fit_end"})"
                          "\n";
  const auto put_log = [&](const std::string& text) {
    fake_.put_object("bucket/run/logs-rank0.jsonl", text);
  };
  put_log(begin);
  EventfulPauses pauses;
  pauses.then([&] { fake_.forget_log(); });
  pauses.then([&] {
    EXPECT_LE(fake_.log().size(), 3U) << ::testing::PrintToString(fake_.log());
    put_log(begin + loss);
    fake_.answer_next("GET /bucket?", {.status = 403}, /*times=*/9);
  });
  pauses.then([&] {
    fake_.forget_plans();
    save(testing::sample_checkpoint(3), "s3://bucket/run/ep0-ba3-rank0.pt");
  });
  pauses.then([&] { put_log(begin + loss + end); });
  const Answer answer = run({"watch", kRunFolder});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out,
              AllOf(HasSubstr("batch 0 of 9, newest ep0-ba2-rank0.pt"),
                    HasSubstr("batch 5 of 9, loss 0.5"), HasSubstr("not seen just now: "),
                    HasSubstr("newest ep0-ba3-rank0.pt"), HasSubstr("finished at ")));
  EXPECT_EQ(pauses.left(), 0U);
}

TEST_F(ToolOnS3Test, ALogThatIsWrittenToWhileItIsReadIsReadAgain) {
  const std::string line = "{\"batch\":1,\"metric\":\"loss\",\"value\":1}\n";
  fake_.put_object("bucket/run/logs-rank0.jsonl", line);
  RunLogReader reader(std::string(kRunFolder) + "/logs-rank0.jsonl");
  fake_.answer_next("GET /bucket/run/logs-rank0.jsonl", {.status = 412}, /*times=*/2);
  EXPECT_TRUE(reader.update());
  EXPECT_EQ(reader.log().metrics.at("loss").size(), 1U);
}

TEST_F(ToolOnS3Test, OfALogThatGrewOnlyTheNewLinesAreRead) {
  std::string log;
  const auto add_line = [&] {
    const std::string batch = std::to_string(log.size());
    log += R"({"batch":)" + batch + R"(,"metric":"loss","value":1})" + "\n";
  };
  while (log.size() < 500'000)
    add_line();
  const std::string path = std::string(kRunFolder) + "/logs-rank0.jsonl";
  std::atomic<std::size_t> read = 0;
  fake_.watch([&](const testing::ReceivedRequest& asked, const testing::HttpReply& reply) {
    if (asked.method == "GET" && asked.path().ends_with(".jsonl")) read += reply.body.size();
  });
  RunLogReader reader(path);
  fake_.put_object("bucket/run/logs-rank0.jsonl", log);
  EXPECT_TRUE(reader.update());
  EXPECT_GE(read, log.size());
  add_line();
  fake_.put_object("bucket/run/logs-rank0.jsonl", log);
  read = 0;
  EXPECT_TRUE(reader.update());
  EXPECT_LE(read, kTailRead + 5000);  // opening an object brings its end
  EXPECT_EQ(reader.log().passed_over, 0U);
  fake_.watch(nullptr);
}

TEST_F(ToolOnS3Test, AHeaderIsTwoRequests) {
  fake_.forget_log();
  EXPECT_EQ(run({"inspect", kFirst}).code, 0);
  EXPECT_LE(fake_.log().size(), 3U) << ::testing::PrintToString(fake_.log());
}

TEST_F(ToolOnS3Test, WhatIsWrongIsSaidInOneLine) {
  environment_.set("AWS_SECRET_ACCESS_KEY", "canary-wrong");
  const Answer answer = run({"ls", kRunFolder});
  EXPECT_NE(answer.code, 0);
  EXPECT_THAT(answer.err, AllOf(HasSubstr("SignatureDoesNotMatch"), HasSubstr("s3://bucket/run"),
                                Not(HasSubstr("canary"))));
}

}  // namespace
}  // namespace cairn::cli
