// How messages of a run begin. A Trainer logs them, and the tool counts them in its log.
#pragma once

#include <string_view>

namespace cairn {

inline constexpr std::string_view kSavedMessage = "saved ";  // followed by path, size and seconds
inline constexpr std::string_view kUploadedMessage = "uploaded ";
inline constexpr std::string_view kSaveFailedMessage = "warning: a save failed: ";
inline constexpr std::string_view kEarlierSaveFailedMessage = "warning: an earlier save failed: ";
inline constexpr std::string_view kTimesMessage = "time: ";  // PhaseTimes::describe()

}  // namespace cairn
