#include "run_main.h"

#include <cerrno>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "cairn/error.h"

namespace examples {

int exit_code(const std::exception& error) {
  if (dynamic_cast<const cairn::NotFoundError*>(&error)) return kNotFound;
  if (dynamic_cast<const cairn::CorruptError*>(&error)) return kDamaged;
  if (dynamic_cast<const cairn::MismatchError*>(&error)) return kIncompatible;
  if (dynamic_cast<const cairn::UnsupportedError*>(&error)) return kIncompatible;
  if (const auto* storage = dynamic_cast<const cairn::StorageError*>(&error)) {
    switch (storage->status()) {
      case EACCES:
      case EPERM:
      case EROFS:
        return kDenied;
      case ENOSPC:
      case EDQUOT:
        return kNoSpace;
      default:
        return kFailed;
    }
  }
  return kFailed;
}

int run_main(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": error: " << error.what() << " (see --help)\n";
    return kFailed;
  } catch (const std::exception& error) {
    // libtorch appends a stack trace to its messages; the first line says what happened.
    const bool ours = dynamic_cast<const cairn::Error*>(&error) != nullptr;
    const std::string message = error.what();
    std::cerr << app.get_name()
              << ": error: " << (ours ? message : message.substr(0, message.find('\n'))) << "\n";
    return exit_code(error);
  }
}

}  // namespace examples
