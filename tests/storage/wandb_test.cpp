#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/checkpoint/copy.h"
#include "cairn/error.h"
#include "cairn/storage/object_store_checks.h"
#include "cairn/storage/stores.h"

#include "io/bytes/source_part.h"
#include "s3_fixture.h"
#include "storage/listing.h"
#include "storage/place.h"
#include "storage/publish/upload_queue.h"
#include "storage/trackers/wandb/graphql.h"
#include "storage/trackers/wandb/store.h"
#include "storage/trackers/wandb/write.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "trackers_fixture.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

struct WandbTest : ::testing::Test {
  explicit WandbTest(testing::FakeTrackersOptions options = {}) : served(std::move(options)) {
    served.environment.set("WANDB_API_KEY", served.keys.token);
    served.environment.set("WANDB_BASE_URL", served.fake.url());
    served.environment.set("NETRC", "/nonexistent/netrc");
  }
  std::shared_ptr<ObjectStore> store() {
    RemoteSettings settings;
    settings.client = shared_http_client();
    settings.retries.clock = served.clock;
    return wandb::make_wandb_store({.entity = "me"}, settings);
  }
  void put(const std::string& artifact, const std::string& file, const std::string& bytes) {
    served.fake.put_file("wandb/me/proj/" + artifact + "/" + file, bytes);
  }

  TrackersServed served;
};

TEST_F(WandbTest, AnArtifactIsItsOneFile) {
  put("checkpoints.ep1.pt:latest", "ep1.pt", "bytes");
  put("checkpoints.ep1.pt:v0", "ep1.pt", "older");
  const auto store = this->store();
  // The name that Composer's logger gives.
  EXPECT_EQ(read_text(*store, "proj/checkpoints/ep1.pt"), "bytes");
  EXPECT_EQ(read_text(*store, "proj/checkpoints/ep1.pt:latest"), "bytes");
  EXPECT_EQ(read_text(*store, "proj/checkpoints.ep1.pt:v0"), "older");
  const auto info = store->stat("proj/checkpoints/ep1.pt");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->size, 5U);
  EXPECT_NE(info->version, store->stat("proj/checkpoints/ep1.pt:v0")->version);
  EXPECT_FALSE(store->stat("proj/none").has_value());
  EXPECT_FALSE(store->stat("other/none").has_value());
  EXPECT_THAT(message_of<NotFoundError>([&] { store->open("proj/none:v3"); }),
              HasSubstr("wandb://me/proj/none:v3"));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, OfSeveralFilesOneIsToBeNamed) {
  put("ck:best", "a/one.pt", "one");
  put("ck:best", "two.pt", "two");
  EXPECT_EQ(read_text(*store(), "proj/ck:best/a/one.pt"), "one");
  EXPECT_THAT(message_of<UsageError>([&] { store()->open("proj/ck:best"); }),
              AllOf(HasSubstr("2 files"), HasSubstr("wandb://me/proj/ck:best/a/one.pt")));
  EXPECT_THROW(store()->open("proj/ck:best/none"), NotFoundError);
}

TEST_F(WandbTest, AUrlThatEndsIsFetchedAgainForTheSameVersion) {
  put("ck:latest", "ck.pt", std::string(1 << 20, 'a'));
  const auto source = store()->open("proj/ck");
  served.fake.end_urls();
  EXPECT_EQ(as_text(source->view(0, 3).view), "aaa");
  put("ck:latest", "ck.pt", std::string(1 << 20, 'b'));
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 3); }), HasSubstr("was replaced"));
  served.fake.end_urls();
  EXPECT_THAT(message_of<StorageError>([&] { source->view(0, 3); }), Not(HasSubstr("canary")));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, PointersOfComposersLoggerAreFollowed) {
  put("run.latest-rank0.pt.symlink:latest", "latest-rank0.pt.symlink", "run/ep1.pt\n");
  put("run.ep1.pt:latest", "ep1.pt", "bytes");
  EXPECT_EQ(read_text(*store(), "proj/run/latest-rank0.pt"), "bytes");
  const auto pointer = store()->read_pointer("proj/run/latest-rank0.pt");
  ASSERT_TRUE(pointer.has_value());
  EXPECT_EQ(pointer->target, "proj/run/ep1.pt");
}

