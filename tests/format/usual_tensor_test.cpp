// The short cut for tensors in a pickle (usual_tensor.h) always gives the same result as the
// opcodes that are run one by one.
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/pickle/read/graph_to_value.h"
#include "format/pickle/read/keyed_storages.h"
#include "format/pickle/read/machine.h"
#include "format/pickle/read/unpickle.h"
#include "format/pickle/write/encode.h"
#include "tests/format/pickle_text.h"

namespace cairn {
namespace {

using testing::global;
using testing::pickle;
using testing::unicode;
using namespace std::string_literals;

// Has the storages "0" to "6", of at most 64 bytes each.
class SomeStorages final : public pickle::KeyedStorages {
 public:
  int made = 0;

 private:
  std::shared_ptr<const Storage> make(const pickle::StorageReference& reference) override {
    const bool is_there =
        reference.key.size() == 1 && reference.key[0] >= '0' && reference.key[0] < '7';
    if (!is_there) throw CorruptError("record data/" + std::string(reference.key) + " is missing");
    const std::uint64_t bytes = pickle::byte_size(reference);
    if (bytes > 64) throw CorruptError("record data/" + std::string(reference.key) + " has other");
    ++made;
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    return storage_of(SharedBytes{ByteView(*memory), memory}, std::string(reference.location));
  }
};

std::string numbers(const std::vector<std::int64_t>& all) {
  std::string text = "(";
  for (const std::int64_t number : all) {
    text += std::to_string(number) + ",";
  }
  return text + ")";
}

// Describes all of a Value, except the bytes of tensors.
std::string described(const Value& value) {
  std::string text(value.type_name());
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()) {
      text += "{" + described(key) + ":" + described(item) + "}";
    }
  } else if (value.is_list() || value.is_tuple()) {
    for (const Value& item : value.as_items()) {
      text += "[" + described(item) + "]";
    }
  } else if (value.is_tensor()) {
    const TensorView& tensor = value.as_tensor();
    text += std::string(name(tensor.dtype)) + numbers(tensor.shape) + numbers(tensor.strides) +
            std::to_string(tensor.storage_offset) + tensor.storage->location() +
            std::to_string(tensor.storage->size()) + (tensor.requires_grad ? "g" : "") +
            (tensor.is_parameter ? "p" : "");
  } else if (value.is_str()) {
    text += value.as_str();
  } else if (value.is_int()) {
    text += std::to_string(value.as_int());
  } else if (value.is_foreign()) {
    text += value.as_foreign().class_name() + described(value.as_foreign().args);
  }
  return text;
}

// Describes the result of a read, or its error.
template <class Read>
std::string outcome(Read read) {
  try {
    return described(read());
  } catch (const CorruptError& e) {
    return "corrupt at " + std::to_string(e.offset()) + ": " + e.what();
  } catch (const UnsupportedError& e) {
    return std::string("unsupported: ") + e.what();
  }
}

std::string by_opcodes(const std::string& bytes) {
  return outcome([&] {
    SomeStorages storages;
    MemoryBudget budget(bytes.size());
    pickle::Graph graph(budget);
    const pickle::Ref root = pickle::Machine(as_bytes(bytes), graph, storages).run();
    return pickle::to_value(graph, root, bytes.size(), storages);
  });
}

std::string by_short_cut(const std::string& bytes) {
  return outcome([&] {
    SomeStorages storages;
    return pickle::unpickle(as_bytes(bytes), storages);
  });
}

// A pickle as PyTorch and cairn write it. All tensors except the first use the short cut.
std::string written() {
  const auto memory = std::make_shared<std::vector<std::byte>>(64);
  const SharedBytes bytes{ByteView(*memory), memory};
  TensorView matrix = make_tensor(DType::kFloat32, {2, 8}, bytes);
  TensorView part = matrix;
  part.shape = {3};
  part.strides = {2};
  part.storage_offset = 9;
  TensorView many = make_tensor(DType::kFloat32, {1, 2, 1, 2, 4}, bytes);
  TensorView trained = make_tensor(DType::kFloat32, {16}, bytes);
  trained.requires_grad = true;
  const Value value(Dict{{"a", matrix},
                         {"b", part},
                         {"many", many},
                         {"scalar", make_tensor(DType::kFloat32, {}, bytes.part(0, 4))},
                         {"int", make_tensor(DType::kInt64, {8}, bytes)},
                         {"trained", trained},
                         {"none", make_tensor(DType::kFloat32, {0, 3}, {})}});
  return pickle::encode(value).data_pkl;
}

TEST(UsualTensorTest, IsWhatItsOpcodesMake) {
  const std::string bytes = written();
  const std::string expected = by_opcodes(bytes);
  EXPECT_TRUE(expected.starts_with("dict{")) << expected;
  EXPECT_EQ(by_short_cut(bytes), expected);
}

