#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "s3_fixture.h"
#include "storage/listing.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "trackers_fixture.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;
using ::testing::Pair;

std::string in_run(const std::string& experiment, const std::string& run, const std::string& path) {
  return "databricks/mlflow-tracking/" + experiment + "/" + run + "/artifacts/" + path;
}

const char* const kNoExperiment = "{mlflow_experiment_id}";
const char* const kNoRun = "{mlflow_run_id}";

TEST(MlflowTest, AServerThatServesArtifactsIsAskedAsTheDocumentsSay) {
  TrackersServed served({.serves_artifacts = true});
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  const std::string name = in_run("7", run, "ck/ep 1.pt");
  write_text(*store, name, "bytes");
  EXPECT_EQ(served.fake.files()["7/" + run + "/artifacts/ck/ep 1.pt"], "bytes");
  EXPECT_EQ(served.fake.count("PUT /api/2.0/mlflow-artifacts/artifacts/7/" + run +
                              "/artifacts/ck/ep%201.pt"),
            1U);
  EXPECT_EQ(read_text(*store, name), "bytes");
  EXPECT_TRUE(store->remove(name));
  EXPECT_THAT(served.fake.files(), IsEmpty());
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST(MlflowTest, FoldersOfAThousandArtifactsAreListedWhole) {
  for (const bool serves : {true, false}) {
    TrackersServed served({.serves_artifacts = serves, .page = 100});
    const std::string run = served.fake.add_run("7");
    for (int i = 0; i < 1100; ++i) {
      served.fake.put_file(
          "7/" + run + "/artifacts/ck/n" + std::to_string(i) + (i % 100 == 0 ? "/below" : ""), "x");
    }
    EXPECT_EQ(list_names(*served.store(), in_run("7", run, "ck")).size(), 1100U);
    EXPECT_TRUE(served.store()->stat(in_run("7", run, "ck/n999")).has_value());
  }
}

// The number of list requests that `act` makes in a folder with this many artifacts.
std::size_t lists_with(TrackersServed& served, int artifacts,
                       const std::function<void(ObjectStore&, std::string)>& act) {
  const std::string run = served.fake.add_run("7");
  for (int i = 0; i < artifacts; ++i) {
    served.fake.put_file("7/" + run + "/artifacts/ck/n" + std::to_string(i), "x");
  }
  const auto store = served.store();
  store->stat(in_run("7", run, "ck"));  // makes the run known
  const std::size_t before = served.fake.count("GET /api/2.0/mlflow/artifacts/list");
  act(*store, in_run("7", run, "ck/"));
  return served.fake.count("GET /api/2.0/mlflow/artifacts/list") - before;
}

TEST(MlflowTest, WhatOneFileCostsAtDatabricksIsTheSameInLargeFolders) {
  const std::vector<std::pair<std::size_t, std::function<void(ObjectStore&, std::string)>>> acts = {
      {1, [](ObjectStore& store, const std::string& in) { EXPECT_TRUE(store.stat(in + "n1")); }},
      {1, [](ObjectStore& store,
             const std::string& in) { EXPECT_EQ(read_text(store, in + "n1"), "x"); }},
      {2, [](ObjectStore& store, const std::string& in) { EXPECT_FALSE(store.stat(in + "none")); }},
      {2,
       [](ObjectStore& store, const std::string& in) { write_text(store, in + "new", "bytes"); }},
  };
  for (const auto& [most, act] : acts) {
    for (const int artifacts : {10, 200}) {
      TrackersServed served({.page = 10});
      EXPECT_LE(lists_with(served, artifacts, act), most);
      EXPECT_EQ(served.fake.count("GET /api/2.0/mlflow/artifacts/list?page_token"), 0U)
          << "one page says it";
      EXPECT_THAT(served.fake.violations(), IsEmpty());
    }
  }
}

// The server's REST interface reports files only in the lists of their folders.
TEST(MlflowTest, AServerThatServesArtifactsIsAskedForAFoldersListOnce) {
  TrackersServed served({.serves_artifacts = true});
  const std::string run = served.fake.add_run("7");
  for (const char* name : {"a", "b.symlink", "folder/a"})
    served.fake.put_file("7/" + run + "/artifacts/ck/" + std::string(name), "x");
  const auto store = served.store();
  const auto lists_of = [&](const std::function<void(const std::string&)>& act) {
    const std::size_t before = served.fake.count("GET /api/2.0/mlflow-artifacts/artifacts?path");
    act(in_run("7", run, "ck/"));
    return served.fake.count("GET /api/2.0/mlflow-artifacts/artifacts?path") - before;
  };
  EXPECT_EQ(lists_of([&](const std::string& in) { EXPECT_TRUE(store->stat(in + "a")); }), 1U);
  EXPECT_EQ(lists_of([&](const std::string& in) { EXPECT_FALSE(store->stat(in + "none")); }), 1U);
  EXPECT_EQ(lists_of([&](const std::string& in) {
              EXPECT_EQ(store->stat(in + "folder")->type, ObjectInfo::Type::kFolder);
            }),
            1U);
  EXPECT_EQ(lists_of([&](const std::string& in) { EXPECT_TRUE(store->stat(in + "b", false)); }),
            1U);
  EXPECT_EQ(lists_of([&](const std::string& in) { EXPECT_EQ(read_text(*store, in + "a"), "x"); }),
            1U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

class MlflowOfDatabricks : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Clouds, MlflowOfDatabricks,
                         ::testing::Values("AWS_PRESIGNED_URL", "GCP_SIGNED_URL", "AZURE_SAS_URI"));

TEST_P(MlflowOfDatabricks, BytesGoByTheUrlsThatItSigns) {
  TrackersServed served({.signed_type = GetParam(), .page = 2});
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  for (const char* path : {"a", "below/b", "c", "d", "empty"}) {
    const std::string text = std::string(path) == "empty" ? "" : "bytes of " + std::string(path);
    write_text(*store, in_run("7", run, path), text);
    EXPECT_EQ(read_text(*store, in_run("7", run, path)), text) << path;
  }
  EXPECT_EQ(served.fake.files()["7/" + run + "/artifacts/below/b"], "bytes of below/b");
  EXPECT_THAT(list_names(*store, in_run("7", run, "")),
              ElementsAre("a", "below", "c", "d", "empty"));
  EXPECT_THROW(store->list(in_run("7", run, "a")), UsageError);
  EXPECT_THROW(store->open(in_run("7", run, "none")), NotFoundError);
  EXPECT_THAT(message_of<UnsupportedError>([&] { store->remove(in_run("7", run, "a")); }),
              AllOf(HasSubstr("dbfs:/" + in_run("7", run, "a")), HasSubstr("volume")));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_P(MlflowOfDatabricks, AUrlThatEndsIsFetchedAgain) {
  TrackersServed served({.signed_type = GetParam()});
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  served.fake.put_file("7/" + run + "/artifacts/big", std::string(1 << 20, 'b'));
  const auto source = store->open(in_run("7", run, "big"));
  served.fake.end_urls();
  EXPECT_EQ(as_text(source->view(0, 3).view), "bbb");
  EXPECT_EQ(served.fake.count("POST /api/2.0/mlflow/artifacts/credentials-for-read"), 2U);
  served.fake.put_file("7/" + run + "/artifacts/big", std::string(1 << 20, 'c'));
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 3); }), HasSubstr("was replaced"));
  served.fake.answer_next("GET /storage", {.status = 403}, 100);
  EXPECT_THAT(
      message_of<StorageError>([&] { source->view(0, 3); }),
      AllOf(HasSubstr("refuses the URL"), Not(HasSubstr("canary")), Not(HasSubstr("storage/7"))));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST(MlflowTest, PlaceholdersBecomeOneRunOfTheExperiment) {
  TrackersServed served;
  served.environment.set("MLFLOW_EXPERIMENT_NAME", "/Users/me/cairn");
  const auto store = served.store();
  const std::string name = in_run(kNoExperiment, kNoRun, "ep1.pt");
  write_text(*store, name, "bytes");
  store->move_pointer(in_run(kNoExperiment, kNoRun, "latest"), name);
  EXPECT_EQ(served.fake.runs(), 1U);
  EXPECT_EQ(served.fake.count("POST /api/2.0/mlflow/experiments/create"), 1U);
  EXPECT_EQ(read_text(*store, in_run(kNoExperiment, kNoRun, "latest")), "bytes");
  // The pointer contains the actual run, which another job reads.
  const auto pointer = store->read_pointer(in_run(kNoExperiment, kNoRun, "latest"));
  ASSERT_TRUE(pointer.has_value());
  EXPECT_EQ(pointer->target, in_run("exp1", "run2", "ep1.pt"));
  EXPECT_EQ(read_text(*served.store(), pointer->target), "bytes");
  // The experiment exists by now: another store makes only a run.
  write_text(*served.store(), name, "other");
  EXPECT_EQ(served.fake.count("POST /api/2.0/mlflow/experiments/create"), 1U);
  EXPECT_EQ(served.fake.runs(), 2U);
  write_text(*served.store(), in_run("exp1", kNoRun, "ep1.pt"), "third");
  EXPECT_EQ(served.fake.runs(), 3U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST(MlflowTest, MessagesAskNobodyAndMakeNoRun) {
  TrackersServed served;
  const auto store = served.store();
  EXPECT_EQ(store->describe(in_run(kNoExperiment, kNoRun, "a//b")),
            "dbfs:/" + in_run(kNoExperiment, kNoRun, "a/b"));
  EXPECT_EQ(store->describe("root/a"), "dbfs:/root/a");
  EXPECT_THAT(served.fake.log(), IsEmpty());
}

TEST(MlflowTest, AnExperimentWhoseMakingGotNoAnswerIsNotMissed) {
  TrackersServed served;
  served.fake.answer_next("POST /api/2.0/mlflow/experiments/create", {.sends_at_most = 0}, 1,
                          testing::FakeTrackers::When::kAfter);
  write_text(*served.store(), in_run(kNoExperiment, kNoRun, "a"), "bytes");
  EXPECT_TRUE(served.fake.files().contains("exp1/run2/artifacts/a"));
}

TEST(MlflowTest, ARunThatIsGivenIsTakenAndChecked) {
  TrackersServed served;
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  EXPECT_THAT(message_of<UsageError>([&] { store->stat(in_run("8", run, "a")); }),
              AllOf(HasSubstr("experiment 7"), HasSubstr("not of 8")));
  EXPECT_THROW(store->stat(in_run("7", "none", "a")), NotFoundError);
  EXPECT_THROW(store->stat(in_run(kNoExperiment, run, "a")), UsageError);
  EXPECT_THROW(store->stat("databricks/mlflow-tracking/7/" + run + "/a"), UsageError);
  served.environment.set("MLFLOW_RUN_ID", run);
  write_text(*served.store(), in_run(kNoExperiment, kNoRun, "a"), "bytes");
  EXPECT_TRUE(served.fake.files().contains("7/" + run + "/artifacts/a"));
}

TEST(MlflowTest, RanksDoNotMakeARunEach) {
  TrackersServed served;
  served.environment.set("WORLD_SIZE", "4");
  const auto store = served.store();
  EXPECT_THAT(message_of<UsageError>([&] { store->stat(in_run("7", kNoRun, "a")); }),
              AllOf(HasSubstr("4 ranks"), HasSubstr("MLFLOW_RUN_ID")));
  EXPECT_EQ(served.fake.runs(), 0U);
}

TEST(MlflowTest, ErrorsAreTypedAsComposerTypesThem) {
  TrackersServed served;
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  const auto answer = [&](int status, const std::string& code, const std::string& message) {
    served.fake.answer_next(
        "GET /api/2.0/mlflow/artifacts/list",
        {.status = status,
         .body = R"({"error_code": ")" + code + R"(", "message": ")" + message + "\"}"});
  };
  answer(400, "TEMPORARILY_UNAVAILABLE", "later");
  EXPECT_FALSE(store->stat(in_run("7", run, "a")).has_value()) << "it was tried again";
  answer(500, "INTERNAL_ERROR", "403 Client Error: Forbidden");
  const std::size_t before = served.fake.count("GET /api/2.0/mlflow/artifacts/list");
  EXPECT_THAT(message_of<StorageError>([&] { store->stat(in_run("7", run, "a")); }),
              HasSubstr("403 Client Error"));
  EXPECT_EQ(served.fake.count("GET /api/2.0/mlflow/artifacts/list"), before + 1);
}

TEST(MlflowTest, ServersThatCannotBeAreRefusedWithWhatToDo) {
  TrackersServed served({.serves_artifacts = true});
  const std::string elsewhere = served.fake.add_run("7", "s3://bucket/7/artifacts");
  const std::string other_host =
      served.fake.add_run("7", "mlflow-artifacts://other:80/7/artifacts");
  const auto store = served.store();
  for (const std::string& run : {elsewhere, other_host}) {
    EXPECT_THAT(message_of<UnsupportedError>([&] { store->stat(in_run("7", run, "a")); }),
                HasSubstr("--serve-artifacts"));
  }
  served.environment.set("MLFLOW_TRACKING_TOKEN", "canary-wrong");
  EXPECT_THAT(message_of<StorageError>(
                  [&] { served.store(served.options())->stat(in_run("7", elsewhere, "a")); }),
              AllOf(HasSubstr("MLFLOW_TRACKING_TOKEN"), Not(HasSubstr("canary"))));
  DbfsOptions options = served.options();
  options.tracking_uri = "sqlite:///mlruns.db";
  EXPECT_THROW(served.store(options)->stat(in_run("7", "run1", "a")), UsageError);
}

TEST(MlflowTest, AUserAndAPasswordAreTaken) {
  TrackersServed served({.user = "me", .password = "canary-password", .serves_artifacts = true});
  served.environment.set("MLFLOW_TRACKING_USERNAME", "me");
  served.environment.set("MLFLOW_TRACKING_PASSWORD", "canary-password");
  const std::string run = served.fake.add_run("7");
  write_text(*served.store(), in_run("7", run, "a"), "bytes");
  EXPECT_TRUE(served.fake.files().contains("7/" + run + "/artifacts/a"));
  served.fake.answer_next("GET ", {.status = 403, .body = R"({"message": "not canary-password"})"});
  EXPECT_THAT(message_of<StorageError>([&] { served.store()->stat(in_run("7", run, "a")); }),
              AllOf(HasSubstr("not ***"), Not(HasSubstr("canary"))));
}

TEST(MlflowTest, CheckpointsAreFoundByTheirUrisWithPlaceholders) {
  TrackersServed served;
  served.environment.set("DATABRICKS_HOST", served.fake.url());
  served.environment.set("DATABRICKS_TOKEN", served.keys.token);
  const std::string folder = "dbfs:/" + in_run(kNoExperiment, kNoRun, "run");
  for (const std::int64_t batch : {1, 2}) {
    save(testing::sample_checkpoint(batch),
         folder + "/ep0-ba" + std::to_string(batch) + "-rank0.pt",
         {.info = testing::sample_info(batch)});
  }
  const auto found = find_latest(folder);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(testing::batch_of_sample(load(found->checkpoint)), 2);
  EXPECT_EQ(served.fake.runs(), 1U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

// MLflow servers with S3 or Google storage remove everything that begins with the path.
TEST(MlflowTest, RemovingAnArtifactRemovesNoOtherThatBeginsWithItsName) {
  TrackersServed served({.serves_artifacts = true});
  const std::string run = served.fake.add_run("7");
  const std::string root = "7/" + run + "/artifacts/";
  for (const char* path : {"rank1", "rank10", "ck/ep1/a", "ck/ep1/ab", "ck/ep1/a.d/b", "ck/ep10/a"})
    served.fake.put_file(root + path, "x");
  const auto store = served.store();
  EXPECT_THAT(message_of<UnsupportedError>([&] { store->remove(in_run("7", run, "rank1")); }),
              AllOf(HasSubstr("dbfs:/" + in_run("7", run, "rank1")), HasSubstr("rank10")));
  EXPECT_EQ(served.fake.count("DELETE"), 0U);
  EXPECT_TRUE(store->remove(in_run("7", run, "rank10")));
  EXPECT_TRUE(store->remove(in_run("7", run, "rank1")));
  EXPECT_TRUE(store->remove_folder(in_run("7", run, "ck/ep1")));
  EXPECT_EQ(served.fake.count("DELETE"), 5U) << "files, and no folder";
  EXPECT_THAT(served.fake.files(), ElementsAre(Pair(root + "ck/ep10/a", "x")));
  EXPECT_FALSE(store->remove_folder(in_run("7", run, "ck/ep1")));
}

TEST(MlflowTest, ASizeThatNoMemoryHasIsAnError) {
  TrackersServed served({.serves_artifacts = true});
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  for (const char* size :
       {"18446744073709551615", "\"18446744073708000000\"", "1000000000000000", "1099511627777"}) {
    const std::string file = R"({"path": "a", "is_dir": false, "file_size": )";
    served.fake.answer_next("GET /api/2.0/mlflow-artifacts/artifacts?path",
                            {.body = R"({"files": [)" + file + size + "}]}"});
    EXPECT_THAT(message_of<StorageError>([&] { store->open(in_run("7", run, "a")); }),
                AllOf(HasSubstr("dbfs:/" + in_run("7", run, "a")), HasSubstr("too many")))
        << size;
  }
  EXPECT_EQ(served.fake.count("GET /api/2.0/mlflow-artifacts/artifacts/"), 0U);
}

TEST(MlflowTest, WhatIsTooLargeForAPointerIsNotRead) {
  TrackersServed served({.serves_artifacts = true});
  const std::string run = served.fake.add_run("7");
  served.fake.put_file("7/" + run + "/artifacts/big.symlink", std::string(5000, 'x'));
  EXPECT_TRUE(served.store()->read_pointer(in_run("7", run, "big"))->is_broken());
  EXPECT_EQ(served.fake.count("GET /api/2.0/mlflow-artifacts/artifacts/"), 0U);
}

TEST(MlflowTest, NamesThatLeadElsewhereAreNotFollowed) {
  TrackersServed served({.serves_artifacts = true});
  const std::string run = served.fake.add_run("7");
  const std::string root = "7/" + run + "/artifacts/";
  served.fake.put_file(root + "ck/a", "x");
  served.fake.put_file(root + "kept", "x");
  served.fake.answer_next("GET /api/2.0/mlflow-artifacts/artifacts?path",
                          {.body = R"({"files": [{"path": "", "is_dir": true},
                              {"path": "..", "is_dir": true}, {"path": ".", "is_dir": true},
                              {"path": "a", "is_dir": false, "file_size": 1}]})"});
  EXPECT_TRUE(served.store()->remove_folder(in_run("7", run, "ck")));
  EXPECT_THAT(served.fake.files(), ElementsAre(Pair(root + "kept", "x")));
  EXPECT_EQ(served.fake.count("GET /api/2.0/mlflow-artifacts/artifacts?path"), 2U);
}

// The list of a run begins with one page, and then repeats `pages` in a circle.
void go_in_circles(testing::FakeTrackers& fake, const std::vector<std::string>& pages) {
  const auto lead = [&](const std::string& request, const std::string& next, int times) {
    fake.answer_next("GET /api/2.0/mlflow/artifacts/list?" + request,
                     {.body = R"({"files": [{"path": "a", "is_dir": false}],
                                  "next_page_token": ")" +
                              next + "\"}"},
                     times);
  };
  for (std::size_t i = 0; i < pages.size(); ++i)
    lead("page_token=" + pages[i], pages[(i + 1) % pages.size()], 20);
  lead("run_id", pages.front(), 1);
}

TEST(MlflowTest, PagesThatComeAgainAreAnError) {
  for (const std::vector<std::string>& pages :
       {std::vector<std::string>{"page-1"}, std::vector<std::string>{"page-1", "page-2"}}) {
    TrackersServed served;
    const std::string run = served.fake.add_run("7");
    go_in_circles(served.fake, pages);
    EXPECT_THAT(
        message_of<StorageError>([&] { list_names(*served.store(), in_run("7", run, "")); }),
        HasSubstr("the same page again"));
  }
}

TEST(MlflowTest, TwoWritersOfOneNameShareNoBlock) {
  TrackersServed served({.signed_type = "AZURE_SAS_URI"});
  const std::string run = served.fake.add_run("7");
  for (const char* text : {"mine", "yours"})
    write_text(*served.store(), in_run("7", run, "a"), text);
  std::set<std::string> ids;
  for (const std::string& line : served.fake.log()) {
    const std::size_t at = line.find("blockid=");
    if (at != std::string::npos) ids.insert(line.substr(at, line.find('&', at) - at));
  }
  EXPECT_EQ(ids.size(), 2U);
}

TEST(MlflowTest, NamesThatAreNoUtf8AreRefusedWhereTheyCannotBeSent) {
  TrackersServed served;
  const std::string run = served.fake.add_run("7");
  const auto store = served.store();
  EXPECT_THAT(message_of<UsageError>([&] { write_text(*store, in_run("7", run, "\xff"), "x"); }),
              HasSubstr("UTF-8"));
  served.environment.set("MLFLOW_EXPERIMENT_NAME", "\xff");
  EXPECT_THAT(
      message_of<UsageError>([&] { served.store()->stat(in_run(kNoExperiment, kNoRun, "a")); }),
      HasSubstr("UTF-8"));
}

TEST(MlflowTest, SecretsAndBytesDoNotCrossANetworkInTheClear) {
  TrackersServed served;
  const std::string run = served.fake.add_run("7");
  served.fake.put_file("7/" + run + "/artifacts/a", "bytes");
  const auto store = served.store();
  for (const char* host : {"elsewhere.invalid", "127.0.0.1:1@elsewhere.invalid"}) {
    const std::string url = std::string("http://") + host + "/a?sig=canary";
    served.fake.answer_next("POST /api/2.0/mlflow/artifacts/credentials-for-read",
                            {.body = R"({"credential_infos": [{"signed_uri": ")" + url +
                                     R"(", "type": "AWS_PRESIGNED_URL"}]})"});
    EXPECT_THAT(message_of<StorageError>([&] { store->open(in_run("7", run, "a")); }),
                AllOf(HasSubstr("https"), Not(HasSubstr("canary"))));
  }
  DbfsOptions options = served.options();
  options.tracking_uri = "http://mlflow.invalid:5000";
  served.environment.set("MLFLOW_TRACKING_TOKEN", "canary");
  EXPECT_THAT(
      message_of<UsageError>([&] { served.store(options)->stat(in_run("7", run, "a")); }),
      AllOf(HasSubstr("https://"), HasSubstr("MLFLOW_TRACKING_URI"), Not(HasSubstr("canary"))));
}

}  // namespace
}  // namespace cairn