TEST_F(WandbTest, CheckpointsAreLoadedByTheirUris) {
  const testing::TempFolder folder;
  save(testing::sample_checkpoint(3), folder / "ep1.pt", {.info = testing::sample_info(3)});
  put("ep1.pt:v7", "ep1.pt", testing::read_file(folder / "ep1.pt"));
  EXPECT_EQ(testing::batch_of_sample(load("wandb://me/proj/ep1.pt:v7")), 3);
  EXPECT_TRUE(verify("wandb://me/proj/ep1.pt:v7", Verify::kFull).ok());
  EXPECT_THROW(load("wandb://me/proj/ep1.pt"), NotFoundError);
  convert("wandb://me/proj/ep1.pt:v7", "wandb://me/proj/run/ep1.pt");
  EXPECT_EQ(testing::batch_of_sample(load("wandb://me/proj/run/ep1.pt")), 3);
}

TEST_F(WandbTest, WhatArtifactsCannotBeIsRefused) {
  put("run.a:latest", "a", "a");
  const auto store = this->store();
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { store->remove_folder("proj/run"); },
           [&] { write_text(*store, "proj/run/a", "b", WriteCondition::of_version("x")); }}) {
    EXPECT_THAT(message_of<UnsupportedError>(call), HasSubstr("wandb://me/proj/run"));
  }
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { store->begin("proj/run/a:v3"); }, [&] { store->begin("proj/ck:latest/file"); },
           [&] { store->begin("proj"); }, [&] { store->remove("proj/run/a:latest/a"); },
           [&] { store->move_pointer("proj/latest", "other/a"); }, [&] { store->list(""); },
           [&] { store->list("proj/run/a"); }, [&] { store->remove_folder("proj/run/a"); },
           [&] { store->remove_folder("proj"); },
           [&] { store->begin_folder("proj/run/a", true); }}) {
    EXPECT_THROW(call(), UsageError);
  }
  EXPECT_THROW(store->begin_folder("proj/run", false), AlreadyExistsError);
  EXPECT_THAT(writing_problem("wandb://me/proj"),
              AllOf(HasSubstr("wandb://"), HasSubstr("RemoteUploaderDownloader")));
  EXPECT_EQ(place_problem("wandb://me/proj"), "");
  EXPECT_THAT(served.fake.files(), ::testing::SizeIs(1));
  const StoreFeatures features = store->features();
  EXPECT_FALSE(features.versioned_writes || features.fenced_writes || features.fenced_pointers ||
               features.whole_folders);
  EXPECT_TRUE(features.flat_names);
}

