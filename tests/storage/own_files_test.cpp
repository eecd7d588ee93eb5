#include "storage/local/own_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "storage/listing.h"
#include "testing/message_of.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

class OwnFilesTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text = "x") const {
    const auto object = store_->begin(name);
    object->write(as_bytes(text));
    object->commit();
  }

  const std::shared_ptr<ObjectStore> store_ = memory_store();
};

TEST_F(OwnFilesTest, WhatWritersOfCheckpointsMakeIsTheirOwn) {
  for (const char* name :
       {".metadata", "__1.metadata", "__0_0.distcp", "__3_1-0123456789abcdef.distcp",
        ".cairn_manifest.json", ".cairn_published", "model-00001-of-00002.safetensors"}) {
    write(std::string("ck/") + name);
  }
  EXPECT_EQ(foreign_file_in(*store_, "ck"), std::nullopt);
  EXPECT_TRUE(remove_checkpoint_folder(*store_, "ck"));
  EXPECT_FALSE(remove_checkpoint_folder(*store_, "ck"));
}

TEST_F(OwnFilesTest, AnIndexNamesFilesOfItsOwn) {
  write("ck/model.safetensors.index.json", R"({"weight_map": {"w": "own.safetensors", "n": 1}})");
  write("ck/own.safetensors");
  EXPECT_EQ(foreign_file_in(*store_, "ck"), std::nullopt);
  write("ck/other.safetensors");
  EXPECT_EQ(foreign_file_in(*store_, "ck"), "other.safetensors");
  for (const char* text : {"", "[1]", "{\"weight_map\": 3}", "{\"weight_map\": {\"w\""}) {
    write("ck/model.safetensors.index.json", text);
    EXPECT_EQ(foreign_file_in(*store_, "ck"), "other.safetensors") << text;
  }
}

TEST_F(OwnFilesTest, AFolderWithFilesOfOthersIsNotRemoved) {
  for (const char* foreign : {"notes.txt", "sub/p", "__0_0.distcp.bak"}) {
    write("ck/.metadata");
    write("ck/__0_0.distcp");
    write(std::string("ck/") + foreign);
    EXPECT_THAT(message_of<UsageError>([&] { remove_checkpoint_folder(*store_, "ck"); }),
                AllOf(HasSubstr("it holds " + std::string(foreign).substr(0, 3)),
                      HasSubstr("move that file first")));
    EXPECT_EQ(list_names(*store_, "ck").size(), 3U);
    store_->remove(std::string("ck/") + foreign);
    EXPECT_TRUE(remove_checkpoint_folder(*store_, "ck"));
  }
}

}  // namespace
}  // namespace cairn
