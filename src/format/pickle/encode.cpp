#include "format/pickle/encode.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/pickle/encode_leaf.h"
#include "format/pickle/pickler.h"
#include "format/pickle/tensor_encoder.h"
#include "value/value_path.h"

namespace cairn::pickle {

// A dict of tensors. No object of before it is in it: there was none that may come by again. What
// is behind it may have its storages, and, though they were nobody else's then, its tensors.
struct EncodePart {
  Value value;
  std::size_t depth;
  Pickler before;
  Pickler behind;
  std::vector<std::shared_ptr<const Storage>> storages;
  TensorEncoder::Storages known_storages;
  std::unordered_map<const void*, std::uint32_t> objects;
  std::shared_ptr<const std::deque<std::string>> texts_before;
};
struct EncodeMemory::Part : EncodePart {};

namespace {

constexpr std::size_t kBatch = 1000;  // items that CPython puts between one mark and its opcode
constexpr std::size_t kMaxEncodeDepth = 1000;
constexpr std::size_t kManyEntries = 64;

// One of the part's tensors, whose memo number is not known, comes by again.
struct IsInPart {};

class Encoder {
 public:
  explicit Encoder(std::vector<std::shared_ptr<const Storage>>& storages)
      : storages_(storages), tensors_(out_, storages) {}

  // Looks for a part, to be taken, and for `known`, if that is not nullptr.
  void keep_part(const EncodePart* known) {
    is_before_part_ = true;
    known_ = known;
  }

  void encode(const Value& value) {
    // What is nobody else's comes by once, and need not be remembered: of most states, everything.
    if (value.may_be_shared() && value.identity() != nullptr) {
      const auto known = objects_.find(value.identity());
      if (known != objects_.end()) return out_.get(known->second);
      if (had_known_part_ && is_in_known_part(value)) throw IsInPart{};
    }
    ++depth_;
    require_depth(0);
    is_before_part_&& is_part(value) ? encode_part(value) : encode_new(value);
    --depth_;
  }

  // The first large part that others hold; nullptr when there is none, or it was `known`.
  std::unique_ptr<EncodePart> take_part() { return std::move(part_); }
  bool had_known_part() const { return had_known_part_; }

  std::size_t room() const { return out_.room(); }
  std::string finish() && { return std::move(out_).finish(); }

 private:
  bool is_part(const Value& value) const {
    if (!value.is_dict() || value.as_dict().size() < kManyEntries || !value.may_be_shared()) {
      return false;
    }
    const auto is_plain = [](const Dict::Entry& entry) {
      return entry.first.is_str() && entry.second.is_tensor() &&
             entry.second.as_tensor().quantizer == nullptr;
    };
    const Dict& dict = value.as_dict();
    return objects_.empty() && storages_.empty() && open_.empty() && !dict.attributes().is_dict() &&
           dict.type() != DictType::kDefaultDict && std::all_of(dict.begin(), dict.end(), is_plain);
  }

  bool is_in_known_part(const Value& value) {
    if (!value.is_tensor()) return false;
    if (known_tensors_.empty()) {
      for (const auto& [key, tensor] : known_->value.as_dict()) {
        known_tensors_.insert(tensor.identity());
      }
    }
    return known_tensors_.contains(value.identity());
  }

  void encode_part(const Value& value) {
    is_before_part_ = false;
    if (is_known(value)) return go_on_behind_part();
    texts_before_ = std::make_shared<std::deque<std::string>>();
    out_.move_texts(*texts_before_);
    Pickler before = out_;
    encode_new(value);
    if (!objects_.contains(value.identity())) return;  // nobody else holds it any more
    part_ = std::make_unique<EncodePart>(EncodePart{value, depth_, std::move(before), out_,
                                                    storages_, tensors_.known_storages(), objects_,
                                                    texts_before_});
  }

  bool is_known(const Value& value) const {
    return known_ != nullptr && known_->value.identity() == value.identity() &&
           known_->depth == depth_ && known_->before.written() == out_.written() &&
           known_->before.has_room_of(out_);
  }

  void go_on_behind_part() {
    out_ = known_->behind;
    storages_ = known_->storages;
    tensors_.go_on_from(known_->known_storages);
    objects_ = known_->objects;
    had_known_part_ = true;
  }

