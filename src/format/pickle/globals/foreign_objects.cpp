#include "format/pickle/globals/foreign_objects.h"

#include <algorithm>
#include <array>
#include <span>

#include "cairn/error.h"

#include "format/pickle/globals/globals.h"
#include "format/pickle/globals/storage_classes.h"
#include "format/pickle/text.h"

namespace cairn::pickle {
namespace {

bool is_foreign_object(const Graph& graph, const Ref& ref) {
  const auto* container = graph.find<Container>(ref);
  return container != nullptr && container->kind == Container::Kind::kForeign;
}

constexpr std::size_t kMaxVisited = 16;  // arguments, and items of an argument

// Returns whether `wanted` is true for one of the first arguments, or for one of the first items in
// one of them.
bool any_argument(const Graph& graph, std::span<const Ref> args, auto wanted) {
  const auto first = args.first(std::min(args.size(), kMaxVisited));
  return std::any_of(first.begin(), first.end(), [&](const Ref& arg) {
    if (wanted(arg)) return true;
    const auto* container = graph.find<Container>(arg);
    if (container == nullptr) return false;
    const std::span<const Ref> items = container->items;
    const auto inner = items.first(std::min(items.size(), kMaxVisited));
    return std::any_of(inner.begin(), inner.end(), wanted);
  });
}

Value name_of(std::string_view module, std::string_view name) {
  return Value(std::make_shared<const Foreign>(
      Foreign{.module = std::string(module), .name = std::string(name)}));
}

Ref ref_of(Foreign::Made made) { return *Ref::of(static_cast<std::int64_t>(made)); }

}  // namespace

bool is_foreign(const Graph& graph, const Ref& ref) {
  return graph.find<ForeignName>(ref) != nullptr || is_foreign_object(graph, ref);
}

bool has_foreign(const Graph& graph, std::span<const Ref> args) {
  return any_argument(graph, args, [&](const Ref& ref) { return is_foreign(graph, ref); });
}

bool has_python2_bytes(const Graph& graph, std::span<const Ref> args) {
  return any_argument(graph, args, [&](const Ref& ref) {
    const auto* text = graph.find<Text>(ref);
    return text != nullptr && text->is_python2 && !is_utf8(text->text);
  });
}

bool is_callable(const Graph& graph, const Ref& function) {
  return is_foreign(graph, function) || graph.find<const Global*>(function) != nullptr ||
         graph.find<StorageClass>(function) != nullptr;
}

Ref make_foreign(Graph& graph, Foreign::Made made, const Ref& function, const Ref& args,
                 const Ref& keywords) {
  Container object{.kind = Container::Kind::kForeign};
  object.items.append(std::array<Ref, 6>{function, ref_of(made), args, keywords, None{}, None{}},
                      graph.refs());
  return graph.add(std::move(object));
}

void add_to_foreign(Graph& graph, NodeId id, std::span<const Ref> items, bool to_dict) {
  const ForeignItem which = to_dict ? kForeignEntries : kForeignItems;
  Ref held = std::get<Container>(graph.node(id)).items[which];
  if (held.is_none()) {
    held = graph.add(Container{.kind = to_dict ? Container::Kind::kDict : Container::Kind::kList});
    std::get<Container>(graph.node(id)).items[which] = held;
  }
  if (!items.empty()) graph.find<Container>(held)->items.append(items, graph.refs());
}

void set_foreign_state(Graph& graph, NodeId id, const Ref& state) {
  auto& items = std::get<Container>(graph.node(id)).items;
  if (items.size() > kForeignState) {
    throw UnsupportedError("the pickle sets the state of an object twice");
  }
  items.push_back(state, graph.refs());
}

void replace_by_foreign(Graph& graph, NodeId shell, const Ref& state) {
  const NumpyArrayShell array = *graph.find<NumpyArrayShell>(shell);
  const bool is_direct = array.names == NumpyNames::kNone;
  const bool is_numpy1 = array.names == NumpyNames::kNumpy1;
  const Ref function = graph.add(
      is_direct ? ForeignName{"numpy", "ndarray"}
                : ForeignName{is_numpy1 ? "numpy.core.multiarray" : "numpy._core.multiarray",
                              "_reconstruct"});
  Container args{.kind = Container::Kind::kTuple};
  args.items.append(std::span(array.args).first(is_direct ? 1 : array.args.size()), graph.refs());
  Container object{.kind = Container::Kind::kForeign};
  object.items.append(std::array<Ref, 7>{function, ref_of(Foreign::Made::kCalled),
                                         graph.add(std::move(args)), None{}, None{}, None{}, state},
                      graph.refs());
  graph.replace(shell, std::move(object));
}

std::optional<Value> named_value(const Graph& graph, const Ref& ref) {
  if (const auto* name = graph.find<ForeignName>(ref)) return name_of(name->module, name->name);
  if (const auto* storage = graph.find<StorageClass>(ref)) {
    if (!storage->dtype) return name_of("torch.storage", "UntypedStorage");
    return name_of("torch", storage_class(*storage->dtype));
  }
  const auto* global = graph.find<const Global*>(ref);
  if (global == nullptr || (*global)->name == "*") return std::nullopt;
  if (is_torch_constant(**global)) return TorchConstant{"torch." + std::string((*global)->name)};
  return name_of((*global)->module, (*global)->name);
}

Value dtype_value(const NumpyDType& dtype) {
  const std::string code = dtype.kind + std::to_string(dtype.item_size);
  const bool has_order = dtype.item_size > 1;
  const char* order = !has_order ? "|" : dtype.is_big_endian ? ">" : "<";
  Foreign object{.made = Foreign::Made::kCalled};
  object.function = name_of("numpy", "dtype");
  object.args = Tuple{{code, false, true}};
  object.state = Tuple{{3, order, None{}, None{}, None{}, -1, -1, 0}};
  object.has_state = true;
  return Value(std::make_shared<const Foreign>(std::move(object)));
}

}  // namespace cairn::pickle
