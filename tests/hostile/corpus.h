// Hostile files, each with its right answer.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace cairn::testing {

enum class Answer : std::uint8_t {
  kRead,
  kCorrupt,
  kUnsupported,
  kAny,  // one of the answers above, or a file of a folder is missing
};

struct HostileCase {
  std::string name;
  // A single file has the name "". Otherwise, the files of a folder by relative path.
  std::map<std::string, std::string> files;
  Answer answer = Answer::kCorrupt;
};

// Prints only the name, to keep messages of failures readable: a file may have megabytes.
inline void PrintTo(const HostileCase& c, std::ostream* out) { *out << c.name; }

// One function per format. Each is defined in a file named after the format.
std::vector<HostileCase> hostile_containers();
std::vector<HostileCase> hostile_dcp();
std::vector<HostileCase> hostile_dtensors();
std::vector<HostileCase> hostile_memory();
std::vector<HostileCase> hostile_pickles();
std::vector<HostileCase> hostile_safetensors();
std::vector<HostileCase> hostile_samples();  // for every format
std::vector<HostileCase> hostile_scripts();
std::vector<HostileCase> hostile_zips();

}  // namespace cairn::testing
