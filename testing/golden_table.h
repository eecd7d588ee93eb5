// A table of text lines that a test compares with a file of tests/data/traces/.
//
// A line is "SECTION, CELL: ANSWER". Each section belongs to one test. If the environment variable
// CAIRN_WRITE_TRACES is set, check() rewrites the test's sections in the source tree. Then run the
// test program directly: several processes that write one file at once lose lines.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testing/test_data.h"

namespace cairn::testing {

class GoldenTable {
 public:
  GoldenTable(const std::string& file, std::string section)
      : path_(kData + "/traces/" + file), section_(std::move(section)) {}

  void add(const std::string& cell, const std::string& answer) {
    lines_.push_back(section_ + ", " + cell + ": " + answer);
  }

  // Lists the cells whose answers differ from the file; "" if there are none.
  [[nodiscard]] std::string check() const {
    const std::vector<std::string> all = read_lines();
    if (std::getenv("CAIRN_WRITE_TRACES") != nullptr) {
      write(all);
      return {};
    }
    std::map<std::string, std::string> expected;
    for (const std::string& line : all) {
      if (is_own(line)) expected.insert(split(line));
    }
    std::string differences;
    for (const std::string& line : lines_) {
      const auto [cell, answer] = split(line);
      const auto found = expected.extract(cell);
      if (found.empty()) {
        differences += cell + "\n    is new   " + answer + "\n";
      } else if (found.mapped() != answer) {
        differences +=
            cell + "\n    was      " + found.mapped() + "\n    is       " + answer + "\n";
      }
    }
    for (const auto& [cell, answer] : expected) {
      differences += cell + "\n    is gone  " + answer + "\n";
    }
    if (differences.empty()) return {};
    return path_ + " differs. CAIRN_WRITE_TRACES=1 writes it anew:\n" + differences;
  }

 private:
  bool is_own(const std::string& line) const { return line.starts_with(section_ + ", "); }

  static std::pair<std::string, std::string> split(const std::string& line) {
    const auto colon = line.find(": ");
    return {line.substr(0, colon), line.substr(colon + 2)};
  }

  std::vector<std::string> read_lines() const {
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  // Writes the test's section in place of its old lines, or at the end.
  void write(const std::vector<std::string>& before) const {
    std::string text;
    bool is_written = false;
    const auto write_own = [&] {
      for (const std::string& line : lines_) {
        if (!is_written) text += line + "\n";
      }
      is_written = true;
    };
    for (const std::string& line : before) {
      if (is_own(line)) {
        write_own();
      } else {
        text += line + "\n";
      }
    }
    write_own();
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    std::ofstream(path_) << text;
  }

  const std::string path_;
  const std::string section_;
  std::vector<std::string> lines_;
};

}  // namespace cairn::testing
