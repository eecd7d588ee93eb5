// Python's own functions and classes.
#include <array>
#include <complex>

#include "cairn/error.h"

#include "core/divide_floor.h"
#include "format/pickle/globals/globals.h"
#include "format/pickle/text.h"

namespace cairn::pickle {
namespace {

constexpr std::int64_t kMaxDays = 999'999'999;  // datetime.timedelta.max.days

Ref make_set(const Call& call, Container::Kind kind) {
  call.expect_args(0, 1);
  Container set{.kind = kind};
  if (!call.args.empty()) set.items.append(call.items(0), call.graph.refs());
  return call.graph.add(std::move(set));
}
Ref call_set(const Call& call) { return make_set(call, Container::Kind::kSet); }
Ref call_frozenset(const Call& call) { return make_set(call, Container::Kind::kFrozenSet); }

// Makes a dict or OrderedDict from no argument, another dict, or a list of pairs (as Python 2's
// OrderedDict).
Ref make_dict(const Call& call, Container::Kind kind) {
  call.expect_args(0, 1);
  Container dict{.kind = kind};
  if (call.args.empty()) return call.graph.add(std::move(dict));
  const auto* other = call.graph.find<Container>(call.arg(0));
  if (other != nullptr && other->is_dict()) {
    dict.items.append(other->items, call.graph.refs());
    return call.graph.add(std::move(dict));
  }
  for (const Ref& item : call.items(0)) {
    const auto* pair = call.graph.find<Container>(item);
    if (pair == nullptr || pair->is_set() || pair->is_dict() || pair->items.size() != 2) {
      call.fail("expected a list of pairs");
    }
    dict.items.append(pair->items, call.graph.refs());
  }
  return call.graph.add(std::move(dict));
}
Ref call_dict(const Call& call) { return make_dict(call, Container::Kind::kDict); }
Ref call_ordered_dict(const Call& call) { return make_dict(call, Container::Kind::kOrderedDict); }

Ref call_counter(const Call& call) { return make_dict(call, Container::Kind::kCounter); }

// Handles defaultdict(factory). The factory is only named, never called.
Ref call_defaultdict(const Call& call) {
  call.expect_args(0, 2);
  const auto rest = call.args.size() > 1 ? call.args.subspan(1) : std::span<const Ref>();
  const Ref dict =
      make_dict({call.graph, call.storages, call.global, rest}, Container::Kind::kDefaultDict);
  if (!call.args.empty()) {
    call.graph.extras(*dict.node()).default_factory = call.arg(0);
  }
  return dict;
}

Ref call_complex(const Call& call) {
  call.expect_args(2, 2);
  return call.graph.add(Value(std::complex<double>(call.number(0), call.number(1))));
}

std::string latin1_argument(const Call& call) {
  const std::string_view encoding = call.text(1);
  if (encoding != "latin1" && encoding != "latin-1" && encoding != "iso-8859-1") {
    throw UnsupportedError("cairn does not read bytes in the encoding " +
                           std::string(encoding.substr(0, 40)));
  }
  auto bytes = utf8_to_latin1(call.text(0));
  if (!bytes) call.fail("the text for bytes holds a character above U+00FF");
  return std::move(*bytes);
}

// Protocol 2 has no opcode for bytes, and writes them as a call of encode().
Ref call_encode(const Call& call) {
  call.expect_args(2, 2);
  return call.graph.add(Value(Bytes{latin1_argument(call)}));
}

Ref call_bytes(const Call& call) {
  call.expect_args(0, 0);
  return call.graph.add(Value(Bytes{}));
}

Ref call_bytearray(const Call& call) {
  call.expect_args(0, 2);
  Bytes array{.data = {}, .is_bytearray = true};
  if (call.args.size() == 1) array.data = call.bytes(0);
  if (call.args.size() == 2) array.data = latin1_argument(call);
  return call.graph.add(Value(std::move(array)));
}

Ref call_timedelta(const Call& call) {
  call.expect_args(0, 3);
  std::int64_t parts[3] = {0, 0, 0};  // days, seconds, microseconds
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    parts[i] = call.integer(i);
    if (parts[i] > kMaxDays * 86400 || parts[i] < -kMaxDays * 86400) call.fail("out of range");
  }
  parts[1] += divide_floor(parts[2], 1'000'000);
  parts[0] += divide_floor(parts[1], 86400);
  if (parts[0] > kMaxDays || parts[0] < -kMaxDays) call.fail("out of range");
  return call.graph.add(Value(TimeDelta{.days = parts[0],
                                        .seconds = static_cast<std::int32_t>(parts[1]),
                                        .microseconds = static_cast<std::int32_t>(parts[2])}));
}

constexpr std::array kPythonGlobals = {
    Global{"builtins", "set", call_set},
    Global{"builtins", "frozenset", call_frozenset},
    Global{"builtins", "dict", call_dict},
    Global{"builtins", "complex", call_complex},
    Global{"builtins", "bytes", call_bytes},
    Global{"builtins", "bytearray", call_bytearray},
    Global{"builtins", "list", nullptr},  // these are factories of a defaultdict
    Global{"builtins", "int", nullptr},
    Global{"builtins", "float", nullptr},
    Global{"collections", "OrderedDict", call_ordered_dict},
    Global{"collections", "Counter", call_counter},
    Global{"collections", "defaultdict", call_defaultdict},
    Global{"_codecs", "encode", call_encode},
    Global{"datetime", "timedelta", call_timedelta},
};

}  // namespace

std::span<const Global> python_globals() { return kPythonGlobals; }

}  // namespace cairn::pickle
