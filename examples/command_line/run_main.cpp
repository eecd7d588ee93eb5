#include "run_main.h"

#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "cairn/error.h"
#include "cairn/exit_code.h"

namespace examples {

int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": error: " << error.what() << " (see --help)\n";
    return cairn::kFailed;
  } catch (const std::exception& error) {
    // libtorch appends a stack trace to its messages; the first line says what happened.
    const bool ours = dynamic_cast<const cairn::Error*>(&error) != nullptr;
    const std::string message = error.what();
    std::cerr << app.get_name()
              << ": error: " << (ours ? message : message.substr(0, message.find('\n'))) << "\n";
    return cairn::exit_code_of(error);
  }
}

}  // namespace examples
