#include "cairn/algorithms/channels_last.h"

#include <torch/torch.h>

#include "cairn/train/parameters.h"
#include "cairn/train/state.h"

namespace cairn {
namespace {

void convert(at::Tensor tensor) {
  if (tensor.dim() != 4) return;
  tensor.set_data(tensor.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace

bool ChannelsLast::match(Event event, const State& /*state*/) const {
  return event == Event::kInit;
}

void ChannelsLast::apply(Event /*event*/, State& state, Logger& /*logger*/) {
  apply_channels_last(state.model->module());
}

void apply_channels_last(torch::nn::Module& module) {
  for (const at::Tensor& parameter : parameters(module))
    convert(parameter);
  for (const auto& [name, buffer] : named_buffers(module))
    convert(buffer);
}

}  // namespace cairn
