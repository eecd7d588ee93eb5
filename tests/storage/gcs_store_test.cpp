#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/gcs.h"

#include "core/text/json.h"
#include "gcs_fixture.h"
#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/rsa_key.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::FakeGcs;
using testing::FakeGcsOptions;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::message_of;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr std::size_t kThreePartsOfGoogles = 12 << 20;

std::string text_of_parts() { return testing::pattern(kThreePartsOfGoogles); }

HttpReply google_error(int status, const std::string& code) {
  return {.status = status, .body = "<Error><Code>" + code + "</Code></Error>"};
}

// --- Objects ---

TEST(GcsStoreTest, ALargeObjectGoesInPartsAndComesInRanges) {
  GcsServed served;
  const auto store = served.store();
  const std::string text = text_of_parts();
  write_text(*store, "run/big.pt", text);
  EXPECT_TRUE(served.fake.objects()["bucket/run/big.pt"] == text);
  EXPECT_EQ(served.fake.count("PUT /bucket/run/big.pt?partNumber"), 3U);
  EXPECT_TRUE(served.fake.last_header("x-goog-hash", "PUT").starts_with("crc32c="));
  EXPECT_TRUE(read_text(*store, "run/big.pt") == text);
  EXPECT_EQ(served.fake.uploads(), 0U);
}

TEST(GcsStoreTest, NamesMayHoldAnythingAndListsAreWhole) {
  GcsServed served;
  const auto store = served.store();
  for (const char* name : {"a b", "a+b", "a&<b>", "caf\xC3\xA9", "100%25"}) {
    write_text(*store, std::string("folder/") + name, name);
    EXPECT_EQ(read_text(*store, std::string("folder/") + name), name);
  }
  EXPECT_THAT(list_names(*store, "folder"),
              UnorderedElementsAre("a b", "a+b", "a&<b>", "caf\xC3\xA9", "100%25"));
}

// The version is the generation, in lists and for single objects.
TEST(GcsStoreTest, ConditionsAreAboutGenerations) {
  GcsServed served;
  const auto store = served.store();
  EXPECT_TRUE(store->features().versioned_writes);
  EXPECT_TRUE(store->features().fenced_pointers);
  EXPECT_FALSE(store->features().fenced_writes) << "none of an upload in parts";
  write_text(*store, "f/a", "1", WriteCondition::absent());
  EXPECT_EQ(served.fake.last_header("x-goog-if-generation-match", "PUT"), "0");
  EXPECT_THROW(write_text(*store, "f/a", "2", WriteCondition::absent()), AlreadyExistsError);
  const std::string first = store->stat("f/a")->version;
  EXPECT_EQ(store->list("f").names.at(0).info->version, first);
  write_text(*store, "f/a", "2", WriteCondition::of_version(first));
  EXPECT_THROW(write_text(*store, "f/a", "3", WriteCondition::of_version(first)),
               AlreadyExistsError);
  EXPECT_EQ(read_text(*store, "f/a"), "2");
  const std::string text = text_of_parts();
  EXPECT_THROW(write_text(*store, "f/a", text, WriteCondition::absent()), AlreadyExistsError);
  write_text(*store, "f/big", text, WriteCondition::absent());
  EXPECT_TRUE(served.fake.object("bucket/f/big") == text);
}

TEST(GcsStoreTest, WhoMovesAPointerFirstWins) {
  GcsServed served;
  const auto store = served.store();
  store->move_pointer("latest", "ep1.pt", "");
  const auto seen = store->read_pointer("latest");
  store->move_pointer("latest", "ep2.pt", seen->version);
  EXPECT_THROW(store->move_pointer("latest", "ep3.pt", seen->version), AlreadyExistsError);
  EXPECT_EQ(served.fake.object("bucket/latest.symlink"), "ep2.pt");
}

TEST(GcsStoreTest, BytesOfAnotherGenerationAreNeverMixedIn) {
  GcsServed served;
  const auto store = served.store();
  const std::string text = text_of_parts();
  write_text(*store, "big.pt", text);
  const auto source = store->open("big.pt");
  served.fake.put_object("bucket/big.pt", text);
  EXPECT_THAT(message_of<StorageError>([&] { read_start(*source, 10); }),
              HasSubstr("was replaced"));
}

TEST(GcsStoreTest, WhatTheServerHasIsComparedWithWhatWasSent) {
  GcsServed served;
  const auto store = served.store();
  served.fake.answer_next("HEAD /bucket/a", {.status = 404});
  const HttpReply damaged = {.headers = {{"x-goog-generation", "1"},
                                         {"x-goog-hash", "crc32c=AAAAAA==,md5=AAAA"},
                                         {"Content-Length", "3"}}};
  served.fake.answer_next("HEAD /bucket/a", damaged);
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "a", "xyz"); }),
              AllOf(HasSubstr("CRC-32C AAAAAA== instead of"), HasSubstr("write it again")));
  GcsServed old({.keeps_old = true});
  write_text(*old.store(), "a", "1");
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*old.store(), "a", "2"); }),
              HasSubstr("the previous object"));
}

