#include "cli/view/content/describe_value.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>

#include "cairn/dtensor.h"
#include "cairn/foreign.h"

#include "core/text/hex.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn::cli {
namespace {

// Python's float.hex().
std::string float_hex(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  if (v == 0) return std::signbit(v) ? "-0x0.0p+0" : "0x0.0p+0";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.13a", v);
  return text.data();
}

Json typed(const char* type, Json value) { return {{"type", type}, {"value", std::move(value)}}; }

Json describe_items(const List& items) {
  Json out = Json::array();
  for (const Value& item : items) {
    out.push_back(describe_value(item));
  }
  return out;
}

Json describe_dict(const Dict& dict) {
  Json items = Json::array();
  for (const auto& [key, value] : dict) {
    items.push_back({describe_value(key), describe_value(value)});
  }
  return {{"type", Value(dict.empty_like()).type_name()}, {"items", std::move(items)}};
}

Json describe_set(const Set& set) {
  Json items = describe_items(set.items);
  std::sort(items.begin(), items.end(),
            [](const Json& a, const Json& b) { return a.dump() < b.dump(); });
  return {{"type", set.frozen ? "frozenset" : "set"}, {"items", std::move(items)}};
}

Json describe_bytes_value(const Bytes& bytes) {
  return {{"type", bytes.is_bytearray ? "bytearray" : "bytes"},
          {"size", bytes.data.size()},
          {"sha256", sha256(as_bytes(bytes.data))}};
}

constexpr std::size_t kDescribePieceElements = std::size_t{1} << 18;

// The SHA-256 of the pieces that `stream` delivers.
std::string streamed_sha256(
    const std::function<void(const std::function<void(ByteView)>&)>& stream) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  const auto require = [](bool done) {
    if (!done) throw std::runtime_error("OpenSSL's SHA-256 failed");
  };
  require(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  stream([&](ByteView piece) {
    require(EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1);
  });
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1);
  return hex(std::as_bytes(std::span(digest)));
}

Json describe_tensor(const TensorView& tensor) {
  Json out = {{"type", "tensor"},
              {"dtype", name(tensor.dtype)},
              {"shape", tensor.shape},
              {"stride", tensor.strides},
              {"requires_grad", tensor.requires_grad},
              {"sha256", streamed_sha256([&](const auto& use) {
                 TensorPieces pieces(tensor, kDescribePieceElements);
                 for (ByteView piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
                   use(piece);
                 }
               })}};
  if (tensor.is_parameter) out["parameter"] = true;
  if (tensor.part != nullptr) {
    out["part_of"] = {{"shape", tensor.part->global_shape}, {"offsets", tensor.part->offsets}};
  }
  return out;
}

Json describe_sparse(const SparseTensor& tensor) {
  Json out = {{"type", "tensor"},
              {"dtype", name(tensor.dtype())},
              {"shape", tensor.shape},
              {"layout", name(tensor.layout)},
              {"requires_grad", tensor.requires_grad}};
  if (is_dense_form_in_proportion(tensor)) {
    out["sha256"] = streamed_sha256([&](const auto& use) { for_each_dense_piece(tensor, use); });
  } else {
    for (const auto& [part_name, part] : parts_of(tensor)) {
      out["parts"][std::string(part_name)] = describe_tensor(*part);
    }
  }
  if (tensor.is_parameter) out["parameter"] = true;
  return out;
}

// numpy's name of a code: "uint32" of "u4".
std::string array_dtype(const std::string& code) {
  const std::string bits = std::to_string(8 * std::stoi(code.substr(1)));
  switch (code[0]) {
    case 'b':
      return "bool";
    case 'i':
      return "int" + bits;
    case 'u':
      return "uint" + bits;
    case 'f':
      return "float" + bits;
    default:
      return "complex" + bits;
  }
}

Json describe_array(const NdArray& array) {
  Json out = {{"type", "ndarray"},
              {"dtype", array_dtype(array.dtype)},
              {"shape", array.shape},
              {"sha256", sha256(array.bytes.view)}};
  if (array.is_fortran && array.shape.size() > 1) out["order"] = "F";
  return out;
}

Json describe_scalar(const NumpyScalar& scalar) {
  return {{"type", "numpy." + array_dtype(scalar.dtype())},
          {"value", describe_value(scalar.number())}};
}

