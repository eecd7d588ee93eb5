#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/foreign.h"

#include "io/file.h"
#include "io/memory/mapped_file.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using testing::batch_of_sample;
using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::TempFolder;

std::vector<std::string> names_in(const std::string& folder) {
  return posix_file_system().list(folder);
}

TEST(SaveTest, WhatWasSavedIsLoaded) {
  const TempFolder folder;
  const Value value = sample_checkpoint(3);
  save(value, folder / "a.pt");
  EXPECT_EQ(load(folder / "a.pt"), value);
  EXPECT_EQ(load(folder / "a.pt", {.verify = Verify::kQuick}), value);
  save(value, folder / "without_extension");
  EXPECT_EQ(load(folder / "without_extension"), value);
}

TEST(SaveTest, EqualValuesGiveEqualFiles) {
  const TempFolder folder;
  save(sample_checkpoint(3), folder / "a.pt", {.info = sample_info(3)});
  save(sample_checkpoint(3), folder / "b.pt", {.info = sample_info(3)});
  EXPECT_EQ(testing::read_file(folder / "a.pt"), testing::read_file(folder / "b.pt"));
}

TEST(SaveTest, MissingFoldersAreCreated) {
  const TempFolder folder;
  save(1, folder / "run/checkpoints/a.pt");
  EXPECT_EQ(load(folder / "run/checkpoints/a.pt"), Value(1));
}

TEST(SaveTest, OtherExtensionsAreRefusedByName) {
  const TempFolder folder;
  for (const std::string extension : {".gz", ".tar.xz", ".pt.zip", ".zst", ".symlink", ".PT"}) {
    EXPECT_THAT(
        message_of<UsageError>([&] { save(1, folder / ("a" + extension)); }),
        ::testing::AllOf(HasSubstr("\"" + extension + "\" is not an extension"),
                         HasSubstr(".pt, .tar, .tar.gz, .tgz, .tar.bz2, .tar.lzma, .pt.gz, " +
                                   std::string(".pt.bz2, .pt.xz, .pt.lzma, .pt.lz4, ") +
                                   ".pt.zst, .pt.lzo, or none")));
  }
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
  save(1, folder / "v1.2/a");  // The dot belongs to the folder, not to the file.
  save(1, folder / ".hidden");
  save(1, folder / "ep1.5-ba2.pt");
  save(1, folder / "lr0.1-ep3");
  EXPECT_EQ(load(folder / "lr0.1-ep3"), Value(1));
}

TEST(SaveTest, WithoutOverwriteTheOldFileStays) {
  const TempFolder folder;
  save("old", folder / "a.pt");
  EXPECT_THROW(save("new", folder / "a.pt", {.overwrite = false}), AlreadyExistsError);
  EXPECT_EQ(load(folder / "a.pt"), Value("old"));
  save("new", folder / "a.pt");
  EXPECT_EQ(load(folder / "a.pt"), Value("new"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.pt"));
}

TEST(SaveTest, AFolderInPlaceOfAFileIsAnErrorAndTheReverse) {
  const TempFolder folder;
  save(1, folder / "a");
  EXPECT_THAT(message_of<UsageError>([&] { save(1, folder.path()); }), HasSubstr("a folder"));
  EXPECT_THAT(message_of<UsageError>([&] { save(1, folder / "a/b.pt"); }),
              HasSubstr("is not a folder"));
  EXPECT_THAT(message_of<UsageError>([&] { load(folder.path()); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of<NotFoundError>([&] { load(folder / "missing.pt"); }),
              HasSubstr("missing.pt"));
}

TEST(SaveTest, ADeviceOrPipeIsNotReplaced) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe.pt";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const bool overwrite : {false, true}) {
    EXPECT_THAT(message_of<UsageError>([&] { save(1, pipe, {.overwrite = overwrite}); }),
                HasSubstr("a device or a pipe"));
    EXPECT_EQ(posix_file_system().stat(pipe)->type, FileInfo::Type::kOther);
  }
  std::filesystem::create_symlink(pipe, folder / "link.pt");
  save(1, folder / "link.pt", {.overwrite = true});  // Only the link is replaced.
  EXPECT_EQ(posix_file_system().stat(pipe)->type, FileInfo::Type::kOther);
}

TEST(SaveTest, AnUnwritableFolderIsAClearError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const TempFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0500), 0);
  const std::string message = message_of<StorageError>([&] { save(1, folder / "a.pt"); });
  chmod(folder.path().c_str(), 0700);
  EXPECT_THAT(message, HasSubstr("check the owner and permissions"));
}

TEST(SaveTest, ALinkWithTheFilesNameIsReplacedNotFollowed) {
  const TempFolder folder;
  save("target", folder / "target.pt");
  posix_file_system().make_link("target.pt", folder / "a.pt");
  save("new", folder / "a.pt");
  EXPECT_EQ(load(folder / "target.pt"), Value("target"));
  EXPECT_EQ(load(folder / "a.pt"), Value("new"));
}

