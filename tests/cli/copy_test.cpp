#include "cairn/checkpoint/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "io/file.h"
#include "run_tool.h"
#include "storage/listing.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::batch_of_sample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kComposer;
using testing::kData;
using testing::message_of;
using testing::read_file;
using testing::sample_checkpoint;

std::string bytes_in(ObjectStore& store, const std::string& name) {
  const auto source = store.open(name);
  return std::string(as_text(source->view(0, source->size()).view));
}

class CopyTest : public ::testing::Test {
 protected:
  testing::TempFolder temp_;
};

TEST_F(CopyTest, AFileKeepsItsBytes) {
  const std::string out = temp_ / "new" + "/copy.pt";
  const Answer answer = run({"copy", kComposer, out});
  EXPECT_EQ(answer.code, kDone) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("copy.pt: "));
  EXPECT_TRUE(read_file(out) == read_file(kComposer));
}

TEST_F(CopyTest, WhatOnlyItsOwnerMayReadStaysSo) {
  namespace fs = std::filesystem;
  const auto set_mode = [](const std::string& path, unsigned mode) {
    fs::permissions(path, static_cast<fs::perms>(mode));
  };
  const auto mode_of = [](const std::string& path) {
    return static_cast<unsigned>(fs::status(path).permissions());
  };
  const std::string file = temp_ / "a.pt";
  const std::string folder = temp_ / "dcp";
  save(sample_checkpoint(1), file);
  cairn::convert(file, folder, {.to = "dcp"});
  for (const unsigned mode : {0600U, 0644U}) {
    set_mode(file, mode);
    set_mode(folder + "/__0_0.distcp", mode);
    ASSERT_EQ(run({"copy", "--overwrite", file, temp_ / "b.pt"}).code, kDone);
    EXPECT_EQ(mode_of(temp_ / "b.pt") & 077U, mode & 077U);
    ASSERT_EQ(run({"copy", "--overwrite", folder, temp_ / "copy"}).code, kDone);
    EXPECT_EQ(mode_of(temp_ / "copy" + "/__0_0.distcp") & 077U, mode & 077U);
  }
}

TEST_F(CopyTest, ASlashAtTheEndIsWhereItGoes) {
  const json answer = json::parse(run({"copy", "--json", kComposer, temp_.path() + "/"}).out);
  const std::string name = kComposer.substr(kComposer.rfind('/') + 1);
  EXPECT_EQ(answer["out"], temp_ / name);
  EXPECT_EQ(answer["objects"], 1);
  EXPECT_EQ(answer["bytes"], read_file(kComposer).size());
  EXPECT_TRUE(read_file(temp_ / name) == read_file(kComposer));
}

TEST_F(CopyTest, AnExistingOneIsReplacedOnlyWhenAsked) {
  const std::string out = temp_ / "a.pt";
  save(sample_checkpoint(1), out);
  const Answer refused = run({"copy", kComposer, out});
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_THAT(refused.err, HasSubstr("exists"));
  EXPECT_EQ(batch_of_sample(load(out)), 1);
  EXPECT_EQ(run({"copy", "--overwrite", kComposer, out}).code, kDone);
  EXPECT_TRUE(read_file(out) == read_file(kComposer));
}

TEST_F(CopyTest, AFolderThatHoldsOtherFilesIsNotReplaced) {
  const std::string from = temp_ / "from";
  cairn::convert(kComposer, from, {.to = "safetensors", .weights_only = true, .shard_bytes = 200});
  testing::write_file(temp_ / "from/config.json", "new");
  const std::string backups = temp_ / "backups";
  save(sample_checkpoint(1), join_path(backups, "a.pt"));
  testing::write_file(join_path(backups, "thesis.tex"), "by hand");
  const Answer answer = run({"copy", "--overwrite", from, backups});
  EXPECT_EQ(answer.code, kFailed);
  EXPECT_THAT(answer.err, HasSubstr("cannot replace " + backups + ": it holds a.pt"));
  EXPECT_THAT(list_names(*local_store(), backups), ElementsAre("a.pt", "thesis.tex"));
  // A copy into a folder is allowed if nothing is lost: the folder is empty, or its only file gets
  // a new version.
  posix_file_system().make_folders(temp_ / "to");
  for (const char* was : {"", "old"}) {
    if (*was != '\0') testing::write_file(temp_ / "to/config.json", was);
    EXPECT_EQ(run({"copy", "--overwrite", from, temp_ / "to"}).code, kDone);
    EXPECT_EQ(read_file(temp_ / "to/config.json"), "new");
  }
}

