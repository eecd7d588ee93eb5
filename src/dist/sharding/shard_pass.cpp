#include "dist/sharding/shard_pass.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "cairn/error.h"

namespace cairn::dist {
namespace {

constexpr std::size_t kRoot = CutModule::kRoot;

}  // namespace

ShardPass::ShardPass(std::shared_ptr<CutModule> cut, Prefetch prefetch)
    : cut_(std::move(cut)),
      units_(cut_->units()),
      prefetch_(std::move(prefetch)),
      forward_notes_(std::numeric_limits<std::size_t>::max()) {}  // All notes, until backward().

void ShardPass::begin() {
  if (!units_[kRoot]->parameters().empty()) gather(kRoot);
}

void ShardPass::end() {
  is_backward_ = false;
  forward_notes_ = std::min(forward_notes_, notes_.size());
  cut_->release();
}

std::vector<std::size_t> ShardPass::forward_order() const {
  std::vector<std::size_t> order;
  for (const auto& call : calls_)
    order.push_back(call->unit);
  return order;
}

void ShardPass::begin_gather(std::size_t unit) {
  if (units_[unit]->is_whole() || units_[unit]->is_coming()) return;
  notes_.push_back({Done::kGathered, unit});
  units_[unit]->begin_gather();
}

void ShardPass::gather(std::size_t unit) {
  begin_gather(unit);
  cut_->finish_gather(unit);
}

std::shared_ptr<ShardPass::Call> ShardPass::begin_call(std::size_t unit) {
  std::shared_ptr<Call> call = is_backward_ ? find_unrecorded(unit) : nullptr;
  if (call) finish_units_after(call->end);
  gather(unit);
  if (!call) {
    call = std::make_shared<Call>(Call{.unit = unit, .begin = ++clock_});
    if (!is_backward_) prefetch_forward(unit);
    calls_.push_back(call);
  }
  call->is_recorded = at::GradMode::is_enabled();
  return call;
}

// The call that backward() computes again. The latest one comes first.
std::shared_ptr<ShardPass::Call> ShardPass::find_unrecorded(std::size_t unit) const {
  const auto found = std::find_if(calls_.rbegin(), calls_.rend(), [&](const auto& call) {
    return call->unit == unit && !call->is_recorded;
  });
  return found == calls_.rend() ? nullptr : *found;
}

bool ShardPass::is_active(std::size_t unit) const {
  return std::ranges::any_of(active_, [&](const auto& call) { return call->unit == unit; });
}

// Begins to gather the unit that followed `unit` in the noted order.
void ShardPass::prefetch_forward(std::size_t unit) {
  const std::vector<std::size_t>& order = prefetch_.forward_order;
  const std::size_t at = calls_.size();
  if (at + 1 < order.size() && order[at] == unit) begin_gather(order[at + 1]);
}

void ShardPass::end_call(const std::shared_ptr<Call>& call) {
  if (call->end == 0) call->end = ++clock_;
  const bool is_needed_around = std::ranges::any_of(calls_, [&](const auto& other) {
    return other != call && other->end == 0 && other->unit == call->unit;
  });
  if (is_needed_around || is_active(call->unit)) return;
  if (cut_->mesh().reshards_after_forward()) units_[call->unit]->release();
}

void ShardPass::add_hook(const at::Tensor& output, const std::shared_ptr<Call>& call) {
  output.register_hook([weak = weak_from_this(), call](const at::Tensor& /*gradient*/) {
    const auto pass = weak.lock();
    if (pass == nullptr) {
      throw UsageError(
          "backward() goes through a pass of a sharded module that is over: call "
          "ShardedModule::backward(), between begin() and end()");
    }
    try {
      pass->begin_backward_of(call);
    } catch (...) {
      pass->error_ = std::current_exception();
      throw;
    }
  });
}

// Steps 2 and 3, before backward() computes with the unit.
void ShardPass::begin_backward_of(const std::shared_ptr<Call>& call) {
  if (!is_backward_) {
    throw UsageError(
        "ShardedModule::backward() computes the gradients of a sharded module: call it, "
        "between begin() and end(), instead of loss.backward()");
  }
  if (std::exchange(call->is_back, true)) return;
  const torch::NoGradGuard no_grad;
  if (prefetch_.backward != BackwardPrefetch::kNone) begin_gather(call->unit);
  finish_units_after(call->end);
  gather(call->unit);
  active_.push_back(call);
  if (prefetch_.backward == BackwardPrefetch::kPre) prefetch_backward(*call);
}

void ShardPass::prefetch_backward(const Call& call) {
  for (auto before = calls_.rbegin(); before != calls_.rend(); ++before) {
    if ((*before)->begin >= call.begin || (*before)->is_back) continue;
    return begin_gather((*before)->unit);
  }
}

void ShardPass::finish_units_after(std::uint64_t end) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const auto is_of_it = [&](const auto& call) { return call->unit == unit; };
    const auto is_later = [&](const auto& call) { return call->begin > end; };
    if (!is_active(unit)) continue;
    if (!std::ranges::all_of(active_, [&](const auto& c) { return !is_of_it(c) || is_later(c); })) {
      continue;
    }
    std::erase_if(active_, is_of_it);
    send_gradients(unit);
  }
}

