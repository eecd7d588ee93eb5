#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/error.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/stores.h"

#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/pattern.h"
#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeS3;
using testing::FakeS3Options;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::message_of;
using ::testing::Not;

// Differs at every place, so that no part equals another.
std::string long_text(std::size_t size) {
  std::string text(size, '\0');
  std::uint64_t state = 1;
  for (char& c : text) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

constexpr std::size_t kThreeParts = 12 << 20;

HttpReply s3_error(int status, const std::string& code) {
  return {.status = status, .body = "<Error><Code>" + code + "</Code></Error>"};
}

TEST(S3StoreTest, ALargeObjectGoesInPartsAndComesInRanges) {
  S3Served served;
  const auto store = served.store();
  const std::string text = long_text(kThreeParts);
  write_text(*store, "run/big.pt", text);
  EXPECT_TRUE(served.fake.objects()["bucket/run/big.pt"] == text);
  EXPECT_EQ(served.fake.count("PUT /bucket/run/big.pt?partNumber"), 3U);
  served.fake.forget_log();
  EXPECT_TRUE(read_text(*store, "run/big.pt") == text);
  EXPECT_EQ(served.fake.count("GET"), 3U) << "the end, and the rest in two";
  EXPECT_EQ(served.fake.uploads(), 0U);
}

// A caller that completes several uploads together has only one request left for each.
TEST(S3StoreTest, AllPartsAreThereBeforeTheUploadIsCompleted) {
  S3Served served;
  const auto store = served.store();
  const std::string text = long_text(kThreeParts);
  const auto object = store->begin("big.pt");
  object->write(as_bytes(text));
  object->make_durable();
  EXPECT_EQ(served.fake.count("PUT /bucket/big.pt?partNumber"), 3U);
  EXPECT_FALSE(served.fake.objects().contains("bucket/big.pt"));
  served.fake.forget_log();
  object->commit();
  EXPECT_EQ(served.fake.count("PUT"), 0U);
  EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
}

TEST(S3StoreTest, ASmallObjectIsOneRequestToReadAndIsKeptWhole) {
  S3Served served;
  const auto store = served.store();
  write_text(*store, "a", "bytes");
  served.fake.forget_log();
  const auto source = store->open("a");
  EXPECT_TRUE(source->in_memory());
  EXPECT_EQ(as_text(source->view(1, 3).view), "yte");
  EXPECT_THAT(served.fake.log(), ElementsAre("GET /bucket/a"));
}

TEST(S3StoreTest, AnAbandonedUploadIsAborted) {
  S3Served served;
  const auto store = served.store();
  {
    const auto object = store->begin("big.pt");
    object->write(as_bytes(long_text(kThreeParts)));
    EXPECT_EQ(served.fake.uploads(), 1U);
  }
  EXPECT_EQ(served.fake.uploads(), 0U);
  EXPECT_TRUE(served.fake.objects().empty());
}

// A killed writer cannot abort its upload: the upload stays, invisible, and costs money.
TEST(S3StoreTest, ForgottenUploadsAreRemovedWhenTheyAreADayOld) {
  S3Served served;
  const auto store = served.store();
  const HttpReply lost = {.sends_at_most = 0};
  for (const char* name : {"run/a.pt", "run/below/b.pt", "run2/c.pt"}) {
    served.fake.answer_next("DELETE /bucket/" + std::string(name), lost, 10);
    const auto object = store->begin(name);
    object->write(as_bytes(long_text(6 << 20)));
  }
  ASSERT_EQ(served.fake.uploads(), 3U);
  EXPECT_THAT(store->remove_leftovers("run"), ::testing::IsEmpty()) << "they may have a writer";
  served.fake.forget_plans();
  served.fake.age_uploads(std::chrono::hours(25));
  EXPECT_THAT(store->remove_leftovers("run", "other.pt"), ::testing::IsEmpty());
  EXPECT_THAT(store->remove_leftovers("run"), ElementsAre("a.pt"));
  EXPECT_THAT(store->remove_leftovers("run", "below"), ElementsAre("below/b.pt"));
  EXPECT_EQ(served.fake.uploads(), 1U);
}

// The index sorts after its shards, and is not hidden.
TEST(S3StoreTest, AFolderIsRemovedFromWhatItIsKnownBy) {
  S3Served served;
  const auto store = served.store();
  for (const char* name : {"model-00001-of-00001.safetensors", "model.safetensors.index.json"}) {
    write_text(*store, std::string("run/ep1/") + name, "x");
  }
  served.fake.answer_next("DELETE /bucket/run/ep1/model.safetensors.index.json",
                          s3_error(403, "AccessDenied"), 10);
  EXPECT_THROW(store->remove_folder("run/ep1"), Error);
  EXPECT_TRUE(store->stat("run/ep1/model-00001-of-00001.safetensors"));
  served.fake.forget_plans();
  EXPECT_TRUE(store->remove_folder("run/ep1"));
  EXPECT_TRUE(served.fake.objects().empty());
}

TEST(S3StoreTest, EachPartIsTriedAgainByItself) {
  S3Served served;
  const auto store = served.store();
  served.fake.answer_next("PUT /bucket/big.pt?partNumber=2", s3_error(503, "SlowDown"), 3);
  const std::string text = long_text(kThreeParts);
  write_text(*store, "big.pt", text);
  EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
  EXPECT_EQ(served.fake.count("PUT /bucket/big.pt?partNumber=1"), 1U);
  EXPECT_EQ(served.fake.count("PUT /bucket/big.pt?partNumber=2"), 4U);
  EXPECT_EQ(served.clock->slept().size(), 3U);
}

TEST(S3StoreTest, RetriesAreBounded) {
  S3Served served;
  const auto store = served.store();
  served.fake.answer_next("PUT /bucket/a", s3_error(500, "InternalError"), 1000);
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "a", "x"); }),
              AllOf(HasSubstr("s3://bucket/a"), HasSubstr("500 InternalError")));
  EXPECT_EQ(served.fake.count("PUT /bucket/a"), 8U);
}

