#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/oci.h"

#include "oci_fixture.h"
#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeOci;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::message_of;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr std::size_t kThreePartsOfOracles = 12 << 20;

TEST(OciStoreTest, ALargeObjectGoesInPartsAndComesInRanges) {
  OciServed served;
  const auto store = served.store();
  const std::string text = testing::pattern(kThreePartsOfOracles);
  write_text(*store, "run/big.pt", text);
  EXPECT_TRUE(served.fake.objects()["run/big.pt"] == text);
  EXPECT_EQ(served.fake.count("PUT /n/space/b/bucket/u/run%2Fbig.pt"), 3U);
  EXPECT_TRUE(read_text(*store, "run/big.pt") == text);
  EXPECT_EQ(served.fake.uploads(), 0U);
  EXPECT_EQ(served.fake.count("GET /n/ "), 0U);
  EXPECT_EQ(served.fake.count("GET /n/"), served.fake.count("GET /n/space/") + 1U)
      << "the namespace is asked for once";
}

// The fake, like Oracle's server, accepts objects and parts without hashes.
TEST(OciStoreTest, EveryBodyGoesWithItsHashes) {
  OciServed served;
  std::vector<std::string> without;
  served.fake.watch([&](const testing::ReceivedRequest& asked, const HttpReply& /*reply*/) {
    if (asked.method != "PUT") return;
    for (const char* name : {"content-md5", "x-content-sha256"})
      if (asked.header(name).empty()) without.push_back(asked.target);
  });
  write_text(*served.store(), "small", "bytes");
  write_text(*served.store(), "large", testing::pattern(kThreePartsOfOracles));
  EXPECT_THAT(without, ElementsAre());
}

TEST(OciStoreTest, ANamespaceThatIsGivenIsNotAskedFor) {
  OciServed served;
  OciOptions options = served.options();
  options.bucket = "bucket@space";
  write_text(*served.store(options), "a", "x");
  EXPECT_EQ(served.fake.count("GET /n/"), served.fake.count("GET /n/space/"));
  options.bucket = "bucket@another";
  EXPECT_THAT(message_of([&] { served.store(options)->open("a"); }),
              HasSubstr("oci://bucket/a: the server answered 404 NamespaceNotFound"));
}

// The first request of all is for the namespace.
TEST(OciStoreTest, AClockThatIsWrongIsCorrectedFromTheFirstRequestOn) {
  for (const int hours : {-30, 5}) {
    OciServed served;
    served.clock = std::make_shared<testing::FakeNetClock>(std::chrono::hours(hours));
    const auto store = served.store();
    EXPECT_FALSE(store->stat("a"));
    write_text(*store, "a", "x");
    EXPECT_EQ(read_text(*store, "a"), "x");
    EXPECT_EQ(served.fake.count("GET /n/"), served.fake.count("GET /n/space/") + 2U)
        << "asked for twice, with the second time right";
  }
}

// Oracle also answers 404 if access is denied, and for a missing bucket. An existing object must
// not count as missing.
TEST(OciStoreTest, WhoMayNotLookIsToldSo) {
  OciServed served;
  const auto store = served.store();
  write_text(*store, "run/a", "x");
  store->move_pointer("run/latest", "run/a");
  const HttpReply hidden = {.status = 404, .body = R"({"code": "NotAuthorizedOrNotFound"})"};
  const auto refused = [&](const std::string& request, const std::function<void()>& act) {
    served.fake.answer_next(request, hidden, 9);
    EXPECT_THAT(message_of<StorageError>(act), HasSubstr("NotAuthorizedOrNotFound"));
    served.fake.forget_plans();
  };
  refused("GET /n/space/b/bucket/o/run%2Flatest", [&] { store->read_pointer("run/latest"); });
  refused("DELETE /n/space/b/bucket/o/run%2Fa", [&] { store->remove("run/a"); });
  refused("DELETE /n/space/b/bucket/o/run%2F", [&] { store->remove_folder("run"); });
}

