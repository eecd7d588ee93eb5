#include "cairn/train/event.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace cairn {
namespace {

constexpr std::array<std::string_view, kNumEvents> kNames = {
    "init",
    "before_load",
    "after_load",
    "fit_start",
    "iteration_start",
    "epoch_start",
    "before_dataloader",
    "after_dataloader",
    "batch_start",
    "before_train_batch",
    "before_forward",
    "after_forward",
    "before_loss",
    "after_loss",
    "before_backward",
    "after_backward",
    "after_train_batch",
    "batch_end",
    "batch_checkpoint",
    "epoch_end",
    "epoch_checkpoint",
    "iteration_end",
    "iteration_checkpoint",
    "fit_end",
    "eval_before_all",
    "eval_start",
    "eval_batch_start",
    "eval_before_forward",
    "eval_after_forward",
    "eval_batch_end",
    "eval_end",
    "eval_after_all",
    "eval_standalone_start",
    "eval_standalone_end",
    "predict_start",
    "predict_batch_start",
    "predict_before_forward",
    "predict_after_forward",
    "predict_batch_end",
    "predict_end",
};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::string_view name(Event event) { return kNames[static_cast<std::size_t>(event)]; }

std::optional<Event> find_event(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (equal_in_any_case(text, kNames[i])) return static_cast<Event>(i);
  }
  return std::nullopt;
}

}  // namespace cairn
