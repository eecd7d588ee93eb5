// Random Values for property tests.
#pragma once

#include <rapidcheck.h>

#include "cairn/value.h"

namespace cairn::testing {

// A tree of every kind of Value that torch.save's files can hold. Containers and tensors are
// sometimes shared, and tensors are sometimes views of one storage.
inline Value random_value(int depth, std::vector<Value>& made);

namespace random_value_detail {

inline std::size_t pick(std::size_t count) { return *rc::gen::inRange<std::size_t>(0, count); }

inline std::string random_text() {
  static const std::vector<std::string> texts = {
      "", "a", "weight", "\xc3\xa9", "\xe6\x97\xa5", "0", "cpu", "storage", std::string("a\0b", 3)};
  if (pick(3) == 0) return texts[pick(texts.size())];
  return "layer." + std::to_string(pick(1000));
}

inline std::int64_t random_int() {
  const auto bits = pick(64);
  return static_cast<std::int64_t>(*rc::gen::arbitrary<std::uint64_t>() >> bits);
}

inline Value random_tensor(std::vector<Value>& made) {
  const auto dtype = static_cast<DType>(pick(static_cast<std::size_t>(DType::kFloat4E2M1FNx2) + 1));
  for (const Value& other : made) {  // A view of the same storage.
    if (other.is_tensor() && pick(3) == 0 && other.as_tensor().numel() > 1) {
      TensorView view = other.as_tensor();
      view.storage_offset += 1;
      view.shape = {view.numel() - 1};
      view.strides = {0};
      return view;
    }
  }
  std::vector<std::int64_t> shape;
  std::size_t bytes = item_size(dtype);
  for (std::size_t d = pick(4); d > 0; --d) {
    shape.push_back(static_cast<std::int64_t>(pick(4)));
    bytes *= static_cast<std::size_t>(shape.back());
  }
  auto owner = std::make_shared<const std::string>(bytes, static_cast<char>(pick(256)));
  TensorView tensor = make_tensor(dtype, shape, {as_bytes(*owner), owner});
  tensor.is_parameter = pick(5) == 0;
  tensor.requires_grad = dtype == DType::kFloat32 && pick(4) == 0;
  return tensor;
}

inline Value random_leaf(std::vector<Value>& made) {
  switch (pick(15)) {
    case 0:
      return None{};
    case 1:
      return pick(2) == 0;
    case 2:
    case 3:
      return random_int();
    case 4:
      return *rc::gen::arbitrary<double>();
    case 5:
      return BigInt{std::string(9 + pick(300), static_cast<char>(1 + pick(250))) + "\1"};
    case 6:
      return std::complex<double>(*rc::gen::arbitrary<double>(), 1.5);
    case 7:
      return Bytes{*rc::gen::string<std::string>(), pick(2) == 0};
    case 8:
      return TimeDelta{.days = static_cast<std::int64_t>(pick(10)) - 5,
                       .seconds = static_cast<std::int32_t>(pick(86400)),
                       .microseconds = static_cast<std::int32_t>(pick(1000000))};
    case 9:
      return Size{{random_int(), 2, 3}};
    case 10:
      return static_cast<DType>(pick(16));
    case 11:
      return TorchConstant{pick(2) == 0 ? "torch.strided" : "torch.channels_last"};
    case 12:
      return NumpyScalar{.type = 'i', .size = 4, .bytes = {static_cast<std::byte>(pick(256))}};
    case 13:
      return Device{pick(2) == 0 ? "cpu" : "cuda:" + std::to_string(pick(9))};
    default:
      return random_tensor(made);
  }
}

inline Value random_key() {
  switch (pick(4)) {
    case 0:
      return random_int();
    case 1:
      return Tuple{{random_text(), random_int()}};
    default:
      return random_text();
  }
}

inline Value random_container(int depth, std::vector<Value>& made) {
  const std::size_t size = pick(6);
  const std::size_t kind = pick(5);
  if (kind < 2) {
    Dict dict(kind == 1 ? DictType::kOrderedDict : static_cast<DictType>(2 * pick(2)));
    for (std::size_t i = 0; i < size; ++i) {
      dict.set(random_key(), random_value(depth - 1, made));
    }
    return dict;
  }
  List items;
  for (std::size_t i = 0; i < size; ++i) {
    items.push_back(kind == 4 ? Value(static_cast<std::int64_t>(i))
                              : random_value(depth - 1, made));
  }
  if (kind == 4) return Set{std::move(items), pick(2) == 0};
  if (kind == 3) return Tuple{std::move(items)};
  return items;
}

}  // namespace random_value_detail

inline Value random_value(int depth, std::vector<Value>& made) {
  namespace detail = random_value_detail;
  if (!made.empty() && detail::pick(6) == 0) return made[detail::pick(made.size())];
  if (depth == 0 || detail::pick(4) == 0) {
    if (detail::pick(4) == 0) return detail::random_text();
    Value leaf = detail::random_leaf(made);
    if (leaf.is_tensor()) made.push_back(leaf);
    return leaf;
  }
  Value value = detail::random_container(depth, made);
  made.push_back(value);
  return value;
}

}  // namespace cairn::testing
