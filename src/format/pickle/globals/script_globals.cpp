// The names, other than those of tensors, in pickles of TorchScript: torch.jit.save and C++'s
// torch::save.
#include <array>

#include "cairn/error.h"

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {
namespace {

// Makes an object of a class that the archive defines. BUILD gives it its attributes. The class's
// code is not read.
Ref make_script_object(const Call& call) {
  call.expect_args(0, 0);
  return call.graph.add(Container{.kind = Container::Kind::kScriptObject});
}

// Handles restore_type_tag(object, 'Dict[str, Tensor]'): the object's type in TorchScript, which
// Python does not need.
Ref restore_type_tag(const Call& call) {
  call.expect_args(2, 2);
  return call.arg(0);
}

// Handles build_intlist([1, 2]) and the like: a list whose items all have one type.
Ref build_list(const Call& call) {
  call.expect_args(1, 1);
  call.items(0);
  return call.arg(0);
}

constexpr std::array kScriptGlobals = {
    Global{"__torch__", "*", make_script_object},
    Global{"torch.jit._pickle", "restore_type_tag", restore_type_tag},
    Global{"torch.jit._pickle", "build_intlist", build_list},
    Global{"torch.jit._pickle", "build_doublelist", build_list},
    Global{"torch.jit._pickle", "build_boollist", build_list},
    Global{"torch.jit._pickle", "build_tensorlist", build_list},
};

}  // namespace

std::span<const Global> script_globals() { return kScriptGlobals; }

}  // namespace cairn::pickle