  void encode_new(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone:
        return out_.none();
      case Kind::kBool:
        return out_.boolean(value.as_bool());
      case Kind::kInt:
        return out_.changing_integer(value.as_int());
      case Kind::kBigInt:
        return out_.big_integer(*value.get_if<BigInt>());
      case Kind::kFloat:
        return out_.real(value.as_float());
      case Kind::kComplex:
        return encode_complex(out_, *value.get_if<std::complex<double>>());
      case Kind::kStr:
        return out_.changing_text(value.as_str());
      case Kind::kBytes:
        return encode_bytes(out_, value.as_bytes());
      case Kind::kList:
        return encode_list(value, value.as_items());
      case Kind::kTuple:
        return encode_tuple(value, value.as_items());
      case Kind::kSet:
        return encode_set(value, value.as_set());
      case Kind::kDict:
        return encode_any_dict(value);
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
      case Kind::kTorchConstant:
        return encode_constant(out_, *value.get_if<TorchConstant>());
      case Kind::kNumpyScalar:
        return encode_scalar(out_, *value.get_if<NumpyScalar>());
      case Kind::kForeign:
        return encode_foreign(value, value.as_foreign());
    }
  }

  // Room for `more` levels of nesting, with which the object will be read again.
  void require_depth(std::size_t more) const {
    if (depth_ + more > kMaxEncodeDepth) {
      throw UnsupportedError("nested too deep for Python to read");
    }
  }

  void remember(const Value& value, std::uint32_t index) {
    if (value.may_be_shared()) objects_[value.identity()] = index;
  }

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

  // The names of a large dict, and their places in the table of texts, lie all over memory: they
  // are fetched while what comes before them is written.
  void fetch_ahead(const Dict& dict, std::size_t index) {
    constexpr std::size_t kAhead = 4;
    if (index + kAhead >= dict.size()) return;
    const Value& key = dict.begin()[static_cast<std::ptrdiff_t>(index + kAhead)].first;
    if (key.is_str()) out_.fetch(key.as_str());
  }

  void encode_entry(const Dict::Entry& entry) {
    if (entry.first.is_str()) {
      out_.text(entry.first.as_str());
    } else {
      encode(entry.first);
    }
    try {
      encode(entry.second);
    } catch (Error& e) {
      e.add_context(key_text(entry.first));
      throw;
    }
  }

  void encode_any_dict(const Value& value) {
    switch (value.as_dict().type()) {
      case DictType::kDict:
        return encode_dict(value);
      case DictType::kOrderedDict:
        return encode_ordered_dict(value);
      case DictType::kCounter:
        return encode_counter(value);
      case DictType::kDefaultDict:
        return encode_defaultdict(value);
    }
  }

  // CPython has two loops for a dict's items. The one for dict ends each full batch by asking
  // whether there is more only after having opened the next one, which may so stay empty.
  void encode_dict(const Value& value) {
    out_.op(Op::kEmptyDict);
    remember(value, out_.put());
    encode_dict_items(value.as_dict());
  }

  void encode_dict_items(const Dict& dict) {
    if (dict.size() == 1) {
      encode_entry(*dict.begin());
      out_.op(Op::kSetItem);
      return;
    }
    if (dict.empty()) return;
    out_.op(Op::kMark);
    for (std::size_t i = 0; i < dict.size(); ++i) {
      fetch_ahead(dict, i);
      encode_entry(dict.begin()[static_cast<std::ptrdiff_t>(i)]);
      if ((i + 1) % kBatch == 0) {
        out_.op(Op::kSetItems);
        out_.op(Op::kMark);
      }
    }
    out_.op(Op::kSetItems);
  }

  // The one for subclasses never leaves a batch empty, and sets the last item alone when it is.
  void encode_ordered_dict(const Value& value) {
    remember(value, out_.empty_ordered_dict());
    encode_subclass_items(value.as_dict());
    encode_attributes(value.as_dict());
  }

  // Counter({...}): the items as an argument.
  void encode_counter(const Value& value) {
    out_.global("collections", "Counter");
    out_.op(Op::kEmptyDict);
    out_.put();
    encode_dict_items(value.as_dict());
    out_.tuple(1);
    remember(value, out_.reduce());
    encode_attributes(value.as_dict());
  }

  void encode_defaultdict(const Value& value) {
    const Dict& dict = value.as_dict();
    out_.global("collections", "defaultdict");
    if (dict.default_factory().is_none()) {
      out_.empty_tuple();
    } else {
      encode(dict.default_factory());
      out_.tuple(1);
    }
    remember(value, out_.reduce());
    encode_subclass_items(dict);
  }

  void encode_attributes(const Dict& dict) {
    if (!dict.attributes().is_dict()) return;
    encode(dict.attributes());
    out_.op(Op::kBuild);
  }

  void encode_subclass_items(const Dict& dict) {
    for (std::size_t first = 0; first < dict.size(); first += kBatch) {
      const std::size_t count = std::min(kBatch, dict.size() - first);
      if (count > 1) out_.op(Op::kMark);
      for (std::size_t i = first; i < first + count; ++i) {
        fetch_ahead(dict, i);
        encode_entry(dict.begin()[static_cast<std::ptrdiff_t>(i)]);
      }
      out_.op(count > 1 ? Op::kSetItems : Op::kSetItem);
    }
  }

