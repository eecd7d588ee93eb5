// One line of progress in tqdm's layout:
//
//   train          Epoch   1:  42%|██████████▌              | 19/45 [00:03<00:04, 6.10ba/s, ...]
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

struct Progress {
  std::string description = {};
  std::string unit = {};  // "ba"; "B": bytes, in KiB, MiB, ...
  std::int64_t n = 0;
  std::optional<std::int64_t> total = std::nullopt;
  std::int64_t initial = 0;  // n when the clock started: the rate counts from there
  double seconds = 0;
  std::vector<std::pair<std::string, std::string>> metrics = {};
};

// At most `width` columns where width > 0; what does not fit is cut off.
std::string progress_line(const Progress& progress, int width);

// How a line is drawn: on a terminal over the one that was drawn there before, elsewhere (a job's
// log) as a line of its own.
struct DrawOptions {
  bool is_terminal = false;
  bool stays = false;  // on a terminal: what comes next stands below it
};
void draw_progress(std::ostream& out, const Progress& progress, DrawOptions options);

// Takes away the line that was drawn on a terminal; what comes next stands in its place.
void erase_progress(std::ostream& out);

// Seconds of a clock that nobody sets.
double steady_seconds();

}  // namespace cairn
