#include "storage/s3/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "cairn/error.h"

#include "io/threads/cancellation.h"
#include "storage/s3/config.h"
#include "storage/s3/credential_fetch.h"
#include "storage/trackers/rest/authorization.h"
#include "testing/fake_clock.h"
#include "testing/fake_s3.h"
#include "testing/message_of.h"
#include "testing/s3_environment.h"
#include "testing/temp_folder.h"

namespace cairn::s3 {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HttpReply;
using testing::HttpServer;
using testing::message_of;
using ::testing::Not;
using testing::ReceivedRequest;

constexpr const char* kFarAway = "2999-01-01T00:00:00Z";

std::string json_keys(const std::string& id, const std::string& expiration = kFarAway,
                      const char* token = "Token") {
  return R"({"Version": 1, "Code": "Success", "AccessKeyId": ")" + id +
         R"(", "SecretAccessKey": "canary-secret", ")" + token + R"(": "token-of-)" + id +
         R"(", "Expiration": ")" + expiration + R"("})";
}

class CredentialsTest : public ::testing::Test {
 protected:
  std::string write_file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  void set(const char* name, const std::string& value) { environment_.set(name, value.c_str()); }
  CredentialContext context(const std::string& profile = {}) const {
    return {.profile = load_profile(profile),
            .is_profile_given = !profile.empty(),
            .region = "eu-west-1",
            .client = shared_http_client(),
            .retries = {.clock = std::make_shared<testing::FakeNetClock>()}};
  }
  Credentials found(const std::string& profile = {}) const {
    return find_credentials(context(profile)).source->get();
  }

  testing::TempFolder folder_;
  testing::CleanAwsEnvironment environment_;
};

TEST_F(CredentialsTest, FilesAreReadAsAwsReadsThem) {
  const auto sections = parse_sections(
      "# a comment\n"
      "[default]\n"
      "region = eu-central-1  # here\n"
      "[profile a b]\r\n"
      "s3 =\r\n"
      "  addressing_style = path\n"
      "\tendpoint_url=http://h:1/x=y\n"
      "output = json\n"
      "; another\n"
      "[broken\n"
      "no equals sign\n");
  EXPECT_EQ(sections.at("default").at("region"), "eu-central-1");
  EXPECT_EQ(sections.at("profile a b").at("s3.addressing_style"), "path");
  EXPECT_EQ(sections.at("profile a b").at("s3.endpoint_url"), "http://h:1/x=y");
  EXPECT_EQ(sections.at("profile a b").at("output"), "json");
}

TEST_F(CredentialsTest, AWholeSetComesFromOnePlace) {
  set("AWS_SHARED_CREDENTIALS_FILE",
      write_file("credentials",
                 "[default]\naws_access_key_id = D\naws_secret_access_key = d\n"
                 "[work]\naws_access_key_id=W\naws_secret_access_key=w\n"
                 "aws_session_token=t\n"));
  EXPECT_EQ(found().access_key, "D");
  EXPECT_EQ(found("work").session_token, "t");
  set("AWS_PROFILE", "work");
  EXPECT_EQ(found().access_key, "W");
  set("AWS_ACCESS_KEY_ID", "E");
  EXPECT_EQ(found().access_key, "W") << "half a set is none";
  set("AWS_SECRET_ACCESS_KEY", "e");
  EXPECT_EQ(found().access_key, "E");
  EXPECT_EQ(found().session_token, "");
  EXPECT_EQ(found("work").access_key, "W") << "what the program asks for goes first";
  EXPECT_THAT(message_of<UsageError>([&] { found("none"); }), HasSubstr("no profile \"none\""));
}

TEST_F(CredentialsTest, WhatAProfileLeadsToAndCairnCannotFollowIsSaid) {
  set("AWS_CONFIG_FILE", write_file("config", "[default]\nsso_session = x\n"));
  EXPECT_THAT(message_of<UsageError>([&] { found(); }), HasSubstr("sso_session"));
}

