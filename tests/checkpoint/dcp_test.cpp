// PyTorch's torch.distributed.checkpoint folders: read, sliced, verified, damaged.
// (tests/cli/dump_test.cpp tests their content.)
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/detail/node_arena.h"
#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/open/read_storages.h"
#include "checkpoint/open/source.h"
#include "checkpoint/plan/write_dcp.h"
#include "format/compression/codec.h"
#include "format/dcp/folder.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/copied_folder.h"
#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/missing_bytes.h"
#include "testing/storage_ranges.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn {
namespace {

using testing::CopiedFolder;
using testing::kData;
using testing::message_of;
using testing::read_file;
using testing::shared;
using testing::TempFolder;
using testing::write_file;

const std::string kLayouts = kData + "/torch-2.14/dcp-layouts";

// If the file system cannot exchange names, a replacement takes two steps. Here the process was
// killed between the two steps.
TEST(DcpTest, AFolderWhoseReplacementWasInterruptedIsFoundByWhoeverLooks) {
  const TempFolder temp;
  const std::string path = temp / "model";
  const std::string between = temp / ".cairn-old-model-0123456789abcdef";
  write_dcp(*local_store(), Dict{{"a", 1}}, path, false);
  posix_file_system().rename(path, between, false);
  EXPECT_EQ(load(path + "/").at("a"), Value(1));
  posix_file_system().rename(path, between, false);
  EXPECT_TRUE(verify(path).ok());
  posix_file_system().rename(path, between, false);
  const FolderListing listing = list_checkpoints(temp.path());
  ASSERT_EQ(listing.checkpoints.size(), 1U);
  EXPECT_EQ(listing.checkpoints.front().name, "model");
}

// The code that removes older checkpoints has to know about such a folder.
TEST(DcpTest, AFolderThatTheDiskDoesNotGiveIsListed) {
  const TempFolder temp;
  const std::string path = temp / "model";
  write_dcp(*local_store(), Dict{{"a", 1}}, path, false);
  std::filesystem::create_directory(temp / "logs");
  testing::MissingBytes disk(path + "/.metadata", 1000);
  const FolderListing listing = list_checkpoints(temp.path(), {.store = local_store(disk)});
  ASSERT_EQ(listing.checkpoints.size(), 1U);
  EXPECT_EQ(listing.checkpoints.front().name, "model");
  EXPECT_EQ(listing.checkpoints.front().condition, Condition::kRefused);
}

// Another process may remove the checkpoint (by `prune`, for example) between any two calls.
TEST(DcpTest, ACheckpointThatIsRemovedWhileItIsListedIsNotDamaged) {
  bool was_in_time = true;
  for (std::uint64_t at = 1; was_in_time; ++at) {
    const TempFolder temp;
    for (const char* name : {"/a.pt", "/model"}) {
      const std::string path = temp.path() + name;
      name[1] == 'a' ? save(Dict{{"a", 1}}, path)
                     : static_cast<void>(write_dcp(*local_store(), Dict{{"a", 1}}, path, false));
    }
    testing::FaultyFileSystem disk(posix_file_system());
    was_in_time = false;
    disk.before_each([&](testing::FileCall, std::uint64_t number) {
      if (number != at) return;
      was_in_time = true;
      local_store()->remove_folder(temp / "model");
      local_store()->remove(temp / "a.pt");
    });
    const FolderListing listing =
        list_checkpoints(temp.path(), {.verify = Verify::kFull, .store = local_store(disk)});
    for (const ListedCheckpoint& listed : listing.checkpoints) {
      EXPECT_EQ(listed.condition, Condition::kGood)
          << listed.name << " at call " << at << ": " << listed.problem;
    }
  }
}

TEST(DcpTest, ShardsOfTwoRanksAreTheGatheredState) {
  for (const std::string version : {"2.6", "2.14"}) {
    const Value sharded = load(kData + "/sharded-" + version + "/ep1-ba3");
    const Value full = load(kData + "/sharded-" + version + "/full.pt");
    EXPECT_EQ(sharded.at("state").at("model"), full.at("model")) << version;
    EXPECT_EQ(sharded.at("state").at("optimizers"), full.at("optimizers")) << version;
  }
}

TEST(DcpTest, MetadataOfEveryRankIsPutTogether) {
  EXPECT_EQ(load(kData + "/torch-2.14/dcp-per-rank"), load(kLayouts));
}

TEST(DcpTest, TensorsInOnePieceAreViewsOfTheFileAndOthersAreLazy) {
  const Value value = open_source(kLayouts)->read();
  EXPECT_NE(value.at("replicated").as_tensor().storage->source(), nullptr);
  EXPECT_EQ(value.at("row").as_tensor().storage->source(), nullptr);
  // The metadata describes the transposed tensor: PyTorch reads it into a new tensor.
  EXPECT_TRUE(value.at("plain").as_tensor().is_contiguous());
}

TEST(DcpTest, LazyTensorsOutliveTheirSource) {
  Value value;
  { value = open_source(kLayouts)->read(); }
  const SharedBytes bytes = value.at("row").as_tensor().contiguous_bytes();
  float number = 0;
  std::memcpy(&number, bytes.view.data() + 47 * sizeof(float), sizeof number);
  EXPECT_EQ(number, 47);
}

TEST(DcpTest, IsVerifiedByTheChecksumsOfItsItems) {
  for (const char* name : {"/torch-2.6/dcp", "/torch-2.14/dcp-layouts", "/sharded-2.6/ep1-ba3"}) {
    const VerifyReport report = verify(kData + name);
    EXPECT_TRUE(report.ok()) << report.summary();
    EXPECT_GT(report.records, 20U);
    EXPECT_TRUE(report.has_checksums);
  }
}

TEST(DcpTest, DamageNamesTheTensorAndTheFile) {
  const CopiedFolder copy(kLayouts);
  const std::string bytes = read_file(copy.file("__1_0.distcp"));
  // 12.0 to 15.0: in the second quarter of "row", which has 6 columns.
  const float numbers[] = {12, 13, 14, 15};
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(numbers), 16));
  ASSERT_NE(at, std::string::npos);
  copy.flip("__1_0.distcp", at + 2);
  const VerifyReport report = verify(copy.path());
  ASSERT_EQ(report.damage.size(), 1U);
  const Damage& damage = report.damage.front();
  EXPECT_EQ(damage.record, "__1_0.distcp");
  EXPECT_EQ(damage.tensors, std::vector<std::string>{"row"});
  EXPECT_EQ(damage.begin, at);
  EXPECT_EQ(damage.end, at + 48);
  EXPECT_NE(message_of([&] { load(copy.path()); }).find("record __1_0.distcp (tensor row), bytes"),
            std::string::npos)
      << message_of([&] { load(copy.path()); });
  // The quick check reads no tensor's bytes.
  EXPECT_TRUE(verify(copy.path(), Verify::kQuick).ok());
}

