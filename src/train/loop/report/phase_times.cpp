#include "train/loop/report/phase_times.h"

#include <fmt/format.h>

#include "core/text/run_messages.h"
namespace cairn {
namespace {

constexpr std::array<const char*, kPhases> kPhaseNames = {"data", "forward",    "backward",
                                                          "step", "evaluation", "saving"};

double seconds(PhaseTimes::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

const char* name(Phase phase) { return kPhaseNames.at(static_cast<std::size_t>(phase)); }

std::string PhaseTimes::describe(std::int64_t batch, Clock::time_point now) const {
  const Clock::duration whole = now - begin_;
  const auto percent = [whole](Clock::duration time) {
    return whole.count() > 0 ? 100 * seconds(time) / seconds(whole) : 0.0;
  };
  std::string text =
      fmt::format("{}{:.1f} s for {} batches: ", kTimesMessage, seconds(whole),
                  batch - first_batch_);
  Clock::duration other = whole;
  for (std::size_t i = 0; i < kPhases; ++i) {
    text += fmt::format("{} {:.0f} %, ", kPhaseNames[i], percent(spent_[i]));
    other -= spent_[i];
  }
  return text + fmt::format("other {:.0f} %", percent(other));
}

}  // namespace cairn