// The fake requires this order: the artifact, its manifest, the file, the manifest, the commit.
TEST_F(WandbTest, WhatIsWrittenIsANewVersionWithComposersAliases) {
  const auto store = this->store();
  const std::string name = "proj/run/ep1-ba20-rank0.pt";
  write_text(*store, name, "first");
  EXPECT_EQ(served.fake.count("PUT /storage/wandb-file/"), 1U);
  EXPECT_EQ(served.fake.count("PUT /storage/wandb-manifest/"), 1U);
  EXPECT_EQ(served.fake.count("POST /graphql"), 7U) << "including the run and the final check";
  write_text(*store, name, "second");
  const std::string root = "wandb/me/proj/run.ep1-ba20-rank0.pt:";
  const std::string file = "/ep1-ba20-rank0.pt";
  using Files = std::map<std::string, std::string>;
  ASSERT_EQ(served.fake.files(), (Files{{root + "ep1-ba20" + file, "second"},
                                        {root + "latest" + file, "second"},
                                        {root + "v0" + file, "first"},
                                        {root + "v1" + file, "second"}}));
  EXPECT_EQ(read_text(*store, name), "second");
  EXPECT_EQ(read_text(*store, name + ":v0"), "first");
  const Json input = served.fake.input_of_artifact(root.substr(6) + "latest");
  EXPECT_EQ(text_of(input, "artifactTypeName"), "model");
  EXPECT_EQ(text_of(input, "metadata"), R"({"timestamp/batch":20,"timestamp/epoch":1})");
  store->move_pointer("proj/run/latest", name);
  const Json link = served.fake.input_of_artifact("me/proj/run.latest.symlink:latest");
  EXPECT_EQ(text_of(link, "artifactTypeName"), "symlink");
  EXPECT_FALSE(link.contains("metadata"));
  EXPECT_EQ(store->stat(name)->size, 6U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
  EXPECT_EQ(served.fake.pending_artifacts(), 0U);
}

TEST_F(WandbTest, WhatIsThereAlreadyIsNotMadeAgainButIsTheNewest) {
  const auto store = this->store();
  for (const char* text : {"a", "b", "a", ""})
    write_text(*store, "proj/x", text);
  EXPECT_EQ(served.fake.files().count("wandb/me/proj/x:v3/x"), 0U);
  EXPECT_EQ(served.fake.files()["wandb/me/proj/x:latest/x"], "");
  EXPECT_EQ(served.fake.files()["wandb/me/proj/x:v0/x"], "a");
  write_text(*store, "proj/x", "b");
  EXPECT_EQ(read_text(*store, "proj/x"), "b");
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, TheRunIsTheOneThatIsGiven) {
  served.environment.set("WANDB_RUN_ID", "abc12345");
  write_text(*store(), "proj/x", "a");
  EXPECT_THAT(served.fake.runs_of_wandb(), ::testing::ElementsAre("me/proj/abc12345"));
}

TEST_F(WandbTest, AbsentIsLookedAt) {
  const auto store = this->store();
  write_text(*store, "proj/x", "a", WriteCondition::absent());
  EXPECT_THROW(write_text(*store, "proj/x", "b", WriteCondition::absent()), AlreadyExistsError);
  const auto late = store->begin("proj/y", {.condition = WriteCondition::absent()});
  write_text(*store, "proj/y", "theirs");
  EXPECT_THROW(late->commit(), AlreadyExistsError);
  EXPECT_EQ(read_text(*store, "proj/x") + read_text(*store, "proj/y"), "atheirs");
}

TEST_F(WandbTest, FoldersAreWhatNamesBeginWith) {
  const auto store = this->store();
  for (const char* name : {"proj/run/a.pt", "proj/run/b.pt", "proj/running", "proj/c"})
    write_text(*store, name, "x");
  store->move_pointer("proj/run/latest", "proj/run/b.pt");
  using ::testing::ElementsAre;
  EXPECT_THAT(list_names(*store, "proj/run"), ElementsAre("a.pt", "b.pt", "latest"));
  EXPECT_THAT(list_names(*store, "proj"),
              ElementsAre("c", "run.a.pt", "run.b.pt", "run.latest", "running"));
  EXPECT_EQ(store->stat("proj/run")->type, ObjectInfo::Type::kFolder);
  EXPECT_EQ(store->stat("proj")->type, ObjectInfo::Type::kFolder);
  EXPECT_FALSE(store->stat("none").has_value());
  EXPECT_THROW(store->list("proj/none"), NotFoundError);
  EXPECT_THROW(store->list("none"), NotFoundError);
}

TEST_F(WandbTest, AnArtifactGoesWithAllItsVersionsAVersionByItself) {
  const auto store = this->store();
  for (const char* text : {"a", "b", "c"})
    write_text(*store, "proj/run/x", text);
  EXPECT_TRUE(store->remove("proj/run/x:v0"));
  EXPECT_FALSE(store->remove("proj/run/x:v0"));
  EXPECT_EQ(read_text(*store, "proj/run/x:v1"), "b");
  EXPECT_TRUE(store->remove("proj/run/x"));
  EXPECT_FALSE(store->remove("proj/run/x"));
  EXPECT_THAT(served.fake.files(), IsEmpty());
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, PointersMoveUnlessTheyWereMoved) {
  const auto store = this->store();
  write_text(*store, "proj/run/ep1.pt", "one");
  write_text(*store, "proj/run/ep2.pt", "two");
  store->move_pointer("proj/run/latest", "proj/run/ep1.pt", "");
  EXPECT_THROW(store->move_pointer("proj/run/latest", "proj/run/ep2.pt", ""), AlreadyExistsError);
  const std::string first = store->read_pointer("proj/run/latest")->version;
  store->move_pointer("proj/run/latest", "proj/run/ep2.pt", first);
  EXPECT_THROW(store->move_pointer("proj/run/latest", "proj/run/ep1.pt", first),
               AlreadyExistsError);
  EXPECT_EQ(read_text(*store, "proj/run/latest"), "two");
  // The name and the path that Composer uses.
  EXPECT_EQ(read_text(*store, "proj/run/latest.symlink:latest/latest.symlink"), "run/ep2.pt");
  EXPECT_TRUE(store->remove("proj/run/latest"));
  EXPECT_FALSE(store->read_pointer("proj/run/latest").has_value());
}

TEST_F(WandbTest, CheckpointsAreSavedByTheirUris) {
  save(testing::sample_checkpoint(1), "wandb://me/proj/run/ep0-ba1-rank0.pt");
  save(testing::sample_checkpoint(2), "wandb://me/proj/run/ep0-ba2-rank0.pt");
  EXPECT_THROW(save(testing::sample_checkpoint(3), "wandb://me/proj/run/ep0-ba2-rank0.pt",
                    {.overwrite = false}),
               AlreadyExistsError);
  const auto found = find_latest("wandb://me/proj/run", {.full_state_only = false});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, "wandb://me/proj/run/ep0-ba2-rank0.pt");
  EXPECT_EQ(testing::batch_of_sample(load(found->checkpoint)), 2);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

// URLs that expire during an upload are requested again. A write that the server has lost, or that
// another writer has overtaken, does not count as a success.
TEST_F(WandbTest, AWriteIsWholeOrAnError) {
  const auto store = this->store();
  served.fake.answer_next("PUT /storage/wandb-file/", {.status = 403});
  write_text(*store, "proj/x", "bytes");
  served.fake.answer_next("PUT /storage/wandb-manifest/", {.status = 400, .body = "no"});
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "proj/x", "lost"); }),
              AllOf(HasSubstr("wandb://me/proj/x"), Not(HasSubstr("canary"))));
  EXPECT_EQ(read_text(*store, "proj/x"), "bytes");
  EXPECT_EQ(served.fake.pending_artifacts(), 1U) << "nobody sees it";
  served.fake.answer_next("POST /graphql", {.body = R"({"errors": [{"message": "no quota"}]})"});
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "proj/x", "c"); }),
              AllOf(HasSubstr("no quota"), HasSubstr("writing wandb://me/proj/x")));
  served.fake.lose_bytes_of_wandb();
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store, "proj/y", "d"); }),
              HasSubstr("does not have the bytes"));
  { store->begin("proj/given-up")->write(as_bytes("x")); }
  EXPECT_FALSE(store->stat("proj/given-up").has_value());
  EXPECT_THROW(store->begin("proj/x", {.expected_bytes = (std::uint64_t{5} << 30) + 1}),
               UsageError);
}

