#include "format/pickle/write/encode.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "format/pickle/write/encode_leaf.h"
#include "format/pickle/write/pickler.h"
#include "format/pickle/write/tensor_encoder.h"
#include "value/value_path.h"

namespace cairn::pickle {

// A dict of tensors, or of dicts of tensors, and the state of the pickle before and after it. The
// part contains no object that occurs before it. Before the first part no object can occur again. A
// later part has a tensor in each dict, and only values that nothing else holds. No tensor lies
// between two parts. Values after the part may use its storages. They may also use its objects, if
// these objects have become shared since.
struct EncodeMemory::Part {
  Value value;
  std::size_t depth = 0;
  std::string text_before = {};  // written since the previous part
  Pickler::Room room_before = {};
  Pickler pickler_after = {};
  std::vector<std::shared_ptr<const Storage>> storages = {};
  TensorEncoder::Storages known_storages = {};
  std::unordered_map<const void*, std::uint32_t> objects = {};
  std::size_t tensors = 0;  // tensors written up to the end of the part
  bool has_dicts = false;   // the part contains dicts
  // Texts that `pickler_after` refers to: this part's, and those of earlier parts.
  std::vector<std::shared_ptr<const std::deque<std::string>>> texts = {};
  // The tensors and dicts in the part; filled at first use.
  mutable std::unordered_set<const void*> inside = {};
};

namespace {

constexpr std::size_t kBatch = 1000;  // items that CPython puts between a mark and its opcode
constexpr std::size_t kMaxEncodeDepth = 1000;
constexpr std::size_t kManyEntries = 64;
constexpr std::size_t kMaxParts = 2;  // a model's tensors, and its optimizer's states

// Thrown if an object of a part, whose memo number is unknown, occurs again.
struct IsInPart {};

bool is_plain_tensor(const Value& value) {
  return value.is_tensor() && value.as_tensor().quantizer == nullptr;
}

bool is_plain_dict(const Dict& dict) {
  return !dict.attributes().is_dict() && dict.type() != DictType::kDefaultDict;
}

// Returns whether `value` is a tensor, or a dict of tensors and numbers, that nothing else holds.
bool is_state_of_one(const Value& value) {
  if (value.may_be_shared()) return false;
  if (is_plain_tensor(value)) return true;
  if (!value.is_dict() || !is_plain_dict(value.as_dict())) return false;
  const Dict& dict = value.as_dict();
  const auto is_plain = [](const Dict::Entry& entry) {
    const Kind kind = entry.second.kind();
    return entry.first.is_str() &&
           (kind == Kind::kNone || kind == Kind::kInt || kind == Kind::kFloat ||
            (is_plain_tensor(entry.second) && !entry.second.may_be_shared()));
  };
  const auto is_tensor = [](const Dict::Entry& entry) { return entry.second.is_tensor(); };
  return std::all_of(dict.begin(), dict.end(), is_plain) &&
         std::any_of(dict.begin(), dict.end(), is_tensor);
}

void add_inside(const Dict& dict, std::unordered_set<const void*>& inside) {
  for (const auto& [key, value] : dict) {
    inside.insert(value.identity());
    if (value.is_dict()) add_inside(value.as_dict(), inside);
  }
}

using Parts = std::vector<std::shared_ptr<const EncodeMemory::Part>>;

class Encoder {
 public:
  explicit Encoder(std::vector<std::shared_ptr<const Storage>>& storages)
      : storages_(storages), tensors_(out_, storages) {}

  // From now on, looks for new parts to remember, and for the parts of `known`.
  void use_known_parts(const Parts& known) {
    most_parts_ = kMaxParts;
    known_ = known;
  }

  void encode(const Value& value) {
    // A value that nothing else holds occurs once, and need not be remembered. In most states this
    // holds for all values.
    if (value.may_be_shared() && value.identity() != nullptr) {
      const auto known = objects_.find(value.identity());
      if (known != objects_.end()) return out_.get(known->second);
      if (known_count_ > 0 && is_in_known_part(value)) throw IsInPart{};
    }
    ++depth_;
    require_depth(0);
    parts_.size() < most_parts_&& is_part(value) ? encode_part(value) : encode_new(value);
    --depth_;
  }