TEST_F(CredentialsTest, TheProfileThatIsAskedForIsWhoSigns) {
  set("AWS_ROLE_ARN", "arn:aws:iam::1:role/of-the-environment");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", write_file("token", "t"));
  set("AWS_SHARED_CREDENTIALS_FILE",
      write_file("credentials",
                 "[work]\naws_access_key_id=W\naws_secret_access_key=w\n"
                 "[role]\naws_access_key_id=R\naws_secret_access_key=r\n"
                 "role_arn=arn:aws:iam::1:role/r\nsource_profile=role\n"));
  EXPECT_EQ(found("work").access_key, "W");
  EXPECT_THAT(message_of<UsageError>([&] { found("role"); }), HasSubstr("role_arn"))
      << "its keys only lead to the role";
}

TEST_F(CredentialsTest, AWebIdentityIsExchangedForKeys) {
  std::string form;
  HttpServer sts([&](const ReceivedRequest& asked) {
    form = asked.body;
    return HttpReply{
        .body =
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            "<AccessKeyId>ID</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
            "<SessionToken>t</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>"};
  });
  set("AWS_ENDPOINT_URL_STS", sts.url());
  set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", write_file("token", "a.b+c\n"));
  const Credentials keys = found();
  EXPECT_EQ(keys.access_key, "ID");
  EXPECT_EQ(keys.session_token, "t");
  EXPECT_TRUE(keys.expires.has_value());
  EXPECT_THAT(form, AllOf(HasSubstr("Action=AssumeRoleWithWebIdentity"),
                          HasSubstr("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"),
                          HasSubstr("WebIdentityToken=a.b%2Bc")));
}

TEST_F(CredentialsTest, AContainersEndpointIsAsked) {
  HttpServer server([](const ReceivedRequest& asked) {
    if (asked.header("authorization") != "Bearer x") return HttpReply{.status = 403};
    return HttpReply{.body = json_keys("OF" + asked.target)};
  });
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/v1?id=2");
  EXPECT_THAT(message_of<StorageError>([&] { found(); }), HasSubstr("403"));
  set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", write_file("token", "Bearer x"));
  EXPECT_EQ(found().access_key, "OF/v1?id=2");
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys");
  EXPECT_THAT(message_of<UsageError>([&] { found(); }), HasSubstr("in the clear"));
}

TEST_F(CredentialsTest, AnInstancesRoleNeedsASession) {
  HttpServer server([](const ReceivedRequest& asked) {
    if (asked.method == "PUT" && asked.target == "/latest/api/token") {
      return HttpReply{.body = "session"};
    }
    if (asked.header("x-aws-ec2-metadata-token") != "session") return HttpReply{.status = 401};
    const std::string roles = "/latest/meta-data/iam/security-credentials/";
    if (asked.target == roles) return HttpReply{.body = "the role"};
    if (asked.target == roles + "the%20role") return HttpReply{.body = json_keys("I")};
    return HttpReply{.status = 404};
  });
  set("AWS_EC2_METADATA_DISABLED", "");
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
  EXPECT_EQ(found().access_key, "I");
  set("AWS_EC2_METADATA_DISABLED", "true");
  EXPECT_THAT(message_of<UsageError>([&] { found(); }), HasSubstr("no keys for S3 were found"));
}

// A metadata service that is late, for a moment or for longer, does not prove that there are no
// keys.
TEST_F(CredentialsTest, AnInstanceThatDoesNotAnswerIsAskedAgain) {
  std::atomic<int> failures = 2;
  HttpServer server([&](const ReceivedRequest& asked) {
    if (failures-- > 0) return HttpReply{.sends_at_most = 0};
    if (asked.method == "PUT") return HttpReply{.body = "session"};
    if (asked.target.ends_with("/")) return HttpReply{.body = "r"};
    return HttpReply{.body = json_keys("I")};
  });
  set("AWS_EC2_METADATA_DISABLED", "");
  set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url());
  EXPECT_EQ(found().access_key, "I");
  failures = 1000;
  EXPECT_THAT(message_of<StorageError>([&] { found(); }),
              AllOf(HasSubstr("metadata service"), HasSubstr("AWS_ACCESS_KEY_ID")));
}

// A problem with keys must not look like a problem with a checkpoint.
TEST_F(CredentialsTest, WhatIsNotThereIsNoMissingObject) {
  set("AWS_ROLE_ARN", "arn:aws:iam::1:role/r");
  set("AWS_WEB_IDENTITY_TOKEN_FILE", folder_ / "token");
  EXPECT_THROW(found(), StorageError);
  set("AWS_ROLE_ARN", "");
  set("AWS_CONFIG_FILE", write_file("config", "[default]\ncredential_process = no-such-program\n"));
  EXPECT_THAT(message_of<StorageError>([&] { found(); }), HasSubstr("no-such-program"));
}