// The tests above rely on the order that the fake requires.
TEST_F(WandbTest, TheFakeInsistsOnTheOrder) {
  RemoteSettings settings;
  settings.client = shared_http_client();
  settings.retries.clock = served.clock;
  wandb::GraphQl server({.entity = "me"}, settings);
  wandb::make_run(server, "proj", "r");
  const Json input = {{"entityName", "me"},
                      {"projectName", "proj"},
                      {"runName", "r"},
                      {"artifactTypeName", "model"},
                      {"artifactCollectionName", "x"},
                      {"digest", std::string(32, '0')},
                      {"digestAlgorithm", "MANIFEST_MD5"},
                      {"enableDigestDeduplication", true},
                      {"aliases", Json::array()},
                      {"clientID", std::string(128, 'a')},
                      {"sequenceClientID", std::string(128, 'b')}};
  const char* const create =
      "mutation M($input: CreateArtifactInput!) { createArtifact(input: $input) { artifact { id "
      "state } } }";
  const Json made = server.ask(create, {{"input", input}}, "createArtifact", "a");
  const std::string id = text_of(object_of(made, "artifact"), "id");
  EXPECT_THAT(served.fake.violations(), IsEmpty());
  const auto expect_refused = [&](const char* query, const Json& variables,
                                  const std::string& why) {
    EXPECT_THROW(server.ask(query, variables, "x", "a"), StorageError);
    EXPECT_THAT(served.fake.violations().back(), HasSubstr(why));
  };
  expect_refused(
      "mutation M($artifactID: ID!) { commitArtifact(input: { artifactID: $artifactID "
      "}) { artifact { id } } }",
      {{"artifactID", id}}, "a commit before the manifest");
  expect_refused(
      "mutation M($artifactFiles: [CreateArtifactFileSpecInput!]!, $storageLayout: "
      "ArtifactStorageLayout!) { createArtifactFiles(input: { artifactFiles: "
      "$artifactFiles, storageLayout: $storageLayout }) { uploadUrl uploadHeaders "
      "artifact { id } } }",
      {{"artifactFiles",
        Json::array(
            {{{"artifactID", id}, {"artifactManifestID", "none"}, {"name", "x"}, {"md5", "x"}}})},
       {"storageLayout", "V2"}},
      "files of no manifest");
  Json lacking = input;
  lacking.erase("digest");
  expect_refused(create, {{"input", lacking}}, "no field digest");
  expect_refused(create, {{"input", input}, {"more", "x"}}, "the variable more");
}

