// The checkpoints that ranks see, and reading files on several machines' disks as one folder.
#include "checkpoint/ranks/joint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "io/bytes/source_part.h"
#include "storage/local/local_store.h"
#include "storage/publish/publish.h"
#include "testing/missing_bytes.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MissingBytes;
using ::testing::Not;
using ::testing::SizeIs;
using testing::TempFolder;
using ::testing::UnorderedElementsAre;

void put(ObjectStore& store, const std::string& name, const std::string& text) {
  const auto write = store.begin(name);
  write->write(as_bytes(text));
  write->commit();
}

std::string text_at(ObjectStore& store, const std::string& name) {
  return std::string(as_text(read_all(*store.open(name)).view));
}

// The disks of two machines. The second machine has another path for the folder.
class JointStoreTest : public ::testing::Test {
 protected:
  // Writes a checkpoint as two ranks save it: rank 1's machine has one of the files.
  void save(const std::string& name, const std::string& attempt) {
    const ManifestFile own{.name = "__1_0.distcp", .bytes = 4, .xxh3_128 = "-"};
    put(*disks_[1], "b/" + name + "/__1_0.distcp", "west");
    put(*disks_[1], "b/" + name + "/" + kFolderManifest,
        write_folder_manifest({.attempt = attempt, .files = {own}, .publisher = "east"}));
    ManifestFile elsewhere = own;
    elsewhere.machine = "west";
    put(*disks_[0], "a/" + name + "/__0_0.distcp", "east");
    put(*disks_[0], "a/" + name + "/.metadata", "both");
    put(*disks_[0], "a/" + name + "/" + kFolderManifest,
        write_folder_manifest({.attempt = attempt,
                               .files = {{.name = "__0_0.distcp", .bytes = 4, .xxh3_128 = "-"},
                                         elsewhere,
                                         {.name = ".metadata", .bytes = 4, .xxh3_128 = "-"}}}));
  }

  std::vector<SeenCheckpoint> seen(std::size_t machine) const {
    return see_checkpoints(
        *disks_[machine],
        {.folder = machine == 0 ? "a" : "b", .filenames = {"ep{epoch}-ba{batch}"}, .writer = {}});
  }

  // The checkpoints that both machines agree on. Every machine sees the same list.
  std::vector<AgreedCheckpoint> agreed() const {
    std::vector<AgreedCheckpoint> all;
    for (const SeenCheckpoint& one : seen(0)) {
      all.push_back({.name = one.name,
                     .order = one.order,
                     .identity = one.identity,
                     .files = {},
                     .lacks = {}});
      for (const auto& file : one.files)
        all.back().files.push_back({file.name, file.bytes, file.machine.empty() ? 0 : 1});
    }
    return all;
  }

  // Reads from the other machine's disk, and counts the bytes.
  class Others final : public PeerFileReader {
   public:
    explicit Others(std::shared_ptr<JointStore> asked) : asked_(std::move(asked)) {}
    void read(const FileOfRank& file, std::span<const ByteSource::Range> ranges) const override {
      for (const auto& range : ranges)
        bytes += range.into.size();
      asked_->open_here(file.checkpoint, file.file)->read(ranges);
    }
    mutable std::uint64_t bytes = 0;

   private:
    std::shared_ptr<JointStore> asked_;
  };

  std::shared_ptr<JointStore> joint_of(std::size_t machine,
                                       std::shared_ptr<const PeerFileReader> others) const {
    return std::make_shared<JointStore>(disks_[machine],
                                        JointStore::View{.folder = machine == 0 ? "a" : "b",
                                                         .agreed = agreed(),
                                                         .seen = seen(machine),
                                                         .others = std::move(others)});
  }

  const std::vector<std::shared_ptr<ObjectStore>> disks_ = {memory_store(), memory_store()};
};

TEST_F(JointStoreTest, AMachineSeesItsPartsTheFurthestFirst) {
  save("ep1-ba4", "one");
  save("ep2-ba10", "two");
  put(*disks_[0], "a/ep9-ba90/notes", "somebody's");
  const auto first = seen(0);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].name, "ep2-ba10");
  EXPECT_EQ(first[0].identity, "two");
  EXPECT_TRUE(first[0].is_published);
  EXPECT_THAT(first[0].has, UnorderedElementsAre("__0_0.distcp", ".metadata", kFolderManifest));
  EXPECT_THAT(first[0].files, SizeIs(4));
  EXPECT_GT(first[0].order, first[1].order);
  const auto second = seen(1);
  ASSERT_THAT(second, SizeIs(2));
  EXPECT_FALSE(second[0].is_published);
  EXPECT_THAT(second[0].has, ElementsAre("__1_0.distcp"));
  EXPECT_EQ(second[0].order, first[0].order);
  EXPECT_THAT(see_checkpoints(*memory_store(), {.folder = "none", .filenames = {"ba{batch}"}}),
              IsEmpty());
}

