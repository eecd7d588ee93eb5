#include "storage/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::batch_of_sample;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::sample_checkpoint;

TEST(PlaceTest, AFileUriIsAPath) {
  const testing::TempFolder folder;
  const std::string uri = "file://" + folder.path();
  save(sample_checkpoint(1), uri + "/run/ep0-ba1-rank0.pt");
  EXPECT_TRUE(std::filesystem::exists(folder / "run/ep0-ba1-rank0.pt"));
  EXPECT_EQ(batch_of_sample(load(folder / "run/ep0-ba1-rank0.pt")), 1);
  EXPECT_EQ(batch_of_sample(load("FILE://localhost" + folder.path() + "/run/ep0-ba1-rank0.pt")), 1);
  const auto found = find_latest(uri + "/run", {.full_state_only = false});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, uri + "/run/ep0-ba1-rank0.pt");
  const auto store = object_store_of(uri);
  store->move_pointer(uri + "/run/latest", uri + "/run/ep0-ba1-rank0.pt");
  EXPECT_EQ(store->read_pointer(uri + "/run/latest")->target, uri + "/run/ep0-ba1-rank0.pt");
  EXPECT_EQ(batch_of_sample(load(folder / "run/latest")), 1);
  EXPECT_THAT(message_of<UsageError>([] { load("file://host/a.pt"); }), HasSubstr("three slashes"));
}

TEST(PlaceTest, MemoryIsKeptByItsName) {
  save(sample_checkpoint(2), "memory://place_test/a.pt");
  EXPECT_EQ(batch_of_sample(load("memory://place_test/a.pt")), 2);
  EXPECT_THROW(load("memory://place_test2/a.pt"), NotFoundError);
}

// A build without network stores must refuse the same schemes that the other builds have, not call
// them unknown.
TEST(PlaceTest, EveryBuildKnowsTheSameSchemes) {
  EXPECT_THAT(object_store_schemes(),
              ::testing::IsSupersetOf({"azure", "dbfs", "file", "gs", "http", "https", "libcloud",
                                       "memory", "oci", "s3", "sftp", "wandb"}));
}

TEST(PlaceTest, ABucketNeedsTwoSlashes) {
  for (const char* place : {"s3:/bucket/run", "azure:/container/run"}) {
    EXPECT_THAT(place_problem(place), HasSubstr("needs two slashes before the name of a bucket"))
        << place;
  }
}

// s3://bucket/a//b is another object than s3://bucket/a/b, and must not be mistaken for it.
TEST(PlaceTest, AKeyWithAnEmptyPartIsNotTakenForAnother) {
  for (const char* place : {"s3://bucket/a//b.pt", "s3://bucket//b.pt", "gs://bucket/a/./b.pt",
                            "azure://bucket/a/../b.pt", "s3://bucket/run//"}) {
    EXPECT_THAT(place_problem(place), HasSubstr("other keys than")) << place;
  }
  for (const char* place : {"s3://bucket", "s3://bucket/", "s3://bucket/run/", "s3://bucket/a/b.pt",
                            "s3://bucket/.hidden/..x"}) {
    EXPECT_EQ(place_problem(place), "") << place;
  }
}

TEST(PlaceTest, AStoreKnowsItsOwnRootOnly) {
  const auto store = object_store_of("memory://place_test3/a");
  EXPECT_THAT(message_of<UsageError>([&] { store->open("memory://place_test4/a"); }),
              HasSubstr("is not in memory://place_test3"));
}

TEST(PlaceTest, AGivenStoreTakesNamesAsTheyAre) {
  const auto given = memory_store();
  EXPECT_EQ(store_of("s3://bucket/a", given), given);
  EXPECT_EQ(store_of("a/path", nullptr), local_store());
  EXPECT_EQ(place_problem("a/path"), "");
  EXPECT_EQ(place_problem("memory://x"), "");
  EXPECT_THAT(place_problem("nfs3://x"), HasSubstr("no store for nfs3://"));
}

