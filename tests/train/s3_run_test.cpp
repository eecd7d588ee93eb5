// The remote examples of Composer's guides, in a bucket of a strict server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/loggers/remote_uploader_downloader.h"
#include "cairn/optim/optimizers.h"
#include "cairn/storage/s3.h"
#include "cairn/storage/stores.h"
#include "cairn/train/trainer.h"

#include "testing/fake_s3.h"
#include "testing/message_of.h"
#include "testing/resumable_state.h"
#include "testing/s3_environment.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using testing::FakeS3;
using testing::FakeS3Options;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using ::testing::Not;
using testing::resumable_state;
using testing::tiny_options;

struct S3Run : ::testing::Test {
  S3Run() {
    fs::current_path(folder.path());
  }  // Files that are written to the current folder by mistake then show in the test's folder.
  ~S3Run() override { fs::current_path(before); }

  TrainerOptions options(const std::string& duration) {
    TrainerOptions made = tiny_options({.dropout = 0.3});
    made.optimizers = AdamW({.lr = 0.01});
    made.max_duration = duration;
    made.run_name = "my_cool_run";
    made.loggers = {log};
    made.seed = 3;
    return made;
  }
  // "Save checkpoints every epoch to s3://my_bucket/checkpoints"
  TrainerOptions in_bucket(const std::string& duration) {
    TrainerOptions made = options(duration);
    made.save_folder = "s3://bucket/checkpoints";
    made.save_interval = "1ep";
    made.save_overwrite = true;
    made.save_filename = "ep{epoch}.pt";
    made.save_num_checkpoints_to_keep = 0;
    return made;
  }
  // A run that resumes whenever it is started.
  TrainerOptions restartable(const std::string& duration) {
    TrainerOptions made = options(duration);
    made.save_folder = "s3://bucket/{run_name}";
    made.save_interval = "1ba";
    made.save_num_checkpoints_to_keep = 0;
    made.autoresume = true;
    return made;
  }
  TrainerOptions uploading(const std::string& duration) {
    TrainerOptions made = options(duration);
    made.loggers = {RemoteUploaderDownloader({.bucket_uri = "s3://bucket"}), log};
    made.save_folder = "checkpoints";
    made.save_num_checkpoints_to_keep = 0;
    made.save_filename = "ep{epoch}.pt";
    made.autoresume = true;
    return made;
  }
  std::vector<std::string> objects() {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : fake.objects())
      names.push_back(name);
    return names;
  }
  Value saved(const std::string& uri) { return resumable_state(load(uri)); }

  testing::TempFolder folder;
  const fs::path before = fs::current_path();
  FakeS3 fake;
  testing::S3Environment environment{fake};
  std::shared_ptr<LogRecorder> log = std::make_shared<LogRecorder>();
};

TEST_F(S3Run, ASaveFolderMayBeABucket) {
  Trainer(in_bucket("3ep")).fit();
  EXPECT_THAT(objects(),
              ::testing::ElementsAre("bucket/checkpoints/ep1.pt", "bucket/checkpoints/ep2.pt",
                                     "bucket/checkpoints/ep3.pt",
                                     "bucket/checkpoints/latest-rank0.pt.symlink"));
  EXPECT_EQ(fake.objects()["bucket/checkpoints/latest-rank0.pt.symlink"], "checkpoints/ep3.pt");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_EQ(fake.uploads(), 0U);

  TrainerOptions made = options("4ep");
  made.load_path = "s3://bucket/checkpoints/ep1.pt";
  EXPECT_EQ(Trainer(std::move(made)).state().timestamp.epoch, 1);
}

TEST_F(S3Run, AnObjectOfTheStoreMayBeLoadedByItsName) {
  Trainer(in_bucket("1ep")).fit();
  TrainerOptions made = options("4ep");
  made.load_path = "checkpoints/ep1.pt";
  made.load_object_store = s3_store({.bucket = "bucket"});
  EXPECT_EQ(Trainer(std::move(made)).state().timestamp.epoch, 1);
}

// The pointer is an empty object, or an object without a valid name, from another program or a full
// disk.
TEST_F(S3Run, APointerThatNamesNothingIsPassedOverWithALineAndReplaced) {
  const std::string pointer = "bucket/my_cool_run/latest-rank0.pt.symlink";
  for (const std::string& text : {std::string(), std::string(5000, 'a'), std::string("a\nb")}) {
    fake.put_object(pointer, text);
    {
      Trainer trainer(restartable("2ba"));
      trainer.fit();
      EXPECT_EQ(trainer.state().timestamp.batch, 2);
    }
    EXPECT_THAT(log->messages, Contains(HasSubstr("latest-rank0.pt: this is a pointer that names "
                                                  "nothing")));
    log->messages.clear();
    EXPECT_EQ(fake.objects()[pointer], "my_cool_run/ep0-ba2-rank0.pt");
    fake.put_object(pointer, text);
    Trainer(restartable("3ba")).fit();
    EXPECT_THAT(log->messages,
                Contains(HasSubstr("going on from s3://bucket/my_cool_run/ep0-ba2")));
    EXPECT_THAT(log->messages, Contains(HasSubstr("names nothing")));
    EXPECT_EQ(fake.objects()[pointer], "my_cool_run/ep0-ba3-rank0.pt");
    for (const std::string& name : objects())
      object_store_of("s3://bucket")->remove("s3://" + name);
  }
}

