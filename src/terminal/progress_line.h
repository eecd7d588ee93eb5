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
  bool has_ended = false;  // no time is left
  std::vector<std::pair<std::string, std::string>> metrics = {};
};

// At most `width` columns if width > 0: the bar becomes shorter, and then "…" stands for the rest.
std::string progress_line(const Progress& progress, int width);

// How a line is drawn. On a terminal it replaces the previous line; elsewhere (a job's log) it is a
// line of its own.
struct DrawOptions {
  bool is_terminal = false;
  bool stays = false;  // on a terminal: later output begins on the next line
};
void draw_progress(std::ostream& out, const Progress& progress, DrawOptions options);

// Erases the line that was drawn on a terminal. Later output takes its place.
void erase_progress(std::ostream& out);

// Seconds of a clock that is never adjusted.
double steady_seconds();

}  // namespace cairn
