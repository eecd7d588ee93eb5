// A row per event: its name, the method of Callback that it calls, and what the state must have
// before the event can run. The table is in event.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "cairn/train/callback.h"
#include "cairn/train/event.h"

namespace cairn {

enum class EventNeeds : std::uint8_t {
  kNothing,
  kLoader,    // state.dataloader
  kTraining,  // state.dataloader and state.max_duration
};

struct EventRow {
  Event event;
  std::string_view name;
  void (Callback::*method)(State&, Logger&);
  EventNeeds needs;
};

const EventRow& event_row(Event event);

}  // namespace cairn
