#include "format/pickle/encode.h"

#include <algorithm>
#include <unordered_map>

#include "cairn/error.h"

#include "base/value_path.h"
#include "format/pickle/encode_leaf.h"
#include "format/pickle/pickler.h"
#include "format/pickle/tensor_encoder.h"

namespace cairn::pickle {
namespace {

constexpr std::size_t kBatch = 1000;  // items that CPython puts between one mark and its opcode
constexpr std::size_t kMaxEncodeDepth = 1000;

class Encoder {
 public:
  explicit Encoder(std::vector<std::shared_ptr<const Storage>>& storages)
      : tensors_(out_, storages) {}

  void encode(const Value& value) {
    if (const void* identity = value.identity(); identity != nullptr) {
      if (const auto known = objects_.find(identity); known != objects_.end()) {
        out_.get(known->second);
        return;
      }
    }
    if (++depth_ > kMaxEncodeDepth) throw UnsupportedError("nested too deep for Python to read");
    encode_new(value);
    --depth_;
  }

  std::string finish() && { return std::move(out_).finish(); }

 private:
  void encode_new(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return out_.none();
      case Kind::kBool:
        return out_.boolean(value.as_bool());
      case Kind::kInt:
        return out_.integer(value.as_int());
      case Kind::kBigInt:
        return out_.big_integer(*value.get_if<BigInt>());
      case Kind::kFloat:
        return out_.real(value.as_float());
      case Kind::kComplex:
        return encode_complex(out_, *value.get_if<std::complex<double>>());
      case Kind::kStr:
        return out_.text(value.as_str());
      case Kind::kBytes:
        return encode_bytes(out_, value.as_bytes());
      case Kind::kList:
        return encode_list(value, value.as_items());
      case Kind::kTuple:
        return encode_tuple(value, value.as_items());
      case Kind::kSet:
        return encode_set(value, value.as_set());
      case Kind::kDict:
        return value.as_dict().is_ordered() ? encode_ordered_dict(value) : encode_dict(value);
      case Kind::kTimeDelta:
        return encode_timedelta(out_, value.as_timedelta());
      case Kind::kSize:
        return encode_size(out_, *value.get_if<Size>());
      case Kind::kDType:
        return out_.global("torch", name(*value.get_if<DType>()));
      case Kind::kDevice:
        return encode_device(out_, *value.get_if<Device>());
      case Kind::kTensor:
        return remember(value, tensors_.encode(value.as_tensor()));
      case Kind::kNdArray:
        return remember(value, encode_array(out_, value.as_ndarray()));
      case Kind::kSparse:
        return remember(value, tensors_.encode(value.as_sparse()));
    }
  }

  void remember(const Value& value, std::uint32_t index) { objects_[value.identity()] = index; }

  void encode_items(const List& items) {
    if (items.size() == 1) {
      encode(items[0]);
      out_.op(Op::kAppend);
      return;
    }
    for (std::size_t first = 0; first < items.size(); first += kBatch) {
      out_.op(Op::kMark);
      for (std::size_t i = first; i < std::min(first + kBatch, items.size()); ++i) {
        encode(items[i]);
      }
      out_.op(Op::kAppends);
    }
  }

  void encode_list(const Value& value, const List& items) {
    out_.op(Op::kEmptyList);
    remember(value, out_.put());
    encode_items(items);
  }

  void encode_tuple(const Value& value, const List& items) {
    if (items.empty()) return out_.empty_tuple();
    if (items.size() > 3) out_.op(Op::kMark);
    for (const Value& item : items) {
      encode(item);
    }
    remember(value, items.size() > 3 ? out_.tuple_since_mark() : out_.tuple(items.size()));
  }

  void encode_set(const Value& value, const Set& set) {
    out_.global("__builtin__", set.frozen ? "frozenset" : "set");
    out_.op(Op::kEmptyList);
    out_.put();
    encode_items(set.items);
    out_.tuple(1);
    remember(value, out_.reduce());
  }

  void encode_entry(const Dict::Entry& entry) {
    encode(entry.first);
    try {
      encode(entry.second);
    } catch (Error& e) {
      e.add_context(key_text(entry.first));
      throw;
    }
  }

  // CPython has two loops for a dict's items. The one for dict ends each full batch by asking
  // whether there is more only after having opened the next one, which may so stay empty.
  void encode_dict(const Value& value) {
    const Dict& dict = value.as_dict();
    out_.op(Op::kEmptyDict);
    remember(value, out_.put());
    if (dict.size() == 1) {
      encode_entry(*dict.begin());
      out_.op(Op::kSetItem);
      return;
    }
    if (dict.empty()) return;
    out_.op(Op::kMark);
    std::size_t in_batch = 0;
    for (const Dict::Entry& entry : dict) {
      encode_entry(entry);
      if (++in_batch == kBatch) {
        out_.op(Op::kSetItems);
        out_.op(Op::kMark);
        in_batch = 0;
      }
    }
    out_.op(Op::kSetItems);
  }

  // The one for subclasses never leaves a batch empty, and sets the last item alone when it is.
  void encode_ordered_dict(const Value& value) {
    const Dict& dict = value.as_dict();
    remember(value, out_.empty_ordered_dict());
    for (std::size_t first = 0; first < dict.size(); first += kBatch) {
      const std::size_t count = std::min(kBatch, dict.size() - first);
      if (count > 1) out_.op(Op::kMark);
      for (std::size_t i = first; i < first + count; ++i) {
        encode_entry(dict.begin()[static_cast<std::ptrdiff_t>(i)]);
      }
      out_.op(count > 1 ? Op::kSetItems : Op::kSetItem);
    }
  }

  Pickler out_;
  TensorEncoder tensors_;
  std::unordered_map<const void*, std::uint32_t> objects_;
  std::size_t depth_ = 0;
};

}  // namespace

Encoded encode(const Value& value) {
  Encoded encoded;
  Encoder encoder(encoded.storages);
  encoder.encode(value);
  encoded.data_pkl = std::move(encoder).finish();
  return encoded;
}

}  // namespace cairn::pickle
