#include "cairn/algorithms/sam.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/optimizer.h"
#include "cairn/train/state.h"

#include "algorithms/saved_tensors.h"
#include "core/text/float_text.h"

namespace cairn {

SAM::SAM(SAMOptions options) : options_(options) {
  if (!(options_.rho >= 0)) {
    throw UsageError(fmt::format("SAM: rho must be 0 or more, found {}", options_.rho));
  }
  if (options_.interval < 1) {
    throw UsageError(fmt::format("SAM: interval must be 1 or more, found {}", options_.interval));
  }
}

std::string SAM::repr() const {
  return fmt::format("SAM(rho={},epsilon={},interval={})", python_float_repr(options_.rho),
                     python_float_repr(options_.epsilon), options_.interval);
}

bool SAM::match(Event event, const State& /*state*/) const { return event == Event::kFitStart; }

void SAM::apply(Event /*event*/, State& state, Logger& /*logger*/) {
  if (state.precision == "amp_fp16") {
    throw UnsupportedError(
        "SAM does not go with precision amp_fp16, whose scaler looks at the gradients of a batch "
        "once: use amp_bf16 or fp32");
  }
  if (needs_closure(*state.optimizer)) {
    throw UnsupportedError("SAM does not go with the optimizer " +
                           optimizer_name(*state.optimizer) +
                           ", which evaluates a batch several times a step itself");
  }
}

bool SAM::begin_repeat(State& state) {
  if (++global_step_ % options_.interval != 0) return false;
  const torch::NoGradGuard no_grad;
  e_w_.clear();
  std::vector<at::Tensor> norms;
  for (const auto& group : state.optimizer->param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      e_w_.emplace_back(parameter, parameter.grad());
      norms.push_back(parameter.grad().norm());
    }
  }
  if (norms.empty()) return false;
  const at::Tensor factor = options_.rho / (at::stack(norms).norm() + options_.epsilon);
  for (auto& [parameter, e_w] : e_w_) {
    e_w = e_w * factor.to(parameter.options());
    parameter.add_(e_w);
  }
  return true;
}

// Subtracts what was added, as Composer does: the last bits of a weight may differ from before.
void SAM::end_repeat(State& /*state*/) {
  const torch::NoGradGuard no_grad;
  for (auto& [parameter, e_w] : e_w_)
    parameter.sub_(e_w);
  e_w_.clear();
}

Value SAM::state_dict() const { return Dict{{"repr", repr()}, {"global_step", global_step_}}; }

void SAM::load_state_dict(const Value& saved, const State& /*live*/) {
  std::int64_t step = 0;
  if (saved.find("global_step") != nullptr) {
    std::vector<std::string> misfits;
    step = read_count(saved, "global_step", misfits);
    throw_misfits("SAM", misfits);
  }
  global_step_ = step;
}

}  // namespace cairn