// A broken answer does not tell what the server did.
TEST(S3StoreTest, ALostAnswerToACompletionIsNoFailure) {
  S3Served served;
  const auto store = served.store();
  const HttpReply lost = {.sends_at_most = 0};
  served.fake.answer_next("POST /bucket/big.pt?uploadId", lost, 1, FakeS3::When::kAfter);
  const std::string text = long_text(kThreeParts);
  write_text(*store, "big.pt", text, WriteCondition::absent());
  EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
  served.fake.answer_next("PUT /bucket/small", lost, 1, FakeS3::When::kAfter);
  write_text(*store, "small", "x", WriteCondition::absent());
  EXPECT_EQ(read_text(*store, "small"), "x");
}

TEST(S3StoreTest, ACompletionMayTellNoETag) {
  S3Served served({.like_ceph = true});
  const auto store = served.store();
  const std::string text = long_text(kThreeParts);
  write_text(*store, "big.pt", text);
  EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
}

TEST(S3StoreTest, AnErrorBehindA200IsAnError) {
  S3Served served;
  const auto store = served.store();
  served.fake.answer_next("POST /bucket/big.pt?uploadId", s3_error(200, "InternalError"), 1);
  const std::string text = long_text(kThreeParts);
  write_text(*store, "big.pt", text);
  EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
  served.fake.answer_next("POST /bucket/big2.pt?uploadId", s3_error(200, "InvalidPart"), 1);
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "big2.pt", text); }),
              HasSubstr("InvalidPart"));
  EXPECT_EQ(served.fake.uploads(), 0U);
}

