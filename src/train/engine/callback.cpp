#include "cairn/train/callback.h"

#include <algorithm>
#include <typeinfo>

#include "cairn/train/state.h"

#include "core/text/class_name.h"
#include "train/engine/event_table.h"
#include "train/engine/saves_at.h"

namespace cairn {

std::string Callback::name() const { return class_name(typeid(*this)); }

void Callback::run_event(Event event, State& state, Logger& logger) {
  (this->*event_row(event).method)(state, logger);
}

Value Callback::state_dict() const { return Dict(); }

bool saves_at(Event event, const State& state) {
  const auto saves = [&](const auto& callback) { return callback->will_save(event, state); };
  return std::ranges::count_if(state.callbacks, saves) > 0;
}

}  // namespace cairn
