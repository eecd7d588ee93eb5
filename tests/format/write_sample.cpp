// Writes files for tests/python/torch_file_test.py, and a description beside each file:
//
//   format_write_sample OUT [GOLDEN...]
//
// OUT/sample.pt has every kind of Value and every kind of container size. OUT/weights_only.pt has
// the Values that torch.load(weights_only=True) accepts, OUT/containers.pt only sizes and sharing.
// OUT/0.pt, OUT/1.pt, ... are the golden files, read and written again.
#include <cstdio>
#include <fstream>
#include <limits>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "cli/view/content/describe_value.h"
#include "io/file.h"
#include "testing/file_bytes.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::shared;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorView iota(DType dtype, std::vector<std::int64_t> shape) {
  std::size_t bytes = item_size(dtype);
  for (const std::int64_t size : shape) {
    bytes *= static_cast<std::size_t>(size);
  }
  std::string data;
  for (std::size_t i = 0; i < bytes; ++i) {
    data.push_back(static_cast<char>(dtype == DType::kBool ? i % 2 : i % 60));
  }
  return make_tensor(dtype, std::move(shape), shared(data));
}

Dict tensors() {
  Dict dict;
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    // Other dtypes need _rebuild_tensor_v3, which PyTorch 1.13 does not have.
    const bool has_class =
        dtype < DType::kUInt16 || (dtype > DType::kUInt64 && dtype != DType::kComplex32);
    if (has_class) dict[name(dtype)] = iota(dtype, {2, 3});
  }
  TensorView base = iota(DType::kFloat32, {3, 4});
  dict["base"] = base;
  TensorView transposed = base;
  transposed.shape = {4, 3};
  transposed.strides = {1, 4};
  dict["transposed"] = transposed;
  TensorView row = base;
  row.shape = {4};
  row.strides = {1};
  row.storage_offset = 8;
  row.requires_grad = true;
  dict["row"] = row;
  TensorView expanded = iota(DType::kFloat32, {1, 3});
  expanded.shape = {5, 3};
  expanded.strides = {0, 1};
  dict["expanded"] = expanded;
  dict["scalar"] = iota(DType::kFloat64, {});
  dict["empty"] = iota(DType::kFloat32, {0, 3});
  return dict;
}

Dict containers() {
  Dict dict;
  for (const int size : {0, 1, 2, 999, 1000, 1001, 2000, 2001}) {
    Dict plain;
    Dict ordered = Dict::ordered();
    List list;
    for (int i = 0; i < size; ++i) {
      plain.set(i, i);
      ordered.set(i, i);
      list.emplace_back(i);
    }
    dict.set(size, List{plain, ordered, list});
  }
  const Value twice = List{1, 2};
  dict["shared"] = List{twice, twice, Tuple{{twice}}};
  return dict;
}

// Values that weights_only of PyTorch 2.6 and later reads.
Dict plain_values() {
  return Dict{
      {"none", None{}},
      {"bools", List{true, false}},
      {"ints", List{0, 255, 256, 65535, 65536, -1, -32768, 2147483647, 2147483648, INT64_MIN,
                    INT64_MAX, BigInt{std::string("\0\0\0\0\0\0\0\0\1", 9)}}},
      {"floats", List{0.0, -0.0, 1.5, kInfinity, -kInfinity, kNan, 5e-324}},
      {"complex", std::complex<double>(1, -2)},
      {"texts", List{"", "ascii", "\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\xaa\xa8"}},
      {"bytes",
       List{Bytes{""}, Bytes{std::string("\0\xff\x80", 3)}, Bytes{"", true}, Bytes{"abc", true}}},
      {"tuples", List{Tuple{}, Tuple{{1}}, Tuple{{1, 2}}, Tuple{{1, 2, 3}}, Tuple{{1, 2, 3, 4}}}},
      {"set", Set{{1, 2, 3}}},
      {"size", Size{{2, 3}}},
      {"dtype", DType::kBFloat16},
      {"device", Device{"cuda:1"}},
      {7, Tuple{{"int key", 8}}},
      {Tuple{{1, 2}}, "tuple key"},
      {"tensors", tensors()},
      {"containers", containers()}};
}

Value sample() {
  Dict dict = plain_values();
  TensorView parameter = iota(DType::kFloat32, {2, 2});
  parameter.is_parameter = true;
  parameter.requires_grad = true;
  dict["parameter"] = parameter;
  dict["constants"] = List{TorchConstant{"torch.strided"}, TorchConstant{"torch.sparse_csr"},
                           TorchConstant{"torch.per_channel_affine"}};
  dict["frozenset"] = Set{{"a"}, true};
  dict["timedelta"] = TimeDelta{.days = -1, .seconds = 86399, .microseconds = 7};
  return dict;
}

void write(const Value& value, const std::string& path) {
  testing::write_file(path, testing::encoded(value));
  testing::write_file(path + ".json", cli::describe_value(value).dump());
}

int run(int argc, char** argv) {
  const std::string out = argv[1];
  write(sample(), out + "/sample.pt");
  write(plain_values(), out + "/weights_only.pt");
  write(containers(), out + "/containers.pt");
  for (int i = 2; i < argc; ++i) {
    const TorchFile golden(testing::file_bytes(posix_file_system(), argv[i]), argv[i]);
    write(golden.read(), out + "/" + std::to_string(i - 2) + ".pt");
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: format_write_sample OUT [GOLDEN...]\n");
    return 2;
  }
  return cairn::run(argc, argv);
}
