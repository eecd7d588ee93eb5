// The tar of one rank: the content can be read back, from this tar alone and together with the
// other ranks' tars.
#include "checkpoint/plan/rank_tar.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "checkpoint/open/source.h"
#include "checkpoint/plan/write_plan.h"
#include "format/tar/reader.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/file_bytes.h"
#include "testing/message_of.h"
#include "testing/storage_ranges.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::message_of;
using testing::read_file;
using testing::TempFolder;
using testing::write_file;

TensorView floats(std::vector<std::int64_t> shape, float first) {
  const auto count = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  auto values = std::make_shared<std::vector<float>>(count);
  std::iota(values->begin(), values->end(), first);
  return make_tensor(DType::kFloat32, std::move(shape),
                     {std::as_bytes(std::span<const float>(*values)), values});
}

// The rows of `whole` that belong to this rank.
Value rows(const TensorView& whole, std::int64_t rank, std::int64_t ranks) {
  if (ranks == 1) return whole;
  const std::int64_t all = whole.shape.front();
  const std::int64_t per_rank = (all + ranks - 1) / ranks;
  const std::int64_t begin = std::min(rank * per_rank, all);
  TensorView own = whole;
  own.shape.front() = std::min(per_rank, all - begin);
  own.storage_offset = begin * own.strides.front();
  std::vector<std::int64_t> offsets(whole.shape.size(), 0);
  offsets.front() = begin;
  own.part = std::make_shared<const TensorPart>(TensorPart{whole.shape, offsets});
  return own;
}

const deepspeed::ModelNames kNames = {.buffers = {"mean", "gone"},
                                      .shared = {{"head.weight", "fc.weight"}}};

Value checkpoint_of(std::int64_t rank, std::int64_t ranks) {
  const TensorView weight = floats({5, 3}, 1);
  const Value own = rows(weight, rank, ranks);
  Value moments = rows(floats({5, 3}, 100), rank, ranks);
  TensorView plain = moments.as_tensor();
  plain.part = nullptr;
  const Dict model = Dict::ordered({{"fc.weight", own},
                                    {"fc.bias", rows(floats({2}, 50), rank, ranks)},
                                    {"mean", floats({2}, 70)},
                                    {"head.weight", own}});
  return Dict{
      {"state",
       Dict{{"model", model},
            {"optimizers",
             Dict{{"AdamW",
                   Dict{{"state", Dict{{"fc.weight", Dict{{"step", 3}, {"exp_avg", plain}}}}}}}}},
            {"timestamp", Dict{{"Timestamp", Dict{{"batch", 7}, {"sample", 70}}}}},
            {"run_name", "mine"}}},
      {"rng", List{Dict{{"python", rank}}}}};
}

std::string name_of(std::int64_t rank, const std::string& extension = ".tar") {
  return "ep1-rank" + std::to_string(rank) + extension;
}

void write(const std::string& path, const Value& checkpoint, const deepspeed::RankOfSave& rank,
           const deepspeed::ModelNames& names = kNames) {
  const auto object = local_store()->begin(path, {});
  ObjectSink sink(*object);
  const std::uint64_t bytes = write_rank_tar({.path = path,
                                              .checkpoint = checkpoint,
                                              .names = names,
                                              .rank = rank,
                                              .info = {.kind = "full", .run_name = "mine"}},
                                             sink);
  object->commit();
  EXPECT_EQ(bytes, std::filesystem::file_size(path));
}

void write_all(const TempFolder& folder, std::int64_t ranks, std::int64_t stage,
               const std::string& extension = ".tar", const std::string& attempt = "a1") {
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    write(folder / name_of(rank, extension), checkpoint_of(rank, stage == 0 ? 1 : ranks),
          {.rank = rank, .world_size = ranks, .stage = stage, .attempt = attempt});
  }
}

// Unpacks a tar like `tar -x`.
void unpack(const std::string& path, const std::string& into) {
  const auto file = posix_file_system().open(path);
  const std::string bytes = read_file(path);
  for (const tar::File& inside : tar::read_files(*file)) {
    const std::filesystem::path to = into + "/" + inside.name;
    std::filesystem::create_directories(to.parent_path());
    write_file(to, bytes.substr(inside.offset, inside.size));
  }
}