TEST(GcsStoreTest, ALostAnswerIsNoFailure) {
  GcsServed served;
  const auto store = served.store();
  const HttpReply lost = {.sends_at_most = 0};
  served.fake.answer_next("PUT /bucket/a", lost, 1, FakeGcs::When::kAfter);
  write_text(*store, "a", "x", WriteCondition::absent());
  served.fake.answer_next("POST /bucket/big?uploadId", lost, 1, FakeGcs::When::kAfter);
  const std::string text = text_of_parts();
  write_text(*store, "big", text);
  EXPECT_TRUE(served.fake.object("bucket/big") == text);
}

TEST(GcsStoreTest, AnUploadThatNobodyCompletesIsAborted) {
  GcsServed served;
  const auto store = served.store();
  const std::string text = text_of_parts();
  {
    const auto object = store->begin("big");
    object->write(as_bytes(text));
    EXPECT_EQ(served.fake.uploads(), 1U);
  }
  EXPECT_EQ(served.fake.uploads(), 0U);
}

TEST(GcsStoreTest, ErrorsSayWhatToDoAndNoSecret) {
  GcsServed served;
  GcsOptions options = served.options();
  options.secret = "canary-wrong";
  const auto refused = [&](const GcsOptions& with, const std::string& what) {
    EXPECT_THAT(message_of([&] { served.store(with)->open("a"); }),
                AllOf(HasSubstr(what), Not(HasSubstr("canary"))));
  };
  refused(options, "check GCS_KEY and GCS_SECRET");
  options = served.options();
  options.bucket = "another";
  refused(options, "NoSuchBucket: of the fake: NoSuchBucket; make it, or check its name");
  options.bucket = "";
  refused(options, "gs://bucket/name");
  served.fake.answer_next("GET", google_error(403, "AccessDenied"), 9);
  refused(served.options(), "what the account of GCS_KEY may do");
}

// --- Tokens ---

class GcsTokenTest : public ::testing::Test {
 protected:
  std::string file_with(const Json& json) {
    const std::string path = folder_ / ("credentials" + std::to_string(++files_) + ".json");
    testing::write_file(path, json.dump());
    return path;
  }
  Json service() const {
    return {{"type", "service_account"},
            {"client_email", served_.keys.account},
            {"private_key_id", "1"},
            {"private_key", served_.keys.private_key},
            {"token_uri", served_.fake.url() + "/token"}};
  }
  Json user() const {
    return {{"type", "authorized_user"},
            {"client_id", "id"},
            {"client_secret", served_.keys.client_secret},
            {"refresh_token", served_.keys.refresh_token},
            {"token_uri", served_.fake.url() + "/token"}};
  }

  testing::TempFolder folder_;
  int files_ = 0;
  GcsServed served_{FakeGcsOptions{.private_key = testing::rsa_key_of_tests()}};
};

TEST_F(GcsTokenTest, AServiceAccountSignsForOneThatIsKept) {
  const auto store = served_.store(served_.options_with(file_with(service())));
  write_text(*store, "a", "x");
  EXPECT_EQ(read_text(*store, "a"), "x");
  EXPECT_EQ(served_.fake.tokens(), 1U);
  EXPECT_EQ(served_.fake.last_header("x-goog-content-sha256", "GET"), "");
}

TEST_F(GcsTokenTest, AServiceAccountMayHaveAClockThatIsWrong) {
  for (const int hours : {-30, 5}) {
    served_.clock = std::make_shared<testing::FakeNetClock>(std::chrono::hours(hours));
    const std::size_t before = served_.fake.count("POST /token");
    write_text(*served_.store(served_.options_with(file_with(service()))), "a", "x");
    EXPECT_EQ(served_.fake.count("POST /token"), before + 2);
  }
}

TEST_F(GcsTokenTest, AUserHasARefreshToken) {
  const auto store = served_.store(served_.options_with(file_with(user())));
  write_text(*store, "a", "x");
  EXPECT_EQ(served_.fake.tokens(), 1U);
}

TEST_F(GcsTokenTest, WhatARefusalRepeatsIsNotTold) {
  const std::string beginning = R"({"error": "invalid_grant", "error_description": ")";
  for (const std::string& said :
       {std::string("no such canary-refresh-token"), std::string("no \\u0063anary-refresh-token"),
        std::string(270, '.') + "canary-refresh-token"}) {
    served_.fake.answer_next("POST /token", {.status = 400, .body = beginning + said + "\"}"});
    EXPECT_THAT(message_of<StorageError>(
                    [&] { served_.store(served_.options_with(file_with(user())))->stat("a"); }),
                AllOf(HasSubstr("the answer was 400"), Not(HasSubstr("canary"))));
  }
}

