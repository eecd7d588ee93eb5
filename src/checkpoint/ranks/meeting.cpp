#include "checkpoint/ranks/meeting.h"

#include "io/cancellation.h"

namespace cairn {

Meeting::Time Meeting::now() { return std::chrono::steady_clock::now(); }

void Meeting::pause(std::chrono::milliseconds time) { pause_here(time); }

}  // namespace cairn