  // Returns the first large parts that other code holds, too, including those that were `known`.
  Parts take_parts() { return std::move(parts_); }

  std::size_t room() const { return out_.room(); }
  std::string finish() && { return std::move(out_).finish(); }

 private:
  bool is_part(const Value& value) const {
    if (!value.is_dict() || value.as_dict().size() < kManyEntries || !value.may_be_shared()) {
      return false;
    }
    const Dict& dict = value.as_dict();
    if (!open_.empty() || !is_plain_dict(dict)) return false;
    const auto is_plain = [](const Dict::Entry& entry) {
      return entry.first.is_str() && is_plain_tensor(entry.second);
    };
    const auto is_state = [](const Dict::Entry& entry) {
      return entry.first.is_str() && is_state_of_one(entry.second);
    };
    if (parts_.empty()) {
      return objects_.empty() && tensors_written_ == 0 && storages_.empty() &&
             std::all_of(dict.begin(), dict.end(), is_plain);
    }
    // No other remembered object may lie between two parts: only the part itself must hold the
    // objects that its state refers to.
    return tensors_written_ == parts_.back()->tensors &&
           objects_.size() == parts_.back()->objects.size() &&
           storages_.size() == parts_.back()->storages.size() &&
           (is_known(value) || std::all_of(dict.begin(), dict.end(), is_state));
  }

  bool is_in_known_part(const Value& value) {
    if (!value.is_tensor() && !value.is_dict()) return false;
    return std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(known_count_),
                       [&](const auto& part) {
                         if (value.is_dict() && !part->has_dicts) return false;
                         if (part->inside.empty()) add_inside(part->value.as_dict(), part->inside);
                         return part->inside.contains(value.identity());
                       });
  }

  // Returns what was written since the previous part.
  std::string_view text_since_part() const {
    const std::size_t begin = parts_.empty() ? 0 : parts_.back()->pickler_after.written().size();
    return std::string_view(out_.written()).substr(begin);
  }

  void encode_part(const Value& value) {
    if (is_known(value)) return continue_after_part();
    auto part = std::make_shared<EncodeMemory::Part>(
        EncodeMemory::Part{.value = value,
                           .depth = depth_,
                           .text_before = std::string(text_since_part()),
                           .room_before = out_.room_so_far()});
    const auto texts = std::make_shared<std::deque<std::string>>();
    out_.move_texts(*texts, parts_.empty() ? 0 : parts_.back()->pickler_after.texts());
    texts_.push_back(texts);
    const std::size_t most = std::exchange(most_parts_, 0);  // no parts within a part
    encode_new(value);
    if (!objects_.contains(value.identity())) return;  // nothing else holds the value any more
    most_parts_ = most;
    part->pickler_after = out_;
    part->storages = storages_;
    part->known_storages = tensors_.known_storages();
    part->objects = objects_;
    part->tensors = tensors_written_;
    part->texts = texts_;
    part->has_dicts = std::any_of(value.as_dict().begin(), value.as_dict().end(),
                                  [](const Dict::Entry& entry) { return entry.second.is_dict(); });
    parts_.push_back(std::move(part));
  }

  // Returns whether `value` is the next known part, and everything before it is unchanged.
  bool is_known(const Value& value) const {
    if (known_count_ != parts_.size() || known_count_ == known_.size()) return false;
    const EncodeMemory::Part& next = *known_[known_count_];
    return next.value.identity() == value.identity() && next.depth == depth_ &&
           next.text_before == text_since_part() && next.room_before == out_.room_so_far();
  }

  void continue_after_part() {
    const EncodeMemory::Part& part = *known_[known_count_++];
    parts_.push_back(known_[known_count_ - 1]);
    out_ = part.pickler_after;
    storages_ = part.storages;
    tensors_.continue_from(part.known_storages);
    objects_ = part.objects;
    tensors_written_ = part.tensors;
    texts_ = part.texts;
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
        return remember(value, encode_bytes(out_, value.as_bytes()));
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
        ++tensors_written_;
        return remember(value, tensors_.encode(value.as_tensor()));
      case Kind::kNdArray:
        return remember(value, encode_array(out_, value.as_ndarray()));
      case Kind::kSparse:
        ++tensors_written_;
        return remember(value, tensors_.encode(value.as_sparse()));
      case Kind::kTorchConstant:
        return encode_constant(out_, *value.get_if<TorchConstant>());
      case Kind::kNumpyScalar:
        return encode_scalar(out_, *value.get_if<NumpyScalar>());
      case Kind::kForeign:
        return encode_foreign(value, value.as_foreign());
    }
  }

