// Command-line flags for TrainerOptions.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}
namespace cairn {
struct TrainerOptions;
}

namespace examples {

// Adds a flag for every text, number and switch of `options`, named as its field is
// (`save_folder`: --save-folder). The values in `options` are the defaults; parsing changes them.
// Switches are --autoresume, --no-autoresume or --autoresume=false. A bare number is a number of
// epochs where a time is asked for. Lists take a flag per item. An empty text means none.
// `options` must outlive the parsing.
void add_trainer_flags(CLI::App& app, cairn::TrainerOptions& options);

}  // namespace examples