TEST(DcpTest, FoldersThatAreNotWholeAreRefusedByWhatIsMissing) {
  struct Case {
    const char* gone;
    const char* message;
  };
  for (const Case& c : {Case{".metadata", ".metadata, which is written last, is missing"},
                        Case{"__2_0.distcp", "__2_0.distcp, which holds \""}}) {
    const CopiedFolder copy(kLayouts);
    std::filesystem::remove(copy.file(c.gone));
    const std::string message = message_of([&] { load(copy.path()); });
    EXPECT_TRUE(message.starts_with(copy.path() + ": the checkpoint is not whole: ")) << message;
    EXPECT_NE(message.find(c.message), std::string::npos) << message;
  }
  const CopiedFolder interrupted(kLayouts);
  std::filesystem::rename(interrupted.file(".metadata"), interrupted.file(".metadata.tmp"));
  EXPECT_NE(message_of([&] { load(interrupted.path()); }).find("not whole"), std::string::npos);

  const CopiedFolder ranks(kData + "/torch-2.14/dcp-per-rank");
  std::filesystem::remove(ranks.file("__1.metadata"));
  EXPECT_NE(message_of([&] { load(ranks.path()); }).find("__1.metadata is missing"),
            std::string::npos);

  const CopiedFolder cut(kLayouts);
  std::filesystem::resize_file(cut.file("__0_0.distcp"), 5000);
  EXPECT_NE(message_of([&] { load(cut.path()); }).find("__0_0.distcp ends too early"),
            std::string::npos);
}