  // As the file had it. The pickle names what Python would have to call; nothing is called here.
  void encode_foreign(const Value& value, const Foreign& object) {
    switch (object.made) {
      case Foreign::Made::kNamed:
        return encode_name(object.module, object.name);
      case Foreign::Made::kBack:
        return encode_back(object);
      case Foreign::Made::kStorage:
        return tensors_.encode_storage(object.args.as_items().at(0).as_tensor(),
                                       object.class_name() == "torch.storage.UntypedStorage");
      case Foreign::Made::kCalled:
      case Foreign::Made::kNew:
        break;
    }
    encode_made(object);
    const std::uint32_t index = out_.put();
    remember(value, index);
    open_.emplace_back(object.id, index);
    if (object.items.is_list()) encode_items(object.items.as_items());
    if (object.entries.is_dict()) encode_subclass_items(object.entries.as_dict());
    if (object.has_state) {
      encode(object.state);
      out_.op(Op::kBuild);
    }
    open_.pop_back();
  }

  void encode_made(const Foreign& object) {
    const bool has_keywords = object.keywords.is_dict() && !object.keywords.as_dict().empty();
    if (has_keywords) {
      require_depth(1);
      encode_name("copyreg", "__newobj_ex__");
      ++depth_;
    }
    encode(object.function);
    encode(object.args);
    if (has_keywords) {
      encode(object.keywords);
      out_.tuple(3);
      --depth_;
    }
    const bool is_new = object.made == Foreign::Made::kNew && !has_keywords;
    out_.op(is_new ? Op::kNewObj : Op::kReduce);
  }

  // A class of protocol 2: under the name of Python 2, and a nested one as an attribute.
  void encode_name(std::string_view module, std::string_view name) {
    const std::size_t dot = name.rfind('.');
    if (dot != std::string_view::npos) {
      const auto parts = static_cast<std::size_t>(std::count(name.begin(), name.end(), '.'));
      require_depth(2 * parts);
      out_.global("__builtin__", "getattr");
      encode_name(module, name.substr(0, dot));
      out_.text(name.substr(dot + 1));
      out_.tuple(2);
      out_.reduce();
      return;
    }
    if (module == "copyreg") return out_.global("copy_reg", name);
    if (module != "builtins") return out_.global(module, name);
    out_.global("__builtin__", name == "int" ? "long" : name == "str" ? "unicode" : name);
  }

  void encode_back(const Foreign& back) {
    const auto found = std::find_if(open_.rbegin(), open_.rend(),
                                    [&](const auto& each) { return each.first == back.id; });
    if (found == open_.rend()) {
      throw UnsupportedError("an object of " + back.class_name() +
                             " refers to something around it, which cannot be written again; "
                             "leave the object out (cairn convert --drop-objects)");
    }
    out_.get(found->second);
  }

  std::shared_ptr<std::deque<std::string>> texts_before_;  // of the part, which out_ looks into
  Pickler out_;
  std::vector<std::shared_ptr<const Storage>>& storages_;
  TensorEncoder tensors_;
  std::unordered_map<const void*, std::uint32_t> objects_;
  // The foreign objects that are being written, innermost last: their ids and memo numbers.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> open_;
  std::size_t depth_ = 0;
  const EncodePart* known_ = nullptr;
  bool is_before_part_ = false;  // or there will be none
  bool had_known_part_ = false;
  std::unordered_set<const void*> known_tensors_;  // in known_; empty: not looked for yet
  std::unique_ptr<EncodePart> part_;
};

Encoded finish(Encoder&& encoder, std::vector<std::shared_ptr<const Storage>> storages) {
  const std::size_t room = encoder.room();
  return {std::move(encoder).finish(), room, std::move(storages)};
}

}  // namespace

Encoded encode(const Value& value) {
  std::vector<std::shared_ptr<const Storage>> storages;
  Encoder encoder(storages);
  encoder.encode(value);
  return finish(std::move(encoder), std::move(storages));
}

EncodeMemory::EncodeMemory() = default;
EncodeMemory::~EncodeMemory() = default;

void EncodeMemory::forget() {
  const std::lock_guard lock(mutex_);
  part_.reset();
}

Encoded encode(const Value& value, EncodeMemory& memory) {
  const std::lock_guard lock(memory.mutex_);
  std::vector<std::shared_ptr<const Storage>> storages;
  Encoder encoder(storages);
  encoder.keep_part(memory.part_.get());
  try {
    encoder.encode(value);
  } catch (const IsInPart&) {
    memory.part_.reset();
    return encode(value);
  }
  if (!encoder.had_known_part()) {
    const auto part = encoder.take_part();
    memory.part_.reset();
    if (part != nullptr) {
      memory.part_ =
          std::make_unique<const EncodeMemory::Part>(EncodeMemory::Part{std::move(*part)});
    }
  }
  return finish(std::move(encoder), std::move(storages));
}

}  // namespace cairn::pickle