TEST(UsualTensorTest, WhereverAPickleEnds) {
  const std::string bytes = written();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    ASSERT_EQ(by_short_cut(cut), by_opcodes(cut)) << size;
  }
}

// Replaces each byte by a third of all other values. This gives other opcodes, indices, numbers and
// keys.
TEST(UsualTensorTest, WhateverStandsInIt) {
  const auto memory = std::make_shared<std::vector<std::byte>>(64);
  const TensorView vector =
      make_tensor(DType::kFloat32, {16}, SharedBytes{ByteView(*memory), memory});
  TensorView tied = vector;
  tied.shape = {2, 3};
  tied.strides = {3, 1};
  const Value value(Dict{{"a", make_tensor(DType::kInt8, {0}, {})}, {"b", vector}, {"c", tied}});
  std::string bytes = pickle::encode(value).data_pkl;
  const std::size_t second = bytes.find(unicode("b"));
  ASSERT_NE(second, std::string::npos);
  for (std::size_t i = second; i < bytes.size(); ++i) {
    const char before = bytes[i];
    for (int other = static_cast<int>(i % 3); other < 256; other += 3) {
      bytes[i] = static_cast<char>(other);
      ASSERT_EQ(by_short_cut(bytes), by_opcodes(bytes)) << "byte " << i << " is " << other;
    }
    bytes[i] = before;
  }
}

// The function, and the parts that each tensor fetches from the memo.
std::string fetched_parts() {
  return "(" + global("torch._utils", "_rebuild_tensor_v2") + "q\0"s + "0" + unicode("storage") +
         "q\1"s + "0" + global("torch", "FloatStorage") + "q\2"s + "0" + unicode("cpu") + "q\3"s +
         "0" + global("collections", "OrderedDict") + "q\4"s + "01]";
}
std::string tensor_with(const std::string& key, const std::string& after_key,
                        const std::string& after_size) {
  return "h\0"s + "((h\1h\2"s + unicode(key) + after_key + "h\3K\4tQK\0K\4\x85"s + after_size +
         "K\1\x85\x89h\4)RtRa"s;
}

TEST(UsualTensorTest, ThePartsOfATensorMayBeReferredTo) {
  const std::string size = tensor_with("0", "q\5"s, "q\6"s);
  for (const std::string& again : {"h\6a"s, "h\5a"s, "h\6h\5\x86"s + "a"}) {
    const std::string bytes = pickle(fetched_parts() + size + again);
    const std::string expected = by_opcodes(bytes);
    EXPECT_TRUE(expected.starts_with("list[")) << expected;
    EXPECT_EQ(by_short_cut(bytes), expected);
  }
}

// Objects in the memo may be fetched at once, or replace other objects.
TEST(UsualTensorTest, PlacesInTheMemoMayBeUsedTwice) {
  for (const std::string& after_key : {""s, "q\3"s, "q\4"s, "q\5"s, "q\6"s}) {
    for (const std::string& after_size : {""s, "q\3"s, "q\4"s, "q\5"s, "q\6"s, "q\7"s}) {
      const std::string bytes = pickle(fetched_parts() + tensor_with("0", after_key, after_size) +
                                       tensor_with("1", "", "") + "h\3"s + "ah\4"s + "a");
      ASSERT_EQ(by_short_cut(bytes), by_opcodes(bytes));
    }
  }
}

TEST(UsualTensorTest, WhatCannotBeMadeIsToldAsByTheOpcodes) {
  for (const std::string& key : {"9"s, "x"s, ""s, "storage"s}) {
    const std::string bytes = pickle(fetched_parts() + tensor_with(key, "", ""));
    EXPECT_EQ(by_short_cut(bytes), by_opcodes(bytes));
    EXPECT_TRUE(by_opcodes(bytes).starts_with("corrupt")) << by_opcodes(bytes);
  }
}

TEST(UsualTensorTest, TiedOnesHaveOneStorage) {
  const std::string bytes =
      pickle(fetched_parts() + tensor_with("0", "q\5"s, "") + "h\0"s +
             "((h\1h\2h\5h\3K\4tQK\2K\2\x85K\1\x85\x89h\4)RtRa"s + tensor_with("1", "", ""));
  SomeStorages storages;
  const Value value = pickle::unpickle(as_bytes(bytes), storages);
  const List& tensors = value.as_items();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].as_tensor().storage, tensors[1].as_tensor().storage);
  EXPECT_NE(tensors[0].as_tensor().storage, tensors[2].as_tensor().storage);
  EXPECT_EQ(storages.made, 2);
}

}  // namespace
}  // namespace cairn
