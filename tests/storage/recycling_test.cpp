// recycling_local_store(): which files it writes over, and which it never does.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cairn/storage/object_store.h"

#include "io/file.h"
#include "io/files/probe_folder.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::read_file;
using testing::TempFolder;

class RecyclingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string kind = folder_space(folder_.path()).file_system;
    if (kind != "ext4" && kind != "xfs") GTEST_SKIP() << "on " << kind << " nothing is recycled";
  }

  // Returns the file's inode.
  std::uint64_t write(const std::string& name, const std::string& bytes) {
    const auto object = store_->begin(folder_ / name);
    object->write(as_bytes(bytes));
    object->commit();
    EXPECT_EQ(read_file(folder_ / name), bytes);
    return posix_file_system().stat(folder_ / name)->inode;
  }
  void write_and_remove(const std::string& name, const std::string& bytes) {
    write(name, bytes);
    EXPECT_TRUE(store_->remove(folder_ / name));
    EXPECT_FALSE(store_->stat(folder_ / name));
  }
  // Whether the next write gets the file that was removed last.
  bool recycles() {
    const std::vector<std::string> before = temporary_names();
    const auto object = store_->begin(folder_ / "next");
    const bool is_same = !before.empty() && temporary_names() == before;
    object->write(as_bytes("the next one, which is somewhat longer than the one before"));
    object->commit();
    return is_same;
  }
  std::vector<std::string> temporary_names() {
    std::vector<std::string> names = posix_file_system().list(folder_.path());
    std::erase_if(names, [](const std::string& name) { return !name.starts_with(".cairn-tmp-"); });
    return names;
  }

  TempFolder folder_;
  std::shared_ptr<ObjectStore> store_ = recycling_local_store();
};

TEST_F(RecyclingTest, TheNextOneIsWrittenOverTheOneThatWasRemoved) {
  const std::uint64_t first = write("a", "the first one, of some length");
  const std::uint64_t second = write("b", "the second");
  EXPECT_NE(first, second);
  EXPECT_TRUE(store_->remove(folder_ / "a"));
  EXPECT_FALSE(store_->remove(folder_ / "a"));
  EXPECT_EQ(temporary_names().size(), 1U);
  EXPECT_THAT(store_->list(folder_.path()).names, ::testing::SizeIs(1));
  EXPECT_EQ(write("c", "the third"), first);
  EXPECT_TRUE(store_->remove(folder_ / "b"));
  EXPECT_EQ(write("d", "the fourth, which is longer than all that there was before"), second);
  EXPECT_EQ(read_file(folder_ / "c"), "the third");
}

TEST_F(RecyclingTest, OneFileIsKeptAndItGoesWithTheStore) {
  for (const char* name : {"a", "b", "c"}) {
    write(name, name);
  }
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_TRUE(store_->remove(folder_ / name));
  }
  EXPECT_EQ(temporary_names().size(), 1U);
  store_.reset();
  EXPECT_THAT(posix_file_system().list(folder_.path()), ElementsAre());
}

TEST_F(RecyclingTest, ABackupByHardLinkIsNotTouched) {
  write("a", "precious");
  ASSERT_EQ(link((folder_ / "a").c_str(), (folder_ / "backup").c_str()), 0);
  EXPECT_TRUE(store_->remove(folder_ / "a"));
  EXPECT_THAT(temporary_names(), ElementsAre());
  EXPECT_FALSE(recycles());
  EXPECT_EQ(read_file(folder_ / "backup"), "precious");
}

TEST_F(RecyclingTest, ABackupOfTheSpareItselfIsNotTouched) {  // cp -al of the whole folder
  write_and_remove("a", "precious");
  const std::string spare = folder_ / temporary_names().at(0);
  ASSERT_EQ(link(spare.c_str(), (folder_ / "backup").c_str()), 0);
  EXPECT_FALSE(recycles());
  EXPECT_EQ(read_file(folder_ / "backup"), "precious");
  EXPECT_THAT(temporary_names(), ElementsAre());
}

TEST_F(RecyclingTest, WhatIsOpenIsNotTouched) {
  write("a", "precious");
  const auto source = store_->open(folder_ / "a");
  EXPECT_TRUE(store_->remove(folder_ / "a"));
  EXPECT_THAT(temporary_names(), ElementsAre());
  EXPECT_FALSE(recycles());
  EXPECT_EQ(as_text(source->view(0, source->size()).view), "precious");
  std::string bytes(8, ' ');
  const ByteSource::Range range{0, std::as_writable_bytes(std::span(bytes))};
  source->read({&range, 1});
  EXPECT_EQ(bytes, "precious");
  EXPECT_THAT(temporary_names(), ElementsAre());
}

