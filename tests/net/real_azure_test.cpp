// Tests with the Azure server of the environment, whose container "container" is the test's own
// (tests/net/with_azurite). Defines the server for real_store_test.cpp, and tests what only Azure
// has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <numeric>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/azure.h"

#include "io/bytes/source_part.h"
#include "real_store.h"
#include "storage/azure/config.h"
#include "storage/azure/connection.h"
#include "storage/listing.h"
#include "testing/environment_variable.h"
#include "testing/fake_azure.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"

namespace cairn {

const std::shared_ptr<ObjectStore>& real_store() {
  static const auto store = azure_store({.container = "container", .part_bytes = 5 << 20});
  return store;
}

std::shared_ptr<ObjectStore> another_real_store() {
  return azure_store({.container = "container"});
}

std::string real_place() { return "azure://container"; }

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::string variable(const char* name) { return std::getenv(name); }  // NOLINT

void write(ObjectStore& store, const std::string& name, const std::string& bytes) {
  const auto object = store.begin(name);
  object->write(as_bytes(bytes));
  object->commit();
}

// A store with a token of the account. The fake makes the token, so that Azurite checks the fake,
// too.
std::shared_ptr<ObjectStore> store_by_token(const std::string& permissions,
                                            std::chrono::seconds lasts) {
  const testing::FakeAzure fake(
      {.account = variable("AZURE_ACCOUNT_NAME"), .key = variable("AZURE_ACCOUNT_ACCESS_KEY")});
  const std::string token = fake.sas(permissions, lasts);
  const testing::EnvironmentVariable without("AZURE_ACCOUNT_ACCESS_KEY", nullptr);
  return azure_store({.container = "container", .sas_token = token, .part_bytes = 5 << 20});
}

TEST(RealAzureTest, EveryConditionHolds) {
  const StoreFeatures features = real_store()->features();
  EXPECT_TRUE(features.versioned_writes && features.fenced_writes && features.fenced_pointers);
}

TEST(RealAzureTest, ATokenSignsInPlaceOfAKey) {
  const auto store = store_by_token("rwdl", std::chrono::hours(1));
  const std::string large(12'000'000, 'b');
  write(*store, "token/a", large);
  store->rename("token/a", "token/b");
  EXPECT_THAT(list_names(*store, "token"), ElementsAre("b"));
  EXPECT_TRUE(as_text(read_all(*store->open("token/b")).view) == large);
  EXPECT_TRUE(store->remove("token/b"));
}

// Azurite answers AuthorizationFailure in both cases, and for a wrong key. Azure answers
// AuthenticationFailed for an expired token and a wrong key.
TEST(RealAzureTest, ATokenThatMayNotOrHasEndedIsRefused) {
  EXPECT_THAT(message_of<StorageError>(
                  [] { write(*store_by_token("r", std::chrono::hours(1)), "token/c", "bytes"); }),
              AllOf(HasSubstr("403"), HasSubstr("may do with the container")));
  EXPECT_THAT(message_of<StorageError>([] {
                write(*store_by_token("rwdl", std::chrono::hours(-1)), "token/c", "bytes");
              }),
              HasSubstr("403 AuthorizationFailure"));
}

TEST(RealAzureTest, WrongKeysAreNamed) {
  const auto store = azure_store({.container = "container", .account_key = "d3JvbmctY2FuYXJ5"});
  EXPECT_THAT(message_of<StorageError>([&] { store->open("a"); }),
              AllOf(HasSubstr("403 AuthorizationFailure"), HasSubstr("check what the key"),
                    Not(HasSubstr("d3JvbmctY2FuYXJ5"))));
  EXPECT_THAT(message_of<NotFoundError>([] { azure_store({.container = "no-such"})->list("a"); }),
              HasSubstr("ContainerNotFound"));
}

TEST(RealAzureTest, AConnectionStringIsEnough) {
  const std::string text =
      "DefaultEndpointsProtocol=http;AccountName=" + variable("AZURE_ACCOUNT_NAME") +
      ";AccountKey=" + variable("AZURE_ACCOUNT_ACCESS_KEY") +
      ";BlobEndpoint=" + variable("AZURE_STORAGE_SERVICE_ENDPOINT") + ";";
  const testing::EnvironmentVariable name("AZURE_ACCOUNT_NAME", nullptr);
  const testing::EnvironmentVariable key("AZURE_ACCOUNT_ACCESS_KEY", nullptr);
  const testing::EnvironmentVariable endpoint("AZURE_STORAGE_SERVICE_ENDPOINT", nullptr);
  const auto store = azure_store({.container = "container", .connection_string = text});
  write(*store, "connected", "bytes");
  EXPECT_EQ(as_text(read_all(*store->open("connected")).view), "bytes");
}

// Two writers write blocks under one name: the first writer's list makes the server forget the
// second writer's blocks.
TEST(RealAzureTest, OfTwoWritersOfLargeOnesTheSecondIsTold) {
  const auto one = real_store()->begin("two-writers");
  one->write(as_bytes(std::string(40 << 20, 'b')));  // more than is hashed and under way at once
  write(*real_store(), "two-writers", std::string(12 << 20, 'c'));
  EXPECT_THAT(message_of<StorageError>([&] { one->commit(); }),
              HasSubstr("was removed before it was complete; write it again"));
  EXPECT_TRUE(as_text(read_all(*real_store()->open("two-writers")).view) ==
              std::string(12 << 20, 'c'));
}

}  // namespace
}  // namespace cairn