// A run's uploads, as RemoteUploaderDownloader makes them.
TEST_F(WandbTest, AQueueOfUploadsMovesItsPointerAndRemovesWhatIsRetired) {
  const auto store = this->store();
  UploadQueue queue(store, {});
  for (int i = 1; i <= 3; ++i) {
    const std::string name = "proj/run/ep0-ba" + std::to_string(i) + "-rank0.pt";
    const std::string retired = "proj/run/ep0-ba" + std::to_string(i - 1) + "-rank0.pt";
    const auto bytes = std::make_shared<const std::string>("bytes " + std::to_string(i));
    queue.submit({.name = name,
                  .file = source_of({as_bytes(*bytes), bytes}, "a file"),
                  .pointer = "proj/run/latest-rank0.pt",
                  .remove_afterwards =
                      i > 1 ? std::vector<std::string>{retired} : std::vector<std::string>()});
  }
  EXPECT_THAT(queue.stop(UploadQueue::Clock::now() + std::chrono::hours(1)), IsEmpty());
  queue.throw_error();
  EXPECT_EQ(read_text(*store, "proj/run/latest-rank0.pt"), "bytes 3");
  EXPECT_THAT(list_names(*store, "proj/run"),
              ::testing::ElementsAre("ep0-ba3-rank0.pt", "latest-rank0.pt"));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, TheKeyIsFoundAndNeverTold) {
  put("ck:latest", "ck.pt", "bytes");
  const testing::TempFolder folder;
  testing::write_file(folder / "netrc",
                      "machine other login user password canary-other\n"
                      "machine " +
                          served.fake.url().substr(7) + "\n  login user\n  password " +
                          served.keys.token);
  served.environment.set("WANDB_API_KEY", nullptr);
  EXPECT_THAT(message_of<UsageError>([&] { store()->stat("proj/ck"); }),
              HasSubstr("set WANDB_API_KEY"));
  served.environment.set("NETRC", folder / "netrc");
  EXPECT_EQ(read_text(*store(), "proj/ck"), "bytes");
  served.environment.set("WANDB_API_KEY", "canary-wrong");
  EXPECT_THAT(message_of<StorageError>([&] { store()->stat("proj/ck"); }),
              AllOf(HasSubstr("401"), HasSubstr("check WANDB_API_KEY"), Not(HasSubstr("canary"))));
  served.environment.set("WANDB_BASE_URL", "http://wandb.example");
  EXPECT_THAT(message_of<UsageError>([&] { store()->stat("proj/ck"); }), HasSubstr("https://"));
}

TEST_F(WandbTest, ErrorsOfTheQueryAreTold) {
  served.fake.answer_next("POST /graphql",
                          {.body = R"({"errors": [{"message": "permission denied"}]})"});
  EXPECT_THAT(message_of<StorageError>([&] { store()->stat("proj/ck"); }),
              HasSubstr("permission denied"));
  const std::string key = served.keys.token;
  served.fake.answer_next(
      "POST /graphql",
      {.body = R"({"errors": [{"message": "no user has the key )" + key + "\"}]}"});
  EXPECT_THAT(message_of<StorageError>([&] { store()->stat("proj/ck"); }),
              AllOf(HasSubstr("no user has the key ***"), Not(HasSubstr("canary"))));
  EXPECT_THAT(message_of<UsageError>([&] { store()->open("proj"); }),
              HasSubstr("names no artifact"));
}

