#include "cairn/train/callback.h"

#include <array>
#include <typeinfo>

#include "base/class_name.h"

namespace cairn {
namespace {

using Method = void (Callback::*)(State&, Logger&);

// In the order of Event.
constexpr std::array<Method, kNumEvents> kMethods = {
    &Callback::init,
    &Callback::before_load,
    &Callback::after_load,
    &Callback::fit_start,
    &Callback::iteration_start,
    &Callback::epoch_start,
    &Callback::before_dataloader,
    &Callback::after_dataloader,
    &Callback::batch_start,
    &Callback::before_train_batch,
    &Callback::before_forward,
    &Callback::after_forward,
    &Callback::before_loss,
    &Callback::after_loss,
    &Callback::before_backward,
    &Callback::after_backward,
    &Callback::after_train_batch,
    &Callback::batch_end,
    &Callback::batch_checkpoint,
    &Callback::epoch_end,
    &Callback::epoch_checkpoint,
    &Callback::iteration_end,
    &Callback::iteration_checkpoint,
    &Callback::fit_end,
    &Callback::eval_before_all,
    &Callback::eval_start,
    &Callback::eval_batch_start,
    &Callback::eval_before_forward,
    &Callback::eval_after_forward,
    &Callback::eval_batch_end,
    &Callback::eval_end,
    &Callback::eval_after_all,
    &Callback::eval_standalone_start,
    &Callback::eval_standalone_end,
    &Callback::predict_start,
    &Callback::predict_batch_start,
    &Callback::predict_before_forward,
    &Callback::predict_after_forward,
    &Callback::predict_batch_end,
    &Callback::predict_end,
};

}  // namespace

std::string Callback::name() const { return class_name(typeid(*this)); }

void Callback::run_event(Event event, State& state, Logger& logger) {
  (this->*kMethods[static_cast<std::size_t>(event)])(state, logger);
}

Value Callback::state_dict() const { return Dict(); }

}  // namespace cairn
