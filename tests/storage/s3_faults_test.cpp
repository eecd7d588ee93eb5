// Servers that answer, but not truthfully.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <thread>
#include <utility>

#include "cairn/error.h"

#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/pattern.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeS3;
using testing::FakeS3Options;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::message_of;

HttpReply list_page(const std::string& more) {
  return {.body =
              "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>run/a</Key>"
              "<Size>1</Size></Contents>" +
              more};
}

class S3FaultyListTest : public ::testing::Test {
 protected:
  S3FaultyListTest() : store_(served_.store()) {
    served_.fake.put_object("bucket/run/a", "x");
    served_.fake.put_object("bucket/run/b", "x");
  }
  // Checks each kind of incomplete list. If such a list comes once, it does no harm. If it always
  // comes, it is an error.
  void expect_refused(const HttpReply& reply, const std::string& why) {
    served_.fake.answer_next("GET /bucket?", reply, 1);
    EXPECT_THAT(list_names(*store_, "run"), ElementsAre("a", "b")) << why;
    served_.fake.answer_next("GET /bucket?", reply, 20);
    EXPECT_THAT(message_of<StorageError>([&] { list_names(*store_, "run"); }),
                AllOf(HasSubstr("listing s3://bucket/run/"), HasSubstr(why)));
  }

  S3Served served_;
  std::shared_ptr<ObjectStore> store_;
};

TEST_F(S3FaultyListTest, OneThatBreaksOffIsNotAllThereIs) {
  expect_refused(list_page(""), "broken");
}

TEST_F(S3FaultyListTest, OneThatDoesNotSayHowToGoOnIsNotAllThereIs) {
  expect_refused(list_page("<IsTruncated>true</IsTruncated></ListBucketResult>"),
                 "how to ask for more");
}

TEST_F(S3FaultyListTest, OneThatLeadsToItselfEnds) {
  const HttpReply stuck = list_page(
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
      "</ListBucketResult>");
  served_.fake.answer_next("GET /bucket?", stuck, 20);
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store_, "run"); }),
              HasSubstr("this page as the next page"));
}

// --- What a write leaves -------------------------------------------------------------------------

constexpr std::size_t kSomeParts = 12 << 20;

TEST(S3FaultsTest, AnOldObjectIsNotTakenForWhatWasWritten) {
  S3Served served({.like_ceph = true});
  const auto store = served.store();
  const std::string parts(kSomeParts, 'a');
  write_text(*store, "small", "one");
  write_text(*store, "big", parts);
  store->move_pointer("latest", "ep1.pt");
  const std::string version = store->read_pointer("latest")->version;
  served.keys.keeps_old = true;
  served.fake.change(served.keys);
  const auto expect_seen = [](const auto& use) {
    EXPECT_THAT(message_of<StorageError>(use), HasSubstr("the previous object"));
  };
  expect_seen([&] { write_text(*store, "small", "two"); });
  expect_seen([&] { write_text(*store, "big", std::string(kSomeParts, 'b')); });
  expect_seen([&] { store->move_pointer("latest", "ep2.pt"); });
  expect_seen([&] { store->move_pointer("latest", "ep2.pt", version); });
}

TEST(S3FaultsTest, WhoComesRightBehindIsNoFailure) {
  S3Served served;
  const auto store = served.store();
  const HttpReply his = {
      .headers = {{"ETag", "\"his\""}, {"Content-Length", "3"}, {"x-amz-meta-cairn-write", "his"}}};
  served.fake.answer_next("HEAD /bucket/a", {.status = 404});
  served.fake.answer_next("HEAD /bucket/a", his);
  EXPECT_NO_THROW(write_text(*store, "a", "mine"));
  EXPECT_EQ(served.fake.count("PUT /bucket/a"), 1U) << "it was not written again over his";
}