TEST_F(CopyTest, WhatAPointerPointsAtIsCopied) {
  save(sample_checkpoint(3), temp_ / "ep1.pt");
  local_store()->move_pointer(temp_ / "latest.pt", temp_ / "ep1.pt");
  EXPECT_EQ(run({"copy", temp_ / "latest.pt", temp_ / "of_latest.pt"}).code, kDone);
  EXPECT_EQ(local_store()->stat(temp_ / "of_latest.pt", /*follow=*/false)->type,
            ObjectInfo::Type::kObject);
  EXPECT_EQ(batch_of_sample(load(temp_ / "of_latest.pt")), 3);
}

TEST_F(CopyTest, AFolderIsCopiedWithAllOfItsFiles) {
  const std::string from = temp_ / "shards";
  cairn::convert(kComposer, from, {.to = "safetensors", .weights_only = true, .shard_bytes = 200});
  const auto names = list_names(*local_store(), from);
  ASSERT_GT(names.size(), 2U);
  const auto far = memory_store();
  const CopyResult result = copy_checkpoint(from, "run/shards", {.to_store = far});
  EXPECT_EQ(result.objects, names.size());
  EXPECT_EQ(list_names(*far, "run/shards"), names);
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    const std::string content = read_file(join_path(from, name));
    EXPECT_TRUE(bytes_in(*far, "run/shards/" + name) == content) << name;
    bytes += content.size();
  }
  EXPECT_EQ(result.bytes, bytes);
  EXPECT_TRUE(verify("run/shards", Verify::kFull, far).ok());
  copy_checkpoint("run/shards", temp_ / "back", {.from_store = far});
  EXPECT_TRUE(load(temp_ / "back") == load(from));
}

TEST_F(CopyTest, FoldersOfPyTorchAreCopied) {
  const std::string from = kData + "/sharded-2.14/ep1-ba3";
  if (!local_store()->stat(from)) GTEST_SKIP() << from << " is not there";
  EXPECT_EQ(run({"copy", from, temp_.path() + "/"}).code, kDone);
  EXPECT_EQ(run({"diff", from, temp_ / "ep1-ba3"}).code, kDone);
}

TEST_F(CopyTest, PlacesMayBeUris) {
  EXPECT_EQ(copy_checkpoint(kComposer, "memory://copy_test/run/").objects, 1U);
  const std::string name = kComposer.substr(kComposer.rfind('/') + 1);
  EXPECT_EQ(run({"copy", "memory://copy_test/run/" + name, temp_ / "back.pt"}).code, kDone);
  EXPECT_TRUE(read_file(temp_ / "back.pt") == read_file(kComposer));
}

// copy and the other commands that write refuse a store that ends with the tool.
TEST_F(CopyTest, NothingIsWrittenToWhatEndsWithTheTool) {
  const std::string out = "memory://ends_with_the_tool/a.pt";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"copy", kComposer, out},
        {"convert", kComposer, out},
        {"extract", kComposer, "state/run_name", "--out", out}}) {
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, kFailed) << arguments[0];
    EXPECT_THAT(answer.err, AllOf(HasSubstr(out + ": memory://"), HasSubstr("Name a file")));
    EXPECT_EQ(answer.out, "");
    EXPECT_FALSE(object_store_of(out)->stat(out)) << arguments[0];
  }
}

TEST_F(CopyTest, StandardOutputIsNoPlaceToWriteTo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"copy", kComposer, "-"},
        {"convert", kComposer, "-"},
        {"convert", kComposer, "-", "--to", "safetensors"},
        {"extract", kComposer, "state/run_name", "--out", "-"}}) {
    const Answer answer = run(arguments);
    EXPECT_EQ(answer.code, kFailed) << arguments[0];
    EXPECT_THAT(answer.err, AllOf(HasSubstr("not written to standard output"), HasSubstr("./-")));
    EXPECT_EQ(answer.out, "");
    EXPECT_FALSE(local_store()->stat("-")) << arguments[0];
  }
}

