#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "run_folder.h"
#include "run_tool.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kComposer;
using testing::kData;
using ::testing::Not;

// A copy of Composer's checkpoint with one bit of its first tensor's bytes flipped.
std::string damaged_composer_file(const testing::TempFolder& folder) {
  std::string bytes = testing::read_file(kComposer);
  const std::size_t record = bytes.find("/data/0");
  bytes[record + 100] = static_cast<char>(bytes[record + 100] ^ 16);
  testing::write_file(folder / "damaged.pt", bytes);
  return folder / "damaged.pt";
}

TEST(VerifyTest, EveryTorchFileOfEveryWriterIsWhole) {
  for (const char* folder : {"torch-1.13", "torch-2.6", "torch-2.14"}) {
    const std::string file = kData + "/" + folder + "/module_state_dict.pt";
    const Answer answer = run({"verify", "--full", file, kComposer});
    EXPECT_EQ(answer.code, 0) << answer.out << answer.err;
    EXPECT_THAT(answer.out, AllOf(HasSubstr("all match their checksums"),
                                  HasSubstr("2 checked, none damaged")));
  }
}

TEST(VerifyTest, SaysPlainlyThatAFileHasNoChecksums) {
  const std::string file = kData + "/cairn/tiny.safetensors";
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"verify", file}, {"verify", "--full", file}}) {
    const Answer answer = run(how);
    EXPECT_EQ(answer.code, 0);
    EXPECT_THAT(answer.out, HasSubstr("no checksums: only its structure was checked"));
  }
}

TEST(VerifyTest, FullNamesTheDamagedTensorAndRangeWhereQuickSeesNothing) {
  const testing::TempFolder temp;
  const std::string file = damaged_composer_file(temp);
  const Answer quick = run({"verify", file});
  EXPECT_EQ(quick.code, 0);
  EXPECT_THAT(quick.out, HasSubstr("structure and sizes"));

  const Answer full = run({"verify", "--full", file, kComposer});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.out, AllOf(HasSubstr("DAMAGED"), HasSubstr("record data/0"),
                              HasSubstr("tensor state/model/module.0.weight"), HasSubstr("CRC-32"),
                              HasSubstr("1 of 2 damaged")));

  const json answer = json::parse(run({"verify", "--full", "--json", file}).out);
  EXPECT_EQ(answer["checked"], "full");
  const json& row = answer["files"].at(0);
  EXPECT_EQ(row["path"], file);
  EXPECT_EQ(row["state"], "damaged");
  const json& damage = row["damage"].at(0);
  EXPECT_EQ(damage["record"], "data/0");
  EXPECT_EQ(damage["tensors"], json({"state/model/module.0.weight"}));
  EXPECT_EQ(damage["end"].get<int>() - damage["begin"].get<int>(), 16 * 8 * 4);
}

TEST(VerifyTest, WhatCouldNotBeReadIsCountedApart) {
  const testing::TempFolder temp;
  const std::string damaged = damaged_composer_file(temp);
  const Answer good = run({"verify", kComposer, temp / "absent.pt", temp / "gone.pt"});
  EXPECT_EQ(good.code, kNotFound);
  EXPECT_THAT(good.out, HasSubstr("\n1 checked, none damaged, 2 not read\n"));
  EXPECT_THAT(run({"verify", "--full", kComposer, damaged, temp / "absent.pt"}).out,
              HasSubstr("\n1 of 2 damaged, 1 not read\n"));
  const json row = json::parse(run({"verify", "--json", temp / "absent.pt"}).out)["files"].at(0);
  EXPECT_EQ(row["state"], "not read");
  EXPECT_EQ(row["manifest"], nullptr);
  EXPECT_EQ(row["checksums"], nullptr);
}

TEST(VerifyTest, AFolderIsCheckedFileByFile) {
  const RunFolder folder;
  folder.save(20);
  folder.save(30);
  folder.link("latest-rank0.pt", RunFolder::name(30));
  folder.write("notes.txt", "not a checkpoint");
  const Answer whole = run({"verify", "--full", folder.path()});
  EXPECT_EQ(whole.code, 0) << whole.out;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("every byte accounted for"), HasSubstr("2 checked"),
                               Not(HasSubstr("notes"))));
  folder.damage(RunFolder::name(20), /*visibly=*/true);
  const json quick = json::parse(run({"verify", "--json", folder.path()}).out);
  EXPECT_EQ(quick["files"].at(0)["state"], "damaged");
  EXPECT_EQ(quick["files"].at(1)["state"], "ok");
  EXPECT_EQ(run({"verify", folder.path()}).code, 1);
}

TEST(VerifyTest, ATruncatedFileIsDamagedAndOneOfAnotherKindIsNot) {
  const testing::TempFolder temp;
  testing::write_file(temp / "cut.pt", testing::read_file(kComposer).substr(0, 10'000));
  const Answer cut = run({"verify", temp / "cut.pt"});
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.out, AllOf(HasSubstr("DAMAGED"), HasSubstr("cut off")));

  EXPECT_EQ(run({"verify", temp / "no-such.pt"}).code, 3);
  const Answer both = run({"verify", temp / "no-such.pt", temp / "cut.pt"});
  EXPECT_EQ(both.code, 1);  // damage decides the code, even if other files could not be checked
  EXPECT_THAT(both.out, HasSubstr("there is no file"));
  std::filesystem::create_directory(temp / "empty");
  EXPECT_EQ(run({"verify", temp / "empty"}).code, 3);
}

TEST(VerifyTest, WhatIsWholeAndNoCheckpointIsNotDamaged) {
  const testing::TempFolder temp;
  testing::write_file(temp / "a.pt", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
  testing::write_file(temp / "b.pt", "<!DOCTYPE html><html>Sign in</html>");
  for (const std::string& file : {temp / "a.pt", temp / "b.pt", kData + "/other-files/export.pt2",
                                  kData + "/other-files/package.pt"}) {
    const Answer answer = run({"verify", "--full", file});
    EXPECT_EQ(answer.code, kIncompatible) << file;
    EXPECT_THAT(answer.out, AllOf(HasSubstr("not read"), Not(HasSubstr("DAMAGED")))) << file;
    EXPECT_EQ(run({"inspect", file}).code, kIncompatible) << file;
  }
}

TEST(VerifyTest, CountsTensorsWithoutAChecksum) {
  const std::string file = kData + "/other-files/skip_data.pt";
  EXPECT_THAT(run({"verify", "--full", file}).out,
              HasSubstr("8 records, all match their checksums except 2 that have none"));
}

}  // namespace
}  // namespace cairn::cli