TEST(SaveTest, AFailureNamesTheCheckpointAndKeepsTheOldOne) {
  const TempFolder folder;
  save("old", folder / "a.pt");
  FaultyFileSystem faulty(posix_file_system());
  faulty.fail(FileCall::kSync, 1, ENOSPC);
  try {
    save("new", folder / "a.pt", {.store = local_store(faulty)});
    FAIL() << "no error";
  } catch (const StorageError& e) {
    EXPECT_THAT(e.what(), HasSubstr("saving " + folder / "a.pt"));
    EXPECT_THAT(e.what(), HasSubstr("free space"));
    EXPECT_EQ(e.status(), ENOSPC);
    EXPECT_TRUE(e.retryable());
  }
  EXPECT_EQ(load(folder / "a.pt"), Value("old"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a.pt"));
}

TEST(LoadTest, IgnoredKeysAreLeftOut) {
  const TempFolder folder;
  save(sample_checkpoint(3), folder / "a.pt");
  const Value value = load(folder / "a.pt", {.ignore_keys = {"state/optimizers*", "rng"}});
  EXPECT_EQ(find_path(value, "state/optimizers"), nullptr);
  EXPECT_EQ(find_path(value, "rng"), nullptr);
  EXPECT_NE(find_path(value, "state/model/0.bias"), nullptr);
}

TEST(LoadTest, ATorchScriptArchiveIsNoStateDictAndTheMessageSaysHowToMakeOne) {
  const std::string path = testing::kData + "/torch-2.14/torchscript.pt";
  EXPECT_EQ(message_of<UnsupportedError>([&] { load(path); }),
            path + ": this is a TorchScript archive, not a state dict; try: " +
                "cairn convert --weights-only " + path + " weights.pt");
}

TEST(LoadTest, LoadedTensorsOutliveTheFile) {
  const TempFolder folder;
  save(sample_checkpoint(3), folder / "a.pt");
  const Value value = load(folder / "a.pt");
  save(sample_checkpoint(4), folder / "a.pt");
  EXPECT_EQ(batch_of_sample(value), 3);
}

// The loaded tensors are ranges of the file.
TEST(LoadTest, TensorsOfAnOverwrittenOrTruncatedFileAreNotSaved) {
  const TempFolder temp;
  constexpr std::size_t kBytes = 4'000'000;
  save(Dict{{"w", make_tensor(DType::kUInt8, {kBytes}, testing::shared(std::string(kBytes, 'x')))}},
       temp / "in.pt");
  std::filesystem::last_write_time(temp / "in.pt", std::filesystem::file_time_type());
  const Value loaded = load(temp / "in.pt");
  save(loaded, temp / "copy.pt");
  EXPECT_EQ(load(temp / "copy.pt"), loaded);
  std::fstream(temp / "in.pt", std::ios::in | std::ios::out | std::ios::binary).seekp(9000)
      << "overwritten";
  EXPECT_THAT(message_of<UnreadableError>([&] { save(loaded, temp / "out.pt"); }),
              HasSubstr("in.pt was written to since it was opened"));
  EXPECT_FALSE(std::filesystem::exists(temp / "out.pt"));
  std::filesystem::resize_file(temp / "in.pt", 1'000'000);
  EXPECT_THROW(loaded.at("w").as_tensor().contiguous_bytes(), UnreadableError);
  EXPECT_THROW(save(loaded, temp / "out.pt"), UnreadableError);
}

// Hides where the bytes of a storage are, and notes whether they may be mapped.
class WrappedStorage final : public Storage {
 public:
  WrappedStorage(std::shared_ptr<const Storage> under, bool& was_guarded)
      : Storage(under->size(), "cpu"), under_(std::move(under)), was_guarded_(was_guarded) {}

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    under_->read_into(offset, into);
  }
  SharedBytes load() const override {
    was_guarded_ = reads_are_guarded();
    return under_->bytes();
  }

 private:
  std::shared_ptr<const Storage> under_;
  bool& was_guarded_;
};

TEST(SaveTest, BytesOfAFileAreMappedEvenIfAStorageHidesTheFile) {
  const TempFolder temp;
  save(Dict{{"w", make_tensor(DType::kUInt8, {4}, testing::shared("abcd"))}}, temp / "in.pt");
  TensorView tensor = load(temp / "in.pt").at("w").as_tensor();
  bool was_guarded = false;
  tensor.storage = std::make_shared<WrappedStorage>(tensor.storage, was_guarded);
  save(Dict{{"w", tensor}}, temp / "out.pt");
  EXPECT_TRUE(was_guarded);
  EXPECT_EQ(load(temp / "out.pt"), load(temp / "in.pt"));
}

// The tensors of a pickled module are inside a foreign object.
TEST(SaveTest, ReadsAreGuardedInsideAForeignObjectToo) {
  const TempFolder temp;
  const TensorView in_memory = make_tensor(DType::kUInt8, {4}, testing::shared("abcd"));
  bool was_guarded = false;
  TensorView tensor = in_memory;
  tensor.storage = std::make_shared<WrappedStorage>(tensor.storage, was_guarded);
  Foreign object{.made = Foreign::Made::kNew};
  object.function =
      Value(std::make_shared<const Foreign>(Foreign{.module = "models", .name = "Net"}));
  object.args = Tuple{};
  object.state = Dict{{"weight", tensor}};
  object.has_state = true;
  save(Dict{{"net", Value(std::make_shared<const Foreign>(object))}}, temp / "out.pt");
  EXPECT_TRUE(was_guarded);
  const Value saved = load(temp / "out.pt");
  EXPECT_EQ(saved.at("net").as_foreign().state.at("weight"), Value(in_memory));
}

TEST(SaveTest, TensorsInMemoryAreSavedAlthoughAMappedFileHasChanged) {
  const TempFolder temp;
  const Value in_memory =
      Dict{{"w", make_tensor(DType::kUInt8, {9000}, testing::shared(std::string(9000, 'x')))}};
  save(in_memory, temp / "in.pt");
  std::filesystem::last_write_time(temp / "in.pt", std::filesystem::file_time_type());
  const Value loaded = load(temp / "in.pt");
  save(loaded, temp / "copy.pt");  // Maps in.pt.
  std::fstream(temp / "in.pt", std::ios::in | std::ios::out | std::ios::binary).seekp(8000) << "y";
  EXPECT_NO_THROW(save(in_memory, temp / "out.pt"));
  EXPECT_THROW(save(loaded, temp / "out.pt", {.overwrite = true}), UnreadableError);
}

TEST(VerifyTest, ReportsTheFactsAboutAGoodFile) {
  const TempFolder folder;
  save(sample_checkpoint(3), folder / "a.pt", {.info = sample_info(3)});
  for (const Verify how : {Verify::kFull, Verify::kQuick}) {
    const VerifyReport report = verify(folder / "a.pt", how);
    EXPECT_TRUE(report.ok()) << report.summary();
    EXPECT_TRUE(report.has_manifest);
    EXPECT_TRUE(report.has_checksums);
    EXPECT_EQ(report.bytes, posix_file_system().stat(folder / "a.pt")->size);
    EXPECT_GT(report.records, 4U);
    ASSERT_TRUE(report.info.has_value());
    EXPECT_EQ(report.info->kind, "full");
    EXPECT_EQ(report.info->timestamp->batch, 3);
  }
  EXPECT_THAT(verify(folder / "a.pt").summary(), HasSubstr("every byte accounted for"));
}

TEST(VerifyTest, OnlyFullVerificationReadsTensors) {
  const TempFolder folder;
  save(sample_checkpoint(3, 4096), folder / "a.pt");
  std::string bytes = testing::read_file(folder / "a.pt");
  const Value value = load(folder / "a.pt");
  const std::string tensor(
      as_text(value.at("state").at("model").at("0.weight").as_tensor().contiguous_bytes().view));
  bytes[bytes.find(tensor) + 2000] ^= 1;
  testing::write_file(folder / "b.pt", bytes);
  EXPECT_TRUE(verify(folder / "b.pt", Verify::kQuick).ok());
  const VerifyReport report = verify(folder / "b.pt");
  ASSERT_EQ(report.damage.size(), 1U);
  EXPECT_THAT(report.damage[0].tensors,
              ElementsAre("state/model/0.weight", "state/model/2.weight"));
  EXPECT_EQ(report.damage[0].begin, bytes.find(tensor.substr(0, 64)));
  EXPECT_EQ(report.damage[0].end - report.damage[0].begin, 4096U);
  EXPECT_THAT(report.summary(), HasSubstr("state/model/0.weight"));
  EXPECT_THAT(message_of<CorruptError>([&] { load(folder / "b.pt"); }),
              ::testing::AllOf(HasSubstr("state/model/0.weight"), HasSubstr("older checkpoint")));
}

TEST(VerifyTest, LargeFilesAreCheckedByTwoThreadsWithTheSameResult) {
  const TempFolder folder;
  const std::size_t size = std::size_t{40} << 20;
  save(sample_checkpoint(3, size), folder / "a.pt");
  EXPECT_TRUE(verify(folder / "a.pt").ok());
  std::string bytes = testing::read_file(folder / "a.pt");
  bytes[bytes.size() / 2] ^= 4;
  testing::write_file(folder / "a.pt", bytes);
  EXPECT_EQ(verify(folder / "a.pt").damage.size(), 1U);
}

}  // namespace
}  // namespace cairn