// A folder of FileSystemWriter with SerializationFormat.SAFETENSORS: its chunks are not torch.save
// files.
TEST(DcpTest, TensorsInsideSafetensorsAreReadAndNeverCalledDamaged) {
  const std::string path = kData + "/torch-2.14/dcp-as-safetensors";
  const VerifyReport report = verify(path);
  EXPECT_TRUE(report.ok()) << report.summary();
  EXPECT_FALSE(report.has_checksums);  // Only the objects have checksums.
  const Value value = load(path);
  const SharedBytes row = value.at("model").at("row").as_tensor().contiguous_bytes();
  float last = 0;
  std::memcpy(&last, row.view.data() + 14 * sizeof(float), sizeof last);
  EXPECT_EQ(last, 14);  // The second rank's element.
  EXPECT_EQ(value.at("objects").at("text"), Value("zeichen äß"));
}

TEST(DcpTest, OneDataFileWithSafetensorsIsRefusedByName) {
  const std::string file = kData + "/torch-2.14/dcp-as-safetensors/__0_0.distcp";
  EXPECT_THROW(load(file), UnsupportedError);
  EXPECT_NE(message_of([&] { load(file); }).find("name the folder"), std::string::npos);
}

TEST(DcpTest, DamageInsideSafetensorsNamesTheDataFile) {
  const CopiedFolder copy(kData + "/torch-2.14/dcp-as-safetensors");
  const std::string bytes = read_file(copy.file("__1_0.distcp"));
  const std::size_t header = bytes.find("{\"__metadata__\"");
  ASSERT_NE(header, std::string::npos);
  copy.flip("__1_0.distcp", header);
  const VerifyReport report = verify(copy.path());
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.summary().find("__1_0.distcp"), std::string::npos) << report.summary();
  try {
    load(copy.path());
    FAIL();
  } catch (const CorruptError& e) {
    EXPECT_EQ(e.file(), copy.file("__1_0.distcp"));
    EXPECT_EQ(e.offset(), header);
  }
}

// --- Writing -------------------------------------------------------------------------------------

TEST(DcpTest, WhatIsWrittenIsReadAndVerified) {
  const TempFolder temp;
  const Value value = load(kData + "/torch-2.6/dcp");
  const std::uint64_t bytes = write_dcp(*local_store(), value, temp / "new");
  const VerifyReport report = verify(temp / "new");
  EXPECT_TRUE(report.ok()) << report.summary();
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(load(temp / "new"), value);
  EXPECT_EQ(posix_file_system().list(temp / "new"),
            (std::vector<std::string>{".cairn_manifest.json", ".metadata", "__0_0.distcp"}));
}

TEST(DcpTest, AFolderThatExistsIsLeftAsItIs) {
  const CopiedFolder copy(kLayouts);
  const std::string before = read_file(copy.file(".metadata"));
  EXPECT_THROW(write_dcp(*local_store(), Dict{{"a", 1}}, copy.path()), AlreadyExistsError);
  EXPECT_EQ(read_file(copy.file(".metadata")), before);
}