TEST_F(S3Run, ARunNameMayHaveBraces) {
  for (const std::string run : {"lr{{0.1}}", "{rank}", "x{y}", "{batch}"}) {
    const auto start = [&](const char* duration, bool uploads) {
      TrainerOptions made = uploads ? uploading(duration) : restartable(duration);
      if (uploads) made.save_folder = "checkpoints/{run_name}";
      made.run_name = run;
      return std::make_unique<Trainer>(std::move(made));
    };
    for (const bool uploads : {false, true}) {
      log->messages.clear();
      start("1ep", uploads)->fit();
      EXPECT_EQ(start("2ep", uploads)->state().timestamp.batch, 5) << run << uploads;
      EXPECT_THAT(log->messages, Contains(HasSubstr("going on from s3://bucket/")));
    }
  }
}

TEST_F(S3Run, RestartedFromNothingButTheBucketItEndsWithTheSameBits) {
  for (const char* duration : {"2ba", "7ba", "12ba"}) {
    Trainer(restartable(duration)).fit();
  }
  const Value resumed = saved("s3://bucket/my_cool_run/latest-rank0.pt");
  TrainerOptions straight = restartable("12ba");
  straight.save_folder = "s3://bucket/straight";
  Trainer(std::move(straight)).fit();
  EXPECT_EQ(resumed, saved("s3://bucket/straight/latest-rank0.pt"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(S3Run, AnUploadersBucketHasItsOptionsByName) {
  environment.set("S3_ENDPOINT_URL", "http://127.0.0.1:1");
  environment.set("AWS_SECRET_ACCESS_KEY", "that of another server");
  const FakeS3Options keys;
  TrainerOptions made = uploading("1ep");
  made.loggers = {
      RemoteUploaderDownloader({.bucket_uri = "s3://bucket",
                                .backend_kwargs = {{"endpoint_url", fake.url()},
                                                   {"aws_access_key_id", keys.access_key},
                                                   {"aws_secret_access_key", keys.secret_key},
                                                   {"prefix", "mine"}}}),
      log};
  Trainer trainer(std::move(made));
  trainer.fit();
  trainer.close();
  EXPECT_THAT(objects(), Contains(HasSubstr("/ep1.pt")));
  EXPECT_THAT(objects(), ::testing::Each(::testing::StartsWith("bucket/mine/")));
  for (const std::string& message : log->messages) {
    EXPECT_THAT(message, Not(HasSubstr(keys.secret_key)));
  }
  EXPECT_THAT(message_of<UsageError>([] {
                RemoteUploaderDownloader(
                    {.bucket_uri = "s3://bucket", .backend_kwargs = {{"regoin", "eu"}}});
              }),
              HasSubstr("\"regoin\""));
  EXPECT_THROW(RemoteUploaderDownloader({.bucket_uri = "s3://bucket",
                                         .backend_kwargs = {{"region", "eu"}},
                                         .store = s3_store({.bucket = "bucket"})}),
               UsageError);
}

TEST_F(S3Run, AFileStopInTheBucketStopsIt) {
  fake.put_object("bucket/my_cool_run/STOP", "");
  // A run that is stopped before its first batch saves nothing. The folder exists because of this
  // file.
  fake.put_object("bucket/my_cool_run/notes.txt", "");
  TrainerOptions made = restartable("1000000ba");
  made.save_interval = "100000ep";
  made.handle_signals = true;
  Trainer trainer(std::move(made));
  EXPECT_EQ(trainer.fit().reason, FitResult::Reason::kInterrupted);
  trainer.close();
  EXPECT_THAT(objects(), Not(Contains("bucket/my_cool_run/STOP")));
  EXPECT_EQ(Trainer(restartable("1000001ba")).state().timestamp.batch,
            trainer.state().timestamp.batch);
}

TEST_F(S3Run, ABadServerCostsTimeAndNothingElse) {
  FakeS3Options bad;
  bad.fault_rate = 0.05;
  fake.change(bad);
  environment.set("AWS_MAX_ATTEMPTS", "20");
  for (const char* duration : {"3ba", "6ba"}) {
    Trainer(restartable(duration)).fit();
  }
  fake.change({});
  EXPECT_GT(fake.faults(), 0U);
  EXPECT_EQ(fake.uploads(), 0U);
  const Value resumed = saved("s3://bucket/my_cool_run/latest-rank0.pt");
  TrainerOptions straight = restartable("6ba");
  straight.save_folder = "s3://bucket/straight";
  Trainer(std::move(straight)).fit();
  EXPECT_EQ(resumed, saved("s3://bucket/straight/latest-rank0.pt"));
}

TEST_F(S3Run, TheSecondJobOfARunIsTold) {
  for (const auto conditions :
       {FakeS3Options::Conditions::kCheck, FakeS3Options::Conditions::kIgnore}) {
    FakeS3Options with;
    with.conditions = with.upload_conditions = conditions;
    fake.change(with);
    const auto named = [&](TrainerOptions made) {
      made.save_folder = "s3://bucket/{run_name}/" + std::to_string(static_cast<int>(conditions));
      made.loggers = {};
      return made;
    };
    Trainer first(named(restartable("2ba")));
    Trainer second(named(restartable("3ba")));
    first.fit();
    EXPECT_THAT(message_of<AlreadyExistsError>([&] { second.fit(); }),
                HasSubstr("another job moves"));
  }
}

// The store has to find out what the server supports. A start does not wait until the store knows.
TEST_F(S3Run, ABucketWithoutConditionsIsALineAfterTheFirstSave) {
  const auto says_it = [&] {
    return std::ranges::count_if(log->messages, [](const std::string& line) {
      return line.find("s3://bucket/my_cool_run has no locks") != std::string::npos;
    });
  };
  FakeS3Options without;
  without.conditions = without.upload_conditions = FakeS3Options::Conditions::kIgnore;
  fake.change(without);
  Trainer trainer(restartable("2ba"));
  EXPECT_EQ(says_it(), 0);
  trainer.fit();
  EXPECT_EQ(says_it(), 1);
}

TEST_F(S3Run, AGoodPointerIsFoundWithAsFewRequestsAsItCanBe) {
  Trainer(restartable("3ba")).fit();
  fake.forget_log();
  const auto found =
      find_latest("s3://bucket/my_cool_run", {.trust_latest = true, .verify = Verify::kQuick});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->timestamp.batch, 3);
  EXPECT_LE(fake.log().size(), 2U) << ::testing::PrintToString(fake.log());
}

// "During resumption, there would be no local checkpoints, so the trainer would then look in the
// object store logger's provided bucket"
TEST_F(S3Run, AnUploadedRunGoesOnFromTheBucket) {
  Trainer(uploading("2ep")).fit();
  EXPECT_EQ(fake.objects()["bucket/checkpoints/latest-rank0.pt.symlink"], "checkpoints/ep2.pt");
  EXPECT_TRUE(!fs::exists("checkpoints") || fs::is_empty("checkpoints"));
  fs::remove_all("checkpoints");
  Trainer resumed(uploading("3ep"));
  EXPECT_EQ(resumed.state().timestamp.epoch, 2);
  resumed.fit();
  resumed.close();
  EXPECT_TRUE(fake.objects().contains("bucket/checkpoints/ep3.pt"));
  RemoteUploaderDownloader named({.bucket_uri = "s3://bucket"});
  State state;
  state.run_name = "my_cool_run";
  Logger logger(state);
  named.init(state, logger);
  EXPECT_EQ(named.get_uri_for_file("a/b.txt"), "s3://bucket/a/b.txt");
  named.download_file("checkpoints/latest-rank0.pt", folder / "got.pt");
  EXPECT_EQ(resumable_state(load(folder / "got.pt")), saved("s3://bucket/checkpoints/ep3.pt"));
}

// A bucket as Composer's own saver leaves it.
TEST_F(S3Run, ComposersBucketIsFound) {
  const auto file = [](const std::string& name) {
    return testing::read_file(CAIRN_TEST_DATA "/composer-0.33/adamw_cosine/" + name);
  };
  for (const char* name : {"ep0-ba3-rank0.pt", "ep0-ba5-rank0.pt", "ep1-ba8-rank0.pt"}) {
    fake.put_object("bucket/my_cool_run/checkpoints/" + std::string(name), file(name));
  }
  fake.put_object("bucket/my_cool_run/checkpoints/latest-rank0.pt.symlink",
                  "my_cool_run/checkpoints/ep0-ba5-rank0.pt");
  const auto find = [](bool trust_latest) {
    const auto found =
        find_latest("s3://bucket/my_cool_run/checkpoints", {.trust_latest = trust_latest});
    return found ? found->path : "nothing";
  };
  EXPECT_EQ(find(true), "s3://bucket/my_cool_run/checkpoints/ep0-ba5-rank0.pt");
  EXPECT_EQ(find(false), "s3://bucket/my_cool_run/checkpoints/ep1-ba8-rank0.pt");
}

TEST_F(S3Run, NoSecretIsInWhatARunSaysOrSaves) {
  TrainerOptions made = restartable("2ba");
  made.loggers = {RemoteUploaderDownloader({.bucket_uri = "s3://bucket"}), log};
  Trainer(made).fit();
  FakeS3Options other;
  other.secret_key = "another-canary-secret";
  fake.change(other);
  const std::string refused = message_of([&] { Trainer{restartable("3ba")}; });
  EXPECT_THAT(refused, Not(HasSubstr("canary")));
  EXPECT_THAT(log->messages, Not(Contains(HasSubstr("canary"))));
  for (const auto& [name, bytes] : fake.objects()) {
    EXPECT_EQ(bytes.find("canary"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace cairn