// A refusal that no wrong clock explains.
TEST(OciStoreTest, WhoIsRefusedIsToldSo) {
  OciServed served;
  served.fake.answer_next("GET /n/", {.status = 401, .body = R"({"code": "NotAuthenticated"})"}, 9);
  EXPECT_THAT(message_of<StorageError>([&] { served.store()->stat("a"); }),
              AllOf(HasSubstr("401 NotAuthenticated"), HasSubstr("check user")));
  EXPECT_EQ(served.fake.count("GET /n/"), 1U);
}

TEST(OciStoreTest, NamesMayHoldAnythingAndListsAreWhole) {
  OciServed served;
  const auto store = served.store();
  for (const char* name : {"a b", "a+b", "a&<b>\"", "caf\xC3\xA9", "100%25"}) {
    write_text(*store, std::string("folder/") + name, name);
    EXPECT_EQ(read_text(*store, std::string("folder/") + name), name);
  }
  EXPECT_THAT(list_names(*store, "folder"),
              UnorderedElementsAre("a b", "a+b", "a&<b>\"", "caf\xC3\xA9", "100%25"));
  served.fake.answer_next("GET /n/space/b/bucket/o?", {.body = R"({"objects": [{"na)"});
  EXPECT_EQ(list_names(*store, "folder").size(), 5U) << "asked for again";
}

TEST(OciStoreTest, ConditionsHoldAlsoOfLargeObjects) {
  OciServed served;
  const auto store = served.store();
  EXPECT_TRUE(store->features().fenced_writes);
  const std::string text = testing::pattern(kThreePartsOfOracles);
  for (const std::string& bytes : {std::string("x"), text}) {
    const std::string name = "n" + std::to_string(bytes.size());
    const auto late = store->begin(name, {.condition = WriteCondition::absent()});
    late->write(as_bytes(bytes));
    write_text(*store, name, bytes, WriteCondition::absent());
    EXPECT_THROW(late->commit(), AlreadyExistsError);
    const std::string first = store->stat(name)->version;
    write_text(*store, name, bytes + "2", WriteCondition::of_version(first));
    EXPECT_THROW(write_text(*store, name, bytes, WriteCondition::of_version(first)),
                 AlreadyExistsError);
    EXPECT_TRUE(served.fake.objects()[name] == bytes + "2");
  }
}

TEST(OciStoreTest, WhatTheServerHasIsComparedWithWhatWasSent) {
  OciServed served;
  const auto store = served.store();
  const std::string head = "HEAD /n/space/b/bucket/o/a";
  served.fake.answer_next(head, {.status = 404});
  served.fake.answer_next(
      head, {.headers = {{"ETag", "etag-1"}, {"content-md5", "AAAA"}, {"Content-Length", "3"}}});
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "a", "xyz"); }),
              AllOf(HasSubstr("MD5 AAAA instead of"), HasSubstr("write it again")));
  OciServed old({.keeps_old = true});
  write_text(*old.store(), "a", "1");
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*old.store(), "a", "2"); }),
              HasSubstr("the previous object"));
}

TEST(OciStoreTest, ALostAnswerIsNoFailure) {
  OciServed served;
  const auto store = served.store();
  const HttpReply lost = {.sends_at_most = 0};
  served.fake.answer_next("PUT /n/space/b/bucket/o/a", lost, 1, FakeOci::When::kAfter);
  write_text(*store, "a", "x", WriteCondition::absent());
  served.fake.answer_next("POST /n/space/b/bucket/u/big", lost, 1, FakeOci::When::kAfter);
  const std::string text = testing::pattern(kThreePartsOfOracles);
  write_text(*store, "big", text);
  EXPECT_TRUE(served.fake.objects()["big"] == text);
}

