// What all servers share: opening an object while others replace it, lists that do not match the
// request, and secrets that errors must not contain.
#include "storage/remote/remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3_fixture.h"
#include "storage/listing.h"
#include "storage/pages.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "trackers_fixture.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HttpReply;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

// --- Opening -------------------------------------------------------------------------------------

const std::string kReplaced = "Volumes/main/runs/ckpt/latest";
constexpr const char* kReads = "GET /api/2.0/fs/files";

TEST(OpenObjectTest, WhatIsReplacedMeanwhileIsOpenedAgain) {
  TrackersServed served;
  const auto store = served.store();
  served.fake.put_file(kReplaced, "bytes");
  served.fake.answer_next(kReads, {.status = 412});
  EXPECT_EQ(read_text(*store, kReplaced), "bytes");
  served.fake.answer_next(kReads, {.status = 412}, 100);
  try {
    store->open(kReplaced);
    FAIL();
  } catch (const StorageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("was replaced while it was opened"));
    EXPECT_TRUE(e.retryable());
  }
}

// This can happen in volumes: their versions are whole seconds.
TEST(OpenObjectTest, TheTailOfOneThatGrewIsNotTakenForItsEnd) {
  TrackersServed served;
  const auto store = served.store();
  const std::string bytes = testing::pattern((256 << 10) + 100);
  served.fake.put_file(kReplaced, bytes);
  const HttpReply grown = {.status = 206,
                           .headers = {{"Content-Range", "bytes 100-262243/262344"},
                                       {"Last-Modified", "Fri, 24 May 2013 00:00:00 GMT"}},
                           .body = bytes.substr(100)};
  served.fake.answer_next(kReads, grown);
  EXPECT_TRUE(read_text(*store, kReplaced) == bytes);
}

TEST(OpenObjectTest, ARangeThatIsRefusedIsNoEmptyFile) {
  S3Served served;
  const auto store = served.store();
  served.fake.put_object("bucket/a", "bytes");
  served.fake.answer_next("GET /bucket/a", {.status = 416});
  EXPECT_EQ(read_text(*store, "a"), "bytes");
  served.fake.answer_next("GET /bucket/a", {.status = 416}, 100);
  EXPECT_THAT(message_of<StorageError>([&] { store->open("a"); }),
              HasSubstr("answered 416 to a range"));
}

TEST(OpenObjectTest, AnEmptyFileThatIsSaidToBeOneCostsNoMore) {
  S3Served served;
  const auto store = served.store();
  const HttpReply empty = {.status = 416, .headers = {{"Content-Range", "bytes */0"}}};
  served.fake.answer_next("GET /bucket/a", empty);
  EXPECT_EQ(store->open("a")->size(), 0U);
  EXPECT_EQ(served.fake.log().size(), 1U);
}

// --- Lists ---------------------------------------------------------------------------------------

HttpReply list_reply(const std::string& inside) {
  return {.body = "<ListBucketResult>" + inside + "</ListBucketResult>"};
}

HttpReply page_before(const std::string& next) {
  return list_reply(
      "<Contents><Key>run/a</Key><Size>1</Size></Contents>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>" +
      next + "</NextContinuationToken>");
}

class RemoteListTest : public ::testing::Test {
 protected:
  RemoteListTest() : store_(served_.store()) {
    served_.fake.put_object("bucket/run/a", "x");
    served_.fake.put_object("bucket/other", "x");
  }
  void lead_in_circles() {
    for (const char* next : {"A", "B", "A", "B", "A", "B"})
      served_.fake.answer_next("GET /bucket?", page_before(next));
  }

  S3Served served_;
  std::shared_ptr<ObjectStore> store_;
};

TEST_F(RemoteListTest, WhatIsNotBelowAFolderIsNotRemovedWithIt) {
  served_.fake.answer_next("GET /bucket?",
                           list_reply("<IsTruncated>false</IsTruncated>"
                                      "<Contents><Key>other</Key><Size>1</Size></Contents>"
                                      "<Contents><Key>run/a</Key><Size>1</Size></Contents>"));
  EXPECT_THAT(message_of<StorageError>([&] { store_->remove_folder("run"); }),
              AllOf(HasSubstr("s3://bucket/run/"), HasSubstr("\"other\"")));
  EXPECT_EQ(served_.fake.objects().size(), 2U);
}