void ShardPass::send_gradients(std::size_t unit) {
  finish_sending();
  const bool stays = unit == kRoot;
  if (!units_[unit]->has_trainable()) return stays ? void() : units_[unit]->release();
  notes_.push_back({Done::kReduced, unit});
  units_[unit]->begin_reduce({.contributes = contributes_, .stays_whole = stays});
  sending_ = unit;
}

void ShardPass::finish_sending() {
  if (!sending_) return;
  const std::size_t unit = *std::exchange(sending_, std::nullopt);
  units_[unit]->finish_reduce("averaging the gradients of " + cut_->text_of(unit));
}

void ShardPass::backward(const at::Tensor& loss, bool contributes) {
  forward_notes_ = notes_.size();
  std::vector<std::vector<bool>> before;
  for (const auto& unit : units_)
    before.push_back(unit->have_gradients());
  is_backward_ = true;
  contributes_ = contributes;
  try {
    loss.backward();
  } catch (...) {
    is_backward_ = false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    throw;
  }
  is_backward_ = false;
  check_all_went_through_units(before);
  finish_units_after(0);
  if (!units_[kRoot]->parameters().empty()) {
    send_gradients(kRoot);  // The root stays whole until end(), as metrics may compute with it.
  }
  finish_sending();
}

bool ShardPass::has_sent(std::size_t unit) const {
  return std::ranges::any_of(
      notes_, [&](const Note& note) { return note.done == Done::kReduced && note.unit == unit; });
}

// Throws for a unit that was used without its wrapper: the unit then computed only with this rank's
// rows.
void ShardPass::check_all_went_through_units(const std::vector<std::vector<bool>>& before) const {
  for (std::size_t unit = 1; unit < units_.size(); ++unit) {
    if (has_sent(unit) || is_active(unit) || units_[unit]->is_whole()) continue;
    if (units_[unit]->have_gradients() == before[unit]) continue;
    throw UsageError(cut_->text_of(unit) +
                     " was used without its forward(): a Sharded<> is whole in its forward() only. "
                     "Call that, or do not wrap it");
  }
}

void ShardPass::replay_communication(bool with_backward) {
  const std::size_t count = with_backward ? notes_.size() : forward_notes_;
  for (const Note& note : std::span(notes_).first(count)) {
    ShardUnit& unit = *units_[note.unit];
    if (note.done == Done::kGathered) {
      unit.gather_for_others("gathering " + cut_->text_of(note.unit));
    } else {
      unit.begin_reduce({.contributes = false});
      unit.finish_reduce("averaging the gradients of " + cut_->text_of(note.unit));
    }
  }
}

}  // namespace cairn::dist
