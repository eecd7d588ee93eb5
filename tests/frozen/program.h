// Frozen: a user's program, see CMakeLists.txt. Runs the programs in this folder.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <source_location>
#include <stdexcept>
#include <string>

namespace frozen {

// Throws an error with the line of the call unless `holds`.
inline void check(bool holds, const std::string& what,
                  const std::source_location& where = std::source_location::current()) {
  if (holds) return;
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": not so: " + what);
}

struct Program {
  const char* name;
  void (*run)(const std::string& folder);
};

// Runs each program in an empty folder of its own below argv[1].
inline int run_all(int argc, char** argv, std::initializer_list<Program> programs) {
  if (argc != 2) return 2;
  int code = 0;
  for (const Program& program : programs) {
    const std::string folder = std::string(argv[1]) + "/" + program.name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    try {
      program.run(folder);
      std::printf("%s: ok\n", program.name);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", program.name, error.what());
      code = 1;
    }
  }
  return code;
}

}  // namespace frozen