TEST_F(RemoteListTest, AFolderThatIsNotBelowIsRefused) {
  for (const char* prefix : {"r/", "other/", "run/", "run/b"}) {
    served_.fake.answer_next("GET /bucket?",
                             list_reply("<IsTruncated>false</IsTruncated>"
                                        "<CommonPrefixes><Prefix>" +
                                        std::string(prefix) + "</Prefix></CommonPrefixes>"));
    EXPECT_THAT(message_of<StorageError>([&] { list_names(*store_, "run"); }),
                HasSubstr("not below the requested prefix"))
        << prefix;
  }
}

TEST_F(RemoteListTest, PagesThatLeadInCirclesEnd) {
  lead_in_circles();
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store_, "run"); }),
              AllOf(HasSubstr("s3://bucket/run"), HasSubstr("the same page again")));
  served_.fake.forget_plans();
  lead_in_circles();
  EXPECT_THAT(message_of<StorageError>([&] { store_->remove_folder("run"); }),
              HasSubstr("the same page again"));
  EXPECT_EQ(served_.fake.objects().size(), 2U);
}

// Each page has its own token.
TEST_F(RemoteListTest, PagesOfNothingEnd) {
  for (int i = 0; i < 1100; ++i) {
    served_.fake.answer_next("GET /bucket?",
                             list_reply("<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                                        std::to_string(i) + "</NextContinuationToken>"));
  }
  EXPECT_THAT(message_of<StorageError>([&] { list_names(*store_, "run"); }),
              AllOf(HasSubstr("s3://bucket/run"), HasSubstr("without an end")));
  EXPECT_LE(served_.fake.count("GET /bucket?"), 1001U);
}

TEST(PagesTest, ThereAreNotMoreThanAnyFolderHas) {
  Pages pages("x://folder");
  EXPECT_THAT(message_of<StorageError>([&] {
                for (int i = 0; i < 200'000; ++i)
                  pages.advance(std::to_string(i));
              }),
              AllOf(HasSubstr("x://folder"), HasSubstr("without an end")));
}

// A missing bucket must not look like a missing pointer.
TEST_F(RemoteListTest, ABucketThatIsNotThereIsAnError) {
  S3Options options = served_.options();
  options.bucket = "another";
  const auto store = served_.store(options);
  EXPECT_THAT(message_of<NotFoundError>([&] { store->read_pointer("run/latest"); }),
              HasSubstr("NoSuchBucket"));
}

TEST_F(RemoteListTest, UploadsThatAreNotBelowAreLeftAlone) {
  served_.fake.answer_next("GET /bucket?",
                           {.body = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>"
                                    "<Upload><Key>other.pt</Key><UploadId>1</UploadId>"
                                    "<Initiated>2013-05-24T00:00:00.000Z</Initiated></Upload>"
                                    "</ListMultipartUploadsResult>"});
  EXPECT_THAT(store_->remove_leftovers("run", {}), IsEmpty());
  EXPECT_EQ(served_.fake.count("GET /bucket?"), 1U);
  EXPECT_EQ(served_.fake.count("DELETE"), 0U);
}

// --- What errors must not contain ----------------------------------------------------------------

class RemoteWithErrors final : public Remote {
 public:
  RemoteWithErrors() : Remote({}) {}
  using Remote::keep_secret;

  std::string describe(const std::string& key) const override { return "x://" + key; }
  std::string message_for(const std::string& code, const std::string& message) const {
    return message_of<StorageError>([&] {
      refuse({.status = 403, .headers = {{"code", code}}, .body = message}, "reading", "key");
    });
  }

 protected:
  SignedRequest sign(const RemoteRequest& /*request*/) override { return {}; }
  RemoteError error_in(const HttpResponse& response) const override {
    return {.code = std::string(response.header("code")), .message = response.body};
  }
};

TEST(SecretsTest, OneThatIsCutIsMaskedToo) {
  RemoteWithErrors remote;
  remote.keep_secret({"canary-0123456789"});
  for (const std::size_t before : {280U, 290U, 299U}) {
    const std::string echo = std::string(before, 'x') + "canary-0123456789";
    const std::string text = remote.message_for(echo, echo);
    EXPECT_THAT(text, AllOf(HasSubstr("xxx*"), Not(HasSubstr("xc")))) << before;
  }
}

TEST(SecretsTest, OneOfBeforeIsStillMasked) {
  RemoteWithErrors remote;
  for (const char* secret : {"canary-1", "canary-2", "canary-2"})
    remote.keep_secret({secret});
  EXPECT_THAT(remote.message_for("", "canary-1, canary-2"),
              AllOf(HasSubstr("***, ***"), Not(HasSubstr("canary"))));
  remote.keep_secret({"*"});  // occurs in its own mask
  EXPECT_THAT(remote.message_for("", "a*b"), HasSubstr("a***"));
}

}  // namespace
}  // namespace cairn
