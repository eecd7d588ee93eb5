// Writing and reading what an OptimizerLayout describes, and finding an optimizer's layout.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/train/optimizer_layout.h"
#include "cairn/value.h"

namespace cairn {

class DeviceUploads;

// nullptr when there are none (yet).
inline const GroupExtras* find_extras(const torch::optim::OptimizerOptions& options) {
  return dynamic_cast<const GroupExtras*>(&options);
}

// A saved group and the live one that it is for.
struct GroupSource {
  const Dict& saved;
  std::string where;  // "param_groups/0", for messages
  const torch::optim::OptimizerOptions& live;
};

// A parameter state's place, for writing and reading.
struct StateSource {
  const Dict& saved;
  std::string name;  // of the parameter, for messages
  const at::Tensor& parameter;
  const std::vector<at::Tensor>& group;           // the live parameters of its group
  const torch::optim::OptimizerOptions& options;  // of the group that the state was saved with
  std::vector<at::Tensor>& shared;  // gets those read tensors that lie in the saved ones' memory
  DeviceUploads& uploads;           // gets what is yet to be brought to a device
};
struct LiveState {
  const torch::optim::OptimizerParamState& values;
  const at::Tensor& parameter;
  const torch::optim::OptimizerParamGroup& group;
};

// A group's entries but "params".
Dict write_group(const OptimizerLayout& layout, const torch::optim::OptimizerOptions& options);
Dict write_state(const OptimizerLayout& layout, const LiveState& state);

// What optimizer_state_dict() gives, of the entry of each state and, for each group, the list of
// the names of its parameters.
Value optimizer_entries(const torch::optim::Optimizer& optimizer, Value states,
                        const std::vector<Value>& names);

// Reading appends what does not fit to `misfits`, and throws UnsupportedError for options under
// which PyTorch would train differently.
std::unique_ptr<torch::optim::OptimizerOptions> read_group(const OptimizerLayout& layout,
                                                           const GroupSource& source,
                                                           std::vector<std::string>& misfits);
// nullptr when the entry stands for no state.
std::unique_ptr<torch::optim::OptimizerParamState> read_state(const OptimizerLayout& layout,
                                                              const StateSource& source,
                                                              std::vector<std::string>& misfits);

// The optimizer's own layout, or ours of a class of libtorch; nullptr for any other.
const OptimizerLayout* find_layout(const torch::optim::Optimizer& optimizer);
// UnsupportedError instead.
const OptimizerLayout& layout_of(const torch::optim::Optimizer& optimizer);

}  // namespace cairn