TEST(RankTarTest, WhatARankHasComesBack) {
  for (const char* extension : {".tar", ".tar.gz", ".tgz"}) {
    const TempFolder folder;
    write_all(folder, 3, 2, extension);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const std::string path = folder / name_of(rank, extension);
      EXPECT_TRUE(verify(path).ok()) << verify(path).summary();
      const Value found = load(path);
      EXPECT_EQ(found, checkpoint_of(rank, 3)) << rank;
      const TensorView& weight = found.at("state").at("model").at("fc.weight").as_tensor();
      ASSERT_NE(weight.part, nullptr);
      EXPECT_EQ(weight.part->offsets, (std::vector<std::int64_t>{2 * rank, 0}));
      EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{rank < 2 ? 2 : 1, 3}));
      EXPECT_EQ(found.at("state").at("model").at("head.weight").identity(),
                found.at("state").at("model").at("fc.weight").identity());
      EXPECT_EQ(found.at("state").at("model").as_dict().begin()->first, Value("fc.weight"));
    }
    const auto info = open_source(folder / name_of(1, extension))->info();
    EXPECT_EQ(info.format, "deepspeed_rank");
    EXPECT_EQ(info.containers.back(), "tar");
    ASSERT_TRUE(info.checkpoint);
    EXPECT_EQ(info.checkpoint->run_name, "mine");
    EXPECT_EQ(info.notes, (std::vector<std::pair<std::string, std::string>>{
                              {"stage", "2"}, {"ranks", "3"}, {"rank", "1"}, {"save", "a1"}}));
  }
}

TEST(RankTarTest, AllTarsInOneFolderAreACheckpointOfDeepSpeeds) {
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    for (const std::int64_t ranks : {1, 2, 3, 7}) {
      const TempFolder folder;
      write_all(folder, ranks, stage);
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        unpack(folder / name_of(rank), folder / "all");
      const auto opened = open_source(folder / "all");
      EXPECT_EQ(opened->info().format, "deepspeed");
      const Value weights = opened->read();
      EXPECT_EQ(weights.at("fc.weight"), Value(floats({5, 3}, 1)));
      EXPECT_EQ(weights.at("head.weight"), Value(floats({5, 3}, 1)));
      EXPECT_EQ(weights.at("fc.bias"), Value(floats({2}, 50)));
      EXPECT_EQ(weights.at("mean"), Value(floats({2}, 70)));
      EXPECT_TRUE(verify(folder / "all").ok());
      convert(folder / "all", folder / "weights.safetensors");
      EXPECT_EQ(load(folder / "weights.safetensors").at("fc.weight"), Value(floats({5, 3}, 1)));
    }
  }
}

// A user has unpacked tars of two saves into one folder.
TEST(RankTarTest, FilesOfTwoSavesAreNotPutTogether) {
  const TempFolder folder;
  write_all(folder, 2, 2, ".tar", "a1");
  unpack(folder / name_of(0), folder / "all");
  write_all(folder, 2, 2, ".tar", "a2");
  unpack(folder / name_of(1), folder / "all");
  const std::string why = message_of<CorruptError>([&] { open_source(folder / "all"); });
  EXPECT_NE(why.find("of different saves: a2 and a1"), std::string::npos) << why;
}

// Zeros compress to a few hundred bytes per MiB, so only one block is written.
TEST(RankTarTest, WritingMovesOnHoweverWellItCompresses) {
  constexpr std::int64_t kMiB = 8;
  const TempFolder folder;
  const auto bytes = std::make_shared<std::vector<std::byte>>(std::size_t{kMiB} << 20);
  const TensorView zeros = make_tensor(DType::kFloat32, {kMiB << 18}, {*bytes, bytes});
  const std::string path = folder / "a.tar.bz2";
  const auto object = local_store()->begin(path, {});
  ObjectSink sink(*object);
  int moves = 0;
  write_rank_tar({.path = path,
                  .checkpoint = Dict{{"state", Dict{{"model", Dict{{"w", zeros}}}}}},
                  .names = kNames,
                  .rank = {.stage = 2, .attempt = "a"},
                  .keep_alive = [&moves] { ++moves; }},
                 sink);
  EXPECT_GE(moves, kMiB);
}

