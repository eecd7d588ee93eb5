// Writes and reads what an OptimizerLayout describes, and finds an optimizer's layout.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/train/optimizer_layout.h"
#include "cairn/value.h"

namespace cairn {

class DeviceUploads;

// The extras of a group; nullptr if the group has none (yet).
inline const GroupExtras* find_extras(const torch::optim::OptimizerOptions& options) {
  return dynamic_cast<const GroupExtras*>(&options);
}

// A saved group, and the live group that it is for.
struct GroupSource {
  const Dict& saved;
  std::string where;  // "param_groups/0", for messages
  const torch::optim::OptimizerOptions& live;
};

// A saved parameter state, and the live parameter that it is for.
struct StateSource {
  const Dict& saved;
  std::string name;  // The parameter's name, for messages.
  const at::Tensor& parameter;
  const std::vector<at::Tensor>& group;           // The live parameters of its group.
  const torch::optim::OptimizerOptions& options;  // The saved options of its group.
  std::vector<at::Tensor>& shared;  // Gets the read tensors that share the saved ones' memory.
  DeviceUploads& uploads;           // Gets what has yet to be uploaded to a device.
};
struct LiveState {
  const torch::optim::OptimizerParamState& values;
  const at::Tensor& parameter;
  const torch::optim::OptimizerParamGroup& group;
};

// A group's entries except "params".
Dict write_group(const OptimizerLayout& layout, const torch::optim::OptimizerOptions& options);
Dict write_state(const OptimizerLayout& layout, const LiveState& state);

// The result of optimizer_state_dict(), made from the entries of all states and, for each group,
// the list of its parameters' names.
Value optimizer_entries(const torch::optim::Optimizer& optimizer, Value states,
                        const std::vector<Value>& names);

// read_group() and read_state() append what does not fit to `misfits`. They throw UnsupportedError
// for options under which PyTorch would train differently.
std::unique_ptr<torch::optim::OptimizerOptions> read_group(const OptimizerLayout& layout,
                                                           const GroupSource& source,
                                                           std::vector<std::string>& misfits);
// Nullptr if the entry stands for no state.
std::unique_ptr<torch::optim::OptimizerParamState> read_state(const OptimizerLayout& layout,
                                                              const StateSource& source,
                                                              std::vector<std::string>& misfits);

// The optimizer's own layout, or cairn's layout for a class of libtorch; nullptr for any other
// class.
const OptimizerLayout* find_layout(const torch::optim::Optimizer& optimizer);
// As find_layout(), but throws UnsupportedError instead of returning nullptr.
const OptimizerLayout& layout_of(const torch::optim::Optimizer& optimizer);

}  // namespace cairn
