// The machine's opcodes for containers, functions and classes, and its short cut for tensors
// (usual_tensor.h):
//
// clang-format off
//  1. When the pickle fetches PyTorch's _rebuild_tensor_v2 from the memo, the next opcodes are
//     parsed: its arguments and the call, in the one form in which they are usually written.
//  2. If they match, the tensor is made that these opcodes would make one by one. Its storage's key
//     becomes an object, too, because a tied tensor refers to it.
//  3. The memo places of the tensor's other parts are marked as left out. No writer refers to
//     them. A pickle that does is read once more, with every object (PartsWanted).
//  4. If they do not match, or the tensor cannot be made, the opcodes are run one by one. This
//     reports what is wrong.
// clang-format on
#include <array>
#include <utility>

#include "cairn/error.h"

#include "format/pickle/globals/foreign_objects.h"
#include "format/pickle/read/machine.h"
#include "format/pickle/read/usual_tensor.h"

namespace cairn::pickle {
// --- Containers ---------------------------------------------------------------------------------

void Machine::push_container(Container::Kind kind) { push(graph_.add(Container{.kind = kind})); }

void Machine::push_empty_tuple() {
  if (empty_tuple_.is_nothing()) {
    empty_tuple_ = graph_.add(Container{.kind = Container::Kind::kTuple});
  }
  push(empty_tuple_);
}

void Machine::push_container_since_mark(Container::Kind kind) {
  const std::span<const Ref> items = since_mark();
  if (kind == Container::Kind::kDict && items.size() % 2 != 0) {
    fail("has a dict key without a value");
  }
  Container container{.kind = kind};
  if (!items.empty()) container.items.append(items, graph_.refs());
  drop_mark();
  push(graph_.add(std::move(container)));
}

void Machine::push_tuple_of(std::size_t size) {
  std::array<Ref, 3> items;
  for (std::size_t i = size; i-- > 0;) {
    items[i] = pop();
  }
  Container tuple{.kind = Container::Kind::kTuple};
  tuple.items.append(std::span(items).first(size), graph_.refs());
  push(graph_.add(std::move(tuple)));
}

bool Machine::run_container(Op op) {
  switch (op) {
    case Op::kEmptyList:
      push_container(Container::Kind::kList);
      return true;
    case Op::kEmptyTuple:
      push_empty_tuple();
      return true;
    case Op::kEmptyDict:
      push_container(Container::Kind::kDict);
      return true;
    case Op::kEmptySet:
      push_container(Container::Kind::kSet);
      return true;
    case Op::kTuple1:
      push_tuple_of(1);
      return true;
    case Op::kTuple2:
      push_tuple_of(2);
      return true;
    case Op::kTuple3:
      push_tuple_of(3);
      return true;
    case Op::kTuple:
      push_container_since_mark(Container::Kind::kTuple);
      return true;
    case Op::kList:
      push_container_since_mark(Container::Kind::kList);
      return true;
    case Op::kDict:
      push_container_since_mark(Container::Kind::kDict);
      return true;
    case Op::kFrozenSet:
      push_container_since_mark(Container::Kind::kFrozenSet);
      return true;
    default:
      return false;
  }
}

// Puts `items` into the container `target`.
void Machine::add_items(const Ref& target, std::span<const Ref> items, bool to_dict) {
  auto* container = graph_.find<Container>(target);
  if (to_dict && items.size() % 2 != 0) fail("has a dict key without a value");
  if (container != nullptr && container->kind == Container::Kind::kForeign) {
    return add_to_foreign(graph_, *target.node(), items, to_dict);
  }
  const bool fits = container != nullptr && container->kind != Container::Kind::kTuple &&
                    container->kind != Container::Kind::kFrozenSet &&
                    container->is_dict() == to_dict;
  if (!fits) fail("adds items to " + graph_.describe(target));
  if (!items.empty()) container->items.append(items, graph_.refs());
}

bool Machine::run_filling(Op op) {
  switch (op) {
    case Op::kAppend: {
      const Ref item = pop();
      const Ref target = pop();
      push(target);
      add_items(target, {&item, 1}, false);
      return true;
    }
    case Op::kSetItem: {
      const Ref value = pop();
      const std::array entry = {pop(), value};
      const Ref target = pop();
      push(target);
      add_items(target, entry, true);
      return true;
    }
    case Op::kAppends:
    case Op::kAddItems:
    case Op::kSetItems: {
      const std::span<const Ref> items = since_mark();
      const std::size_t floor = marks_.size() < 2 ? 0 : marks_[marks_.size() - 2];
      if (marks_.back() <= floor) fail("takes more from the stack than there is");
      add_items(stack_[marks_.back() - 1], items, op == Op::kSetItems);
      drop_mark();
      return true;
    }
    default:
      return false;
  }
}

// --- Functions, classes, storages ---------------------------------------------------------------

void Machine::push_global(std::string_view module, std::string_view name) {
  push(resolve_global(graph_, module, name, more_));
}

void Machine::push_global_from_stack() {
  const Ref name = pop();
  const Ref module = pop();
  const auto* module_text = graph_.find<Text>(module);
  const auto* name_text = graph_.find<Text>(name);
  if (module_text == nullptr || name_text == nullptr)
    fail("names a class by something other than a text");
  push_global(module_text->text, name_text->text);
}

// Calls a row of the tables, and returns whether it took the arguments. If it refuses arguments
// without the file being damaged (objects of an unknown class, numpy arrays of texts), the caller
// makes a placeholder.
bool Machine::call_known(const Ref& function, std::span<const Ref> args) {
  const auto* found = graph_.find<const Global*>(function);
  if (found == nullptr || (*found)->call == nullptr) return false;
  const Global& global = **found;
  try {
    push(global.call({graph_, storages_, global, args}));
    return true;
  } catch (const UnsupportedError&) {
    if (graph_.budget().has_refused() || has_python2_bytes(graph_, args)) throw;
  } catch (const CorruptError&) {
    if (!has_foreign(graph_, args)) throw;
  }
  // The call may have visited everything in its arguments, for nothing.
  std::uint64_t looked_at = args.size();
  for (const Ref& arg : args) {
    if (const auto* container = graph_.find<Container>(arg)) looked_at += container->items.size();
  }
  graph_.charge(looked_at);
  return false;
}

void Machine::reduce(Foreign::Made made) {
  const Ref args = pop();
  const Ref function = pop();
  const auto* tuple = graph_.find<Container>(args);
  if (tuple == nullptr || tuple->kind != Container::Kind::kTuple) {
    fail("calls " + graph_.describe(function) + " with " + graph_.describe(args));
  }
  const std::span<const Ref> items = tuple->items;
  if (call_known(function, items)) return;
  if (!is_callable(graph_, function)) {
    throw UnsupportedError("the pickle calls " + graph_.describe(function) +
                           ", and cairn runs no code from a file");
  }
  push(make_foreign(graph_, made, function, args));
}

// Runs NEWOBJ_EX: (class, arguments, keyword arguments).
void Machine::reduce_with_keywords() {
  const Ref keywords = pop();
  const auto* dict = graph_.find<Container>(keywords);
  if (dict != nullptr && dict->is_dict() && dict->items.empty()) {
    return reduce(Foreign::Made::kNew);
  }
  const Ref args = pop();
  const Ref type = pop();
  const auto* tuple = graph_.find<Container>(args);
  const bool is_call = dict != nullptr && dict->is_dict() && tuple != nullptr &&
                       tuple->kind == Container::Kind::kTuple && is_callable(graph_, type);
  if (!is_call) fail("makes " + graph_.describe(type) + " with " + graph_.describe(keywords));
  push(make_foreign(graph_, Foreign::Made::kNew, type, args, keywords));
}

// Runs BUILD on a dtype or an array of numpy's. Returns false if `object` is neither.
bool Machine::build_numpy(const Ref& object, const Ref& state, std::span<const Ref> items) {
  static constexpr Global kDTypeState = {"numpy", "dtype.__setstate__", nullptr};
  static constexpr Global kArrayState = {"numpy", "ndarray.__setstate__", nullptr};
  if (auto* dtype = graph_.find<NumpyDType>(object)) {
    build_numpy_dtype({graph_, storages_, kDTypeState, items}, *dtype);
    return true;
  }
  const auto* shell = graph_.find<NumpyArrayShell>(object);
  if (shell == nullptr) return false;
  const NumpyNames names = shell->names;
  const auto id = *object.node();
  if (items.size() > 2 && is_foreign(graph_, items[2])) {
    replace_by_foreign(graph_, id, state);
  } else {
    graph_.replace(id, build_numpy_array({graph_, storages_, kArrayState, items}, names));
  }
  return true;
}

// Sets the state of the object below the top of the stack.
void Machine::build() {
  const Ref state = pop();
  const Ref object = pop();
  push(object);
  const auto* items = graph_.find<Container>(state);
  const bool is_tuple = items != nullptr && items->kind == Container::Kind::kTuple;
  if (is_tuple && build_numpy(object, state, items->items)) return;
  if (auto* data = graph_.find<Object>(object)) {
    data->state = state;
    return;
  }
  const auto* target = graph_.find<Container>(object);
  if (target != nullptr && target->kind == Container::Kind::kScriptObject) {
    return build_script_object(object, state);
  }
  if (target != nullptr && target->kind == Container::Kind::kForeign) {
    return set_foreign_state(graph_, *object.node(), state);
  }
  // Attributes of a dict, such as the _metadata of a module's state_dict.
  if (target != nullptr && target->is_dict()) {
    const bool is_attributes = items != nullptr && items->is_dict();
    if (is_attributes) graph_.extras(*object.node()).attributes = state;
    return;
  }
  throw UnsupportedError("the pickle sets the state of " + graph_.describe(object) +
                         ", and cairn runs no code from a file");
}

// Sets the attributes of an object of TorchScript. A class with its own __getstate__ gives some
// other state, which is kept under a name that no attribute has.
void Machine::build_script_object(const Ref& object, const Ref& state) {
  Container filled{.kind = Container::Kind::kScriptObject};
  const auto* attributes = graph_.find<Container>(state);
  if (attributes != nullptr && attributes->is_dict()) {
    filled.items.append(attributes->items, graph_.refs());
  } else {
    filled.items.push_back(graph_.add(Text{"__getstate__()"}), graph_.refs());
    filled.items.push_back(state, graph_.refs());
  }
  graph_.replace(*object.node(), std::move(filled));
}

// Pushes the class in ('module', class, source file, source code). Before PyTorch 1.6, files have
// this in place of a module's class. The code is ignored.
void Machine::push_module_class(const Call& id) {
  id.expect_args(4, 4);
  if (!is_callable(graph_, id.arg(1))) {
    id.fail("the class of a module is " + graph_.describe(id.arg(1)));
  }
  push(id.arg(1));
}

// Pushes the storage ('storage', class, key, location, numel). Before PyTorch 1.6 there was one
// more item: None, or the part to use, (key of the part, first element, number of elements).
void Machine::push_persistent() {
  const Ref id = pop();
  static constexpr Global kId = {"the pickle's", "persistent id", nullptr};
  const auto* items = graph_.find<Container>(id);
  if (items == nullptr || items->kind != Container::Kind::kTuple) {
    fail("has a persistent id that is not a tuple");
  }
  const Call call{graph_, storages_, kId, items->items};
  if (call.text(0) == "module") return push_module_class(call);
  call.expect_args(5, 6);
  const auto* type = graph_.find<StorageClass>(call.arg(1));
  if (is_foreign(graph_, call.arg(1))) {
    throw UnsupportedError("the file holds a storage of class " + graph_.describe(call.arg(1)) +
                           ", which cairn does not know");
  }
  const std::int64_t numel = call.integer(4);
  if (call.text(0) != "storage" || type == nullptr || numel < 0) {
    call.fail("expected ('storage', class, key, location, number of elements)");
  }
  StorageReference reference{.key = call.text(2),
                             .location = call.text(3),
                             .dtype = type->dtype,
                             .numel = static_cast<std::uint64_t>(numel)};
  if (call.args.size() == 6 && !call.arg(5).is_none()) {
    const Call view{graph_, storages_, kId, call.items(5)};
    view.expect_args(3, 3);
    const std::int64_t offset = view.integer(1);
    const std::int64_t size = view.integer(2);
    if (offset < 0 || size < 0 || offset > numel || size > numel - offset) {
      call.fail("a part of a storage lies outside of it");
    }
    reference.view_offset = static_cast<std::uint64_t>(offset);
    reference.view_numel = static_cast<std::uint64_t>(size);
  }
  push(graph_.add(reference));
}

bool Machine::run_object(Op op) {
  switch (op) {
    case Op::kGlobal: {
      const std::string_view module = in_.line();
      push_global(module, in_.line());
      return true;
    }
    case Op::kStackGlobal:
      push_global_from_stack();
      return true;
    case Op::kNewObjEx:
      reduce_with_keywords();
      return true;
    case Op::kReduce:
      reduce(Foreign::Made::kCalled);
      return true;
    case Op::kNewObj:
      reduce(Foreign::Made::kNew);
      return true;
    case Op::kBuild:
      build();
      return true;
    case Op::kBinPersId:
      push_persistent();
      return true;
    default:
      return false;
  }
}

// --- Tensors ------------------------------------------------------------------------------------

// The result of step 1.
struct Machine::UsualTensor {
  StorageReference storage = {};
  std::int64_t offset = 0;
  Dims shape = {};
  Dims strides = {};
  std::optional<std::uint32_t> key_index = std::nullopt;  // in the memo
  std::array<std::uint32_t, 6> left_out = {};             // indices in the memo
  std::size_t left_out_count = 0;
  // New indices are at least this, so no GET in between can mean a new one.
  std::size_t next_index = 0;
  std::size_t bytes = 0;  // size of the opcodes
};

namespace {

bool is_global(Graph& graph, const Ref& ref, std::string_view module, std::string_view name) {
  const auto* global = graph.find<const Global*>(ref);
  return global != nullptr && (*global)->name == name && (*global)->module == module;
}

}  // namespace

bool Machine::is_rebuild_tensor(const Ref& ref) {
  return is_global(graph_, ref, "torch._utils", "_rebuild_tensor_v2");
}

// Returns the object that the next opcode, a GET, fetches; nothing if it is not a GET or the memo
// lacks it.
Ref Machine::read_get(OpcodeCursor& in) const {
  const auto index = in.index(Op::kBinGet, Op::kLongBinGet);
  return index && *index < memo_.size() ? memo_[*index] : Ref::nothing();
}

// Returns whether the PUT uses a new place in the memo.
bool Machine::is_new_place(std::uint32_t index, UsualTensor& found) const {
  if (index < found.next_index || index >= in_.position()) return false;
  found.next_index = index + std::size_t{1};
  return true;
}

// Reads a PUT, if there is one, of an object that is left out.
bool Machine::leave_out(OpcodeCursor& in, UsualTensor& found) const {
  const auto index = in.index(Op::kBinPut, Op::kLongBinPut);
  if (!index) return true;
  if (!is_new_place(*index, found) || found.left_out_count == found.left_out.size()) return false;
  found.left_out[found.left_out_count++] = *index;
  return true;
}

// Reads ('storage', class, key, location, numel) as a persistent id.
bool Machine::find_storage(OpcodeCursor& in, UsualTensor& found) {
  if (!in.skip(Op::kMark)) return false;
  const auto text_of = [&](const Ref& ref) {
    const auto* text = graph_.find<Text>(ref);
    return text == nullptr || text->is_python2 ? std::string_view() : text->text;
  };
  if (text_of(read_get(in)) != "storage") return false;
  const auto* type = graph_.find<StorageClass>(read_get(in));
  if (type == nullptr || !type->dtype) return false;
  if (const auto key = in.text()) {
    found.storage.key = *key;
    found.key_index = in.index(Op::kBinPut, Op::kLongBinPut);
    if (found.key_index && !is_new_place(*found.key_index, found)) return false;
  } else {
    found.storage.key = text_of(read_get(in));
  }
  found.storage.location = text_of(read_get(in));
  const auto numel = in.integer();
  if (found.storage.key.empty() || found.storage.location.empty() || !numel || *numel < 0) {
    return false;
  }
  found.storage.dtype = type->dtype;
  found.storage.numel = static_cast<std::uint64_t>(*numel);
  return in.skip(Op::kTuple) && leave_out(in, found) && in.skip(Op::kBinPersId);
}

// Step 1, after the function: reads (storage, offset, size, stride, False, OrderedDict()), and the
// call.
bool Machine::find_usual_tensor(UsualTensor& found) {
  OpcodeCursor in(pickle_.subspan(in_.position()));
  found.next_index = memo_.size();
  if (!in.skip(Op::kMark) || !find_storage(in, found)) return false;
  const auto offset = in.integer();
  auto shape = in.integers();
  if (!offset || !shape || !leave_out(in, found)) return false;
  auto strides = in.integers();
  if (!strides || !leave_out(in, found) || !in.skip(Op::kNewFalse)) return false;
  if (!is_global(graph_, read_get(in), "collections", "OrderedDict")) return false;
  const bool is_call = in.skip(Op::kEmptyTuple) && in.skip(Op::kReduce) && leave_out(in, found) &&
                       in.skip(Op::kTuple) && leave_out(in, found) && in.skip(Op::kReduce);
  found.offset = *offset;
  found.shape = *std::move(shape);
  found.strides = *std::move(strides);
  found.bytes = in.position();
  return is_call;
}

// Steps 2 to 4. The function is on top of the stack.
void Machine::run_usual_tensor() {
  UsualTensor found;
  if (!find_usual_tensor(found)) return;
  Ref made;
  try {
    TensorView tensor;
    tensor.dtype = *found.storage.dtype;
    tensor.storage = storages_.load(found.storage);
    tensor.storage_offset = found.offset;
    tensor.shape = std::move(found.shape);
    tensor.strides = std::move(found.strides);
    check_tensor(tensor);
    made = graph_.add(Value(std::move(tensor)));
  } catch (const Error&) {
    return;
  }
  pop();
  in_.take(found.bytes);
  if (found.key_index) memorize(*found.key_index, graph_.add(Text{found.storage.key}));
  for (std::size_t i = 0; i < found.left_out_count; ++i) {
    memorize(found.left_out[i], Ref::left_out());
  }
  push(made);
}

}  // namespace cairn::pickle