TEST(S3StoreTest, ARangeThatBreaksOffGoesOnWhereItStopped) {
  S3Served served;
  const auto store = served.store();
  const std::string text = long_text(4 << 20);
  write_text(*store, "a", text);
  const auto source = store->open("a");
  served.fake.forget_log();
  const std::size_t asked = (4 << 20) - (256 << 10);
  std::string into(asked, '\0');
  HttpReply half = {.status = 206,
                    .headers = {{"Content-Length", std::to_string(asked)},
                                {"Content-Range", "bytes 0-" + std::to_string(asked - 1) + "/" +
                                                      std::to_string(text.size())}},
                    .body = text.substr(0, 3'000'000),
                    .closes = true};
  served.fake.answer_next("GET /bucket/a", half);
  const ByteSource::Range range{0, std::as_writable_bytes(std::span(into))};
  source->read({&range, 1});
  EXPECT_TRUE(into == text.substr(0, asked));
  EXPECT_EQ(served.fake.last_header("range"), "bytes=3000000-" + std::to_string(asked - 1));
}

TEST(S3StoreTest, BytesOfAnotherVersionAreNeverMixedIn) {
  S3Served served;
  const auto store = served.store();
  write_text(*store, "a", long_text(1 << 20));
  const auto source = store->open("a");
  write_text(*store, "a", long_text(2 << 20));
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 10); }), HasSubstr("was replaced"));
  store->remove("a");
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 10); }), HasSubstr("was removed"));
}

TEST(S3StoreTest, WhatIsRenamedIsEncryptedAndAccessibleAsWhatIsWritten) {
  S3Served served;
  S3Options options = served.options();
  options.canned_acl = "bucket-owner-full-control";
  options.server_side_encryption = "aws:kms";
  options.sse_kms_key_id = "key-1";
  const auto store = served.store(options);
  write_text(*store, "a", "x");
  store->rename("a", "b");
  EXPECT_NE(served.fake.last_header("x-amz-copy-source", "PUT"), "");
  EXPECT_EQ(served.fake.last_header("x-amz-acl", "PUT"), "bucket-owner-full-control");
  EXPECT_EQ(served.fake.last_header("x-amz-server-side-encryption", "PUT"), "aws:kms");
  EXPECT_EQ(served.fake.last_header("x-amz-server-side-encryption-aws-kms-key-id", "PUT"), "key-1");
  EXPECT_EQ(read_text(*store, "b"), "x");
}

TEST(S3StoreTest, TheServerCopiesAndNoBytesComeHere) {
  S3Served served;
  const auto store = served.store();
  const std::string text = long_text(kThreeParts);
  write_text(*store, "a", text);
  store->move_pointer("latest", "a");
  served.fake.forget_log();
  store->copy("a", "b");
  store->copy("latest", "c", WriteCondition::absent());
  EXPECT_THAT(
      message_of<AlreadyExistsError>([&] { store->copy("a", "c", WriteCondition::absent()); }),
      HasSubstr("exists already"));
  EXPECT_EQ(served.fake.count("GET /bucket/a"), 0U);
  EXPECT_EQ(served.fake.count("PUT /bucket/b"), 1U);
  EXPECT_EQ(served.fake.count("PUT /bucket/c?partNumber"), 1U);
  EXPECT_EQ(served.fake.uploads(), 0U);
  EXPECT_TRUE(served.fake.object("bucket/b") == text);
  EXPECT_TRUE(served.fake.object("bucket/c") == text);
}

TEST(S3StoreTest, ALargeObjectIsCopiedInParts) {
  S3Served served;
  const auto store = served.store();
  const std::string text = long_text(45 << 20);
  write_text(*store, "a", text);
  store->copy("a", "b", WriteCondition::absent(), store->stat("a")->version);
  EXPECT_EQ(served.fake.count("PUT /bucket/b?partNumber"), 2U);
  EXPECT_TRUE(served.fake.object("bucket/b") == text);
}

// Another program replaces the source, or this server does not copy it in parts.
TEST(S3StoreTest, ACopyThatTheServerDoesNotMakeLeavesNothing) {
  S3Served served;
  const auto store = served.store();
  write_text(*store, "a", "bytes");
  const std::string version = store->stat("a")->version;
  served.fake.answer_next("PUT /bucket/b", s3_error(412, "PreconditionFailed"));
  EXPECT_THROW(store->copy("a", "b"), StorageError);
  write_text(*store, "a", "later");
  EXPECT_THAT(message_of<StorageError>([&] { store->copy("a", "b", {}, version); }),
              HasSubstr("was replaced"));
  EXPECT_FALSE(store->stat("b"));
  served.fake.answer_next("PUT /bucket/b?partNumber", s3_error(501, "NotImplemented"));
  store->copy("a", "b", WriteCondition::absent());
  EXPECT_EQ(read_text(*store, "b"), "later");
  EXPECT_EQ(served.fake.uploads(), 0U);
}