TEST_F(RecyclingTest, ASpareThatSomebodyOpenedIsNotTouched) {
  write_and_remove("a", "precious");
  const auto source = posix_file_system().open(folder_ / temporary_names().at(0));
  EXPECT_FALSE(recycles());
  EXPECT_EQ(as_text(source->view(0, source->size()).view), "precious");
  EXPECT_THAT(temporary_names(), ElementsAre());
}

TEST_F(RecyclingTest, WhatWasReadToItsEndMayBeReused) {
  write("a", "read to its end");
  auto source = store_->open(folder_ / "a");
  EXPECT_EQ(as_text(source->view(0, source->size()).view), "read to its end");
  source.reset();
  EXPECT_TRUE(store_->remove(folder_ / "a"));
  EXPECT_TRUE(recycles());
}

TEST(RecyclingElsewhereTest, NothingIsKeptWhereItCouldNotBeReused) {
  struct stat info = {};
  if (stat("/dev/shm", &info) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const std::string folder = "/dev/shm/cairn-recycling-test-" + std::to_string(getpid());
  const auto store = recycling_local_store();
  for (const char* text : {"one", "two"}) {
    const auto object = store->begin(folder + "/a");
    object->write(as_bytes(std::string_view(text)));
    object->commit();
    EXPECT_EQ(read_file(folder + "/a"), text);
    EXPECT_TRUE(store->remove(folder + "/a"));
    EXPECT_THAT(posix_file_system().list(folder), ElementsAre());
  }
  posix_file_system().remove_folder(folder);
}

// A changed file is not kept: a file written over it would differ from a new one.
TEST_F(RecyclingTest, WhatSomebodyHasDoneAnythingToIsNotKept) {
  write("mode", "bytes");
  ASSERT_EQ(chmod((folder_ / "mode").c_str(), 0604), 0);
  write("bytes", "bytes");
  ASSERT_EQ(truncate((folder_ / "bytes").c_str(), 3), 0);
  write("linked", "bytes");
  ASSERT_EQ(link((folder_ / "linked").c_str(), (folder_ / "other").c_str()), 0);
  ASSERT_EQ(unlink((folder_ / "other").c_str()), 0);
  write("replaced", "bytes");
  testing::write_file(folder_ / "mine", "mine");
  ASSERT_EQ(rename((folder_ / "mine").c_str(), (folder_ / "replaced").c_str()), 0);
  testing::write_file(folder_ / "foreign", "another program's");
  for (const char* name : {"mode", "bytes", "linked", "replaced", "foreign"}) {
    EXPECT_TRUE(store_->remove(folder_ / name)) << name;
    EXPECT_THAT(temporary_names(), ElementsAre()) << name;
  }
  EXPECT_THAT(posix_file_system().list(folder_.path()), ElementsAre());
}

TEST_F(RecyclingTest, APointerIsRemovedAndWhatItPointsAtStays) {
  write("a", "bytes");
  store_->move_pointer(folder_ / "latest", folder_ / "a");
  EXPECT_TRUE(store_->remove(folder_ / "latest"));
  EXPECT_THAT(posix_file_system().list(folder_.path()), ElementsAre("a"));
}

TEST_F(RecyclingTest, ASpareOfAnotherFolderDoesNotStay) {
  write_and_remove("a", "bytes");
  EXPECT_EQ(temporary_names().size(), 1U);
  write("folder/b", "bytes");
  EXPECT_THAT(posix_file_system().list(folder_.path()), ElementsAre("folder"));
  EXPECT_THAT(posix_file_system().list(folder_ / "folder"), ElementsAre("b"));
}

TEST_F(RecyclingTest, ACleanerMayTakeTheSpareAndNotWhatIsBeingWritten) {
  write_and_remove("a", "bytes");
  EXPECT_EQ(local_store()->remove_leftovers(folder_.path()).size(), 1U);
  EXPECT_FALSE(recycles());
  write_and_remove("a", "bytes");
  const auto object = store_->begin(folder_ / "b");
  EXPECT_EQ(temporary_names().size(), 1U);
  EXPECT_THAT(local_store()->remove_leftovers(folder_.path()), ElementsAre());
  object->write(as_bytes("whole"));
  object->commit();
  EXPECT_EQ(read_file(folder_ / "b"), "whole");
}

TEST_F(RecyclingTest, AWriteThatIsGivenUpLeavesNothing) {
  write_and_remove("a", "bytes");
  {
    const auto object = store_->begin(folder_ / "b");
    object->write(as_bytes("half"));
  }
  EXPECT_THAT(posix_file_system().list(folder_.path()), ElementsAre());
}

}  // namespace
}  // namespace cairn
