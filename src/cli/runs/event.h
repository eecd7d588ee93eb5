// One event of TensorBoard, as far as a run's log shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {

struct LoggedEvent {
  double seconds = 0;  // since 1970
  std::int64_t step = 0;
  // A start of the run, which hides what was logged before from `step` on.
  bool is_start = false;
  // The texts are in the bytes of the event.
  std::vector<std::pair<std::string_view, double>> scalars = {};
  std::vector<std::pair<std::string_view, std::string_view>> texts = {};
  std::vector<std::pair<std::string, std::string>> hyperparameters = {};  // the values as JSON
};

// Reads a message of event.proto: scalars as TensorFlow 1 and 2, PyTorch and cairn write them,
// texts, and the hyperparameters of the plugin "hparams". Leaves out graphs, histograms, images and
// sounds. nullopt if the bytes are no such message.
std::optional<LoggedEvent> event_of(std::string_view message);

}  // namespace cairn::cli