TEST(S3StoreTest, CheckpointsOfOneBucketAreCopiedByTheServer) {
  S3Served served;
  const auto store = served.store();
  const CopyOptions within = {.verify = Verify::kQuick, .from_store = store, .to_store = store};
  save(testing::sample_checkpoint(1), "run/a.pt", {.store = store});
  served.fake.forget_log();
  EXPECT_EQ(copy_checkpoint("run/a.pt", "run/b.pt", within).bytes, store->stat("run/a.pt")->size);
  EXPECT_EQ(served.fake.last_header("x-amz-copy-source", "PUT"), "/bucket/run/a.pt");
  EXPECT_EQ(testing::batch_of_sample(load("run/b.pt", {.store = store})), 1);
  EXPECT_THROW(copy_checkpoint("run/a.pt", "run/b.pt", within), AlreadyExistsError);
  convert("run/a.pt", "run/shards",
          {.to = "safetensors", .weights_only = true, .shard_bytes = 200, .store = store});
  copy_checkpoint("run/shards", "run/copied", within);
  EXPECT_EQ(list_names(*store, "run/shards"), list_names(*store, "run/copied"));
  EXPECT_EQ(served.fake.count("PUT /bucket/run/copied/model-00001"),
            served.fake.count("POST /bucket/run/copied/model-00001") / 2);
  EXPECT_TRUE(verify("run/copied", Verify::kFull, store).ok());
}

TEST(S3StoreTest, ChecksumsAreLeftOutWhereAwsSaysSo) {
  const testing::CleanAwsEnvironment clean;
  const auto sent_with = [](const char* value) {
    S3Served served;
    const testing::EnvironmentVariable when("AWS_REQUEST_CHECKSUM_CALCULATION", value);
    const auto store = s3::make_s3_store(s3::resolve_config(served.options()));
    write_text(*store, "a", "x");
    EXPECT_EQ(read_text(*store, "a"), "x");
    return served.fake.last_header("x-amz-checksum-crc64nvme", "PUT");
  };
  EXPECT_NE(sent_with("WHEN_SUPPORTED"), "");
  EXPECT_EQ(sent_with("when_required"), "");
  EXPECT_THAT(message_of<UsageError>([&] { sent_with("sometimes"); }),
              HasSubstr("AWS_REQUEST_CHECKSUM_CALCULATION"));
}

TEST(S3StoreTest, TheRegionThatTheServerNamesIsTaken) {
  S3Served served({.region = "eu-central-1"});
  const auto store = served.store();
  write_text(*store, "a", "x");
  EXPECT_EQ(read_text(*store, "a"), "x");
}

TEST(S3StoreTest, AClockThatIsWrongIsCorrected) {
  for (const std::int64_t hours : {-30, 5}) {
    S3Served served({.skew_seconds = hours * 3600});
    const auto store = served.store();
    EXPECT_FALSE(store->stat("a"));
    write_text(*store, "a", "x");
    EXPECT_EQ(read_text(*store, "a"), "x");
    EXPECT_LE(served.fake.count("HEAD /bucket/a"), 4U);
  }
}

TEST(S3StoreTest, ErrorsSayWhatToDoAndNoSecret) {
  S3Served served({.session_token = "canary-token"});
  S3Options options = served.options();
  options.secret_access_key = "canary-wrong-key";
  const auto store = served.store(options);
  const auto refused = [&](const auto& use, const std::string& what) {
    EXPECT_THAT(message_of<StorageError>(use),
                AllOf(HasSubstr("s3://bucket"), HasSubstr(what), Not(HasSubstr("canary"))));
  };
  refused([&] { store->stat("a"); }, "SignatureDoesNotMatch");
  refused([&] { store->open("a"); }, "check AWS_ACCESS_KEY_ID");
  refused([&] { write_text(*store, "a", "x"); }, "403");
  HttpReply echo = s3_error(403,
                            "AccessDenied</Code><Message>of canary-wrong-key "
                            "canary-token</Message><Code>");
  served.fake.answer_next("GET", echo, 100);
  refused([&] { store->open("a"); }, "of *** ***");
}

