// The asynchronous saver's snapshot is the image of the file. The image has the same bytes as the
// file of save(). It is laid out before the bytes are known, and is right even if the layout was
// guessed wrong.
#include "checkpoint/plan/file_image.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstring>
#include <optional>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"
#include "cairn/foreign.h"

#include "checkpoint/plan/save_pipeline.h"
#include "format/stream_plan.h"
#include "testing/random_value.h"
#include "testing/sim_file_system.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::shared;
using testing::StringSink;

TensorView tensor_of(std::size_t bytes, char fill) {
  return make_tensor(DType::kUInt8, {static_cast<std::int64_t>(bytes)},
                     shared(std::string(bytes, fill)));
}

std::string file_of(const Value& value) {
  StringSink sink;
  stream_plan(TorchPlan(pickle::encode(value), {}, TorchPlan::Room::kToGrow), sink);
  return std::move(sink.text);
}

// A file that checks the order in which its ranges are written.
class StringFile final : public PositionalSink {
 public:
  void write(std::uint64_t offset, const SharedBytes& bytes) override {
    EXPECT_EQ(offset, text.size());
    text += as_text(bytes.view);
  }
  std::string text;
};

class Saver {
 public:
  // The file's bytes. was_image() tells how they were written.
  std::string save(Value value) {
    FileImage image(std::move(value), snapshotter_, layout_);
    const TorchPlan plan = image.plan({}, true);
    was_image_ = image.is_image();
    StringFile file;
    if (was_image_) {
      image.write(plan, file);
      return file.text;
    }
    StringSink sink;
    stream_plan(plan, sink);
    return sink.text;
  }
  bool was_image() const { return was_image_; }

 private:
  Snapshotter snapshotter_;
  std::shared_ptr<FileImage::Layout> layout_ = std::make_shared<FileImage::Layout>();
  bool was_image_ = false;
};

RC_GTEST_PROP(FileImageTest, IsTheFileThatSaveWrites, ()) {
  Saver saver;
  for (int i = 0; i < 3; ++i) {
    std::vector<Value> made;
    const Value value = testing::random_value(4, made);
    RC_ASSERT(saver.save(value) == file_of(value));
    RC_ASSERT(saver.save(value) == file_of(value));  // With the previous layout.
  }
}

TEST(FileImageTest, IsAnImageWithEverythingThatATensorCanBe) {
  Quantizer quantizer{.axis = 0, .scales = tensor_of(8, '\1'), .zero_points = tensor_of(8, '\2')};
  quantizer.scales.dtype = quantizer.zero_points.dtype = DType::kFloat64;
  quantizer.scales.shape = quantizer.zero_points.shape = {1};
  TensorView quantized = tensor_of(3, 'q');
  quantized.dtype = DType::kQInt8;
  quantized.shape = {1, 3};
  quantized.strides = {3, 1};
  quantized.quantizer = std::make_shared<const Quantizer>(quantizer);
  TensorView also_quantized = tensor_of(3, 'Q');
  also_quantized.dtype = DType::kQInt8;
  also_quantized.shape = {1, 3};
  also_quantized.strides = {3, 1};
  also_quantized.quantizer = quantized.quantizer;
  SparseTensor sparse;
  sparse.shape = {5};
  sparse.indices = make_tensor(DType::kInt64, {1, 2}, shared(std::string(16, '\0')));
  sparse.values = tensor_of(2, 'v');
  TensorView without_storage = tensor_of(0, '\0');
  without_storage.storage = nullptr;
  const Value tied = tensor_of(100, 't');
  TensorView part = tied.as_tensor();
  part.shape = {10};
  part.storage_offset = 5;
  const Value list = List{tensor_of(7, 'l')};
  const Value value = Dict{{"q", quantized},
                           {"q2", also_quantized},
                           {"s", sparse},
                           {"none", without_storage},
                           {"none2", without_storage},
                           {"a", tied},
                           {"b", tied},
                           {"part", part},
                           {"x", list},
                           {"y", list},
                           {"n", 3}};
  Saver saver;
  EXPECT_EQ(saver.save(value), file_of(value));
  EXPECT_TRUE(saver.was_image());
  EXPECT_EQ(saver.save(value), file_of(value));
  EXPECT_TRUE(saver.was_image());
}

Value state(std::int64_t batch, const std::string& text) {
  return Dict{{"w", tensor_of(1000, static_cast<char>(batch))}, {"batch", batch}, {"text", text}};
}