TEST_F(CopyTest, DamageIsNotCopied) {
  std::string bytes = read_file(kComposer);
  bytes[bytes.size() / 2] ^= 1;
  testing::write_file(temp_ / "bad.pt", bytes);
  const Answer answer = run({"copy", temp_ / "bad.pt", temp_ / "copy.pt"});
  EXPECT_EQ(answer.code, kDamaged);
  EXPECT_THAT(answer.err, HasSubstr("nothing was copied"));
  EXPECT_FALSE(local_store()->stat(temp_ / "copy.pt"));
}

// The input is replaced during the copy. Only verified bytes are copied.
TEST_F(CopyTest, WhatIsReplacedMeanwhileIsNotPublished) {
  const auto store = memory_store();
  save(sample_checkpoint(1), "a.pt", {.store = store});
  const auto replace = [&](std::uint64_t) { save(sample_checkpoint(2), "a.pt", {.store = store}); };
  const auto copy = [&] {
    copy_checkpoint("a.pt", "b.pt",
                    {.from_store = store, .to_store = store, .on_progress = replace});
  };
  EXPECT_THAT(message_of<StorageError>(copy), HasSubstr("was replaced while it was copied"));
  EXPECT_THAT(list_names(*store, ""), ElementsAre("a.pt"));
}

TEST_F(CopyTest, WrongUsageIsToldBeforeAnythingIsWritten) {
  save(sample_checkpoint(1), temp_ / "a.pt");
  EXPECT_EQ(run({"copy", temp_ / "none.pt", temp_ / "b.pt"}).code, kNotFound);
  const Answer format = run({"copy", temp_ / "a.pt", temp_ / "b.safetensors"});
  EXPECT_EQ(format.code, kFailed);
  EXPECT_THAT(format.err, HasSubstr("cairn convert"));
  EXPECT_THAT(run({"copy", "--overwrite", temp_ / "a.pt", temp_ / "a.pt"}).err,
              HasSubstr("is, or contains, the other"));
  testing::write_file(temp_ / "notes.txt", "no checkpoint");
  EXPECT_NE(run({"copy", temp_ / "notes.txt", temp_ / "b.txt"}).code, kDone);
  EXPECT_NE(run({"copy", temp_.path(), temp_.path() + "-copy"}).code, kDone);
  EXPECT_THAT(list_names(*local_store(), temp_.path()), ElementsAre("a.pt", "notes.txt"));
}

TEST_F(CopyTest, OnlyANameThatSaysAnotherFormatIsRefused) {
  const auto store = memory_store();
  const auto message_of_copy = [&](const std::string& from, const std::string& to) {
    save(sample_checkpoint(1), from, {.overwrite = true, .store = store});
    return message_of<UsageError>(
        [&] { copy_checkpoint(from, to, {.from_store = store, .to_store = store}); });
  };
  EXPECT_THAT(message_of_copy("a.tar.gz", "b.pt.gz"), HasSubstr("another format"));
  EXPECT_THAT(message_of_copy("a.pt", "b.pt.gz"), HasSubstr("another format"));
  EXPECT_THAT(message_of_copy("a.pt", "b.safetensors"), HasSubstr("another format"));
  EXPECT_THAT(message_of_copy("lr0.1", "lr0.1.safetensors"), HasSubstr("another format"));
  EXPECT_THAT(list_names(*store, ""), ElementsAre("a.pt", "a.tar.gz", "lr0.1"));
  const std::vector<std::pair<std::string, std::string>> same = {
      {"run.v1", "run.v2"}, {"lr0.1", "lr0.2"}, {"lr0.1-ep3", "best"}, {"a.tar.gz", "c.b.tar.gz"}};
  for (const auto& [from, to] : same) {
    save(sample_checkpoint(4), from, {.overwrite = true, .store = store});
    copy_checkpoint(from, to, {.from_store = store, .to_store = store});
    EXPECT_EQ(batch_of_sample(load(to, {.store = store})), 4) << to;
  }
}

// The query of a web server's URI is no part of the file's name.
TEST_F(CopyTest, AQueryIsNoPartOfTheName) {
  const auto store = memory_store();
  const std::string from = "https://host/run/a.pt?signature=x.y/z";
  save(sample_checkpoint(1), from, {.store = store});
  EXPECT_EQ(copy_checkpoint(from, temp_.path() + "/", {.from_store = store}).path, temp_ / "a.pt");
  EXPECT_EQ(batch_of_sample(load(temp_ / "a.pt")), 1);
}

}  // namespace
}  // namespace cairn::cli