TEST(S3StoreTest, ServersWithoutConditionsAreTold) {
  for (const auto how : {FakeS3Options::Conditions::kIgnore, FakeS3Options::Conditions::kRefuse}) {
    S3Served served({.conditions = how, .upload_conditions = how});
    const auto store = served.store();
    EXPECT_FALSE(store->features().versioned_writes);
    EXPECT_FALSE(store->features().fenced_pointers);
    EXPECT_FALSE(store->features().fenced_writes);
    EXPECT_TRUE(served.fake.objects().empty()) << "the probe leaves nothing";
    write_text(*store, "a", "x", WriteCondition::absent());
    EXPECT_THROW(write_text(*store, "a", "y", WriteCondition::absent()), AlreadyExistsError);
    const std::string text = long_text(kThreeParts);
    write_text(*store, "big.pt", text, WriteCondition::absent());
    EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
  }
}

TEST(S3StoreTest, ChecksumsAreSentWhereTheServerKnowsThem) {
  for (const bool refuses : {false, true}) {
    S3Served served({.keeps_crc64 = false, .refuses_checksums = refuses});
    const auto store = served.store();
    write_text(*store, "a", "x");
    write_text(*store, "b", "x");
    EXPECT_EQ(served.fake.last_header("x-amz-checksum-crc64nvme", "PUT"), "");
    const std::string text = long_text(kThreeParts);
    write_text(*store, "big.pt", text);
    EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
  }
}

// Only for an upload does the server say before the first byte that it keeps the checksum.
TEST(S3StoreTest, OverPlainHttpPartsAreUnsignedWhereTheUserSaysSo) {
  for (const bool keeps_crc64 : {true, false}) {
    S3Served served({.keeps_crc64 = keeps_crc64, .takes_unsigned = keeps_crc64});
    S3Options options = served.options();
    options.unsigned_payload = true;
    const auto store = served.store(options);
    const std::string text = long_text(kThreeParts);
    write_text(*store, "big.pt", text);
    EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
    EXPECT_EQ(served.fake.last_header("x-amz-content-sha256", "PUT") == "UNSIGNED-PAYLOAD",
              keeps_crc64);
    write_text(*store, "small", "x");
    EXPECT_EQ(served.fake.last_header("x-amz-content-sha256", "PUT").size(), 64U);
  }
}

TEST(S3StoreTest, TheEnvironmentSaysWhetherPartsAreSigned) {
  const testing::CleanAwsEnvironment clean;
  const auto is_unsigned_with = [](const char* value) {
    const testing::EnvironmentVariable given("CAIRN_S3_UNSIGNED_PAYLOAD", value);
    return s3::resolve_config({.bucket = "b"}).options.unsigned_payload;
  };
  EXPECT_FALSE(is_unsigned_with(nullptr));
  EXPECT_FALSE(is_unsigned_with("0"));
  EXPECT_TRUE(is_unsigned_with("1"));
  EXPECT_THAT(message_of<UsageError>([&] { is_unsigned_with("yes"); }),
              HasSubstr("CAIRN_S3_UNSIGNED_PAYLOAD"));
}

// Pieces gathered into a part must give the part's checksum: the strict server compares it.
TEST(S3StoreTest, PiecesOfAnySizeMakeTheChecksumOfTheirPart) {
  S3Served served;
  const auto store = served.store();
  const std::string text = long_text(kThreeParts);
  const auto object = store->begin("big.pt", {});
  std::size_t size = 1;
  for (std::size_t done = 0; done < text.size(); done += size, size = 3 * size + 1) {
    size = std::min(size, text.size() - done);
    object->write(as_bytes(text.substr(done, size)));
  }
  object->commit();
  EXPECT_TRUE(served.fake.objects()["bucket/big.pt"] == text);
}

