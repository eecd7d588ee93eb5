// What Python keeps in a parameter group and libtorch's options have no field for.
//
// A group whose options carry them has options of a class derived from libtorch's, which its
// optimizers take for their own. They come with the group's first scheduler or load: a reference to
// a group's options taken before is invalid after.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>

#include "cairn/value.h"

namespace cairn {

struct GroupExtras {
  std::optional<double> initial_lr = std::nullopt;  // group["initial_lr"]
  Dict python_only = {};  // "foreach", "fused", a name, ...: as the last loaded file had them
};

template <class Options>
class OptionsWithExtras final : public Options, public GroupExtras {
 public:
  explicit OptionsWithExtras(const Options& options) : Options(options) {}
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<OptionsWithExtras>(*this);
  }
};

// nullptr when the group has none (yet).
inline const GroupExtras* find_extras(const torch::optim::OptimizerOptions& options) {
  return dynamic_cast<const GroupExtras*>(&options);
}

}  // namespace cairn
