// How one class of optimizer is written and read: the layouts of layout.h behind one interface.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn {

// A saved group and the live one that it is for.
struct GroupSource {
  const Dict& saved;
  std::string where;  // "param_groups/0", for messages
  const torch::optim::OptimizerOptions& live;
};

// A saved parameter state and what it is for.
struct StateSource {
  const Dict& saved;
  std::string name;  // of the parameter, for messages
  const at::Tensor& parameter;
  const torch::optim::OptimizerOptions& options;  // of the group that the state was saved with
};

// Reading appends what does not fit to `misfits`, and throws UnsupportedError for options under
// which PyTorch would train differently.
class OptimizerFormat {
 public:
  virtual ~OptimizerFormat() = default;

  // Python's class name.
  virtual std::string name() const = 0;

  // A group's entries but "params".
  virtual Dict write_group(const torch::optim::OptimizerOptions& options) const = 0;
  virtual std::unique_ptr<torch::optim::OptimizerOptions> read_group(
      const GroupSource& source, std::vector<std::string>& misfits) const = 0;
  // The same options with room for GroupExtras.
  virtual std::unique_ptr<torch::optim::OptimizerOptions> with_extras(
      const torch::optim::OptimizerOptions& options) const = 0;

  virtual Dict write_state(const torch::optim::OptimizerParamState& state,
                           const torch::optim::OptimizerOptions& options) const = 0;
  // nullptr when the entry stands for no state.
  virtual std::unique_ptr<torch::optim::OptimizerParamState> read_state(
      const StateSource& source, std::vector<std::string>& misfits) const = 0;
  // What a parameter has before its first step; nullptr for nothing.
  virtual std::unique_ptr<torch::optim::OptimizerParamState> initial_state(
      const at::Tensor& parameter, const torch::optim::OptimizerOptions& options) const = 0;
};

// nullptr for a class that cairn does not know.
const OptimizerFormat* find_format(const torch::optim::Optimizer& optimizer);
// UnsupportedError instead.
const OptimizerFormat& format_of(const torch::optim::Optimizer& optimizer);

}  // namespace cairn
