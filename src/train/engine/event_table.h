// What each event of a run is: its name, the method of a Callback that it calls, and what has to be
// there before it can run. One table in event.cpp has all of it, a row an event.
#pragma once

#include <cstdint>
#include <string_view>

#include "cairn/train/callback.h"
#include "cairn/train/event.h"

namespace cairn {

enum class EventNeeds : std::uint8_t {
  kNothing,
  kLoader,    // state.dataloader
  kTraining,  // that and state.max_duration
};

struct EventRow {
  Event event;
  std::string_view name;
  void (Callback::*method)(State&, Logger&);
  EventNeeds needs;
};

const EventRow& event_row(Event event);

}  // namespace cairn