  // Throws if `more` further levels are too deep to be read again.
  void require_depth(std::size_t more) const {
    if (depth_ + more > kMaxEncodeDepth) {
      throw UnsupportedError("the value is nested too deep for Python to read");
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

  void make_room_for(const Dict& dict) {
    // For a tensor, its name, and their references. Rather too large: unused pages cost nothing.
    constexpr std::size_t kMaxUsualBytes = 256;
    if (dict.size() < kManyEntries || !dict.begin()->second.is_tensor()) return;
    out_.reserve(dict.size() * kMaxUsualBytes, dict.size());
    storages_.reserve(storages_.size() + dict.size());
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

  // CPython has two loops for a dict's items. This is the loop for dict. It opens the next batch
  // before it checks whether items are left, so the last batch may be empty.
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
    make_room_for(dict);
    out_.op(Op::kMark);
    for (std::size_t i = 0; i < dict.size(); ++i) {
      encode_entry(dict.begin()[static_cast<std::ptrdiff_t>(i)]);
      if ((i + 1) % kBatch == 0) {
        out_.op(Op::kSetItems);
        out_.op(Op::kMark);
      }
    }
    out_.op(Op::kSetItems);
  }

  // The loop for subclasses never leaves a batch empty, and writes a batch of one item without a
  // mark.
  void encode_ordered_dict(const Value& value) {
    remember(value, out_.empty_ordered_dict());
    encode_subclass_items(value.as_dict());
    encode_attributes(value.as_dict());
  }

  // Writes Counter({...}): the items are an argument.
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
    make_room_for(dict);
    for (std::size_t first = 0; first < dict.size(); first += kBatch) {
      const std::size_t count = std::min(kBatch, dict.size() - first);
      if (count > 1) out_.op(Op::kMark);
      for (std::size_t i = first; i < first + count; ++i) {
        encode_entry(dict.begin()[static_cast<std::ptrdiff_t>(i)]);
      }
      out_.op(count > 1 ? Op::kSetItems : Op::kSetItem);
    }
  }

  // Writes the object as the file had it. The pickle names what Python would call; nothing is
  // called here.
  void encode_foreign(const Value& value, const Foreign& object) {
    switch (object.made) {
      case Foreign::Made::kNamed:
        return encode_name(object.module, object.name);
      case Foreign::Made::kBackReference:
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

  // Writes a class as protocol 2 does: under Python 2's name, and a nested class as an attribute.
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
      throw UnsupportedError(
          "an object of " + back.class_name() +
          " refers to an object that contains it, which cannot be written again; "
          "leave the object out (cairn convert --drop-objects)");
    }
    out_.get(found->second);
  }

  std::vector<std::shared_ptr<const std::deque<std::string>>> texts_;  // that out_ refers to
  Pickler out_;
  std::vector<std::shared_ptr<const Storage>>& storages_;
  TensorEncoder tensors_;
  std::unordered_map<const void*, std::uint32_t> objects_;
  // The foreign objects that are being written, from outer to inner: their ids and memo numbers.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> open_;
  std::size_t depth_ = 0;
  std::size_t tensors_written_ = 0;
  Parts known_;
  Parts parts_;
  std::size_t known_count_ = 0;  // number of first parts_ that are from known_
  std::size_t most_parts_ = 0;
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
  parts_.clear();
}

Encoded encode(const Value& value, EncodeMemory& memory) {
  const std::lock_guard lock(memory.mutex_);
  std::vector<std::shared_ptr<const Storage>> storages;
  Encoder encoder(storages);
  encoder.use_known_parts(memory.parts_);
  try {
    encoder.encode(value);
  } catch (const IsInPart&) {
    memory.parts_.clear();
    return encode(value);
  }
  memory.parts_ = encoder.take_parts();
  return finish(std::move(encoder), std::move(storages));
}

}  // namespace cairn::pickle
