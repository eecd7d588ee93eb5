// The machine's opcodes for containers, functions and classes.
#include <utility>

#include "cairn/error.h"

#include "format/pickle/machine.h"

namespace cairn::pickle {
// --- Containers ---------------------------------------------------------------------------------

void Machine::push_container(Container::Kind kind, std::vector<Ref> items) {
  const bool is_dict = kind == Container::Kind::kDict;
  if (is_dict && items.size() % 2 != 0) fail("has a dict key without a value");
  push(graph_.add(Container{kind, std::move(items)}));
}

void Machine::push_tuple_of(std::size_t size) {
  std::vector<Ref> items(size);
  for (std::size_t i = size; i-- > 0;) {
    items[i] = pop();
  }
  push_container(Container::Kind::kTuple, std::move(items));
}

bool Machine::run_container(Op op) {
  switch (op) {
    case Op::kEmptyList:
      push_container(Container::Kind::kList);
      return true;
    case Op::kEmptyTuple:
      push_container(Container::Kind::kTuple);
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
      push_container(Container::Kind::kTuple, pop_to_mark());
      return true;
    case Op::kList:
      push_container(Container::Kind::kList, pop_to_mark());
      return true;
    case Op::kDict:
      push_container(Container::Kind::kDict, pop_to_mark());
      return true;
    case Op::kFrozenSet:
      push_container(Container::Kind::kFrozenSet, pop_to_mark());
      return true;
    default:
      return false;
  }
}

// Puts `items` into the container on top of the stack, which stays there.
void Machine::add_items(std::vector<Ref> items, bool to_dict) {
  const Ref top = pop();
  push(top);
  auto* container = graph_.find<Container>(top);
  const bool fits = container != nullptr && container->kind != Container::Kind::kTuple &&
                    container->kind != Container::Kind::kFrozenSet &&
                    container->is_dict() == to_dict;
  if (!fits) fail("adds items to " + graph_.describe(top));
  if (to_dict && items.size() % 2 != 0) fail("has a dict key without a value");
  container->items.insert(container->items.end(), items.begin(), items.end());
}

bool Machine::run_filling(Op op) {
  switch (op) {
    case Op::kAppend: {
      const Ref item = pop();
      add_items({item}, false);
      return true;
    }
    case Op::kSetItem: {
      const Ref value = pop();
      const Ref key = pop();
      add_items({key, value}, true);
      return true;
    }
    case Op::kAppends:
    case Op::kAddItems:
      add_items(pop_to_mark(), false);
      return true;
    case Op::kSetItems:
      add_items(pop_to_mark(), true);
      return true;
    default:
      return false;
  }
}

// --- Functions, classes, storages ---------------------------------------------------------------

void Machine::push_global_from_stack() {
  const Ref name = pop();
  const Ref module = pop();
  const auto* module_text = graph_.find<Text>(module);
  const auto* name_text = graph_.find<Text>(name);
  if (module_text == nullptr || name_text == nullptr)
    fail("names a class by something else than text");
  push(resolve_global(graph_, module_text->text, name_text->text, more_));
}

void Machine::reduce() {
  const Ref args = pop();
  const Ref function = pop();
  const auto* tuple = graph_.find<Container>(args);
  if (tuple == nullptr || tuple->kind != Container::Kind::kTuple) {
    fail("calls " + graph_.describe(function) + " with " + graph_.describe(args));
  }
  const auto* global = graph_.find<const Global*>(function);
  if (global == nullptr || (*global)->call == nullptr) {
    throw UnsupportedError("the pickle calls " + graph_.describe(function) +
                           ", and cairn runs no code from a file");
  }
  // A copy: the node moves when the call adds one, its items do not.
  const std::span<const Ref> items = tuple->items;
  push((*global)->call({graph_, storages_, **global, items}));
}

// Gives the object on top of the stack its state.
void Machine::build() {
  const Ref state = pop();
  const Ref object = pop();
  push(object);
  static constexpr Global kDTypeState = {"numpy", "dtype.__setstate__", nullptr};
  static constexpr Global kArrayState = {"numpy", "ndarray.__setstate__", nullptr};
  const auto* items = graph_.find<Container>(state);
  const bool is_tuple = items != nullptr && items->kind == Container::Kind::kTuple;
  if (auto* dtype = graph_.find<NumpyDType>(object); dtype != nullptr && is_tuple) {
    build_numpy_dtype({graph_, storages_, kDTypeState, items->items}, *dtype);
    return;
  }
  if (graph_.find<NumpyArrayShell>(object) != nullptr && is_tuple) {
    graph_.replace(std::get<NodeId>(object),
                   build_numpy_array({graph_, storages_, kArrayState, items->items}));
    return;
  }
  if (auto* data = graph_.find<Object>(object)) {
    data->state = state;
    return;
  }
  const auto* container = graph_.find<Container>(object);
  if (container != nullptr && container->kind == Container::Kind::kScriptObject) {
    return build_script_object(object, state);
  }
  // Attributes of a dict, such as the _metadata of a module's state_dict: nothing depends on them.
  const auto* target = graph_.find<Container>(object);
  if (target != nullptr && target->is_dict()) return;
  throw UnsupportedError("the pickle sets the state of " + graph_.describe(object) +
                         ", and cairn runs no code from a file");
}

// The attributes of an object of TorchScript. A class with a __getstate__ of its own gives
// something else, which is kept under a name that no attribute has.
void Machine::build_script_object(const Ref& object, const Ref& state) {
  Container filled{.kind = Container::Kind::kScriptObject};
  const auto* attributes = graph_.find<Container>(state);
  if (attributes != nullptr && attributes->is_dict()) {
    filled.items = attributes->items;
  } else {
    filled.items = {graph_.add(Text{"__getstate__()"}), state};
  }
  graph_.replace(std::get<NodeId>(object), std::move(filled));
}

// ('storage', class, key, location, numel), before PyTorch 1.6 with one more: None, or the part
// that is meant, (key of the part, first element, number of elements).
void Machine::push_storage() {
  const Ref id = pop();
  static constexpr Global kId = {"the pickle's", "persistent id", nullptr};
  const auto* items = graph_.find<Container>(id);
  if (items == nullptr || items->kind != Container::Kind::kTuple) {
    fail("has a persistent id that is no tuple");
  }
  const Call call{graph_, storages_, kId, items->items};
  call.expect_args(5, 6);
  const auto* type = graph_.find<StorageClass>(call.arg(1));
  const std::int64_t numel = call.integer(4);
  if (call.text(0) != "storage" || type == nullptr || numel < 0) {
    call.fail("expected ('storage', class, key, location, number of elements)");
  }
  StorageReference reference{.key = call.text(2),
                             .location = call.text(3),
                             .dtype = type->dtype,
                             .numel = static_cast<std::uint64_t>(numel)};
  if (call.args.size() == 6 && !std::holds_alternative<None>(call.arg(5))) {
    const Call view{graph_, storages_, kId, call.items(5)};
    view.expect_args(3, 3);
    const std::int64_t offset = view.integer(1);
    const std::int64_t size = view.integer(2);
    if (offset < 0 || size < 0 || offset > numel || size > numel - offset) {
      call.fail("a part that lies outside its storage");
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
      push(resolve_global(graph_, module, in_.line(), more_));
      return true;
    }
    case Op::kStackGlobal:
      push_global_from_stack();
      return true;
    case Op::kNewObjEx: {
      const auto* kwargs = graph_.find<Container>(pop());
      if (kwargs == nullptr || !kwargs->is_dict() || !kwargs->items.empty()) {
        throw UnsupportedError("the pickle makes an object with keyword arguments");
      }
      reduce();
      return true;
    }
    case Op::kReduce:
    case Op::kNewObj:
      reduce();
      return true;
    case Op::kBuild:
      build();
      return true;
    case Op::kBinPersId:
      push_storage();
      return true;
    default:
      return false;
  }
}

}  // namespace cairn::pickle
