// A copy of a folder of test data, for a test that damages it.
#pragma once

#include <filesystem>
#include <string>

#include "testing/temp_folder.h"

namespace cairn::testing {

class CopiedFolder {
 public:
  explicit CopiedFolder(const std::string& original) {
    std::filesystem::copy(original, path(), std::filesystem::copy_options::recursive);
  }
  std::string path() const { return temp_ / "copy"; }
  std::string file(const std::string& name) const { return path() + "/" + name; }

  // Changes one bit of a file.
  void flip(const std::string& name, std::size_t at) const {
    std::string bytes = read_file(file(name));
    bytes.at(at) ^= 1;
    write_file(file(name), bytes);
  }

 private:
  TempFolder temp_;
};

}  // namespace cairn::testing