TEST(OciStoreTest, UploadsThatNobodyCommitsAreAborted) {
  OciServed served;
  const auto store = served.store();
  const std::string text = testing::pattern(kThreePartsOfOracles);
  {
    const auto object = store->begin("run/big");
    object->write(as_bytes(text));
    EXPECT_EQ(served.fake.uploads(), 1U);
    EXPECT_THAT(store->remove_leftovers("run"), ElementsAre()) << "it may live";
    served.fake.age_uploads(std::chrono::hours(25));
    EXPECT_THAT(store->remove_leftovers("run"), ElementsAre("big"));
    EXPECT_EQ(served.fake.uploads(), 0U);
    EXPECT_TRUE(message_of<StorageError>([&] { object->commit(); }).find("removed before") !=
                std::string::npos);
  }
  {
    const auto object = store->begin("run/big");
    object->write(as_bytes(text));
  }
  EXPECT_EQ(served.fake.uploads(), 0U);
}

TEST(OciStoreTest, AnObjectIsRenamed) {
  OciServed served;
  const auto store = served.store();
  write_text(*store, "a", "");
  store->rename("a", "b");
  const std::string text = testing::pattern(kThreePartsOfOracles);
  write_text(*store, "c", text);
  store->rename("c", "d");
  EXPECT_TRUE(served.fake.objects()["d"] == text);
  EXPECT_THAT(list_names(*store, ""), UnorderedElementsAre("b", "d"));
}

TEST(OciStoreTest, ErrorsSayWhatToDoAndNoSecret) {
  OciServed served;
  const auto refused = [&](const OciOptions& with) {
    return message_of([&] { served.store(with)->open("a"); });
  };
  const auto says = [](const std::string& what) {
    return AllOf(HasSubstr(what), Not(HasSubstr("canary")));
  };
  OciOptions options = served.options();
  options.profile = "OTHER";
  EXPECT_THAT(refused(options), says("check user, fingerprint and key_file"));
  options.profile = "SESSION";
  EXPECT_THAT(refused(options), says("session token"));
  options.profile = "NONE";
  EXPECT_THAT(refused(options), says("no profile \"NONE\""));
  options.config_file = served.folder / "none";
  EXPECT_THAT(refused(options), says("oci setup config makes it"));
  options = served.options();
  options.bucket = "another";
  EXPECT_THAT(refused(options), says("BucketNotFound"));
  options.bucket = "";
  EXPECT_THAT(refused(options), says("oci://bucket/name"));
}

TEST(OciUriTest, ACheckpointIsSavedFoundVerifiedAndLoaded) {
  OciServed served;
  const std::string file = served.folder / "config";
  // The profile has no endpoint: it is derived from the region.
  const testing::EnvironmentVariable config("OCI_CONFIG_FILE", file.c_str());
  EXPECT_THAT(oci_store({.bucket = "b"})->describe("a"), "oci://b/a");
  EXPECT_EQ(oci::resolve_config({.bucket = "b"}).endpoint.host,
            "objectstorage.eu-frankfurt-1.oraclecloud.com");
  {
    const testing::EnvironmentVariable elsewhere("CAIRN_OCI_ENDPOINT", "http://oracle.lan:81/x");
    EXPECT_EQ(oci::resolve_config({.bucket = "b"}).endpoint.origin(), "http://oracle.lan:81");
    const OciOptions given = {.bucket = "b", .endpoint_url = "https://given.lan"};
    EXPECT_EQ(oci::resolve_config(given).endpoint.origin(), "https://given.lan");
  }
  const auto store = served.store();
  save(testing::sample_checkpoint(1), "run/ep0-ba1-rank0.pt", {.store = store});
  save(testing::sample_checkpoint(2), "run/ep0-ba2-rank0.pt", {.store = store});
  const auto found = find_latest("run", {.full_state_only = false, .store = store});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, "run/ep0-ba2-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(found->path, {.store = store})), 2);
}

}  // namespace
}  // namespace cairn