TEST(DcpTest, TensorsBeyondTheMemoryLimitArePutTogetherInAScratchFile) {
  // 48 MiB in two chunks of columns. The writer wrote two tensors, and the metadata describes them
  // as one.
  constexpr std::int64_t kRows = 1 << 12;
  constexpr std::int64_t kColumns = 3 << 10;
  const TempFolder temp;
  std::vector<std::byte> half(static_cast<std::size_t>(kRows * kColumns / 2) * 4);
  for (std::size_t i = 0; i < half.size(); i += 4) {
    const auto number = static_cast<std::uint32_t>(i / 4);
    std::memcpy(&half[i], &number, 4);
  }
  const TensorView part =
      make_tensor(DType::kInt32, {kRows, kColumns / 2}, SharedBytes{ByteView(half), nullptr});
  write_dcp(*local_store(), Dict{{"left", part}, {"right", part}}, temp / "parts");
  const auto open = [&](const std::string& name) {
    return posix_file_system().open(join_path(temp / "parts", name));
  };
  dcp::Metadata metadata = dcp::parse_metadata(read_all(*open(".metadata")));
  dcp::Item& left = metadata.items.at(0);
  left.size = {kRows, kColumns};
  left.chunks.push_back(metadata.items.at(1).chunks.at(0));
  left.chunks[1].box.offsets = {0, kColumns / 2};
  metadata.items.pop_back();
  const auto folder = dcp::Folder::open(std::move(metadata), open, temp.path());
  const Value value = folder->read();
  const SharedBytes bytes = value.at("left").as_tensor().contiguous_bytes();
  ASSERT_EQ(bytes.view.size(), half.size() * 2);
  EXPECT_NE(bytes.release_pages, nullptr);  // A mapped file, not memory.
  constexpr std::size_t kRowBytes = static_cast<std::size_t>(kColumns) * 2;  // Half a row.
  for (std::size_t row = 0; row < static_cast<std::size_t>(kRows); ++row) {
    for (const std::size_t side : {0U, 1U}) {
      const std::byte* found = bytes.view.data() + row * 2 * kRowBytes + side * kRowBytes;
      ASSERT_EQ(std::memcmp(found, half.data() + row * kRowBytes, kRowBytes), 0) << row;
    }
  }
}

TEST(DcpTest, ItemsOfPyTorchsZstdExtensionAreDecoded) {
  const TempFolder temp;
  write_dcp(*local_store(), Dict{{"a", 7}}, temp / "plain");
  const std::string item = read_file(temp / "plain/__0_0.distcp");
  testing::StringSink encoded;
  const auto encoder = kZstd.encoder(encoded);
  encoder->write(as_bytes(item));
  encoder->finish();
  dcp::Metadata metadata =
      dcp::parse_metadata(testing::file_bytes(posix_file_system(), temp / "plain/.metadata"));
  dcp::Location& location = metadata.items.at(0).chunks.at(0).location;
  location.size = encoded.text.size();
  location.transforms = {"stream.zstd/1"};
  const auto open = [&](const std::string&) { return testing::source_with(encoded.text); };
  EXPECT_EQ(dcp::Folder::open(metadata, open, temp.path())->read(), Value(Dict{{"a", 7}}));
  location.transforms = {"stream.other/1"};
  EXPECT_THROW(dcp::Folder::open(metadata, open)->read(), UnsupportedError);
}

// Two of the tensors decode to files that differ only in the elements.
TEST(DcpTest, TensorsOfPyTorchsZstdExtensionAreReadTogether) {
  const TempFolder temp;
  const auto tensor = [](char fill) {
    return make_tensor(DType::kUInt8, {5000}, testing::shared(std::string(5000, fill)));
  };
  write_dcp(*local_store(), Dict{{"x", tensor('x')}, {"y", tensor('y')}}, temp / "plain");
  const std::string items = read_file(temp / "plain/__0_0.distcp");
  dcp::Metadata metadata =
      dcp::parse_metadata(testing::file_bytes(posix_file_system(), temp / "plain/.metadata"));
  testing::StringSink encoded;
  for (dcp::Item& item : metadata.items) {
    dcp::Location& location = item.chunks.at(0).location;
    const std::uint64_t begin = encoded.text.size();
    const auto encoder = kZstd.encoder(encoded);
    encoder->write(as_bytes(items).subspan(location.offset, location.size));
    encoder->finish();
    location.offset = begin;
    location.size = encoded.text.size() - begin;
    location.transforms = {"stream.zstd/1"};
  }
  const auto open = [&](const std::string&) { return testing::source_with(encoded.text); };
  const Value value = dcp::Folder::open(metadata, open, temp.path())->read();
  std::vector<std::byte> x(5000);
  std::vector<std::byte> y(5000);
  read_storages({{value.at("x").as_tensor().storage, x}, {value.at("y").as_tensor().storage, y}});
  EXPECT_EQ(x, std::vector<std::byte>(5000, std::byte{'x'}));
  EXPECT_EQ(y, std::vector<std::byte>(5000, std::byte{'y'}));
}