// If an answer leaves a field out, the artifact may exist nevertheless.
TEST_F(WandbTest, OnlyANullIsNotThere) {
  const auto answered = [&](const std::string& body) {
    served.fake.answer_next("POST /graphql", {.body = body});
    return store()->stat("proj/ck");
  };
  for (const char* body :
       {R"({"data": {"project": null}})", R"({"data": {"project": {"artifact": null}}})"}) {
    EXPECT_FALSE(answered(body)) << body;
  }
  const std::string files = R"({"data": {"project": {"artifact": {"id": "x", "files": )";
  for (const std::string& body :
       {std::string("{}"), std::string(R"({"data": null})"), std::string(R"({"data": {}})"),
        std::string(R"({"data": {"project": {}}})"), std::string(R"({"data": {"project": 1}})"),
        std::string(R"({"data": {"project": {"artifact": {}}}})"), files + "null}}}}",
        files + R"({"pageInfo": {"hasNextPage": false}}}}}})", files + R"({"edges": []}}}}})",
        files + R"({"edges": [], "pageInfo": {"hasNextPage": true}}}}}})",
        files + R"({"edges": [], "pageInfo": {"hasNextPage": true, "endCursor": ""}}}}}})"}) {
    try {
      answered(body);
      ADD_FAILURE() << "there is none: " << body;
    } catch (const StorageError& e) {
      EXPECT_TRUE(e.retryable()) << body;
      EXPECT_THAT(e.what(), HasSubstr("does not report")) << body;
    }
    served.fake.forget_plans();
  }
  served.fake.answer_next("POST /graphql", {.body = R"({"data": {"project": {}}})"});
  EXPECT_THROW(store()->list("proj", ""), StorageError);
}

// Changes the servers' answers before they reach the caller.
class ChangedAnswers final : public HttpClient {
 public:
  using Change = std::function<void(const std::string& request, HttpResponse& response)>;
  explicit ChangedAnswers(Change change) : change_(std::move(change)) {}
  std::unique_ptr<HttpCall> start(HttpRequest request) override {
    std::string text = request.method + " " + request.url + "\n";
    for (const SharedBytes& piece : request.body)
      text += as_text(piece.view);
    return std::make_unique<Call>(shared_http_client()->start(std::move(request)), std::move(text),
                                  change_);
  }

 private:
  class Call final : public HttpCall {
   public:
    Call(std::unique_ptr<HttpCall> call, std::string request, Change change)
        : call_(std::move(call)), request_(std::move(request)), change_(std::move(change)) {}
    HttpResponse wait() override {
      HttpResponse response = call_->wait();
      change_(request_, response);
      return response;
    }
    void cancel() override { call_->cancel(); }

   private:
    std::unique_ptr<HttpCall> call_;
    const std::string request_;
    const Change change_;
  };
  const Change change_;
};

// The request was carried out, but its answer was lost. The answer to the next attempt says that
// there is nothing left to do.
TEST_F(WandbTest, ALostAnswerOfAWriteIsNoFailure) {
  const auto store_with = [&](ChangedAnswers::Change change) {
    RemoteSettings settings;
    settings.client = std::make_shared<ChangedAnswers>(std::move(change));
    settings.retries.clock = served.clock;
    return wandb::make_wandb_store({.entity = "me"}, settings);
  };
  const auto is_committed = [](const std::string& request, HttpResponse& response) {
    if (request.find("commitArtifact(") == std::string::npos) return;
    response.body = R"({"errors": [{"message": "the artifact is committed already"}]})";
  };
  write_text(*store_with(is_committed), "proj/x", "bytes");
  EXPECT_EQ(read_text(*store(), "proj/x"), "bytes");
  int puts = 0;
  const auto has_bytes = [&](const std::string& request, HttpResponse& response) {
    if (request.starts_with("PUT ") && request.find("wandb-file/") != std::string::npos) {
      ++puts;
      response.status = 403;
    }
    if (puts == 0 || request.find("createArtifactFiles(") == std::string::npos) return;
    auto json = Json::parse(response.body);
    for (auto& edge : json["data"]["createArtifactFiles"]["files"]["edges"])
      edge["node"]["uploadUrl"] = nullptr;
    response.body = json.dump();
  };
  write_text(*store_with(has_bytes), "proj/x", "other bytes");
  EXPECT_EQ(read_text(*store(), "proj/x"), "other bytes");
  EXPECT_EQ(puts, 1);
  // A write that is not committed does not count as a success, whatever the server says.
  const auto is_refused = [](const std::string& request, HttpResponse& response) {
    if (request.find("commitArtifact(") == std::string::npos &&
        request.find("CairnWritten(") == std::string::npos) {
      return;
    }
    response.body = R"({"errors": [{"message": "the first error"}]})";
    if (request.find("CairnWritten(") != std::string::npos) {
      response.body = R"({"data": {"artifact": null}})";
    }
  };
  EXPECT_THAT(message_of<StorageError>([&] { write_text(*store_with(is_refused), "proj/y", "z"); }),
              HasSubstr("the first error"));
}