TEST_F(JointStoreTest, WhatADiskDoesNotGiveIsToldAndTheOthersAreSeen) {
  const TempFolder temp;
  const auto here = local_store();
  for (const std::string name : {"ep1-ba4", "ep1-ba5", "ep1-ba6"}) {
    put(*here, temp / name + "/.metadata", name);
  }
  const std::string lost = temp / "ep1-ba5/.metadata";
  MissingBytes disk(lost, 1000);
  const auto all = see_checkpoints(*local_store(disk),
                                   {.folder = temp.path(), .filenames = {"ep{epoch}-ba{batch}"}});
  ASSERT_THAT(all, SizeIs(3));
  for (const std::size_t i : {0, 2}) {
    EXPECT_EQ(all[i].problem, "");
    EXPECT_THAT(all[i].has, ElementsAre(".metadata"));
  }
  EXPECT_EQ(all[1].name, "ep1-ba5");
  EXPECT_THAT(all[1].problem, HasSubstr(lost));
  EXPECT_THAT(all[1].has, IsEmpty());
  EXPECT_GT(all[0].order, all[1].order);
  EXPECT_GT(all[1].order, all[2].order);
  EXPECT_THROW(see_checkpoint(*local_store(disk), temp / "ep1-ba5", "ep1-ba5"), UnreadableError);
}

TEST_F(JointStoreTest, WhichHasNotAllOfItsFilesIsAPart) {
  save("ep1-ba4", "one");
  EXPECT_TRUE(is_machine_part(*disks_[0], "a/ep1-ba4"));
  EXPECT_TRUE(is_machine_part(*disks_[1], "b/ep1-ba4"));
  // As if the files of both machines were copied into one folder.
  put(*disks_[0], "a/ep1-ba4/__1_0.distcp", "west");
  EXPECT_FALSE(is_machine_part(*disks_[0], "a/ep1-ba4"));
  EXPECT_FALSE(is_machine_part(*disks_[0], "a/ep7-ba7"));
}

TEST_F(JointStoreTest, AFileIsKnownByItsEnd) {
  put(*disks_[0], "a/one.pt", "east");
  put(*disks_[1], "b/one.pt", "west");
  const auto first = see_checkpoint(*disks_[0], "a/one.pt", "one.pt");
  const auto second = see_checkpoint(*disks_[1], "b/one.pt", "one.pt");
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->identity, second->identity);
  put(*disks_[1], "b/other.pt", "east");
  EXPECT_EQ(see_checkpoint(*disks_[1], "b/other.pt", "one.pt")->identity, first->identity);
}

TEST_F(JointStoreTest, WhatOthersHaveIsReadFromThemAndOwnFilesAreReadHere) {
  save("ep1-ba4", "one");
  const auto others = std::make_shared<Others>(joint_of(1, nullptr));
  const auto joint = joint_of(0, others);
  EXPECT_EQ(text_at(*joint, "a/ep1-ba4/__0_0.distcp"), "east");
  EXPECT_EQ(others->bytes, 0U);
  EXPECT_EQ(text_at(*joint, "a/ep1-ba4/__1_0.distcp"), "west");
  EXPECT_EQ(others->bytes, 4U);
  std::byte last{};
  joint->open("a/ep1-ba4/__1_0.distcp")->read(std::vector<ByteSource::Range>{{3, {&last, 1}}});
  EXPECT_EQ(last, std::byte{'t'});
  EXPECT_EQ(others->bytes, 5U);
  EXPECT_FALSE(joint->is_all_here("a/ep1-ba4"));
  // Looks like a folder of one file system.
  ListPage page = joint->list("a", "");
  ASSERT_THAT(page.names, SizeIs(1));
  EXPECT_EQ(page.names[0].name, "ep1-ba4");
  EXPECT_EQ(joint->stat("a/ep1-ba4", true)->type, ObjectInfo::Type::kFolder);
  EXPECT_EQ(joint->stat("a/ep1-ba4/__1_0.distcp", true)->size, 4U);
  EXPECT_THAT(joint->list("a/ep1-ba4", "").names, SizeIs(4));
  EXPECT_FALSE(joint->stat("a/ep2-ba8", true));
  EXPECT_THROW(joint->open("a/ep1-ba4/notes"), NotFoundError);
  EXPECT_THROW(joint->open("a/ep1-ba4"), UsageError);
}

// A machine that was not part of the job for a while has an older save with the same name.
TEST_F(JointStoreTest, FilesOfAnotherAttemptAreNotTakenForThisOnes) {
  save("ep1-ba4", "older");
  const auto away = seen(1);
  save("ep2-ba8", "new");
  put(*disks_[1], "b/ep2-ba8/__0_0.distcp", "OLD!");
  auto mine = seen(1);
  mine[0].has.emplace_back("__0_0.distcp");
  mine[0].identity = "older";
  const auto others = std::make_shared<Others>(joint_of(0, nullptr));
  JointStore joint(disks_[1], {.folder = "b", .agreed = agreed(), .seen = mine, .others = others});
  EXPECT_EQ(text_at(joint, "b/ep2-ba8/__0_0.distcp"), "east");
  EXPECT_THAT(away, Not(IsEmpty()));
}

}  // namespace
}  // namespace cairn