TEST(S3FaultsTest, AConditionIsNotDroppedForAnotherReason) {
  S3Served served;
  const auto store = served.store();
  const std::string text(kSomeParts, 'a');
  const auto write = [&](const std::string& name) {
    served.fake.forget_log();
    write_text(*store, name, text, WriteCondition::absent());
  };
  const HttpReply invalid = {.status = 400, .body = "<Error><Code>InvalidRequest</Code></Error>"};
  served.fake.answer_next("POST /bucket/a?uploadId", invalid);
  EXPECT_THAT(message_of<StorageError>([&] { write("a"); }), HasSubstr("InvalidRequest"));
  EXPECT_EQ(served.fake.count("POST /bucket/a?uploadId"), 1U);
  EXPECT_EQ(served.fake.last_header("if-none-match", "POST"), "*");
  EXPECT_TRUE(served.fake.objects().empty());

  const HttpReply unknown = {.status = 400,
                             .body =
                                 "<Error><Code>InvalidArgument</Code><ArgumentName>"
                                 "If-None-Match</ArgumentName></Error>"};
  served.fake.answer_next("POST /bucket/a?uploadId", unknown);
  write("a");
  EXPECT_EQ(served.fake.count("POST /bucket/a?uploadId"), 2U);
  write("b");
  EXPECT_EQ(served.fake.count("POST /bucket/b?uploadId"), 1U) << "it was learned";
  EXPECT_EQ(served.fake.last_header("if-none-match", "POST"), "");
  EXPECT_THROW(write("b"), AlreadyExistsError) << "cairn looks itself";
}

TEST(S3FaultsTest, WhetherConditionsOfLargeObjectsHoldIsToldApart) {
  using Conditions = FakeS3Options::Conditions;
  for (const bool is_ceph : {false, true}) {
    for (const auto how : {Conditions::kCheck, Conditions::kIgnore, Conditions::kRefuse}) {
      S3Served served({.upload_conditions = how, .like_ceph = is_ceph});
      const StoreFeatures features = served.store()->features();
      EXPECT_TRUE(features.versioned_writes && features.fenced_pointers);
      EXPECT_EQ(features.fenced_writes, how == Conditions::kCheck);
      EXPECT_TRUE(served.fake.objects().empty()) << "the probe leaves nothing";
      EXPECT_EQ(served.fake.uploads(), 0U);
    }
  }
  S3Served without;
  without.fake.answer_next("POST /bucket", {.status = 501});
  EXPECT_FALSE(without.store()->features().fenced_writes) << "it knows no uploads in parts";
}

TEST(S3FaultsTest, OnlyUploadsThatAreKnownToBeOldAreAborted) {
  S3Served served;
  const auto store = served.store();
  const auto victim = store->begin("run/a");
  const std::string text(kSomeParts, 'a');
  victim->write(as_bytes(text));
  ASSERT_EQ(served.fake.uploads(), 1U);
  for (const char* unknown : {" ", "2020-01-02 03:04:05", "2020-01-02T03:04:05.000"}) {
    served.keys.initiated = unknown;
    served.fake.change(served.keys);
    store->remove_leftovers("run", {});
    EXPECT_EQ(served.fake.uploads(), 1U) << unknown;
  }
  served.keys.initiated = "2020-01-02T03:04:05.000Z";
  served.fake.change(served.keys);
  EXPECT_THAT(store->remove_leftovers("run", {}), ElementsAre("a"));
  EXPECT_EQ(served.fake.uploads(), 0U);
}

// Another program's clean-up may remove an upload. The 404 then does not mean that the object is
// missing.
TEST(S3FaultsTest, AnUploadThatWasRemovedMayBeBegunAgain) {
  S3Served served;
  const auto store = served.store();
  const std::string text(kSomeParts, 'a');
  served.fake.answer_next("PUT /bucket/a?partNumber",
                          {.status = 404, .body = "<Error><Code>NoSuchUpload</Code></Error>"});
  try {
    write_text(*store, "a", text);
    FAIL() << "the part was refused";
  } catch (const StorageError& e) {
    EXPECT_TRUE(e.retryable()) << e.what();
    EXPECT_THAT(e.what(), HasSubstr("the upload was removed"));
  }
  write_text(*store, "a", text);
  EXPECT_TRUE(served.fake.objects()["bucket/a"] == text);
}

// --- What is read --------------------------------------------------------------------------------

std::string numbered_text(std::size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i)
    text += std::to_string(i) + " ";
  return text.substr(0, size);
}