struct FaultyWandbTest : WandbTest {
  FaultyWandbTest() : WandbTest({.page = 1, .fault_rate = 0.2}) {}
};

TEST_F(FaultyWandbTest, PassingFaultsAreTriedAgain) {
  for (int i = 0; i < 10; ++i)
    put("ck" + std::to_string(i) + ":latest", "a", "bytes " + std::to_string(i));
  put("ck0:latest", "b", "other");
  for (int i = 1; i < 10; ++i)
    EXPECT_EQ(read_text(*store(), "proj/ck" + std::to_string(i)), "bytes " + std::to_string(i));
  EXPECT_EQ(read_text(*store(), "proj/ck0:latest/b"), "other") << "on the second page";
  EXPECT_GT(served.fake.faults(), 0U);
}

// A name exists only if its write was acknowledged, and has exactly the acknowledged bytes.
TEST_F(FaultyWandbTest, WhatIsWrittenIsWholeOrNotThere) {
  const auto store = this->store();
  std::map<std::string, std::string> acknowledged;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "proj/run/ck" + std::to_string(i % 5);
    const std::string text = "bytes " + std::to_string(i);
    write_text(*store, name, text);
    acknowledged[name] = text;
    store->move_pointer("proj/run/latest", name);
    EXPECT_EQ(read_text(*store, "proj/run/latest"), text);
    if (i % 7 == 6) {
      EXPECT_TRUE(store->remove(name));
      acknowledged.erase(name);
    }
    std::vector<std::string> names = {"latest"};
    for (const auto& [known, expected] : acknowledged) {
      EXPECT_EQ(read_text(*store, known), expected);
      names.insert(names.end() - 1, known.substr(9));
    }
    EXPECT_EQ(list_names(*store, "proj/run"), names);
  }
  EXPECT_GT(served.fake.faults(), 100U);
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

// All checks except LongFoldersAreListedWhole, because each write takes ten requests. The next test
// covers that check.
TEST_F(FaultyWandbTest, ItIsAnObjectStore) {
  for (const ObjectStoreCheck& check : object_store_checks()) {
    if (check.name == std::string("LongFoldersAreListedWhole")) continue;
    EXPECT_NO_THROW(check.run(*store(), std::string("proj/") + check.name)) << check.name;
  }
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

TEST_F(WandbTest, FoldersOfAThousandArtifactsAreListedWhole) {
  std::vector<std::string> expected;
  for (int i = 0; i < 1100; ++i) {
    const std::string& name = expected.emplace_back("n" + std::to_string(i));
    put("long." + name + ":latest", name, "x");
  }
  std::ranges::sort(expected);
  EXPECT_TRUE(list_names(*store(), "proj/long") == expected);
  EXPECT_THROW(store()->list("proj/none"), NotFoundError) << "after many pages of other artifacts";
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

// A checkpoint of several files becomes one artifact for each file.
TEST_F(WandbTest, FoldersOfCheckpointsAreCopiedFoundAndRemoved) {
  const testing::TempFolder folder;
  convert(testing::kComposer, folder / "ck",
          {.to = "safetensors", .weights_only = true, .shard_bytes = 200});
  const auto store = this->store();
  write_text(*store, "proj/run/ck2", "another one");
  copy_checkpoint(folder / "ck", "proj/run/ck", {.to_store = store});
  EXPECT_EQ(list_names(*store, "proj/run/ck"), list_names(*local_store(), folder / "ck"));
  EXPECT_TRUE(verify("proj/run/ck", Verify::kFull, store).ok());
  EXPECT_TRUE(load("proj/run/ck", {.store = store}) == load(folder / "ck"));
  EXPECT_TRUE(store->remove_folder("proj/run/ck"));
  EXPECT_THAT(list_names(*store, "proj"), ::testing::ElementsAre("run.ck2"));
  EXPECT_THAT(served.fake.violations(), IsEmpty());
}

}  // namespace
}  // namespace cairn