std::string foreign_type(Foreign::Made made) {
  switch (made) {
    case Foreign::Made::kNamed:
      return "name";
    case Foreign::Made::kBackReference:
      return "back reference";
    case Foreign::Made::kStorage:
      return "storage";
    default:
      return "object";
  }
}

Json describe_dtensor(const DTensor& tensor) {
  Json placements = Json::array();
  for (const Placement& placement : tensor.placements) {
    placements.push_back(text_of(placement));
  }
  Json mesh = {{"device", tensor.mesh.device_type},
               {"shape", tensor.mesh.shape},
               {"ranks", mesh_ranks(tensor.mesh)},
               {"coordinate", nullptr}};
  if (!tensor.mesh.dim_names.empty()) mesh["names"] = tensor.mesh.dim_names;
  if (tensor.mesh.coordinate) mesh["coordinate"] = *tensor.mesh.coordinate;
  return {{"type", "dtensor"},
          {"class", tensor.class_name},
          {"shape", tensor.shape},
          {"requires_grad", tensor.requires_grad},
          {"placements", std::move(placements)},
          {"mesh", std::move(mesh)},
          {"local", describe_tensor(tensor.local)}};
}

// Describes only the parts that exist.
Json describe_foreign(const Foreign& object) {
  if (const auto tensor = find_dtensor(object)) return describe_dtensor(*tensor);
  Json out = {{"type", foreign_type(object.made)}, {"class", object.class_name()}};
  const auto add = [&](const char* key, const Value& part) {
    if (!part.is_none()) out[key] = describe_value(part);
  };
  const bool is_plain = !object.function.is_foreign() ||
                        object.function.as_foreign().class_name() == object.class_name();
  if (!is_plain) add("function", object.function);
  if (!(object.args.is_tuple() && object.args.as_items().empty())) add("args", object.args);
  add("keywords", object.keywords);
  add("items", object.items);
  add("entries", object.entries);
  if (object.has_state) out["state"] = describe_value(object.state);
  return out;
}

}  // namespace

std::string sha256(ByteView bytes) {
  return streamed_sha256([&](const auto& use) { use(bytes); });
}

Json describe_value(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return {{"type", "None"}};
    case Kind::kBool:
      return typed("bool", value.as_bool());
    case Kind::kInt:
      return typed("int", std::to_string(value.as_int()));
    case Kind::kBigInt:
      return typed("int", value.get_if<BigInt>()->text());
    case Kind::kFloat:
      return {{"type", "float"}, {"hex", float_hex(value.as_float())}};
    case Kind::kComplex: {
      const auto& v = *value.get_if<std::complex<double>>();
      return typed("complex", {float_hex(v.real()), float_hex(v.imag())});
    }
    case Kind::kStr:
      return typed("str", value.as_str());
    case Kind::kBytes:
      return describe_bytes_value(value.as_bytes());
    case Kind::kList:
    case Kind::kTuple:
      return {{"type", value.type_name()}, {"items", describe_items(value.as_items())}};
    case Kind::kSet:
      return describe_set(value.as_set());
    case Kind::kDict:
      return describe_dict(value.as_dict());
    case Kind::kTimeDelta: {
      const TimeDelta v = value.as_timedelta();
      return typed("timedelta", {v.days, v.seconds, v.microseconds});
    }
    case Kind::kSize:
      return typed("torch.Size", value.get_if<Size>()->dims);
    case Kind::kDType:
      return typed("dtype", "torch." + std::string(name(*value.get_if<DType>())));
    case Kind::kDevice:
      return typed("device", value.get_if<Device>()->name);
    case Kind::kTensor:
      return describe_tensor(value.as_tensor());
    case Kind::kNdArray:
      return describe_array(value.as_ndarray());
    case Kind::kSparse:
      return describe_sparse(value.as_sparse());
    case Kind::kTorchConstant:
      return typed(std::string(value.type_name()).c_str(), value.get_if<TorchConstant>()->name);
    case Kind::kNumpyScalar:
      return describe_scalar(*value.get_if<NumpyScalar>());
    case Kind::kForeign:
      return describe_foreign(value.as_foreign());
  }
  throw std::logic_error("a kind of Value that describe_value does not know");
}

}  // namespace cairn::cli
