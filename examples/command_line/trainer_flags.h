// Command-line flags for TrainerOptions.
#pragma once

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}
namespace cairn {
struct TrainerOptions;
}

namespace examples {

// Adds a flag for every text, number and switch of `options`, with the name of its field
// (`save_folder`: --save-folder). The values in `options` are the defaults; parsing changes them.
// Switches are --autoresume, --no-autoresume or --autoresume=false. For a time, a bare number is a
// number of epochs. A list takes one flag per item. An empty text means none. `options` must
// outlive the parsing.
void add_trainer_flags(CLI::App& app, cairn::TrainerOptions& options);

}  // namespace examples
