// Shared by the example programs: errors become one line on stderr and a documented exit code.
#pragma once

#include <functional>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace examples {

// Parses the command line, runs `body` and returns its value. An error of either is printed as
// "NAME: error: MESSAGE".
int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

}  // namespace examples