TEST_F(GcsTokenTest, AMachineOfGooglesIsAsked) {
  const std::string host = served_.fake.url().substr(std::string("http://").size());
  testing::CleanGoogleEnvironment environment;
  environment.set("NO_GCE_CHECK", nullptr);
  environment.set("GCE_METADATA_HOST", host.c_str());
  const auto store = gcs_store(served_.options_with(""));
  write_text(*store, "a", "x");
  EXPECT_EQ(served_.fake.tokens(), 1U);
}

TEST_F(GcsTokenTest, OneThatEndsIsRenewedBeforeAndOneThatIsRefusedBehind) {
  const auto store = served_.store(served_.options_with(file_with(user())));
  write_text(*store, "a", "x");
  served_.fake.revoke_tokens();
  EXPECT_EQ(read_text(*store, "a"), "x");
  EXPECT_EQ(served_.fake.tokens(), 2U);
  GcsServed hasty({.token_seconds = 60});  // shorter than the time of an early renewal
  Json json = user();
  json["token_uri"] = hasty.fake.url() + "/token";
  const auto short_lived = hasty.store(hasty.options_with(file_with(json)));
  short_lived->stat("a");
  EXPECT_EQ(hasty.fake.tokens(), 1U) << "the next one would end as soon: it is used meanwhile";
}

TEST_F(GcsTokenTest, WhatCannotBeIsRefusedWithoutASecret) {
  const auto refused = [&](const Json& json) {
    const std::string file = file_with(json);
    return message_of([&] { served_.store(served_.options_with(file))->stat("a"); });
  };
  const auto says = [](const std::string& what) {
    return AllOf(HasSubstr(what), Not(HasSubstr("canary")));
  };
  Json json = user();
  json["refresh_token"] = "canary-wrong";
  EXPECT_THAT(refused(json), says("invalid_grant: Invalid signature."));
  json = service();
  json["client_email"] = "another@project";
  EXPECT_THAT(refused(json), says("invalid_grant"));
  json = service();
  json["private_key"] = "canary-no-key";
  EXPECT_THAT(refused(json), says("no private RSA key"));
  json["type"] = "external_account";
  EXPECT_THAT(refused(json), says("type \"external_account\""));
  json = user();
  json.erase("refresh_token");
  EXPECT_THAT(refused(json), says("lacks fields"));
  json = user();
  json["token_uri"] = "http://example.com/token";
  EXPECT_THAT(refused(json), says("without https"));
  EXPECT_THAT(refused(Json::array()), says("no JSON file of Google credentials"));
  GcsOptions options = served_.options_with(file_with(user()));
  options.endpoint_url = "http://example.com";
  EXPECT_THAT(message_of<UsageError>([&] { served_.store(options); }), says("in the clear"));
  options = served_.options_with("");
  EXPECT_THAT(message_of<UsageError>([&] { served_.store(options); }),
              AllOf(HasSubstr("GCS_KEY"), HasSubstr("GOOGLE_APPLICATION_CREDENTIALS")));
}

TEST(GcsKeyTest, HalfAKeyIsRefusedWithTheNameOfTheOther) {
  testing::CleanGoogleEnvironment clean;
  const auto refused = [](const GcsOptions& options) {
    return message_of<UsageError>([&] { gcs_store(options); });
  };
  {
    const testing::EnvironmentVariable key("GCS_KEY", "canary");
    EXPECT_THAT(refused({.bucket = "bucket"}),
                AllOf(HasSubstr("set GCS_SECRET"), Not(HasSubstr("canary"))));
  }
  const testing::EnvironmentVariable secret("GCS_SECRET", "canary");
  EXPECT_THAT(refused({.bucket = "bucket"}),
              AllOf(HasSubstr("set GCS_KEY"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused({.bucket = "bucket", .secret = "canary"}), HasSubstr("needs key and secret"));
}

// --- gs:// wherever a place can be given ---

TEST(GcsUriTest, ACheckpointIsSavedFoundVerifiedAndLoaded) {
  FakeGcs fake;
  const testing::GcsEnvironment environment(fake);
  save(testing::sample_checkpoint(1), "gs://bucket/run/ep0-ba1-rank0.pt");
  save(testing::sample_checkpoint(2), "GS://bucket/run/ep0-ba2-rank0.pt");
  EXPECT_TRUE(fake.objects().contains("bucket/run/ep0-ba2-rank0.pt"));
  const auto found = find_latest("gs://bucket/run", {.full_state_only = false});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, "gs://bucket/run/ep0-ba2-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(found->path)), 2);
  EXPECT_TRUE(verify("gs://bucket/run/ep0-ba1-rank0.pt", Verify::kFull).ok());
  EXPECT_THROW(load("gs://bucket/run/none.pt"), NotFoundError);
}

}  // namespace
}  // namespace cairn
