// Words by which the tool recognises messages of a run in its log. Except for kStoppingMessage, a
// message begins with them.
#pragma once

#include <string_view>

namespace cairn {

inline constexpr std::string_view kSavedMessage = "saved ";  // followed by path, size and seconds
inline constexpr std::string_view kUploadedMessage = "uploaded ";
inline constexpr std::string_view kSaveFailedMessage = "warning: a save failed: ";
inline constexpr std::string_view kEarlierSaveFailedMessage = "warning: an earlier save failed: ";
// Between what asked the run to stop, and "batch 40" or "step 40".
inline constexpr std::string_view kStoppingMessage = ": stopping at ";
inline constexpr std::string_view kFailedMessage = "the run failed: ";  // followed by the error
inline constexpr std::string_view kTimesMessage = "time: ";             // PhaseTimes::describe()

}  // namespace cairn
