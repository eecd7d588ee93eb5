// Values of every kind are read back as they were written, and sharing is kept.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "cairn/error.h"
#include "cairn/foreign.h"
#include "cairn/format/torch_file.h"

#include "cli/view/content/describe_value.h"
#include "testing/random_value.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "tests/format/pickle_text.h"

namespace cairn {
namespace {

using cli::describe_value;
using testing::encoded;
using testing::shared;
using namespace std::string_literals;

Value read_back(const std::string& bytes) { return TorchFile(shared(bytes), "x.pt").read(); }

std::string pickle_of(const std::string& bytes) {
  const TorchFile file(shared(bytes), "x.pt");
  return std::string(as_text(file.bytes_of(*file.find_record("data.pkl")).view));
}

TensorView floats(std::vector<std::int64_t> shape, char fill) {
  TensorView tensor;
  std::size_t bytes = 4;
  for (const std::int64_t size : shape) {
    bytes *= static_cast<std::size_t>(size);
  }
  return make_tensor(DType::kFloat32, std::move(shape), shared(std::string(bytes, fill)));
}

RC_GTEST_PROP(RoundTripTest, RandomValuesComeBackAsTheyWere, ()) {
  std::vector<Value> made;
  const Value value = testing::random_value(4, made);
  const std::string bytes = encoded(value);
  const Value again = read_back(bytes);
  RC_ASSERT(describe_value(again) == describe_value(value));
  // the sharing is the same, too: it shows in the pickle's memo
  RC_ASSERT(encoded(again) == bytes);
  RC_ASSERT(encoded(value) == bytes);
}

// docs/formats/torch_file.md explains this file byte by byte.
TEST(RoundTripTest, TheDocumentedExampleIsWhatIsWritten) {
  const std::vector<float> data = {1.0F, -2.0F};
  const std::string bytes(as_text(std::as_bytes(std::span(data))));
  const Value value = Dict{{"w", make_tensor(DType::kFloat32, {2}, shared(bytes))}};
  EXPECT_EQ(encoded(value), testing::read_file(CAIRN_TEST_DATA "/cairn/tiny.pt"));
}

TEST(RoundTripTest, SharedContainersStayOneObject) {
  const Value list = List{1, 2};
  const Value value = read_back(encoded(Dict{{"a", list}, {"b", list}, {"c", List{1, 2}}}));
  EXPECT_EQ(value.at("a").identity(), value.at("b").identity());
  EXPECT_NE(value.at("a").identity(), value.at("c").identity());
}

TEST(RoundTripTest, SharedBytesStayOneObjectAndAreWrittenOnce) {
  for (const bool is_bytearray : {false, true}) {
    const Value shared_bytes = Bytes{std::string(1 << 20, 'x'), is_bytearray};
    const std::string file = encoded(List(1000, shared_bytes));
    EXPECT_LT(file.size(), 2U << 20);
    const Value value = read_back(file);
    const List& items = value.as_items();
    ASSERT_EQ(items.size(), 1000U);
    EXPECT_EQ(items.front(), shared_bytes);
    ASSERT_NE(items.front().identity(), nullptr);
    EXPECT_EQ(items.front().identity(), items.back().identity());
    EXPECT_EQ(encoded(value), file);
  }
  const Value apart = read_back(encoded(List{Bytes{"a", true}, Bytes{"a", true}}));
  EXPECT_NE(apart.as_items()[0].identity(), apart.as_items()[1].identity());
}

TEST(RoundTripTest, TiedTensorsAndViewsShareOneRecord) {
  const TensorView whole = floats({4, 4}, '\1');
  TensorView row = whole;
  row.shape = {4};
  row.strides = {1};
  row.storage_offset = 4;
  const TorchFile file(
      shared(encoded(
          Dict{{"whole", whole}, {"row", row}, {"tied", whole}, {"other", floats({2}, 2)}})),
      "x.pt");
  ASSERT_NE(file.find_record("data/1"), nullptr);
  EXPECT_EQ(file.find_record("data/2"), nullptr);
  EXPECT_EQ(file.find_record("data/0")->size, 64U);
  const Value value = file.read();
  EXPECT_EQ(value.at("whole").as_tensor().storage, value.at("row").as_tensor().storage);
  EXPECT_EQ(value.at("whole").as_tensor().storage, value.at("tied").as_tensor().storage);
  EXPECT_EQ(value.at("row").as_tensor().storage_offset, 4);
}

// PyTorch counts the storages of dtypes without a storage class in bytes, like those of uint8.
TEST(RoundTripTest, DTypesWithoutAStorageClassMayShareOneAndWithUInt8) {
  const TensorView bytes = make_tensor(DType::kUInt8, {3}, shared(std::string("abc")));
  TensorView words = bytes;
  words.dtype = DType::kUInt16;
  words.shape = {1};
  TensorView floats8 = bytes;
  floats8.dtype = DType::kFloat8E4M3FN;
  for (const List& order : {List{bytes, words, floats8}, List{floats8, words, bytes}}) {
    const TorchFile file(shared(encoded(order)), "x.pt");
    EXPECT_EQ(file.find_record("data/1"), nullptr);
    const Value value = file.read();
    EXPECT_EQ(value, Value(order));
    EXPECT_EQ(value.as_items()[0].as_tensor().storage, value.as_items()[2].as_tensor().storage);
  }
}

// Only this tensor is refused. A uint8 tensor with the same bytes is accepted, because it has no
// byte order.
TEST(RoundTripTest, BigEndianElementsOfUnknownLengthAreUnsupported) {
  const std::string place = "K\0K\2\x85K\1\x85\x89N"s;
  const auto view = [&](const char* function, const std::string& type, const std::string& rest) {
    return testing::global("torch._utils", function) + "(" + testing::storage(type, "0", "K\4"s) +
           place + rest + "tR";
  };
  const std::string bytes = view("_rebuild_tensor_v2", testing::global("torch", "ByteStorage"), "");
  const std::string words =
      view("_rebuild_tensor_v3", testing::global("torch.storage", "UntypedStorage"),
           testing::global("torch", "uint16"));
  const auto read = [](const std::string& items, const std::string& order) {
    return TorchFile(shared(testing::torch_zip({{"data.pkl", testing::pickle("](" + items + "e")},
                                                {"byteorder", order},
                                                {"data/0", "abcd"},
                                                {"version", "3\n"}})),
                     "x.pt")
        .read();
  };
  EXPECT_EQ(read(bytes + words, "little").as_items().size(), 2U);
  EXPECT_EQ(read(bytes, "big").as_items().size(), 1U);
  const Value first = read(words + bytes, "big");
  EXPECT_THROW(first.as_items()[0].as_tensor().contiguous_bytes(), UnsupportedError);
  EXPECT_NO_THROW(first.as_items()[1].as_tensor().contiguous_bytes());
  const Value last = read(bytes + words, "big");
  EXPECT_NO_THROW(last.as_items()[0].as_tensor().contiguous_bytes());
  EXPECT_THROW(last.as_items()[1].as_tensor().contiguous_bytes(), UnsupportedError);
}

TEST(RoundTripTest, TensorsOfAFileAreViewsOfItsBytes) {
  const SharedBytes bytes = shared(encoded(Dict{{"w", floats({4}, '\1')}}));
  const Value value = TorchFile(bytes, "x.pt").read();
  const ByteView view = value.at("w").as_tensor().storage->bytes().view;
  EXPECT_GE(view.data(), bytes.view.data());
  EXPECT_LT(view.data(), bytes.view.data() + bytes.view.size());
}

TEST(RoundTripTest, TensorsOutliveTheFile) {
  Value value;
  {
    const TorchFile file(shared(encoded(Dict{{"w", floats({4}, '\1')}})), "x.pt");
    value = file.read();
  }
  EXPECT_EQ(value.at("w"), Value(floats({4}, '\1')));
}

// tests/python checks CPython's batches of 1000 items byte by byte. This test checks that all items
// are read back.
TEST(RoundTripTest, LargeContainersComeBackWhole) {
  for (const int size : {0, 1, 2, 999, 1000, 1001, 2000, 2001}) {
    Dict dict;
    Dict ordered = Dict::ordered();
    List list;
    for (int i = 0; i < size; ++i) {
      dict.set(i, i + 1);
      ordered.set(i, i + 2);
      list.emplace_back(i);
    }
    const Value value = Tuple{{dict, ordered, list, Set{list}}};
    const Value again = read_back(encoded(value));
    EXPECT_EQ(describe_value(again), describe_value(value)) << size;
  }
}

TEST(RoundTripTest, NumpyArraysComeBack) {
  const Value value = NdArray{"u4", {2, 2}, shared(std::string("0123456789abcdef"))};
  EXPECT_EQ(describe_value(read_back(encoded(Dict{{"a", value}, {"b", value}}))),
            describe_value(Dict{{"a", value}, {"b", value}}));
}

TEST(RoundTripTest, TypesOfPythonsDictsStay) {
  const Value named(std::make_shared<const Foreign>(Foreign{.module = "builtins", .name = "int"}));
  Dict counter(DictType::kCounter);
  counter.set(7, 2);
  Dict counting(DictType::kDefaultDict);
  counting.set_default_factory(named);
  counting.set("a", 1);
  Dict module = Dict::ordered({{"w", 1.0}});
  module.set_attributes(Dict{{"_metadata", Dict::ordered({{"", Dict{{"version", 1}}}})}});
  const Value again =
      read_back(encoded(Dict{{"c", counter}, {"d", counting}, {"m", module}, {"same", module}}));
  EXPECT_EQ(again.at("c").as_dict().type(), DictType::kCounter);
  EXPECT_EQ(again.at("c"), Value(counter));
  EXPECT_EQ(again.at("d").as_dict().type(), DictType::kDefaultDict);
  EXPECT_EQ(again.at("d").as_dict().default_factory(), named);
  EXPECT_EQ(again.at("m").as_dict().attributes(), module.attributes());
  EXPECT_TRUE(again.at("m").as_dict().is_ordered());
}

TEST(RoundTripTest, NumpysNumbersAndOrderStay) {
  NumpyScalar third{.type = 'f', .size = 4};
  const float number = 1.0F / 3;
  std::memcpy(third.bytes.data(), &number, sizeof number);
  EXPECT_EQ(third.number(), Value(static_cast<double>(number)));
  NdArray fortran{"u1", {2, 3}, shared(std::string("abcdef")), true, NumpyNames::kNumpy1};
  const std::string bytes = encoded(Dict{{"s", third}, {"f", fortran}});
  EXPECT_NE(pickle_of(bytes).find("adbecf"), std::string::npos);
  EXPECT_NE(pickle_of(bytes).find("numpy.core.multiarray\n_reconstruct"), std::string::npos);
  EXPECT_NE(pickle_of(bytes).find("numpy._core.multiarray\nscalar"), std::string::npos);
  const Value again = read_back(bytes);
  EXPECT_EQ(again.at("s").kind(), Kind::kNumpyScalar);
  EXPECT_EQ(again.at("s").get_if<NumpyScalar>()->dtype(), "f4");
  EXPECT_EQ(again.at("s").as_float(), static_cast<double>(number));
  EXPECT_EQ(as_text(again.at("f").as_ndarray().bytes.view), "abcdef");
  EXPECT_TRUE(again.at("f").as_ndarray().is_fortran);
  EXPECT_EQ(encoded(again), bytes);
}

TEST(RoundTripTest, AnArrayCanDoWithoutTheNameOfNumpysInnerModule) {
  const NdArray array{"u1", {3}, shared(std::string("abc")), false, NumpyNames::kNone};
  const std::string bytes = encoded(Dict{{"a", array}});
  EXPECT_EQ(pickle_of(bytes).find("multiarray"), std::string::npos);
  EXPECT_NE(pickle_of(bytes).find("numpy\nndarray\nq\2K\0\x85"s), std::string::npos);
  const Value again = read_back(bytes);
  EXPECT_EQ(again.at("a"), Value(array));
  EXPECT_EQ(again.at("a").as_ndarray().names, NumpyNames::kNone);
  EXPECT_EQ(encoded(again), bytes);
}

// Of numpy's names, Composer's list of what weights_only may load has only this one.
TEST(RoundTripTest, NewArraysHaveTheNamesOfNumpy2) {
  const std::string bytes = encoded(List{NdArray{"u1", {2}, shared(std::string("ab"))}});
  EXPECT_NE(pickle_of(bytes).find("numpy._core.multiarray\n_reconstruct"), std::string::npos);
  EXPECT_EQ(pickle_of(bytes).find("numpy.core"), std::string::npos);
}

TEST(RoundTripTest, SettingsOfTorchStay) {
  const Value value =
      List{TorchConstant{"torch.strided"}, TorchConstant{"torch.sparse_coo"},
           TorchConstant{"torch.channels_last"}, TorchConstant{"torch.per_tensor_affine"}};
  EXPECT_EQ(read_back(encoded(value)), value);
  EXPECT_EQ(value.as_items()[0].type_name(), "layout");
  EXPECT_EQ(value.as_items()[2].type_name(), "memory_format");
  EXPECT_EQ(value.as_items()[3].type_name(), "qscheme");
}

TEST(RoundTripTest, WhatAFileSaysOfCoalescedStays) {
  SparseTensor sparse;
  sparse.shape = {5};
  sparse.indices = make_tensor(DType::kInt64, {1, 1}, shared(std::string(8, '\0')));
  sparse.values = floats({1}, '\1');
  for (const std::optional<bool> told :
       {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    sparse.is_coalesced = told;
    EXPECT_EQ(read_back(encoded(Value(sparse))).as_sparse().is_coalesced, told);
  }
}

TEST(RoundTripTest, EmptyBytesAvoidAGlobalThatWeightsOnlyRefuses) {
  const std::string bytes = encoded(List{Bytes{""}, Bytes{"", true}});
  EXPECT_EQ(pickle_of(bytes).find("__builtin__\nbytes\n"), std::string::npos);
  EXPECT_EQ(describe_value(read_back(bytes)), describe_value(List{Bytes{""}, Bytes{"", true}}));
}

TEST(RoundTripTest, ExtraRecordsComeLastAndKnowAllOthers) {
  TorchFileWriteOptions options;
  options.prefix = "ep1-ba2";
  std::vector<std::string> seen;
  options.extra_records = [&](const std::vector<FileRecord>& records) {
    for (const FileRecord& record : records)
      seen.push_back(record.name);
    return ExtraRecords{{"cairn/manifest.json", "{}"}};
  };
  const TorchFile file(shared(encoded(Dict{{"w", floats({4}, '\1')}}, options)), "x.pt");
  EXPECT_EQ(seen, (std::vector<std::string>{"data.pkl", "byteorder", "data/0", "version"}));
  EXPECT_EQ(file.records().back().name, "cairn/manifest.json");
  EXPECT_EQ(as_text(file.bytes_of(file.records().back()).view), "{}");
  std::uint64_t offset = 0;
  EXPECT_TRUE(file.has_canonical_layout(&offset)) << offset;
}

TEST(RoundTripTest, TheSizeIsKnownBeforeTheFirstByte) {
  for (const int tensors : {0, 1, 100}) {
    Dict dict;
    for (int i = 0; i < tensors; ++i) {
      dict.set(i, floats({i}, '\1'));
    }
    EXPECT_EQ(TorchFilePlan(dict).size(), encoded(dict).size());
  }
}

// --- Values that cannot be written ---------------------------------------------------------------

std::string refusal(const Value& value) {
  try {
    TorchFilePlan plan(value);
  } catch (const UnsupportedError& e) {
    return e.what();
  }
  return "was planned";
}

TEST(RefusedValueTest, NamesTheKeysThatLeadThere) {
  TensorView quantized = floats({2}, '\1');
  quantized.dtype = DType::kQInt32;
  EXPECT_EQ(refusal(Dict{{"state", Dict{{"model", Dict{{"w", quantized}}}}}}),
            "state: model: w: a tensor of dtype qint32 has no quantizer");
}

TEST(RefusedValueTest, APartOfATensorWhosePlaceWouldBeForgotten) {
  TensorView part = floats({2}, '\1');
  part.part = std::make_shared<const TensorPart>(TensorPart{{8}, {4}});
  EXPECT_EQ(refusal(Dict{{"w", part}}).substr(0, 62),
            "w: a part of a tensor, (2) at (4) of (8), cannot be written to");
  EXPECT_EQ(describe_value(part)["part_of"].dump(), R"({"offsets":[4],"shape":[8]})");
}

TEST(RefusedValueTest, TwoDTypesOnOneStorage) {
  const TensorView a = floats({2}, '\1');
  TensorView b = a;
  b.dtype = DType::kInt32;
  EXPECT_NE(refusal(List{a, b}).find("share one storage"), std::string::npos);
}

TEST(RefusedValueTest, NestingThatPythonCouldNotRead) {
  Value value = List{};
  for (int i = 0; i < 1100; ++i) {
    value = List{value};
  }
  EXPECT_NE(refusal(value).find("nested too deep"), std::string::npos);
}

TEST(RefusedValueTest, TextThatIsNotUtf8) {
  EXPECT_NE(refusal(Dict{{"a", "\xff"}}).find("UTF-8"), std::string::npos);
}

TEST(RefusedValueTest, DeviceThatIsNone) {
  EXPECT_NE(refusal(Device{"cuda:x"}).find("not a device"), std::string::npos);
}

TEST(RefusedValueTest, TensorOutsideItsStorageIsAUsageError) {
  TensorView tensor = floats({2}, '\1');
  tensor.storage_offset = 1;
  EXPECT_THROW(TorchFilePlan{Value(tensor)}, UsageError);
}

TEST(RefusedValueTest, ImpossibleNamesOfFoldersAndRecords) {
  const Value value = Dict{};
  EXPECT_THROW(encoded(value, {.prefix = ""}), UsageError);
  EXPECT_THROW(encoded(value, {.prefix = "a/b"}), UsageError);
  EXPECT_THROW(encoded(value, {.prefix = ".."}), UsageError);
  for (const char* name : {"DATA.pkl", "version", "../x", ""}) {
    const TorchFileWriteOptions options{.extra_records = [&](const auto& /*records*/) {
      return ExtraRecords{{name, ""}};
    }};
    EXPECT_THROW(encoded(value, options), UsageError) << name;
  }
}

}  // namespace
}  // namespace cairn