TEST(PlaceTest, APlaceThatThereIsNoStoreForIsToldWithoutItsSecrets) {
  EXPECT_EQ(shown_place("htps://me:canary@host/a.pt?sig=canary"), "htps://host/a.pt?...");
  EXPECT_EQ(shown_place("https://me:canary@host/a.pt"), "https://host/a.pt");
  for (const char* place :
       {"htps://me:canary@host/a.pt?sig=canary", "ftp://me:canary@host", "htps:/me:canary@host/a",
        "htps://host?sig=canary", "htps://host?sig=x@canary", "ftp://me:#canary@host/a"}) {
    const std::string problem = place_problem(place);
    EXPECT_THAT(problem, AllOf(HasSubstr("no store for "), Not(HasSubstr("canary"))));
    EXPECT_EQ(message_of<UnsupportedError>([&] { object_store_of(place); }), problem);
  }
  for (const char* place :
       {"s3://AKIA:canary@bucket/a", "gs://key:canary@bucket/a",
        "azure://account:canary@container/a", "oci://u:canary@bucket/a",
        "s3://AKIA:canary/canary@bucket/x", "s3://AKIA:canary/x", "libcloud://key:canary"}) {
    EXPECT_THAT(message_of<UsageError>([&] { object_store_of(place); }),
                AllOf(HasSubstr("a password in a place"), Not(HasSubstr("canary"))));
    EXPECT_THAT(shown_place(place), Not(HasSubstr("canary")));
  }
  EXPECT_EQ(shown_place("s3://AKIA:canary/canary@bucket/x"), "s3://bucket/x");
  EXPECT_EQ(shown_place("s3://AKIA:canary/x"), "s3://...");
  for (const char* place :
       {"https://me:ca/canary@host/a.pt", "http://me:canary/x@host:80/a@b.pt",
        "https://me:canary?/canary@host/a.pt", "sftp://me:canary/canary@host/run",
        "sftp://me:canary/run", "https://[::1]:canary/x@host", "https://me:#canary/@host",
        "https://me:p@canary/canary@host/a.pt", "https://me:p@canary/canary@host?x=y"}) {
    EXPECT_THAT(message_of<UsageError>([&] { object_store_of(place); }),
                AllOf(HasSubstr("write %2F"), Not(HasSubstr("canary"))));
    EXPECT_THAT(shown_place(place), Not(HasSubstr("canary")));
  }
  EXPECT_EQ(shown_place("https://me:ca/canary@host/a.pt"), "https://host/a.pt");
  EXPECT_EQ(shown_place("https://me:p@canary/canary@host/a.pt"), "https://host/a.pt");
  EXPECT_THAT(place_problem("htps://me:ca/canary@host/a.pt"), Not(HasSubstr("canary")));
  for (const char* place : {"https://host:8443/a@b.pt", "https://[::1]:8443/a:b@c",
                            "sftp://host:22/a:b@c", "https://host/a:b@c"}) {
    EXPECT_EQ(shown_place(place), place) << "a host, a port and a name";
    EXPECT_EQ(place_problem(place), "");
  }
  for (const char* place :
       {"https://host:8443?file=a", "https://host?x=a:b", "https://host:8443#a:b/c@d",
        "https://me:pw@host/a?x=b@c", "https://me@host:8443/a@b.pt", "https://me:pw@host?x=b@c"}) {
    EXPECT_EQ(place_problem(place), "") << place;
  }
  EXPECT_EQ(shown_place("https://host:8443?file=a"), "https://host:8443?...");
  EXPECT_EQ(place_problem("s3://bucket/a:b@c"), "") << "in a key anything may be";
  EXPECT_EQ(shown_place("s3://bucket/a:b@c"), "s3://bucket/a:b@c");
  EXPECT_EQ(place_problem("oci://bucket@namespace/a"), "") << "that is none";
  EXPECT_EQ(shown_place("memory://x/a?b@c"), "memory://x/a?b@c");
  EXPECT_EQ(shown_place("a/path?b@c"), "a/path?b@c");
}

}  // namespace
}  // namespace cairn
