#include "cairn/train/callback.h"

#include <typeinfo>

#include "core/text/class_name.h"
#include "train/engine/event_table.h"

namespace cairn {

std::string Callback::name() const { return class_name(typeid(*this)); }

void Callback::run_event(Event event, State& state, Logger& logger) {
  (this->*event_row(event).method)(state, logger);
}

Value Callback::state_dict() const { return Dict(); }

}  // namespace cairn