TEST(S3StoreTest, WhatTheServerHasIsComparedWithWhatWasSent) {
  S3Served served;
  const auto store = served.store();
  write_text(*store, "learn", "x");
  const HttpReply shorter = {.headers = {{"ETag", "\"0\""}, {"Content-Length", "1"}}};
  served.fake.answer_next("HEAD /bucket/a", shorter, 2);  // before and after the write
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "a", "xyz"); }),
              HasSubstr("1 bytes instead of 3"));
}

TEST(S3StoreTest, OptionsBecomeHeaders) {
  S3Served served;
  S3Options options = served.options();
  options.canned_acl = "bucket-owner-full-control";
  options.server_side_encryption = "aws:kms";
  options.prefix = "runs/a";
  const auto store = served.store(options);
  write_text(*store, "x", "x");
  write_text(*store, "big", long_text(kThreeParts));
  for (const char* path : {"bucket/runs/a/x", "bucket/runs/a/big"}) {
    auto kept = served.fake.metadata(path);
    EXPECT_EQ(kept["x-amz-acl"], "bucket-owner-full-control") << path;
    EXPECT_EQ(kept["x-amz-server-side-encryption"], "aws:kms") << path;
  }
  EXPECT_THAT(list_names(*store, ""), ElementsAre("big", "x"));
}

TEST(S3StoreTest, NamesMayHoldAnything) {
  S3Served served;
  const auto store = served.store();
  for (const std::string name : {"a b", "a+b", "a%20b", "ü=ö&?#", "a~'()*!b", "ep1:ba2.pt"}) {
    write_text(*store, "dir/" + name, name);
    EXPECT_EQ(served.fake.objects()["bucket/dir/" + name], name);
    EXPECT_EQ(read_text(*store, "dir/" + name), name);
    EXPECT_THAT(list_names(*store, "dir"), ElementsAre(name));
    store->remove("dir/" + name);
  }
  for (const std::string& line : served.fake.log()) {
    if (line.find("list-type=2") == std::string::npos) continue;
    EXPECT_THAT(line, HasSubstr("encoding-type=url")) << "XML cannot hold every name";
  }
}

TEST(S3StoreTest, TheBucketMayStandInTheHostsName) {
  S3Served served;
  S3Options options = served.options();
  options.endpoint_url = "http://localhost:" + std::to_string(served.fake.port());
  options.addressing = S3Addressing::kVirtual;
  const auto store = served.store(options);
  write_text(*store, "a/b", "x");
  EXPECT_EQ(served.fake.objects()["bucket/a/b"], "x");
  EXPECT_EQ(read_text(*store, "a/b"), "x");
}

TEST(S3StoreTest, ConnectionsAreUsedAgain) {
  S3Served served;
  const auto store = served.store();
  for (int i = 0; i < 20; ++i) {
    write_text(*store, "a", "x");
  }
  EXPECT_LE(served.fake.connections(), 2);
}

TEST(S3StoreTest, ComposersPointersAreFollowed) {
  S3Served served;
  const auto store = served.store();
  served.fake.put_object("bucket/run/ep1.pt", "bytes");
  served.fake.put_object("bucket/run/latest-rank0.pt.symlink", "run/ep1.pt");
  EXPECT_EQ(read_text(*store, "run/latest-rank0.pt"), "bytes");
  EXPECT_EQ(read_text(*store, "run/latest-rank0.pt.symlink"), "bytes");
  store->move_pointer("run/latest-rank0.pt", "run/ep2.pt");
  EXPECT_EQ(served.fake.objects()["bucket/run/latest-rank0.pt.symlink"], "run/ep2.pt");
}