TEST(RankTarTest, ATarOfOneRankIsNotConvertedToAWhole) {
  const TempFolder folder;
  write_all(folder, 2, 2);
  EXPECT_THROW(convert(folder / name_of(0), folder / "out.pt"), UnsupportedError);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.pt"));
}

TEST(RankTarTest, WeightsThatAreNotFloat32AreRefusedByName) {
  const TempFolder folder;
  Value checkpoint = checkpoint_of(0, 1);
  auto& model = checkpoint.mutable_dict()["state"].mutable_dict()["model"].mutable_dict();
  model.set("fc.bias", make_tensor(DType::kFloat64, {0}, {}));
  const std::string why = message_of<UnsupportedError>(
      [&] { write(folder / "a.tar", checkpoint, {.stage = 2, .attempt = "a"}); });
  EXPECT_NE(why.find("fc.bias is float64"), std::string::npos) << why;
  // In stage 0 the state is not split, so the file is whole.
  write(folder / "b.tar", checkpoint, {.stage = 0, .attempt = "a"});
  EXPECT_EQ(load(folder / "b.tar"), checkpoint);
}

TEST(RankTarTest, APartThatIsNoRowsIsRefused) {
  const TempFolder folder;
  Value checkpoint = checkpoint_of(0, 1);
  TensorView columns = floats({5, 1}, 1);
  columns.part = std::make_shared<const TensorPart>(TensorPart{{5, 3}, {0, 1}});
  auto& model = checkpoint.mutable_dict()["state"].mutable_dict()["model"].mutable_dict();
  model.set("fc.weight", columns);
  EXPECT_THROW(write(folder / "a.tar", checkpoint, {.stage = 2, .attempt = "a"}), UnsupportedError);
}

TEST(RankTarTest, DamageIsFoundAndNamed) {
  const TempFolder folder;
  write_all(folder, 2, 2);
  const std::string path = folder / name_of(1);
  const std::string whole = read_file(path);
  for (const char* name : {"composer_states.pt", "deepspeed/mp_rank_00_model_states.pt",
                           "deepspeed/zero_pp_rank_1_mp_rank_00_optim_states.pt"}) {
    std::string bytes = whole;
    const std::size_t header = bytes.find(name);
    const std::size_t pickle = bytes.find("data.pkl", header);
    bytes[pickle + 200] ^= 1;
    write_file(path, bytes);
    const std::string why = message_of<CorruptError>([&] { load(path); });
    EXPECT_NE(why.find(name), std::string::npos) << why;
  }
}

TEST(RankTarTest, AFileThatLacksOneOfItsOwnIsCorrupt) {
  const TempFolder folder;
  write_all(folder, 2, 2);
  const std::string path = folder / name_of(1);
  const std::string whole = read_file(path);
  const std::size_t last = whole.find("deepspeed/zero_pp_rank_1");
  write_file(path, whole.substr(0, last) + std::string(1024, '\0'));
  const std::string why = message_of<CorruptError>([&] { open_source(path); });
  EXPECT_NE(why.find("the tar of rank 1 has no deepspeed/zero_pp_rank_1"), std::string::npos)
      << why;
}

// Cuts the file off at every 41st byte, or changes that byte. The result is an error, or nothing
// that matters was lost.
TEST(RankTarTest, NoFlippedOrMissingByteGoesUnnoticed) {
  const TempFolder folder;
  write_all(folder, 2, 2);
  const std::string path = folder / name_of(1);
  const std::string whole = read_file(path);
  const auto expect_error_or_same = [&](const std::string& bytes, std::size_t at) {
    write_file(path, bytes);
    try {
      EXPECT_EQ(load(path), checkpoint_of(1, 2)) << at;
    } catch (const Error&) {
    }
  };
  constexpr std::size_t kStride = 41;
  for (std::size_t at = 0; at < whole.size(); at += kStride) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    expect_error_or_same(flipped, at);
    expect_error_or_same(whole.substr(0, at), at);
  }
}

