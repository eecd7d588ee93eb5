#include "cli/shell/reading.h"

#include <optional>

#include "checkpoint/open/verify/check_shown.h"
#include "core/text/printable.h"
#include "storage/place.h"

namespace cairn::cli {

void add_raw(CLI::App& app, Reading& reading) {
  app.add_flag("--raw", reading.raw,
               "take tensors as they are, without verifying them: to rescue data from a "
               "damaged file");
}

void add_force(CLI::App& app, Reading& reading) {
  app.add_flag("--force", reading.force,
               "continue even if its tensors show much more than the file holds");
}

void tell_raw(const std::string& place, const Console& console) {
  console.err << "cairn: " << printable_line(shown_place(place))
              << ": raw bytes, no tensor was verified\n";
}

std::unique_ptr<CheckpointSource> open_to_read(const std::string& place, const Reading& reading,
                                               const Console& console) {
  auto source = open_source(place, {.access = reading.raw ? Access::kRaw : Access::kVerified});
  if (reading.raw) tell_raw(place, console);
  return source;
}

void check_work(const Value& part, const CheckpointSource& source, const std::string& place,
                const Reading& reading) {
  check_shown(part, source, shown_place(place),
              reading.force ? std::nullopt : std::optional(kMaxRepetition));
}

}  // namespace cairn::cli