// With a fifth of the requests failing: no torn object, no acknowledged object lost, every retry
// bounded.
TEST(S3StoreTest, AThousandUploadsAndDownloadsSurviveFaults) {
  S3Served served({.fault_rate = 0.2, .seed = 7});
  S3Options options = served.options();
  options.attempts = 20;
  const auto store = served.store(options);
  const std::string part = long_text(5 << 20);
  std::map<std::string, std::string> acknowledged;
  std::map<std::string, std::size_t> sizes;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "n" + std::to_string(i % 100);
    const bool is_large = i % 250 == 0;
    const std::string text = (is_large ? part : "") + std::to_string(i) + part.substr(0, 100);
    write_text(*store, name, text);
    ASSERT_TRUE(served.fake.object("bucket/" + name) == text) << i;
    ASSERT_TRUE(read_text(*store, name) == text) << i;
    acknowledged["bucket/" + name] = text;
    sizes["bucket/" + name] = text.size();
    ASSERT_EQ(served.fake.sizes(), sizes) << "the others changed, after " << i;
  }
  EXPECT_TRUE(served.fake.objects() == acknowledged);
  // The remaining uploads were begun by requests whose answers were lost: cairn cannot know them
  // yet.
  EXPECT_LE(served.fake.uploads(), 4U) << "nothing else is half done";
  EXPECT_GT(served.fake.faults(), 800U);
  EXPECT_LT(served.fake.log().size(), 12'000U);
}

// --- s3:// wherever a place can be given ---

TEST(S3UriTest, ACheckpointIsSavedFoundVerifiedAndLoaded) {
  FakeS3 fake;
  const testing::S3Environment environment(fake);
  save(testing::sample_checkpoint(1), "s3://bucket/run/ep0-ba1-rank0.pt");
  save(testing::sample_checkpoint(2), "S3://bucket/run/ep0-ba2-rank0.pt");
  EXPECT_TRUE(fake.objects().contains("bucket/run/ep0-ba2-rank0.pt"));
  const auto found = find_latest(
      "s3://bucket/run",
      {.full_state_only = false, .on_skip = [](const std::string& path, const std::string& why) {
         ADD_FAILURE() << path << ": " << why;
       }});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, "s3://bucket/run/ep0-ba2-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(found->path)), 2);
  EXPECT_TRUE(verify("s3://bucket/run/ep0-ba1-rank0.pt", Verify::kFull).ok());
  EXPECT_THROW(load("s3://bucket/run/none.pt"), NotFoundError);
  for (const auto& [path, bytes] : fake.objects()) {
    EXPECT_EQ(bytes.find("canary"), std::string::npos) << path;
  }
}

TEST(S3UriTest, ABadPlaceIsRefusedByOneMessage) {
  const testing::CleanAwsEnvironment environment;
  EXPECT_THAT(message_of<UsageError>([] { load("s3:///a.pt"); }), HasSubstr("name of a bucket"));
  EXPECT_THAT(message_of<UsageError>([] { load("s3://bucket/a.pt"); }),
              HasSubstr("AWS_ACCESS_KEY_ID"));
  EXPECT_THAT(message_of<UnsupportedError>([] { load("nfs3://host/a.pt"); }),
              AllOf(HasSubstr("no store for nfs3://"), HasSubstr("s3://")));
}

TEST(S3UriTest, AProgramMayHaveItsOwnScheme) {
  const auto store = memory_store();
  register_object_store("mine", [&](const std::string& root) {
    EXPECT_EQ(root, "mine://Host:1");
    return store;
  });
  save(testing::sample_checkpoint(3), "mine://Host:1/a/b.pt");
  EXPECT_THAT(list_names(*store, "a"), ElementsAre("b.pt"));
  EXPECT_EQ(testing::batch_of_sample(load("MINE://Host:1/a/b.pt")), 3);
  EXPECT_THROW(register_object_store("Mine", [&](const std::string&) { return store; }),
               UsageError);
  register_object_store("mine", [](const std::string&) { return memory_store(); });
}

TEST(S3StoreTest, ConvertingWhatIsNotThereWritesNothing) {
  S3Served served;
  EXPECT_THROW(convert("/nowhere/a.pt", "b.pt", {.store = served.store()}), NotFoundError);
  EXPECT_EQ(served.fake.count("POST"), 0U) << "an upload was begun";
  EXPECT_EQ(served.fake.count("PUT"), 0U);
}

}  // namespace
}  // namespace cairn
