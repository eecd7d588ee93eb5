// The addresses at which a rank listens.
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "cairn/dist/dist.h"

#include "arguments.h"

// The inodes of this process's sockets.
inline std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // Set for the descriptor of /proc/self/fd itself.
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

// Prints the addresses at which this process waits for connections, while all ranks live.
inline void say_listeners(const Arguments& arguments) {
  initialize(arguments);
  const std::set<std::string> own = own_sockets();
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);  // The heading.
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::vector<std::string> word(10);
      for (std::string& each : word)
        words >> each;
      const bool listens = word[3] == "0A" && own.contains(word[9]);
      if (listens) print_line("listens at " + word[1].substr(0, word[1].find(':')));
    }
  }
  cairn::dist::barrier("looking at sockets");
}