TEST_F(CredentialsTest, AProgramPrintsThem) {
  EXPECT_THAT(split_command(R"(a  "b c" d\ e 'f"g' "")"),
              ElementsAre("a", "b c", "d e", "f\"g", ""));
  const std::string answer = write_file("answer", json_keys("P", kFarAway, "SessionToken"));
  set("AWS_CONFIG_FILE",
      write_file("config", "[default]\ncredential_process = cat \"" + answer +
                               "\"\n[profile bad]\ncredential_process = cat " + answer +
                               " /nonexistent\n"
                               "[profile killed]\ncredential_process = sh -c "
                               "\"echo canary >&2; kill -9 $$\"\n"));
  EXPECT_EQ(found().access_key, "P");
  EXPECT_EQ(found().session_token, "token-of-P");
  EXPECT_THAT(message_of<StorageError>([&] { found("bad"); }),
              AllOf(HasSubstr("credential_process (cat)"), Not(HasSubstr("canary"))));
  EXPECT_THAT(message_of<StorageError>([&] { found("killed"); }),
              AllOf(HasSubstr("was ended by signal 9"), Not(HasSubstr("canary"))));
}

TEST_F(CredentialsTest, AProgramHasItsTime) {
  set("AWS_CONFIG_FILE", write_file("config",
                                    "[default]\ncredential_process = sh -c \"sleep 1000; echo\"\n"
                                    "[profile loud]\ncredential_process = yes canary\n"));
  set("CAIRN_PROGRAM_TIMEOUT", "0.05");
  EXPECT_THAT(message_of<StorageError>([&] { found(); }),
              AllOf(HasSubstr("credential_process (sh)"), HasSubstr("did not end within 50 ms"),
                    HasSubstr("CAIRN_PROGRAM_TIMEOUT")));
  set("CAIRN_PROGRAM_TIMEOUT", "1000");
  EXPECT_THAT(message_of<StorageError>([&] { found("loud"); }),
              AllOf(HasSubstr("longer than 1048576 bytes"), Not(HasSubstr("canary"))));
  // A cancelled caller stops waiting, whether it waits for the program or for the caller that runs
  // it.
  Cancellation cancellation("the run has ended");
  const auto source = find_credentials(context()).source;
  const auto wait = [&] {
    const CancelScope scope(&cancellation);
    EXPECT_THROW(source->get(), CancelledError);
  };
  std::thread one(wait);
  std::thread two(wait);
  cancellation.cancel();
  one.join();
  two.join();
}

// awscli writes the time in the time zone of its machine.
TEST_F(CredentialsTest, TheirEndIsReadAsItIsWritten) {
  const auto end = [&](const std::string& text) {
    const std::string answer = write_file("answer", json_keys("P", text, "SessionToken"));
    set("AWS_CONFIG_FILE",
        write_file("config", "[default]\ncredential_process = cat " + answer + "\n"));
    return found().expires;
  };
  EXPECT_EQ(end("2099-05-24T02:00:00+02:00"), parse_iso_time("2099-05-24T00:00:00Z"));
  EXPECT_EQ(end(""), std::nullopt);
  EXPECT_THAT(message_of<StorageError>([&] { end("tomorrow"); }),
              HasSubstr("Expiration is no time: tomorrow"));
}

// A clock that a test moves forward.
class MovedClock final : public NetClock {
 public:
  NetTime now() override { return time; }
  void sleep_for(std::chrono::milliseconds pause) override { time += pause; }
  NetTime time = std::chrono::system_clock::now();
};

TEST_F(CredentialsTest, TheyAreFetchedAgainBeforeTheirEnd) {
  int fetched = 0;
  std::function<Credentials()> fails = nullptr;
  const auto clock = std::make_shared<MovedClock>();
  const NetTime now = clock->time;
  const auto source = fetched_credentials(
      [&]() -> Credentials {
        if (fails) return fails();
        ++fetched;
        const auto lasts = std::chrono::minutes(fetched == 1 ? 60 : 4);
        return {"ID" + std::to_string(fetched), "s", "t", now + lasts};
      },
      clock);
  EXPECT_EQ(source->get().access_key, "ID1");
  EXPECT_EQ(source->get().access_key, "ID1");
  source->note_refused({.access_key = "another"});
  EXPECT_EQ(source->get().access_key, "ID1");
  source->note_refused(source->get());
  EXPECT_EQ(source->get().access_key, "ID2");
  EXPECT_EQ(source->get().access_key, "ID2") << "others would end as soon";
  clock->time += std::chrono::seconds(31);
  EXPECT_EQ(source->get().access_key, "ID3") << "it ends soon";
  const std::vector<std::function<Credentials()>> ways = {
      []() -> Credentials { throw StorageError("no answer", 0, true); },
      []() -> Credentials { throw NotFoundError("no token"); },
      []() -> Credentials { throw UsageError("no role any more"); }, [] { return Credentials(); }};
  for (const auto& way : ways) {
    fails = way;
    clock->time += std::chrono::seconds(31);
    EXPECT_EQ(source->get().access_key, "ID3") << "it still holds";
  }
  source->note_refused(source->get());
  for (const auto& way : ways) {
    fails = way;
    EXPECT_THROW(source->get(), StorageError);
  }
}

// If a source hangs, every request would wait for it.
TEST_F(CredentialsTest, ASourceThatFailsIsLeftAloneForAWhile) {
  const auto clock = std::make_shared<MovedClock>();
  int asked = 0;
  const auto source = fetched_credentials(
      [&]() -> Credentials {
        if (++asked > 1) {
          clock->time += std::chrono::seconds(60);
          throw StorageError("no answer", 0, true);
        }
        return {"ID", "s", "t", clock->time + std::chrono::minutes(4)};
      },
      clock);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(source->get().access_key, "ID");
  EXPECT_EQ(asked, 1);
  clock->time += std::chrono::seconds(31);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(source->get().access_key, "ID");
  EXPECT_EQ(asked, 2) << "as they end soon";
  clock->time += std::chrono::seconds(31);
  EXPECT_EQ(source->get().access_key, "ID");
  EXPECT_EQ(asked, 3);
  source->note_refused(source->get());
  EXPECT_THROW(source->get(), StorageError);
  EXPECT_EQ(asked, 4) << "keys that are refused do not hold";
}

TEST_F(CredentialsTest, AnAuthorizationThatFailsIsLeftAloneForAWhile) {
  const auto clock = std::make_shared<MovedClock>();
  int asked = 0;
  const auto authorization = fetched_authorization(
      [&]() -> FetchedToken {
        if (++asked > 1) throw StorageError("no answer", 0, true);
        return {"Bearer x", clock->time + std::chrono::minutes(10)};
      },
      clock);
  EXPECT_EQ(authorization->header(), "Bearer x");
  clock->time += std::chrono::minutes(9);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(authorization->header(), "Bearer x");
  EXPECT_EQ(asked, 2);
  clock->time += std::chrono::seconds(31);
  EXPECT_EQ(authorization->header(), "Bearer x");
  EXPECT_EQ(asked, 3);
  clock->time += std::chrono::minutes(1);
  EXPECT_THROW(authorization->header(), StorageError);
}

TEST_F(CredentialsTest, KeysMayEndInTheMiddleOfAnUpload) {
  testing::FakeS3Options options;
  options.access_key = "K1";
  options.secret_key = "canary-secret";
  options.session_token = "token-of-K1";
  testing::FakeS3 fake(options);
  std::atomic<int> generation = 1;
  HttpServer server([&](const ReceivedRequest&) {
    return HttpReply{.body = json_keys("K" + std::to_string(generation.load()))};
  });
  set("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url());
  const auto store = make_s3_store(
      resolve_config({.bucket = "bucket", .endpoint_url = fake.url(), .part_bytes = 5 << 20},
                     {.retries = {.clock = std::make_shared<testing::FakeNetClock>()}}));
  const auto object = store->begin("big.pt");
  const std::string part(6 << 20, 'x');
  object->write(as_bytes(part));
  generation = 2;
  options.expired_key = "K1";
  options.access_key = "K2";
  options.session_token = "token-of-K2";
  fake.change(options);
  object->write(as_bytes(part));
  object->commit();
  EXPECT_EQ(fake.objects()["bucket/big.pt"], part + part);
}

}  // namespace
}  // namespace cairn::s3