// The answers break off in the middle of bytes from another place. Those bytes must not count as
// the beginning of the range.
TEST(S3FaultsTest, BytesOfAnotherPlaceAreNotTakenForABeginning) {
  S3Served served;
  const auto store = served.store();
  const std::string text = numbered_text(4 << 20);
  write_text(*store, "a", text);
  const auto source = store->open("a");
  HttpReply other = {.headers = {{"Content-Length", std::to_string(text.size())}},
                     .body = text.substr(0, 500'000),
                     .closes = true};
  served.fake.answer_next("GET /bucket/a", other);  // like a server that ignores ranges
  other.status = 206;
  other.headers.emplace_back("Content-Range", "bytes 0-999999/" + std::to_string(text.size()));
  served.fake.answer_next("GET /bucket/a", other);
  std::string into(1'000'000, ' ');
  const ByteSource::Range range{2'000'000, std::as_writable_bytes(std::span(into))};
  source->read({&range, 1});
  EXPECT_TRUE(into == text.substr(2'000'000, 1'000'000));
}

// Some servers ignore the condition of a read, and so do caches in front of other servers.
TEST(S3FaultsTest, WhoIgnoresTheConditionOfAReadIsFoundOut) {
  S3Served served({.checks_reads = false});
  const auto store = served.store();
  const std::string text = numbered_text(1 << 20);
  write_text(*store, "a", text);
  const auto source = store->open("a");
  // The answer that breaks off is of another version: later bytes must not be appended to it.
  std::string into(512 << 10, '\0');
  const HttpReply half = {.status = 206,
                          .headers = {{"Content-Length", std::to_string(into.size())},
                                      {"Content-Range", "bytes 0-524287/1048576"},
                                      {"ETag", "\"another\""}},
                          .body = std::string(1000, 'x'),
                          .closes = true};
  served.fake.answer_next("GET /bucket/a", half);
  const ByteSource::Range range{0, std::as_writable_bytes(std::span(into))};
  source->read({&range, 1});
  EXPECT_TRUE(into == text.substr(0, into.size()));

  write_text(*store, "a", numbered_text(2 << 20));
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 10); }), HasSubstr("was replaced"));
}

TEST(S3FaultsTest, WhoIsTooBusyToCheckAConditionIsAskedAgainLater) {
  FakeS3Options options = {.conditions = FakeS3Options::Conditions::kBusy};
  S3Served served(options);
  const auto store = served.store();
  EXPECT_THAT(message_of<StorageError>([&] { store->features(); }), HasSubstr("SlowDown"));
  EXPECT_TRUE(served.fake.objects().empty());
  options.conditions = FakeS3Options::Conditions::kCheck;
  options.upload_conditions = FakeS3Options::Conditions::kBusy;
  served.fake.change(options);
  EXPECT_THAT(message_of<StorageError>([&] { store->features(); }), HasSubstr("SlowDown"));
  EXPECT_TRUE(served.fake.objects().empty());
  EXPECT_EQ(served.fake.uploads(), 0U);
  options.upload_conditions = FakeS3Options::Conditions::kCheck;
  served.fake.change(options);
  EXPECT_TRUE(store->features().versioned_writes);
  EXPECT_TRUE(store->features().fenced_writes);
  EXPECT_TRUE(served.fake.objects().empty());
}

TEST(S3FaultsTest, WhoMayNotRemoveFindsOutAllTheSame) {
  S3Served served;
  const auto store = served.store();
  served.fake.answer_next("DELETE /bucket/.cairn-probe", {.status = 403}, 100);
  EXPECT_TRUE(store->features().fenced_writes);
  const std::size_t left = served.fake.objects().size();
  EXPECT_TRUE(store->features().fenced_writes);
  write_text(*store, "a", "x", WriteCondition::absent());
  EXPECT_EQ(served.fake.objects().size(), left + 1) << "nothing was tried out once more";
}

// Signs no request until this number of threads wants to sign one.
class MeetingClock final : public NetClock {
 public:
  explicit MeetingClock(std::ptrdiff_t threads) : meeting_(threads) {}
  NetTime now() override {
    thread_local bool has_met = false;
    if (!std::exchange(has_met, true)) meeting_.arrive_and_wait();
    return std::chrono::system_clock::now();
  }
  void sleep_for(std::chrono::milliseconds /*pause*/) override {}

 private:
  std::barrier<> meeting_;
};

TEST(S3FaultsTest, ARegionIsCorrectedForAllThatAreUnderWay) {
  constexpr int kThreads = 6;
  S3Served served({.region = "eu-central-1"});
  served.fake.put_object("bucket/a", "x");
  const testing::CleanAwsEnvironment clean;
  const auto store = s3::make_s3_store(s3::resolve_config(
      served.options(), {.retries = {.clock = std::make_shared<MeetingClock>(kThreads)}}));
  std::array<std::string, kThreads> read;
  std::vector<std::thread> threads;
  for (std::string& text : read) {
    threads.emplace_back([&] {
      try {
        text = read_text(*store, "a");
      } catch (const std::exception& e) {
        text = e.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(read, ::testing::Each("x"));
}

}  // namespace
}  // namespace cairn