TEST(FileImageTest, OtherNumbersAreStillAnImage) {
  Saver saver;
  for (const std::int64_t batch : {1, 300, 100'000, 1 << 30}) {
    EXPECT_EQ(saver.save(state(batch, "x")), file_of(state(batch, "x")));
    EXPECT_TRUE(saver.was_image()) << batch;
  }
}

TEST(FileImageTest, APickleThatOutgrowsItsRoomIsWrittenRightAndTheNextIsAnImageAgain) {
  Saver saver;
  (void)saver.save(state(1, "short"));
  const Value grown = state(2, std::string(5000, 'x'));
  EXPECT_EQ(saver.save(grown), file_of(grown));
  EXPECT_FALSE(saver.was_image());
  EXPECT_EQ(saver.save(grown), file_of(grown));
  EXPECT_TRUE(saver.was_image());
  const Value shrunk = state(3, "short");
  EXPECT_EQ(saver.save(shrunk), file_of(shrunk));
  EXPECT_FALSE(saver.was_image());
}

// A part of a tree that a saver keeps from save to save, so that the saver does not walk through
// the part again.
Dict large_part(char fill) {
  Dict part;
  for (int i = 0; i < 100; ++i) {
    part.set("layer" + std::to_string(i), tensor_of(static_cast<std::size_t>(i) * 7, fill));
  }
  return part;
}

// First saves a tree that the caller holds, too. Then moves the tree to the saver, so that nothing
// else holds it, as in real saves.
void expect_same(Saver& saver, Value value) {
  const std::string expected = file_of(value);
  EXPECT_EQ(saver.save(value), expected);
  EXPECT_TRUE(saver.was_image());
  EXPECT_EQ(saver.save(std::move(value)), expected);
  EXPECT_TRUE(saver.was_image());
}

TEST(FileImageTest, ALargePartThatIsTheSameIsCopiedAndWrittenAsBefore) {
  const Value part = large_part('p');
  Saver saver;
  for (const std::int64_t batch : {1, 2, 300}) {
    expect_same(saver, Dict{{"part", part}, {"batch", batch}, {"own", tensor_of(9, 'o')}});
  }
  const Value other = large_part('q');
  for (const Value& now : {other, part, part}) {
    expect_same(saver, Dict{{"part", now}, {"batch", 2}, {"own", tensor_of(9, 'o')}});
  }
  const Value without = Dict{{"part", 1}, {"own", tensor_of(9, 'o')}};
  EXPECT_EQ(saver.save(without), file_of(without));
  EXPECT_EQ(saver.save(without), file_of(without));
}

TEST(FileImageTest, WhatStandsBeforeALargePartMayChange) {
  const Value part = large_part('p');
  Saver saver;
  for (const char* name : {"part", "part", "trap", "layer1", "part", "another name of it"}) {
    for (const std::int64_t batch : {1, 1, 70'000}) {
      const auto tree = [&] { return Dict{{"batch", batch}, {name, part}, {"layer2", name}}; };
      const std::string expected = file_of(tree());
      EXPECT_EQ(saver.save(tree()), expected);
      EXPECT_EQ(saver.save(tree()), expected);
    }
  }
  const auto deeper = [&] { return List{Dict{{"batch", 1}, {"part", part}}, part}; };
  const std::string expected = file_of(deeper());
  EXPECT_EQ(saver.save(deeper()), expected);
  EXPECT_EQ(saver.save(deeper()), expected);
}

TEST(FileImageTest, WhatALargePartHasComesByAgainOutsideOfIt) {
  Dict entries = large_part('p');
  const Value tensor = tensor_of(50, 't');
  const Value list = List{tensor_of(60, 'l'), List{tensor_of(61, 'm')}};
  TensorView alias = tensor.as_tensor();
  alias.shape = {10};
  entries.set("tensor", tensor);
  const Value plain = entries;
  entries.set("list", list);
  const Value nested = std::move(entries);
  Saver saver;
  for (const Value& part : {plain, plain, nested, nested, plain, plain}) {
    expect_same(saver, Dict{{"part", part},
                            {"tensor", tensor},
                            {"alias", alias},
                            {"again", part},
                            {"inner", List{1, list}},
                            {"own", tensor_of(9, 'o')}});
  }
  const Value before = Dict{{"first", alias}, {"part", nested}};  // Now a tensor precedes the part.
  EXPECT_EQ(saver.save(before), file_of(before));
  expect_same(saver, before);
}

// When the part was encoded, nothing else held the tensor. In the next save the tensor occurs again
// after the part.
TEST(FileImageTest, ATensorOfALargePartIsFoundBehindItTheNextTime) {
  const Value part = large_part('p');
  const Value* const inside = part.find("layer50");
  for (const bool is_alias : {false, true}) {
    Saver saver;
    EXPECT_EQ(saver.save(Dict{{"part", part}, {"n", 1}}), file_of(Dict{{"part", part}, {"n", 1}}));
    Value again = *inside;
    if (is_alias) {
      TensorView alias = inside->as_tensor();
      alias.shape = {5};
      again = alias;
    }
    for (int i = 0; i < 2; ++i) {
      const auto tree = [&] { return Dict{{"part", part}, {"n", again}, {"m", again}}; };
      const std::string expected = file_of(tree());
      EXPECT_EQ(saver.save(tree()), expected);
      // In the first save, the pickle outgrows its space.
      EXPECT_TRUE(saver.was_image() || i == 0);
    }
  }
}

RC_GTEST_PROP(FileImageTest, IsThatFileWithALargePartToo, ()) {
  Saver saver;
  std::vector<Value> made;
  Dict entries;
  for (int i = 0; i < 70; ++i) {
    made.push_back(testing::random_value_detail::random_tensor(made));
    entries.set("entry" + std::to_string(i), made.back());
  }
  const Value part = std::move(entries);
  for (int i = 0; i < 4; ++i) {
    Value root =
        Dict{{"before", i % 2}, {"part", part}, {"behind", testing::random_value(3, made)}};
    const std::string expected = file_of(root);
    if (i < 2) made.clear();  // Then the value after the part shares nothing with it.
    RC_ASSERT(saver.save(std::move(root)) == expected);
  }
}

// Counts the calls of try_view().
class WatchedStorage final : public Storage {
 public:
  explicit WatchedStorage(std::string text) : Storage(text.size(), "cpu"), text_(std::move(text)) {}
  std::optional<SharedBytes> try_view() const override {
    ++looks;
    return SharedBytes{as_bytes(text_), nullptr};
  }
  static inline std::size_t looks = 0;

 protected:
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    std::memcpy(into.data(), text_.data() + offset, into.size());
  }

 private:
  std::string text_;
};

// A part like an optimizer's state: a dict for each of many parameters.
Dict nested_part(char fill) {
  Dict part;
  for (int i = 0; i < 100; ++i) {
    TensorView first = tensor_of(8, fill);
    first.storage = std::make_shared<const WatchedStorage>(std::string(8, fill));
    part.set("layer" + std::to_string(i), Dict{{"step", i}, {"first", first}});
  }
  return part;
}

TEST(FileImageTest, OfSeveralLargePartsThatAreTheSameNoneIsLookedAtAgain) {
  const Value parts = List{large_part('p'), nested_part('q'), 3, nested_part('r')};
  const auto tree = [&] {
    const List& all = parts.as_items();
    return Dict{{"model", all[0]},
                {"optimizers", Dict{{"Adam", all[1]}, {"lr", 0.5}, {"SGD", all[3]}}},
                {"own", tensor_of(9, 'o')}};
  };
  const std::string expected = file_of(tree());
  Saver saver;
  EXPECT_EQ(saver.save(tree()), expected);
  const std::size_t before = WatchedStorage::looks;
  EXPECT_EQ(saver.save(tree()), expected);
  EXPECT_EQ(WatchedStorage::looks, before);
}

TEST(FileImageTest, AnyOfSeveralLargePartsMayChange) {
  const Value model = large_part('p');
  const Value other_model = large_part('P');
  Dict with_alias = nested_part('s');  // Shares memory with the model.
  with_alias.set("alias", model.at("layer50"));
  const Value aliased = std::move(with_alias);
  const Value first = nested_part('q');
  const Value second = nested_part('r');
  Saver saver;
  for (const auto& [one, two, three] :
       std::vector<std::array<Value, 3>>{{model, first, second},
                                         {model, first, second},
                                         {model, second, first},
                                         {model, second, aliased},
                                         {model, aliased, second},
                                         {model, aliased, second},
                                         {other_model, aliased, 1},
                                         {other_model, aliased, 1},
                                         {model, 1, second},
                                         {model, tensor_of(5, 't'), second},
                                         {first, model, aliased},
                                         {1, model, aliased},
                                         {model, model, first},
                                         {model, first, first},
                                         {1, 2, 3},
                                         {model, first, second}}) {
    for (int i = 0; i < 2; ++i) {
      Dict tree = {{"one", one}, {"inner", Dict{{"two", two}, {"lr", i}}}};
      tree.set("three", List{three, tensor_of(7, 'o')});
      tree.set("again", List{model.at("layer50"), first.at("layer7")});
      const std::string expected = file_of(tree);
      EXPECT_EQ(saver.save(std::move(tree)), expected);
    }
  }
}

TEST(FileImageTest, ALargePartThatNobodyHoldsIsNotKept) {
  auto bytes = std::make_shared<std::string>(1000, 'w');
  const std::weak_ptr<std::string> live = bytes;
  Dict entries = large_part('p');
  entries.set("w", make_tensor(DType::kUInt8, {1000}, {as_bytes(*bytes), bytes}));
  bytes.reset();
  Value held = Dict{{"part", std::move(entries)}};
  Saver saver;
  (void)saver.save(std::move(held));
  held = {};
  EXPECT_TRUE(live.expired());
}

TEST(FileImageTest, StoragesThatTheSnapshotDoesNotSeeAreWrittenFromWhereTheyAre) {
  const Value name(std::make_shared<const Foreign>(Foreign{.module = "models", .name = "Net"}));
  const Value hiding(
      std::make_shared<const Foreign>(Foreign{.made = Foreign::Made::kNew,
                                              .function = name,
                                              .args = Tuple{},
                                              .state = Dict{{"hidden", tensor_of(70, 'h')}},
                                              .has_state = true}));
  const Value value = List{hiding, tensor_of(50, 'w'), tensor_of(30, 'x')};
  Saver saver;
  EXPECT_EQ(saver.save(value), file_of(value));
  EXPECT_FALSE(saver.was_image());
  EXPECT_EQ(saver.save(value), file_of(value));
}

TEST(FileImageTest, TheLiveTensorsAreLetGoOfBeforeTheFirstByte) {
  auto bytes = std::make_shared<std::string>(1000, 'w');
  const std::weak_ptr<std::string> live = bytes;
  Snapshotter snapshotter;
  FileImage image(Dict{{"w", make_tensor(DType::kUInt8, {1000}, {as_bytes(*bytes), bytes})}},
                  snapshotter, std::make_shared<FileImage::Layout>());
  bytes.reset();
  EXPECT_FALSE(live.expired());
  const TorchPlan plan = image.plan({}, true);
  EXPECT_TRUE(live.expired());
  StringFile file;
  image.write(plan, file);
  EXPECT_NE(file.text.find(std::string(1000, 'w')), std::string::npos);
}

TEST(FileImageTest, WhatCannotBeEncodedIsAnErrorOfTheSaveNotOfTheSnapshot) {
  TensorView quantized = tensor_of(2, 'q');
  quantized.dtype = DType::kQInt8;
  Snapshotter snapshotter;
  FileImage image(Dict{{"w", quantized}}, snapshotter, std::make_shared<FileImage::Layout>());
  EXPECT_THROW(image.plan({}, true), UnsupportedError);
}

// Saves through the pipeline to the real disk, past the page cache, and compares the files with
// those of save().
TEST(FileImageTest, LargeFilesAndContainersAreThoseOfSave) {
  const testing::TempFolder folder;
  Dict model;
  for (int i = 0; i < 40; ++i) {
    model.set("layer" + std::to_string(i),
              tensor_of(static_cast<std::size_t>(i) * 31337 + 1, static_cast<char>(i)));
  }
  model.set("large", tensor_of(std::size_t{21} << 20, 'L'));
  const Value value = Dict{{"model", model}, {"batch", 17}};
  SavePipeline pipeline;
  for (const char* name : {"a.pt", "b.pt", "c.pt.tar", "d.pt.gz"}) {
    const std::string path = folder / name;
    save(value, folder / (std::string("saved-") + name));
    SaveReport report;
    pipeline.submit(
        {.value = value, .path = path, .report = [&](const SaveReport& done) { report = done; }});
    pipeline.wait();
    const std::string file = testing::read_file(path);
    EXPECT_TRUE(file == testing::read_file(folder / (std::string("saved-") + name))) << name;
    EXPECT_EQ(report.bytes, file.size());
    EXPECT_EQ(load(path), value) << name;
  }
}

}  // namespace
}  // namespace cairn