// --- Slices --------------------------------------------------------------------------------------

std::shared_ptr<const ByteSource> open_layout(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const ByteSource>> opened;
  auto& file = opened[name];
  if (!file) file = posix_file_system().open(join_path(kLayouts, name));
  return file;
}

std::shared_ptr<const dcp::Folder> open_layouts() {
  return dcp::Folder::open(dcp::parse_metadata(read_all(*open_layout(".metadata"))), open_layout);
}

const dcp::Item& item_of(const dcp::Folder& folder, std::string_view fqn) {
  for (const dcp::Item& item : folder.metadata().items) {
    if (item.fqn == fqn) return item;
  }
  throw NotFoundError(std::string(fqn));
}

TEST(DcpTest, AnyBoxOfAnyTensorIsReadOutOfAnyLayout) {
  const auto folder = open_layouts();
  const Value whole = folder->read();
  std::mt19937 random(1);
  for (const char* name : {"row", "column", "uneven", "grid", "grid_3d", "twice", "half"}) {
    const dcp::Item& item = item_of(*folder, name);
    const TensorView& tensor = whole.at(name).as_tensor();
    const SharedBytes all = tensor.contiguous_bytes();
    const std::size_t element = item_size(tensor.dtype);
    for (int round = 0; round < 50; ++round) {
      dcp::Box box;
      std::int64_t numel = 1;
      for (const std::int64_t size : item.size) {
        const auto begin = std::uniform_int_distribution<std::int64_t>(0, size - 1)(random);
        const auto count = std::uniform_int_distribution<std::int64_t>(1, size - begin)(random);
        box.offsets.push_back(begin);
        box.sizes.push_back(count);
        numel *= count;
      }
      std::vector<std::byte> out(static_cast<std::size_t>(numel) * element);
      folder->read_box(item, box, out);
      TensorView expected = tensor;  // A strided view selects the same elements.
      expected.shape = box.sizes;
      for (std::size_t d = 0; d < box.offsets.size(); ++d) {
        expected.storage_offset += box.offsets[d] * expected.strides[d];
      }
      const SharedBytes wanted = expected.contiguous_bytes();
      ASSERT_TRUE(std::equal(out.begin(), out.end(), wanted.view.begin(), wanted.view.end()))
          << name << " " << ::testing::PrintToString(box.offsets);
    }
  }
}

TEST(DcpTest, ABoxOutsideOfTheTensorIsAUsageError) {
  const auto folder = open_layouts();
  std::vector<std::byte> out(4);
  EXPECT_THROW(folder->read_box(item_of(*folder, "row"), {{8, 0}, {1, 1}}, out), UsageError);
  EXPECT_THROW(folder->read_box(item_of(*folder, "row"), {{0, 0}, {1, 2}}, out), UsageError);
}

TEST(DcpTest, TensorsInSeveralChunksAreReadInAnyPart) {
  const Value value = open_source(kLayouts)->read();
  for (const auto& [path, tensor] : tensors_of(value)) {
    EXPECT_EQ(testing::wrong_range_of(*tensor->storage), "") << path;
  }
}