// A scalar has one row. No file can lack that row or have half of it.
TEST(RankTarTest, RowsThatNoScalarHasAreCorrupt) {
  const Value checkpoint = Dict{{"state", Dict{{"model", Dict{{"b", floats({}, 1)}}}}}};
  deepspeed::RankFiles files = deepspeed::split(checkpoint, {}, {.stage = 2, .attempt = "a"});
  EXPECT_EQ(deepspeed::join(files), checkpoint);
  for (const auto& [begin, count] : {std::pair{0, 0}, {1, 0}, {0, 2}, {-1, 1}}) {
    files.optimizer.mutable_dict()["cairn"].mutable_dict()["rows"].mutable_dict().set(
        "b", List{begin, count});
    const std::string why = message_of<CorruptError>([&] { deepspeed::join(files); });
    EXPECT_NE(why.find("the rows of b are not within its shape"), std::string::npos) << why;
  }
}

// Variants of `value` in which something else replaces one node: each node inside `value` in turn,
// and `value` itself.
std::vector<Value> variants_of(const Value& value) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  std::vector<Value> variants = {
      Value(), -1, kHuge, "x", Dict(), List(), floats({3}, 0), Size{{kHuge, 4}}, Size{{-2, -8}}};
  if (value.is_dict()) {
    for (const auto& [key, inner] : value.as_dict()) {
      Value without = value;
      without.mutable_dict().erase(key);
      variants.push_back(std::move(without));
      for (Value& variant : variants_of(inner)) {
        variants.push_back(value);
        variants.back().mutable_dict().set(key, std::move(variant));
      }
    }
  }
  if (value.is_list()) {
    for (std::size_t i = 0; i < value.as_items().size(); ++i) {
      for (Value& variant : variants_of(value.as_items()[i])) {
        variants.push_back(value);
        variants.back().mutable_list()[i] = std::move(variant);
      }
    }
  }
  return variants;
}

// A foreign program may have written anything with valid checksums. Such files never cause a
// bad_variant_access, nor use more memory than they have bytes.
TEST(RankTarTest, WhateverTheFilesSayIsReadOrATypedError) {
  const auto good = deepspeed::split(checkpoint_of(1, 2), kNames,
                                     {.rank = 1, .world_size = 2, .stage = 2, .attempt = "a1"});
  std::size_t read = 0;
  std::size_t refused = 0;
  for (Value deepspeed::RankFiles::*const file :
       {&deepspeed::RankFiles::model, &deepspeed::RankFiles::optimizer,
        &deepspeed::RankFiles::composer}) {
    for (Value& variant : variants_of(good.*file)) {
      deepspeed::RankFiles files = good;
      files.*file = std::move(variant);
      try {
        const Value found = deepspeed::join(files);
        for (const auto& [name, tensor] : found.at("state").at("model").as_dict()) {
          if (tensor.is_tensor()) tensor.as_tensor().contiguous_bytes();
        }
        ++read;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 100U);
  EXPECT_GT(refused, 300U);
}

TEST(RankTarTest, ANoteThatCannotBeIsCorrupt) {
  const deepspeed::RankOfSave rank{.rank = 1, .world_size = 2, .stage = 3, .attempt = "x"};
  EXPECT_EQ(parse_rank_note(write_rank_note(rank)).rank, 1);
  for (const char* wrong :
       {"", "{", R"({"format":1})", R"({"format":1,"attempt":1,"rank":0,"world_size":1,"stage":2})",
        R"({"format":1,"attempt":"a","rank":1,"world_size":1,"stage":2})",
        R"({"format":1,"attempt":"a","rank":0,"world_size":1,"stage":4})"}) {
    EXPECT_THROW(parse_rank_note(wrong), CorruptError) << wrong;
  }
  EXPECT_THROW(parse_rank_note(R"({"format":2})"), UnsupportedError);
}

}  // namespace
}  // namespace cairn