TEST(DcpTest, WindowsFollowOneAnotherAndFillTheTensor) {
  for (const std::int64_t most : {1, 2, 5, 7, 12, 59, 60, 1000}) {
    std::int64_t next = 0;
    dcp::for_each_window({3, 4, 5}, most, [&](const dcp::Box& window) {
      std::int64_t numel = 1;
      for (const std::int64_t size : window.sizes) {
        numel *= size;
      }
      EXPECT_EQ(window.offsets[0] * 20 + window.offsets[1] * 5 + window.offsets[2], next);
      EXPECT_LE(numel, most);
      next += numel;
    });
    EXPECT_EQ(next, 60) << most;
  }
}

// --- Damaged metadata ----------------------------------------------------------------------------

TEST(DcpTest, EveryTruncationOfTheMetadataIsCorrupt) {
  const std::string whole = read_file(kLayouts + "/.metadata");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(dcp::parse_metadata(shared(whole.substr(0, size))), CorruptError) << size;
  }
}

// A pickle has no checksum, so a flipped byte may change names. The result is always a folder or a
// typed error.
TEST(DcpTest, AFlippedByteOfTheMetadataGivesAFolderOrATypedError) {
  constexpr std::size_t kStep = 37;  // To flip every byte would take a minute.
  const std::string whole = read_file(kLayouts + "/.metadata");
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.size(); i += kStep) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << (i % 8)));
    try {
      dcp::Folder::open(dcp::parse_metadata(shared(bytes)), open_layout);
    } catch (const CorruptError&) {
      ++refused;
    } catch (const UnsupportedError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, whole.size() / kStep / 2);
}

// A folder that verify() calls good must load. A flip of the metadata may change names, but if the
// folder verifies, the names still form a tree.
struct DcpMetadataTest : ::testing::Test {
  // Whether the folder verifies with one bit of its metadata flipped. If so, it must load.
  bool is_good(std::size_t byte, int bit) const {
    std::string bytes = whole;
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
    write_file(copy.file(".metadata"), bytes);
    try {
      if (!verify(copy.path(), Verify::kQuick).ok()) return false;
    } catch (const Error&) {
      return false;
    }
    EXPECT_NO_THROW(load(copy.path(), {.verify = Verify::kQuick})) << byte << ", bit " << bit;
    return true;
  }

  const std::string original = kData + "/torch-2.6/dcp";
  const std::string whole = read_file(original + "/.metadata");
  const CopiedFolder copy{original};
};

TEST_F(DcpMetadataTest, WhatVerifiesIsLoaded) {
  constexpr std::size_t kStep = 101;  // In bits. To flip every bit would take minutes.
  std::size_t good = 0;
  for (std::size_t i = 0; i < 8 * whole.size(); i += kStep) {
    if (is_good(i / 8, static_cast<int>(i % 8))) ++good;
  }
  EXPECT_GT(good, 0U);
}

// load() and find_latest() use the tree that verify() made.
TEST(DcpTest, TheTreeOfAVerifiedFolderLiesInAnArena) {
  const TempFolder temp;
  Dict tensors;
  for (int i = 0; i < 2000; ++i) {
    tensors.set("w" + std::to_string(i), make_tensor(DType::kUInt8, {1}, shared("x")));
  }
  write_dcp(*local_store(), tensors, temp / "model");
  const std::size_t before = detail::NodeArena::blocks();
  const Value loaded = load(temp / "model", {.verify = Verify::kQuick});
  EXPECT_EQ(loaded.as_dict().size(), 2000U);
  EXPECT_GT(detail::NodeArena::blocks(), before + 1) << "of 64 KiB";
}

// These flips keep every item's description, but move one item below another item, or give it the
// name of another item.
TEST_F(DcpMetadataTest, ItemsThatMakeNoTreeAreDamage) {
  for (const auto& [byte, bit] : std::vector<std::pair<std::size_t, int>>{
           {4384, 0}, {5071, 5}, {5245, 5}, {5250, 5}, {5306, 5}, {5523, 5}}) {
    EXPECT_FALSE(is_good(byte, bit)) << byte << ", bit " << bit;
    EXPECT_THROW(load(copy.path()), CorruptError);
  }
}

}  // namespace
}  // namespace cairn
